"""Kohler et al.: how far a layer's gradient depends on the layers after it."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bnlib import _checks
from bnlib.experiments._registry import experiment
from bnlib.experiments._training import (
    checkpoints,
    generators,
    rounded,
    standardised,
)
from bnlib.networks import feed_forward
from bnlib.smoothness import NoDirection, estimate_block_norms, linear_layers

CLASSES = 10
#: The coordinates in which the dependency is measured, see `bnlib.smoothness`.
COORDINATES = ("weights", "bn_directions")
#: A run ends, as diverged, if its loss exceeds its lowest loss by this factor.
DIVERGED = 1e6


def _network(arm, inputs, width, hidden_layers, generator):
    """Build the tanh network, with weights of standard deviation 1 / sqrt(inputs)."""
    widths = [inputs, *[width] * hidden_layers, CLASSES]
    norm = nn.BatchNorm1d if arm == "batch_norm" else None
    return feed_forward(
        widths,
        norm=norm,
        activation=nn.Tanh,
        scale=lambda n: n**-0.5,
        generator=generator,
    )


def _rates(network, rate):
    """Return the learning rate of each parameter: ten times the rate for BN's g."""
    lengths = {id(m.weight) for m in network if isinstance(m, nn.BatchNorm1d)}
    return [10 * rate if id(p) in lengths else rate for p in network.parameters()]


def _descent(network, loss, rate, steps):
    """Yield step, loss and gradients, then take the step; end if it diverges."""
    parameters, rates = list(network.parameters()), _rates(network, rate)
    most = math.inf
    for step in range(steps + 1):
        value = loss(network)
        gradients = torch.autograd.grad(value, parameters)
        if not (value.isfinite() and value.item() <= most):
            return
        most = min(most, DIVERGED * value.item())
        yield step, value.item(), gradients
        with torch.no_grad():
            torch._foreach_sub_(parameters, torch._foreach_mul(gradients, rates))


def _dependencies(network, loss, central, **options):
    """Return the norms of the blocks with each later layer, and their errors."""
    found = {}
    for kind in COORDINATES:
        try:
            estimate = estimate_block_norms(
                network, loss, central, coordinates=kind, **options
            )
        except NoDirection:  # a unit is constant over the batch
            continue
        found[kind] = list(map(rounded, estimate.norms))
        found[f"{kind}_errors"] = list(map(rounded, estimate.norm_errors))
    return found


def _nothing(later):
    """Return the entries of a look that measured nothing."""
    lists = [f"{kind}{ending}" for kind in COORDINATES for ending in ("", "_errors")]
    numbers = dict.fromkeys(("loss", "gradient", "central_gradient"))
    return numbers | {name: [None] * later for name in lists}


def _check(learning_rate, **sizes):
    _checks.check_positive("learning_rate", learning_rate)
    for name, size in sizes.items():
        _checks.check_integer(name, size, 2 if name in ("looks", "samples") else 1)


def _lengths(network, gradients, central):
    """Return the length of the gradient by all parameters, and by the central layer."""
    lengths = [gradient.norm().item() for gradient in gradients]
    names = [name for name, _ in network.named_parameters()]
    own = names.index(f"{linear_layers(network)[central]}.weight")
    return {
        "gradient": rounded(math.hypot(*lengths)),
        "central_gradient": rounded(lengths[own]),
    }


def _watched(context, arm, rate, width, hidden_layers, steps, looks, samples):
    """Descend, and return lists with an entry for each look at the network."""
    weights, signs = generators(context, 2)
    (dataset,) = context.datasets.values()
    x, y, _, _ = standardised(dataset, context.device, np.float32)
    network = _network(arm, x.shape[1], width, hidden_layers, weights)
    network.to(context.device)
    central = hidden_layers // 2
    seed = signs.initial_seed() % 2**32

    def loss(network):
        return cross_entropy(network(x), y)

    nothing = _nothing(hidden_layers - central)
    at, looked = checkpoints(steps, looks), []
    for step, value, gradients in _descent(network, loss, rate, steps):
        if step in at:
            seen = {"loss": rounded(value)} | _lengths(network, gradients, central)
            seen |= _dependencies(
                network, loss, central, samples=samples, seed=seed + step
            )
            looked.append(nothing | seen)
    missing = len(at) - len(looked)
    looked += [nothing] * missing
    found = {name: [seen[name] for seen in looked] for name in nothing}
    return found | {"steps": at, "diverged": missing > 0}


@experiment(
    id="kohler-digits",
    title="Digits: how far a central layer depends on each later one, over training",
    chapter="10-gdnp-networks",
    source="kohler2019",
    sweep={"arm": "arms", "learning_rate": "learning_rates", "seed": "seeds"},
    paired=("arm", "learning_rate"),
    data=("digits",),
    threads=1,
    live={
        "arms": ["plain", "batch_norm"],
        "learning_rates": [0.3],
        "seeds": [0],
        "width": 50,
        "hidden_layers": 6,
        "steps": 150,
        "looks": 6,
        "samples": 4,
    },
    paper={
        "arms": ["plain", "batch_norm"],
        "learning_rates": [0.3],
        "seeds": [0, 1, 2, 3, 4],
        "width": 50,
        "hidden_layers": 6,
        "steps": 5000,
        "looks": 20,
        "samples": 8,
    },
)
@experiment(
    id="kohler-cifar10-rates",
    title="CIFAR-10 (subset: 10,000 + 2,000): the first steps by learning rate",
    chapter="10-gdnp-networks",
    source="kohler2019",
    sweep={"arm": "arms", "learning_rate": "learning_rates", "seed": "seeds"},
    paired=("arm", "learning_rate"),
    data=("cifar10_subset",),
    live={
        "arms": ["plain", "batch_norm"],
        "learning_rates": [0.1],
        "seeds": [0],
        "width": 50,
        "hidden_layers": 6,
        "steps": 5,
        "looks": 2,
        "samples": 2,
    },
    paper={
        "arms": ["plain", "batch_norm"],
        "learning_rates": [0.03, 0.1, 0.3, 1.0],
        "seeds": [0],
        "width": 50,
        "hidden_layers": 6,
        "steps": 100,
        "looks": 4,
        "samples": 2,
    },
)
@experiment(
    id="kohler-cifar10",
    title="CIFAR-10 (subset: 10,000 + 2,000): dependency of a layer on later ones",
    chapter="10-gdnp-networks",
    source="kohler2019",
    sweep={"arm": "arms", "learning_rate": "learning_rates", "seed": "seeds"},
    paired=("arm", "learning_rate"),
    data=("cifar10_subset",),
    live={
        "arms": ["plain", "batch_norm"],
        "learning_rates": [0.3],
        "seeds": [0],
        "width": 50,
        "hidden_layers": 6,
        "steps": 5,
        "looks": 3,
        "samples": 2,
    },
    # The rate has the lowest mean loss over both networks in the search above.
    paper={
        "arms": ["plain", "batch_norm"],
        "learning_rates": [0.3],
        "seeds": [0, 1, 2, 3, 4],
        "width": 50,
        "hidden_layers": 6,
        "steps": 5000,
        "looks": 16,
        "samples": 8,
    },
)
def kohler_dependency(
    context, arm, learning_rate, width, hidden_layers, steps, looks, samples
):
    """Train by full-batch gradient descent with BN or without, from equal weights.

    All parameters of the tanh network have the same learning rate, except for the
    lengths g of BN, which have ten times that rate. Each look measures the loss, the
    length of its gradient by all parameters and by the weights of the central linear
    layer (number hidden_layers // 2, from 0), and, in both `COORDINATES`, estimates
    with standard errors of the norms of the loss's second derivatives by the central
    layer and each later one.
    """
    sizes = {"width": width, "hidden_layers": hidden_layers, "steps": steps}
    sizes |= {"looks": looks, "samples": samples}
    _check(learning_rate, **sizes)
    return _watched(context, arm, learning_rate, **sizes)
