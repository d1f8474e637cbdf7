"""Measure a training run from inside: what a dashboard shows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from bnlib import _checks


class Watched(NamedTuple):
    """What `watch` saw: a row for each step and, but for the loss, a column a layer."""

    #: The layers' names, in the order in which the network holds them.
    layers: tuple[str, ...]
    #: The loss at each step, shape (steps,).
    loss: np.ndarray
    #: The root mean square of each layer's output.
    activation: np.ndarray
    #: The root mean square of the loss's gradient by each layer's output.
    gradient: np.ndarray
    #: The length of the step that each weight took, over the weight's length.
    update: np.ndarray


def watch(network: nn.Module, step: Callable[[], Any], *, steps: int = 100) -> Watched:
    """Train for some steps and measure every linear and convolutional layer.

    The step is yours: any optimiser, any data, any loss. The watch reads what passes
    through the layers and changes nothing.

    Parameters
    ----------
    network : torch.nn.Module
        Its layers with a weight of two or more axes are watched.
    step : callable
        Makes one step of training, without arguments: a forward pass of the network, a
        backward pass and an update. It returns the loss.
    steps : int, at least 1
        How often it is called.

    Returns
    -------
    Watched
        A layer that a step calls more than once is measured over all its calls. Where
        a step does not call a layer, or no gradient comes to its output, there is NaN.

    Raises
    ------
    TypeError, ValueError
        If ``steps`` is not an integer of at least 1, or no layer has a weight of two or
        more axes.

    Examples
    --------
    >>> import torch
    >>> from torch.nn.functional import cross_entropy
    >>> from bnlib.networks import mlp
    >>> random = torch.Generator().manual_seed(0)
    >>> network = mlp((2, 8, 2), batch_norm=True, generator=random)
    >>> optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    >>> x = torch.randn(64, 2, generator=random)
    >>> def step():
    ...     optimizer.zero_grad()
    ...     loss = cross_entropy(network(x), (x[:, 0] > 0).long())
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> seen = watch(network, step, steps=20)
    >>> seen.layers, seen.update.shape
    (('0', '3'), (20, 2))

    References
    ----------
    Chapter 15, "Practice".
    """
    _checks.check_integer("steps", steps, 1)
    layers = {
        name: module
        for name, module in network.named_modules()
        if isinstance(getattr(module, "weight", None), torch.Tensor)
        and module.weight.ndim >= 2
    }
    if not layers:
        raise ValueError("no layer of the network has a weight of two or more axes")
    meters = [_Meter(layer) for layer in layers.values()]
    loss, rows = np.empty(steps), np.empty((steps, len(meters), 3))
    try:
        for number in range(steps):
            for meter in meters:
                meter.start()
            loss[number] = torch.as_tensor(step()).detach().item()
            rows[number] = [meter.read() for meter in meters]
    finally:
        for meter in meters:
            meter.hook.remove()
    return Watched(tuple(layers), loss, *np.moveaxis(rows, 2, 0))


class _Meter:
    """What one layer does in one step."""

    def __init__(self, layer):
        self.layer = layer
        self.hook = layer.register_forward_hook(self._passed)

    def start(self):
        self.before = self.layer.weight.detach().clone()
        self.outputs, self.gradients = [], []

    def read(self):
        """Return the root mean squares of outputs and gradients, and the update."""
        before = self.before
        moved = torch.linalg.vector_norm(self.layer.weight.detach() - before)
        length = torch.linalg.vector_norm(before)
        return _root(self.outputs), _root(self.gradients), (moved / length).item()

    def _passed(self, layer, inputs, output):
        self.outputs.append(_sum_of_squares(output.detach()))
        if output.requires_grad:
            output.register_hook(
                lambda gradient: self.gradients.append(_sum_of_squares(gradient))
            )


def _sum_of_squares(values):
    # In float32 at least: squares of half precision end at 65,504.
    length = torch.linalg.vector_norm(
        values, dtype=torch.promote_types(values.dtype, torch.float32)
    )
    return length.item() ** 2, values.numel()


def _root(parts):
    if not parts:
        return np.nan
    sums, counts = zip(*parts)
    return float(np.sqrt(sum(sums) / sum(counts)))
