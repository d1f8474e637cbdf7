"""The functions that experiments with small networks share."""

from functools import partial

import numpy as np
import torch
from torch.nn import functional


def generators(context, count):
    """Return independent random generators for one unit of an experiment."""
    return [
        torch.Generator().manual_seed(int(s.generate_state(1, np.uint64)[0]))
        for s in context.seed_sequence.spawn(count)
    ]


def standardised(dataset, device, precision=float):
    """Return x_train, y_train, x_test, y_test with standardised inputs.

    Each input has mean 0 and standard deviation 1; the inputs of an example are
    flattened. `precision` is the dtype of the arithmetic: large images need float32 to
    fit into memory, but their sums are float64 even then.
    """
    x_train, x_test = (x.reshape(len(x), -1) for x in (dataset.x_train, dataset.x_test))
    mean, std = (
        f(x_train, axis=0, dtype=float).astype(precision) for f in (np.mean, np.std)
    )
    # Corner pixels that are always blank have standard deviation 0.
    std[std == 0] = 1
    inputs = [(x.astype(precision) - mean) / std for x in (x_train, x_test)]
    return split_on(device, inputs[0], dataset.y_train, inputs[1], dataset.y_test)


def split_on(device, x_train, y_train, x_test, y_test):
    """Return the four arrays as tensors, inputs in float32 and labels as integers."""
    arrays = (x_train, y_train, x_test, y_test)
    kinds = (torch.float32, torch.int64) * 2
    return [torch.tensor(a, dtype=k, device=device) for a, k in zip(arrays, kinds)]


def minibatches(n, batch_size, steps, generator):
    """Yield the rows of each step: epochs in random order, whole minibatches only."""
    given = 0
    while given < steps:
        order = torch.randperm(n, generator=generator)
        for start in range(0, n - batch_size + 1, batch_size):
            if given == steps:
                return
            yield order[start : start + batch_size]
            given += 1


def descend(network, x, y, rate):
    """Take one step of gradient descent on the cross entropy; return the loss."""
    parameters = list(network.parameters())
    loss = functional.cross_entropy(network(x), y)
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        torch._foreach_add_(parameters, gradients, alpha=-rate)
    return loss.item()


def train(network, x, y, *, rate, batch_size, steps, order, at=(), look=None):
    """Descend on minibatches until a loss is not finite; return True if all were.

    Parameters
    ----------
    network : torch.nn.Module
    x, y : Tensors, shapes (n, ...) and (n,)
    rate : float
    batch_size, steps : int
    order : torch.Generator
        The generator of the rows' order.
    at : collection of int
        The steps at which `look` is called.
    look : callable
        Takes the number of the step, the minibatch's x and y, and `take`, a function
        that makes the step and returns the loss. It returns whether to continue.
    """
    for step, rows in enumerate(minibatches(len(x), batch_size, steps, order)):
        rows = rows.to(x.device)
        batch = x[rows], y[rows]
        take = partial(descend, network, *batch, rate)
        finite = look(step, *batch, take) if step in at else np.isfinite(take())
        if not finite:
            return False
    return True


def checkpoints(steps, count):
    """Return about `count` steps from 0 to `steps`, closer together at the start."""
    at = np.geomspace(1, steps + 1, count) - 1
    return sorted({round(step) for step in at})


def rounded(value):
    """Return a number to four significant digits, or None if it is not finite."""
    value = float(value)
    return float(f"{value:.4g}") if np.isfinite(value) else None
