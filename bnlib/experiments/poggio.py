"""Approximation by training: trees of networks against dense networks; digits."""

import math

import torch
from torch import nn
from torch.nn import functional

from bnlib import _checks
from bnlib.approximation import (
    TreeNetwork,
    fit,
    level_counts,
    shallow_parameters,
    tree_parameters,
)
from bnlib.experiments._registry import experiment
from bnlib.experiments._training import generators, rounded, split_on
from bnlib.networks import feed_forward

CLASSES = 10
TEST_POINTS = 4096
ROTATED = "_rotated"


def draw_levels(inputs, frequency, generator):
    """Draw a binary tree of cosines, as (frequencies, phases) level by level.

    Each node is cos(w.x + phase) with w of length `frequency` in a random direction.
    """
    levels = []
    for count in level_counts(inputs, 2):
        w = torch.randn(count, 2, generator=generator, dtype=torch.float64)
        w *= frequency / w.norm(dim=1, keepdim=True)
        turns = torch.rand(count, generator=generator, dtype=torch.float64)
        levels.append((w, 2 * math.pi * turns))
    return levels


def level_values(levels, x):
    """Return the outputs of every level, lowest first: shapes (m, nodes)."""
    found = []
    for w, phases in levels:
        x = torch.cos((x.reshape(len(x), -1, 2) * w).sum(dim=2) + phases)
        found.append(x)
    return found


def _sphere(points, inputs, generator):
    """Draw points of length sqrt(inputs), whose distribution no rotation changes."""
    x = torch.randn(points, inputs, generator=generator, dtype=torch.float64)
    return x * (inputs**0.5 / x.norm(dim=1, keepdim=True))


class _Dense(nn.Module):
    """Two hidden layers of tanh units, each unit connected to all units below."""

    def __init__(self, inputs, parameters, generator):
        super().__init__()
        # width^2 + (inputs + 3) width + 1 parameters, at most ``parameters``.
        linear = inputs + 3
        width = int((math.sqrt(linear**2 + 4 * (parameters - 1)) - linear) / 2)
        widths, scale = (inputs, width, width, 1), lambda n: 1.5 / n**0.5
        self.net = feed_forward(
            widths, activation=nn.Tanh, scale=scale, generator=generator
        ).double()

    def forward(self, x):
        return self.net(x)[:, 0]


def _network(kind, inputs, parameters, generator):
    if kind == "dense":
        return _Dense(inputs, parameters, generator)
    if kind == "shallow":
        units = parameters // shallow_parameters(1, inputs)
        return TreeNetwork(inputs, units, arity=inputs, generator=generator)
    units = parameters // tree_parameters(1, inputs)
    return TreeNetwork(inputs, units, generator=generator)


def fit_pieces(tree, x, values, steps, generator):
    """Fit each node separately, on the true outputs of the nodes below it.

    Parameters
    ----------
    tree : bnlib.approximation.TreeNetwork
        A tree of arity 2, changed in place.
    x : Tensor of shape (m, inputs)
    values : list of Tensors
        The outputs of the target's nodes, from `level_values`.
    steps : int
    generator : torch.Generator
    """
    units, place = tree.biases.shape[1], 0
    for below, level in zip((x, *values), values):
        blocks = below.reshape(len(x), -1, 2)
        for node in range(level.shape[1]):
            piece = TreeNetwork(2, units, generator=generator)
            fit(
                piece, blocks[:, node].contiguous(), level[:, node].clone(), steps=steps
            )
            with torch.no_grad():
                for whole, part in zip(tree.parameters(), piece.parameters()):
                    whole[place] = part[0]
            place += 1


@experiment(
    id="poggio-approximation",
    title="Error against parameters: trees of networks, dense and shallow networks",
    chapter="13-approximation",
    source="poggio2019",
    sweep={
        "arm": "arms",
        "inputs": "inputs",
        "parameters": "parameter_counts",
        "seed": "seeds",
    },
    paired=("arm", "parameters"),
    threads=1,
    live={
        "arms": ["pieces", "shallow", "tree_rotated"],
        "inputs": [4],
        "parameter_counts": [84],
        "seeds": [0, 1],
        "frequency": 2.0,
        "points": 600,
        "steps": 100,
    },
    paper={
        "arms": [
            *("pieces", "tree", "dense", "shallow"),
            *("tree_rotated", "dense_rotated", "shallow_rotated"),
        ],
        "inputs": [4, 8],
        "parameter_counts": [84, 168, 336],
        "seeds": [0, 1, 2, 3, 4],
        "frequency": 2.0,
        "points": 2048,
        "steps": 300,
    },
)
def poggio_approximation(context, arm, inputs, parameters, frequency, points, steps):
    """Fit one network to a composed function, or to the function in rotated axes.

    The function is a binary tree of cosines. `pieces` and `tree` are the same network,
    with the tree of the function: `pieces` fits its nodes one by one to the true values
    inside the function, `tree` fits it end to end from random weights. Rotated axes
    hide the tree and change nothing else. The error is the root mean square on new
    points, as a share of the function's standard deviation.
    """
    _checks.check_positive("frequency", frequency)
    _checks.check_integer("points", points, 1)
    if parameters < tree_parameters(1, inputs):
        raise ValueError(
            f"parameters is {parameters}: a tree over {inputs} inputs takes at least "
            f"{tree_parameters(1, inputs)}"
        )
    draws, start = generators(context, 2)
    levels = draw_levels(inputs, frequency, draws)
    x, x_test = (_sphere(n, inputs, draws) for n in (points, TEST_POINTS))
    square = torch.randn(inputs, inputs, generator=draws, dtype=torch.float64)
    axes = torch.linalg.qr(square)[0] if arm.endswith(ROTATED) else torch.eye(inputs)
    values, test = (level_values(levels, z @ axes.double()) for z in (x, x_test))
    kind = arm.removesuffix(ROTATED)
    network = _network(kind, inputs, parameters, start)
    if kind == "pieces":
        fit_pieces(network, x, values, steps, start)
    else:
        fit(network, x, values[-1][:, 0], steps=steps)
    with torch.no_grad():
        misses = network(x_test) - test[-1][:, 0]
    return {
        "error": rounded(misses.square().mean().sqrt() / test[-1].std()),
        "largest_error": rounded(misses.abs().max()),
        "parameters_used": sum(p.numel() for p in network.parameters()),
    }


# Digits: pixels joined two by two in each direction, three times.

#: Outputs per node of the two lower levels, and hidden units of the dense network: with
#: these, each of the three networks has between 970 and 1,000 parameters.
SIZES = {"local": (4, 6), "shared": (8, 13), "dense": (13,)}
PERMUTED = "_permuted"


def _blocks(x, side):
    """Gather the two by two blocks of (m, side^2, c) images: (side^2 / 4, m, 4c)."""
    half = side // 2
    x = x.reshape(len(x), half, 2, half, 2, -1).permute(1, 3, 0, 2, 4, 5)
    return x.reshape(half**2, x.shape[2], -1)


class QuadTree(nn.Module):
    """Scores of 8 x 8 images along a tree: 16 blocks of pixels, 4 blocks of these, one.

    Parameters
    ----------
    low, middle : int
        The outputs of each node of the two lower levels.
    shared : bool
        If True, all nodes of a level have the same weights: two convolutions of stride
        two.
    generator : torch.Generator
    """

    def __init__(self, low, middle, *, shared, generator):
        super().__init__()
        shapes = [(16, 4, low), (4, 4 * low, middle), (1, 4 * middle, CLASSES)]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for nodes, inputs, outputs in shapes:
            nodes = 1 if shared else nodes
            draw = torch.randn(nodes, inputs, outputs, generator=generator)
            self.weights.append(draw / inputs**0.5)
            self.biases.append(torch.zeros(nodes, 1, outputs))

    def forward(self, x):
        """Return the scores, shape (m, 10), of images of shape (m, 64)."""
        x, side = x[:, :, None], 8
        for weight, bias in zip(self.weights, self.biases):
            x = (_blocks(x, side) @ weight + bias).transpose(0, 1)
            side //= 2
            x = torch.tanh(x) if side > 1 else x
        return x[:, 0]


def _classifier(kind, generator):
    if kind == "dense":
        widths = (64, *SIZES[kind], CLASSES)
        return feed_forward(
            widths, activation=nn.Tanh, scale=lambda n: n**-0.5, generator=generator
        )
    return QuadTree(*SIZES[kind], shared=kind == "shared", generator=generator)


@experiment(
    id="poggio-digits",
    title="Digits: local, shared and dense networks, with pixels in order and permuted",
    chapter="13-approximation",
    source="poggio2019",
    sweep={"arm": "arms", "seed": "seeds"},
    paired=("arm",),
    data=("digits",),
    threads=1,
    live={
        "arms": ["local", "shared", "shared_permuted", "dense"],
        "seeds": [0],
        "examples": 600,
        "learning_rate": 0.02,
        "steps": 100,
    },
    paper={
        "arms": ["local", "local_permuted", "shared", "shared_permuted", "dense"],
        "seeds": list(range(10)),
        "examples": 1347,
        "learning_rate": 0.02,
        "steps": 300,
    },
)
def poggio_digits(context, arm, examples, learning_rate, steps):
    """Train one network by Adam on the first examples, all of them at each step.

    One permutation of the pixels, the same for all images, hides which pixels are
    neighbours. For a dense network it makes no difference.
    """
    digits = context.datasets["digits"]
    if not 1 <= examples <= len(digits.x_train):
        raise ValueError(
            f"examples is {examples}: give a number from 1 to {len(digits.x_train)}"
        )
    _checks.check_positive("learning_rate", learning_rate)
    _checks.check_integer("steps", steps, 0)
    weights, order = generators(context, 2)
    x_train, y_train, x_test, y_test = split_on(context.device, *_pixels(digits))
    places = torch.randperm(64, generator=order).to(context.device)
    if not arm.endswith(PERMUTED):
        places = places.sort().values
    network = _classifier(arm.removesuffix(PERMUTED), weights).to(context.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    x, y = x_train[:examples, places], y_train[:examples]
    for _ in range(steps):
        optimizer.zero_grad()
        functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        right = network(x_test[:, places]).argmax(dim=1) == y_test
    return {
        "accuracy": round(right.double().mean().item(), 4),
        "parameters_used": sum(p.numel() for p in network.parameters()),
    }


def _pixels(digits):
    """Shift and scale all pixels alike, so nodes may share their weights."""
    mean, std = digits.x_train.mean(), digits.x_train.std()
    inputs = [(x - mean) / std for x in (digits.x_train, digits.x_test)]
    return inputs[0], digits.y_train, inputs[1], digits.y_test
