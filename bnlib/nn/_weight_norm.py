"""Weight normalization of a layer."""

from typing import TypeVar

import torch
from torch.nn.utils import parametrize

from bnlib import _arrays, _checks, _modules

Model = TypeVar("Model", bound=torch.nn.Module)


class _WeightNorm(torch.nn.Module):
    """w = g v / ||v||, norms over all axes but ``dim``; it has torch's state dict."""

    def __init__(self, name, dim):
        super().__init__()
        self.name, self.dim = name, dim

    def forward(self, g, v):
        scaled, largest, norms = self._parts(v)
        if not torch.compiler.is_compiling():
            _check_lengths(self.name, largest)
        return (_arrays.upcast(g) / norms * scaled).to(v.dtype)

    def right_inverse(self, weight):
        _, largest, norms = self._parts(weight)
        _check_lengths(self.name, largest)
        lengths = (largest * norms).to(weight.dtype)
        _check_lengths(self.name, lengths)
        return lengths, weight

    def _parts(self, v):
        """Return v / its largest entries, those entries, and the quotient's norms."""
        wide = _arrays.upcast(v)
        axes = [a for a in range(v.ndim) if self.dim is None or a != self.dim]
        keep = self.dim is not None
        largest = wide.detach().abs()
        if axes:
            largest = largest.amax(dim=axes, keepdim=keep)
        # So no square overflows or underflows; no scale changes the weight.
        scaled = wide / largest
        squares = scaled.square()
        norms = squares.sum(dim=axes, keepdim=keep) if axes else squares
        return scaled, largest, norms.sqrt()


def _check_lengths(name, lengths):
    bad = ~((lengths > 0) & lengths.isfinite())
    if bool(bad.any()):
        row = bad.flatten().nonzero()[0].item()
        raise ValueError(
            f"{name} has no direction or no finite length in row {row} (it is "
            f"{lengths.flatten()[row].item()}): give every row one entry that is not "
            "0, and only finite ones"
        )


def weight_norm(module: Model, name: str = "weight", dim: int | None = 0) -> Model:
    """Write a layer's weight as length times direction, ``w = g v / ||v||``.

    It is `torch.nn.utils.parametrizations.weight_norm`, with its state dict, except in
    two points. A ``v`` of norm 0, which has no direction, raises an error; torch's
    returns NaN. ``dim=-1`` is the last axis; torch's takes it for None.

    Parameters
    ----------
    module : Module
        Changed in place: ``module.weight`` is computed from two parameters,
        ``module.parametrizations.weight.original0`` (g) and ``original1`` (v).
    name : str
        The name of the parameter.
    dim : int or None
        The axis along which each entry has its own length: 0, the outputs of Linear and
        Conv. None gives the whole tensor one length.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    TypeError
        If ``module`` is no Module.
    ValueError
        If there is no such parameter, it has no entries, ``dim`` is not one of its
        axes, or a row is 0 or not finite, now or in a later forward pass (unless that
        is compiled).

    Examples
    --------
    >>> import torch
    >>> layer = weight_norm(torch.nn.Linear(3, 2))
    >>> [name for name, _ in layer.named_parameters()][1:]
    ['parametrizations.weight.original0', 'parametrizations.weight.original1']

    References
    ----------
    Salimans and Kingma 2016; chapter 12.
    """
    _modules.check_module("module", module)
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.nn.Parameter):
        known = ", ".join(n for n, _ in module.named_parameters(recurse=False))
        raise ValueError(f"name is {name!r}: give a parameter's, one of {known}")
    if weight.numel() == 0:
        raise ValueError(f"{name} has shape {tuple(weight.shape)}: it has no entries")
    if dim is not None:
        _checks.check_integer("dim", dim, -weight.ndim)
        if dim >= weight.ndim:
            raise ValueError(
                f"dim is {dim} for a {name} of shape {tuple(weight.shape)}: give one "
                "of its axes, or None"
            )
        dim %= weight.ndim
    rule = _WeightNorm(name, dim)
    parametrize.register_parametrization(module, name, rule, unsafe=False)
    return module
