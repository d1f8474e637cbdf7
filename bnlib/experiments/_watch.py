"""Train a network and measure it on the way, as Santurkar et al. do."""

import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from bnlib.experiments._training import checkpoints, rounded, train
from bnlib.networks import accuracy
from bnlib.shift import BatchNoise, distribution_distance, gradient_shift
from bnlib.smoothness import probe_gradient

#: The number of examples on which the units' distributions are compared.
PROBED = 500


def loss_on(x, y, seed=0):
    """Return the cross entropy as a loss that draws the same noise in every call."""

    def loss(network):
        for module in network.modules():
            if isinstance(module, BatchNoise):
                module.generator.manual_seed(seed)
        return functional.cross_entropy(network(x), y)

    return loss


def unit_inputs(network, x):
    """Return the inputs of each ReLU layer, as arrays (values, units)."""
    seen = []
    copied = copy.deepcopy(network)
    for module in copied.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_pre_hook(
                lambda _, inputs: seen.append(
                    inputs[0].movedim(1, -1).flatten(0, -2).double().numpy(force=True)
                )
            )
    with torch.no_grad():
        copied(x)
    return seen


def relative_distances(before, after):
    """Return how far each layer's units moved on average, in standard deviations."""
    moved = []
    for old, new in zip(before, after):
        spread = old.std(axis=0)
        alive = spread > 1e-6 * spread.max()
        moved.append((distribution_distance(old, new)[alive] / spread[alive]).mean())
    return np.mean(moved)


def gradient_measures(network, loss, rate, steps):
    """Return the gradients' shift and the loss along the gradient, as plain numbers."""
    shift = gradient_shift(network, loss, rate)
    probe = probe_gradient(network, loss, steps)
    measures = {
        "cosine": shift.cosines.mean(),
        "distance": shift.distances.mean(),
        "relative_distance": shift.relative.mean(),
        "loss_low": probe.losses.min(),
        "loss_high": probe.losses.max(),
        "gradient_change": probe.largest_change,
        "smoothness": probe.effective_smoothness,
    }
    return {name: rounded(value) for name, value in measures.items()}


def watch(network, data, *, rate, batch_size, steps, looks, order):
    """Train by plain SGD; return lists with an entry for each look.

    A look comes before a step and uses the minibatch of that step. `loss` is the loss
    on it; `moved` compares the inputs of the ReLUs before and after the step; the steps
    along the gradient are 1/2 to 4 times the rate. After a loss that is not finite,
    looks hold None.
    """
    x_train, y_train, x_test, y_test = data
    at = checkpoints(steps - 1, looks)
    found = {"steps": at}

    def look(step, x, y, take):
        seen = gradient_measures(
            network, loss_on(x, y, step), rate, rate * np.geomspace(0.5, 4, 7)
        )
        before = unit_inputs(network, x_train[:PROBED])
        seen["loss"] = rounded(take())
        after = unit_inputs(network, x_train[:PROBED])
        finite = all(np.isfinite(layer).all() for layer in after)
        if finite:
            seen["moved"] = rounded(relative_distances(before, after))
        seen["accuracy"] = round(accuracy(network, x_test, y_test), 4)
        for name, value in seen.items():
            found.setdefault(name, []).append(value)
        return finite

    options = {"rate": rate, "batch_size": batch_size, "steps": steps, "order": order}
    finite = train(network, x_train, y_train, at=at, look=look, **options)
    for name in found.keys() - {"steps"}:
        found[name] += [None] * (len(at) - len(found[name]))
    final = round(accuracy(network, x_test, y_test), 4)
    return found | {"final_accuracy": final, "diverged": not finite}
