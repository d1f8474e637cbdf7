"""The claims of chapter 04: statistics that belong to other weights, and the cure."""

import copy
import functools

import numpy as np
import torch
from torch import nn

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.recalibration import recalibrate

chapter_claim = functools.partial(claim, chapter="04-inference")


def _three_layers(rng):
    """Draw three BN layers in a row, with tanh between, and data in uneven batches."""
    layers = []
    for width in (4, 3, 3):
        linear = nn.Linear(width, 3, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(rng.standard_normal((3, width))))
            linear.bias.copy_(torch.from_numpy(rng.standard_normal(3)))
        layers += [linear, nn.BatchNorm1d(3, dtype=torch.float64), nn.Tanh()]
    x = torch.from_numpy(rng.exponential(size=(24, 4)))
    cuts = np.sort(rng.choice(np.arange(2, 23, 2), size=3, replace=False))
    return nn.Sequential(*layers), x, x.tensor_split(cuts.tolist())


def _recalibrated(rng, method):
    """Compare each layer's buffers with the statistics of its input over all data.

    The first layer's buffers are compared after one pass, too.
    """
    network, x, batches = _three_layers(rng)
    quick = recalibrate(copy.deepcopy(network), list(batches), method="one_pass")
    network = recalibrate(network, list(batches), method=method).eval()
    first, h = network[0](x).var(dim=0, correction=0), x
    checks = [Check(quick[1].running_var, first, "==", allowed=1e-12)]
    with torch.no_grad():
        whole = copy.deepcopy(network).train()(x)
        for layer in network:
            if isinstance(layer, nn.BatchNorm1d):
                of_input = (h.mean(dim=0), h.var(dim=0, correction=0))
                pairs = zip((layer.running_mean, layer.running_var), of_input)
                checks += [Check(*pair, "==", allowed=1e-12) for pair in pairs]
            h = layer(h)
    return Check.worst(Check(h, whole, "==", allowed=1e-12), *checks)


@chapter_claim(
    id="inf-recalibration",
    kind="theorem",
    verdict="holds",
    source="book",
    statement="Take a network that runs each BN layer once and whose other layers "
    "treat every example by itself, alike in both modes (no dropout). Sequential "
    "recalibration goes layer after layer, with those below in evaluation mode. It "
    "gives every BN layer the mean and variance of its own input over the whole set, "
    "for any split into batches. Evaluation mode then gives what training mode gives "
    "on the whole set as one batch. One pass in training mode is sure to be right "
    "only for a BN layer with no other below it.",
)
def inf_recalibration(rng):
    return _recalibrated(rng, "sequential")


@inf_recalibration.control
def _(rng):
    return _recalibrated(rng, "one_pass")


def _averaged(rng, too_large):
    """Compare averages of the units' statistics with those of the average unit."""
    units, inputs = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    shares = rng.dirichlet(np.full(units, 3.0))
    weights = rng.standard_normal((units, inputs))
    x = rng.standard_normal((40, inputs)) @ rng.standard_normal((inputs, inputs)) + 1
    outputs, mean_weight = x @ weights.T, shares @ weights
    average = x @ mean_weight
    apart = shares @ (x @ (weights - mean_weight).T).var(axis=0)
    variance = average.var() + too_large * apart
    return Check.worst(
        Check(shares @ outputs.mean(axis=0), average.mean(), "==", 1e-12, scale=1.0),
        Check(shares @ outputs.var(axis=0), variance, "==", allowed=1e-12),
    )


@chapter_claim(
    id="inf-average",
    kind="theorem",
    verdict="holds",
    source="book",
    statement=r"For weights $w_k$ of a unit in shares $p_k>0$ that sum to 1, and "
    r"their average $\bar w=\sum_kp_kw_k$: "
    r"$\sum_kp_k\mathbb E[w_k^\top x]=\mathbb E[\bar w^\top x]$, but "
    r"$\sum_kp_k\mathrm{Var}[w_k^\top x]=\mathrm{Var}[\bar w^\top x]"
    r"+\sum_kp_k\mathrm{Var}[(w_k-\bar w)^\top x]$. Averaged means are right; averaged "
    r"variances are never too small, and too large unless every "
    r"$(w_k-\bar w)^\top x$ is constant.",
)
def inf_average(rng):
    return _averaged(rng, too_large=1)


@inf_average.control
def _(rng):
    return _averaged(rng, too_large=0)
