"""Santurkar et al.: covariate shift, noise and other norms, on small networks."""

import functools
import math

import numpy as np
import torch
from torch import nn

from bnlib.experiments._registry import experiment
from bnlib.experiments._training import (
    checkpoints,
    generators,
    rounded,
    standardised,
)
from bnlib.experiments._watch import gradient_measures, watch
from bnlib.networks import feed_forward
from bnlib.shift import LpBatchNorm, with_noise

CLASSES = 10
NORMS = {
    "plain": None,
    "batch_norm": nn.BatchNorm1d,
    "noisy": nn.BatchNorm1d,
    "l1": functools.partial(LpBatchNorm, p=1),
    "linf": functools.partial(LpBatchNorm, p=math.inf),
}


def linear_network(depth, width, batch_norm, generator):
    """Build square Gaussian layers, with or without BN (no scale, no shift) between."""
    layers = []
    for _ in range(depth):
        if layers and batch_norm:
            layers.append(nn.BatchNorm1d(width, affine=False))
        linear = nn.utils.skip_init(nn.Linear, width, width, bias=False)
        nn.init.normal_(linear.weight, std=width**-0.5, generator=generator)
        layers.append(linear)
    return nn.Sequential(*layers).double()


@experiment(
    id="santurkar-dln",
    title="A deep linear network: covariate shift and landscape, by learning rate",
    chapter="01-covariate-shift",
    source="santurkar2018",
    sweep={"arm": "arms", "learning_rate": "learning_rates", "seed": "seeds"},
    paired=("arm", "learning_rate"),
    threads=1,
    live={
        "arms": ["plain", "batch_norm"],
        "learning_rates": [1e-3, 1e-1],
        "seeds": [0],
        "depth": 25,
        "width": 10,
        "examples": 200,
        "steps": 60,
        "looks": 6,
    },
    paper={
        "arms": ["plain", "batch_norm"],
        "learning_rates": [1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1],
        "seeds": [0, 1, 2, 3, 4],
        "depth": 25,
        "width": 10,
        "examples": 1000,
        "steps": 1000,
        "looks": 14,
    },
)
def santurkar_dln(context, arm, learning_rate, depth, width, examples, steps, looks):
    """Train by full-batch gradient descent on the mean squared error.

    Inputs and the target matrix A are Gaussian, A with standard deviation
    1 / sqrt(width). The steps along the gradient are 1/100 to 30 times the learning
    rate. A run ends, as diverged, if its loss is over a million times the first loss;
    later looks hold None.
    """
    weights, data = generators(context, 2)
    kind = {"generator": data, "dtype": torch.float64}
    x = torch.randn(examples, width, **kind)
    y = x @ torch.randn(width, width, **kind) * width**-0.5
    x, y = x.to(context.device), y.to(context.device)
    network = linear_network(depth, width, arm == "batch_norm", weights)
    network.to(context.device)

    def loss_of(network):
        return (network(x) - y).square().sum(dim=1).mean()

    at = checkpoints(steps, looks)
    along = learning_rate * np.geomspace(0.01, 30, 9)
    parameters = list(network.parameters())
    first = loss_of(network).item()
    looked = []
    for step in range(steps + 1):
        loss = loss_of(network)
        if not loss.item() <= 1e6 * first:
            break
        if step in at:
            seen = gradient_measures(network, loss_of, learning_rate, along)
            looked.append(seen | {"loss": rounded(loss.item())})
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-learning_rate)
    missing = [None] * (len(at) - len(looked))
    found = {name: [seen[name] for seen in looked] + missing for name in looked[0]}
    return found | {"steps": at, "diverged": bool(missing)}


@experiment(
    id="santurkar-noise",
    title="BN with noise after it, on digits",
    chapter="01-covariate-shift",
    source="santurkar2018",
    sweep={"arm": "arms", "learning_rate": "learning_rates", "seed": "seeds"},
    paired=("arm", "learning_rate"),
    data=("digits",),
    threads=1,
    live={
        "arms": ["plain", "batch_norm", "noisy"],
        "learning_rates": [0.1],
        "seeds": [0],
        "width": 64,
        "hidden_layers": 5,
        "batch_size": 128,
        "steps": 100,
        "looks": 6,
    },
    paper={
        "arms": ["plain", "batch_norm", "noisy"],
        "learning_rates": [0.01, 0.03, 0.1, 0.3, 1.0],
        "seeds": [0, 1, 2, 3, 4],
        "width": 64,
        "hidden_layers": 5,
        "batch_size": 128,
        "steps": 400,
        "looks": 12,
    },
)
@experiment(
    id="santurkar-norms",
    title="BN against l1 and l-infinity normalisation, on digits",
    chapter="01-covariate-shift",
    source="santurkar2018",
    sweep={"arm": "arms", "learning_rate": "learning_rates", "seed": "seeds"},
    paired=("arm", "learning_rate"),
    data=("digits",),
    threads=1,
    live={
        "arms": ["plain", "batch_norm", "l1", "linf"],
        "learning_rates": [0.1],
        "seeds": [0],
        "width": 64,
        "hidden_layers": 5,
        "batch_size": 128,
        "steps": 100,
        "looks": 6,
    },
    paper={
        "arms": ["plain", "batch_norm", "l1", "linf"],
        "learning_rates": [0.01, 0.03, 0.1, 0.3, 1.0],
        "seeds": [0, 1, 2, 3, 4],
        "width": 64,
        "hidden_layers": 5,
        "batch_size": 128,
        "steps": 400,
        "looks": 12,
    },
)
def santurkar_digits(
    context, arm, learning_rate, width, hidden_layers, batch_size, steps, looks
):
    """Train a ReLU network: plain, with BN, with noise after it, or with another norm.

    The noise is `bnlib.shift.BatchNoise`; the l2 norm is BN.
    """
    weights, order, noise = generators(context, 3)
    data = standardised(context.datasets["digits"], context.device)
    widths = [data[0].shape[1], *[width] * hidden_layers, CLASSES]
    network = feed_forward(
        widths,
        norm=NORMS[arm],
        scale=lambda n: (2 / n) ** 0.5,
        generator=weights,
    )
    if arm == "noisy":
        network = with_noise(network, noise)
    network.to(context.device)
    options = {"batch_size": batch_size, "steps": steps, "looks": looks}
    return watch(network, data, rate=learning_rate, order=order, **options)
