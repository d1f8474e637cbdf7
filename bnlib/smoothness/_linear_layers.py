"""The linear layers of a network, and the coordinates in which to differentiate."""

import copy

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from bnlib import _arrays, _modules

#: `bnlib.smoothness.block_norms` explains them.
COORDINATES = ("weights", "directions", "bn_directions")


def linear_layers(network: nn.Module) -> list[str]:
    """Return the names of a network's linear layers; their order numbers them.

    Parameters
    ----------
    network : torch.nn.Module

    Returns
    -------
    list of str
        The name of every `torch.nn.Linear`, in the order of ``network.modules()``: for
        a `torch.nn.Sequential`, from the input to the output.

    Raises
    ------
    TypeError, ValueError
        If the network is no module or has no linear layer, a layer's weight is
        parametrised, or two layers share their weights.

    Examples
    --------
    >>> import torch
    >>> linear_layers(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()))
    ['0']

    References
    ----------
    Chapter 10, "GDNP on networks".
    """
    _modules.check_module("network", network)
    layers = {n: m for n, m in network.named_modules() if isinstance(m, nn.Linear)}
    if not layers:
        raise ValueError("the network has no torch.nn.Linear, so there are no blocks")
    seen = {}
    for name, layer in layers.items():
        if parametrize.is_parametrized(layer, "weight"):
            raise ValueError(f"{name}.weight is parametrised: give plain weights")
        other = seen.setdefault(id(layer.weight), name)
        if other != name:
            raise ValueError(f"the layers {other} and {name} share their weights")
    return list(layers)


def checked_layers(network, layer, others):
    """Return the names of all these layers, and the numbers of the others."""
    names = linear_layers(network)
    _check_layer("layer", layer, names)
    if others is None:
        others = range(layer + 1, len(names))
        if not others:
            raise ValueError(f"layer is {layer}, the last one: name the others")
    if isinstance(others, int | str) or not hasattr(others, "__iter__"):
        raise TypeError(f"others is {others!r}: give a list of layers")
    others = list(others)
    if not others:
        raise ValueError("others is empty: give at least one layer")
    for other in others:
        _check_layer("one of others", other, names)
    return names[layer], [names[other] for other in others], [int(o) for o in others]


def _check_layer(what, number, names):
    last = len(names) - 1
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise TypeError(f"{what} is {number!r}: give an integer from 0 to {last}")
    if not 0 <= number <= last:
        raise ValueError(
            f"{what} is {number}: the network has {len(names)} linear layers, "
            f"numbered from 0 to {last}"
        )


class NoDirection(ValueError):
    """Raised if a unit's weights have length 0, or one that is not finite."""


class _Direction(nn.Module):
    """A parametrisation of rows as g v / |v|, with g fixed; v starts at length 1."""

    def __init__(self, name, weight, covariance):
        super().__init__()
        self.covariance = covariance
        self.lengths = self._norm(weight.detach())
        usable = (self.lengths > 0) & self.lengths.isfinite()
        if not usable.all():
            row = int(usable.flatten().int().argmin())
            raise NoDirection(
                f"row {row} of {name}.weight has length {self.lengths[row].item()} in "
                "these coordinates: it has no direction"
            )

    def _norm(self, rows):
        """Return the rows' lengths in float64, since squares may overflow float32."""
        rows = _arrays.upcast(rows)
        if self.covariance is None:
            return rows.norm(dim=1, keepdim=True)
        return ((rows @ self.covariance) * rows).sum(dim=1, keepdim=True).sqrt()

    def forward(self, v):
        return (self.lengths * v / self._norm(v)).to(v.dtype)

    def right_inverse(self, weight):
        return (weight / self.lengths).to(weight.dtype)


def _covariances(network, loss, names):
    """Return the covariance of each layer's input, over the batch of the loss."""
    seen = {name: [] for name in names}
    hooks = [
        network.get_submodule(name).register_forward_pre_hook(
            lambda _, inputs, kept=kept: kept.append(inputs[0].detach())
        )
        for name, kept in seen.items()
    ]
    loss(network)
    for hook in hooks:
        hook.remove()
    for name, inputs in seen.items():
        if not inputs:
            raise ValueError(f"the loss does not call the layer {name}")
    return {name: _covariance(inputs) for name, inputs in seen.items()}


def _covariance(inputs):
    rows = torch.cat(
        [_arrays.upcast(each).reshape(-1, each.shape[-1]) for each in inputs]
    )
    centred = rows - rows.mean(dim=0)
    return centred.T @ centred / len(rows)


def in_coordinates(network, loss, names, coordinates):
    """Return a copy in which only the coordinates of those layers require gradients."""
    if coordinates not in COORDINATES:
        raise ValueError(
            f"coordinates is {coordinates!r}: give one of {', '.join(COORDINATES)}"
        )
    if not callable(loss):
        raise TypeError(
            f"loss is a {type(loss).__name__}: give a function of the network"
        )
    copied = copy.deepcopy(network).requires_grad_(False)
    spreads = dict.fromkeys(names)
    if coordinates == "bn_directions":
        spreads = _covariances(copied, loss, names)
    for name in names:
        layer = copied.get_submodule(name)
        if coordinates != "weights":
            direction = _Direction(name, layer.weight, spreads[name])
            parametrize.register_parametrization(layer, "weight", direction)
        parameter_of(copied, name).requires_grad_(True)
    return copied


def parameter_of(network, name):
    layer = network.get_submodule(name)
    if parametrize.is_parametrized(layer, "weight"):
        return layer.parametrizations.weight.original
    return layer.weight
