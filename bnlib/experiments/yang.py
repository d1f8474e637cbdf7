"""Gradient explosion by batch size, with skips, after a step, and in training."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from bnlib.experiments._registry import experiment
from bnlib.experiments._training import generators, standardised
from bnlib.functional import batch_norm
from bnlib.meanfield import gradient_norms, simulate_growth
from bnlib.networks import mlp
from bnlib.nn import BatchNorm1d

CLASSES = 10


@experiment(
    id="yang-growth",
    title="Growth of the squared gradient a layer against the batch size",
    chapter="07-gradient-explosion",
    source="yang2019",
    sweep={"activation": "activations", "batch_size": "batch_sizes", "seed": "seeds"},
    threads=1,
    live={
        "activations": ["identity", "relu", "tanh", "gelu"],
        "batch_sizes": [8, 16, 64],
        "seeds": [0, 1, 2],
        "width": 256,
        "depth": 20,
    },
    paper={
        "activations": ["identity", "relu", "tanh", "gelu"],
        "batch_sizes": [4, 8, 16, 64, 256],
        "seeds": [0, 1, 2, 3, 4],
        "width": 1024,
        "depth": 50,
    },
)
def yang_growth(context, activation, batch_size, width, depth):
    """Measure one random network; see `bnlib.meanfield.simulate_growth`."""
    seed = int(context.seed_sequence.generate_state(1)[0])
    growth = simulate_growth(activation, batch_size, width, depth, seed, context.device)
    return {"factor": round(growth.factor, 5), "spread": round(growth.spread, 5)}


@experiment(
    id="yang-residual",
    title="Growth of the squared gradient against the number of residual layers",
    chapter="07-gradient-explosion",
    source="yang2019",
    sweep={"batch_size": "batch_sizes", "seed": "seeds"},
    threads=1,
    live={"batch_sizes": [16, 64], "seeds": [0, 1, 2], "width": 128, "doublings": 6},
    paper={
        "batch_sizes": [8, 16, 64, 256],
        "seeds": [0, 1, 2, 3, 4],
        "width": 512,
        "doublings": 8,
    },
)
def yang_residual(context, batch_size, width, doublings):
    """Measure growth over the lowest 1, 2, 4, ... layers of h + W relu(batch norm(h)).

    The input has variance 1; the gradient at the top is random, with mean 0 over the
    batch.
    """
    (generator,) = generators(context, 1)

    def gaussian(*shape):
        return torch.randn(*shape, generator=generator).to(context.device)

    def layer(weights):
        norm = BatchNorm1d(width, eps=0.0, affine=False, track_running_stats=False)
        return lambda h: h + torch.relu(norm(h)) @ weights

    depths = [2**k for k in range(doublings + 1)]
    layers = [layer(gaussian(width, width) / width**0.5) for _ in range(depths[-1])]
    upstream = gaussian(batch_size, width)
    upstream -= upstream.mean(dim=0)
    logs = gradient_norms(layers, gaussian(batch_size, width), upstream)
    return {"log_growth": [round(logs[0] - logs[depth], 5) for depth in depths]}


@experiment(
    id="yang-first-steps",
    title="Gradients of every layer before and after a few training steps",
    chapter="07-gradient-explosion",
    source="yang2019",
    sweep={"learning_rate": "learning_rates", "seed": "seeds"},
    paired=("learning_rate",),
    data=("digits",),
    threads=1,
    live={
        "learning_rates": [0.1, 1.0],
        "seeds": [0, 1],
        "width": 64,
        "depth": 24,
        "batch_size": 128,
        "steps": 3,
    },
    paper={
        "learning_rates": [0.01, 0.1, 1.0],
        "seeds": [0, 1, 2, 3, 4],
        "width": 256,
        "depth": 32,
        "batch_size": 128,
        "steps": 10,
    },
)
def yang_first_steps(context, width, depth, batch_size, learning_rate, steps):
    """Measure norms of the hidden layers' weights and their gradients, step by step.

    Each step has a new minibatch; its gradient is measured before the step.
    """
    weights, order = generators(context, 2)
    x, y, _, _ = standardised(context.datasets["digits"], context.device)
    widths = [x.shape[1], *[width] * depth, CLASSES]
    network = mlp(widths, batch_norm=True, generator=weights).to(context.device)
    hidden = [m.weight for m in network if isinstance(m, nn.Linear)][1:-1]
    optimizer = torch.optim.SGD(network.parameters(), lr=learning_rate)
    found = {"gradients": [], "lengths": []}
    for _ in range(steps + 1):
        rows = torch.randperm(len(x), generator=order)[:batch_size].to(x.device)
        optimizer.zero_grad()
        functional.cross_entropy(network(x[rows]), y[rows]).backward()
        found["gradients"].append([_norm(w.grad) for w in hidden])
        found["lengths"].append([_norm(w.detach()) for w in hidden])
        optimizer.step()
    return found


def _norm(tensor):
    return float(f"{tensor.double().norm().item():.4g}")


def _scores(arm, weights, x):
    """Class scores, shape (batch, networks, classes), of networks side by side.

    ``weights`` has one entry per layer, of shape (networks, inputs, outputs). Between
    the linear maps the arm "relu" has batch norm and ReLU, and "near_linear" batch norm
    and 10 tanh(x / 10); "residual" adds W relu(batch norm(h)) to h.
    """
    first, *hidden, last = weights
    h = torch.einsum("bi,nij->bnj", x, first)
    for each in (*hidden, last):
        y = batch_norm(h.flatten(1), None, None, training=True).view_as(h)
        y = 10 * torch.tanh(y / 10) if arm == "near_linear" else torch.relu(y)
        moved = torch.einsum("bni,nij->bnj", y, each)
        h = h + moved if arm == "residual" and each is not last else moved
    return h


@experiment(
    id="yang-trainability",
    title="Accuracy on digits after some training steps, by depth and batch size",
    chapter="07-gradient-explosion",
    source="yang2019",
    sweep={
        "arm": "arms",
        "depth": "depths",
        "batch_size": "batch_sizes",
        "seed": "seeds",
    },
    paired=("arm",),
    data=("digits",),
    threads=1,
    live={
        "arms": ["relu"],
        "depths": [5, 15, 30],
        "batch_sizes": [8, 32, 128],
        "seeds": [0],
        "learning_rates": [0.1],
        "width": 32,
        "steps": 30,
    },
    paper={
        "arms": ["relu", "near_linear", "residual"],
        "depths": [5, 10, 20, 40],
        "batch_sizes": [4, 8, 16, 32, 64, 128],
        "seeds": [0, 1, 2],
        "learning_rates": [0.01, 0.1, 1.0],
        "width": 64,
        "steps": 200,
    },
)
def yang_trainability(context, arm, depth, batch_size, learning_rates, width, steps):
    """Train a stack with plain SGD at each learning rate, from the same weights.

    The accuracy is on test batches of the same size, normalised with their batch
    statistics: running statistics would be poor after a few steps of small batches.
    """
    generator, order = generators(context, 2)
    x_train, y_train, x_test, y_test = standardised(
        context.datasets["digits"], context.device
    )
    widths = [x_train.shape[1], *[width] * depth, CLASSES]
    weights = [
        (torch.randn(a, b, generator=generator) / a**0.5)
        .to(context.device)
        .expand(len(learning_rates), a, b)
        .clone()
        .requires_grad_()
        for a, b in pairwise(widths)
    ]
    rates = torch.tensor(learning_rates, device=context.device)[:, None, None]
    for _ in range(steps):
        rows = torch.randperm(len(x_train), generator=order)[:batch_size]
        rows = rows.to(x_train.device)
        # In a sum over the networks, no network's gradient depends on the others.
        scores = _scores(arm, weights, x_train[rows]).flatten(0, 1)
        labels = y_train[rows].repeat_interleave(len(learning_rates))
        loss = functional.cross_entropy(scores, labels, reduction="sum") / batch_size
        with torch.no_grad():
            for each, gradient in zip(weights, torch.autograd.grad(loss, weights)):
                each -= rates * gradient
    whole = len(x_test) // batch_size * batch_size
    with torch.no_grad():
        batches = x_test[:whole].split(batch_size)
        scores = torch.cat([_scores(arm, weights, batch) for batch in batches])
    right = (scores.argmax(dim=2) == y_test[:whole, None]).double().mean(dim=0)
    diverged = ~scores.isfinite().all(dim=2).all(dim=0)
    return {
        "accuracies": right.round(decimals=4).tolist(),
        "diverged": diverged.tolist(),
    }
