"""Weight normalization of a layer."""

import torch
from torch.nn.utils import parametrize

from bnlib import _arrays


class _WeightNorm(torch.nn.Module):
    """w = g v / ||v||, the norm over all axes but ``dim``; torch's state dict."""

    def __init__(self, name, dim):
        super().__init__()
        self.name, self.dim = name, dim

    def forward(self, g, v):
        norms = self._norms(v)
        if not torch.compiler.is_compiling() and not bool((norms > 0).all()):
            _check_norms(self.name, norms)
        return (_arrays.widen(g) / norms * _arrays.widen(v)).to(v.dtype)

    def right_inverse(self, weight):
        norms = self._norms(weight)
        _check_norms(self.name, norms)
        return norms.to(weight.dtype), weight

    def _norms(self, v):
        axes = None if self.dim is None else [a for a in range(v.ndim) if a != self.dim]
        # The largest entry first, so that no square overflows or vanishes.
        wide = _arrays.widen(v)
        if axes is None:
            return torch.linalg.vector_norm(wide)
        if not axes:
            return wide.abs()
        return torch.linalg.vector_norm(wide, dim=axes, keepdim=True)


def _check_norms(name, norms):
    bad = (~(norms > 0)).flatten().nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"{name} has no direction in row {bad[0]} (its norm is "
            f"{norms.flatten()[bad[0]].item()}): give every row one entry that is not "
            "0, and no NaN"
        )


def weight_norm(module, name="weight", dim=0):
    """Write a layer's weight as length times direction, ``w = g v / ||v||``.

    As `torch.nn.utils.parametrizations.weight_norm`, with its state dict; but a
    ``v`` of norm 0, which has no direction, is an error where torch's gives NaN.

    Parameters
    ----------
    module : Module
        Changed in place: ``module.weight`` is computed from two parameters,
        ``module.parametrizations.weight.original0`` (g) and ``original1`` (v).
    name : str
        Of the parameter.
    dim : int or None
        The axis along which each entry has a length of its own: 0, the outputs
        of Linear and Conv. None gives the whole tensor one length.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    TypeError
        If ``module`` is no Module.
    ValueError
        If there is no such parameter, ``dim`` is not among its axes, or a row
        is 0: now, or in any later forward pass (not in one that is compiled).

    Examples
    --------
    >>> import torch
    >>> layer = weight_norm(torch.nn.Linear(3, 2))
    >>> [name for name, _ in layer.named_parameters()][1:]
    ['parametrizations.weight.original0', 'parametrizations.weight.original1']

    References
    ----------
    Salimans and Kingma 2016; chapter 11.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module is a {type(module).__name__}: give a torch Module")
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.nn.Parameter):
        known = ", ".join(n for n, _ in module.named_parameters(recurse=False))
        raise ValueError(f"name is {name!r}: give a parameter's, one of {known}")
    if dim is not None:
        _arrays.check_integer("dim", dim, -weight.ndim)
        if dim >= weight.ndim:
            raise ValueError(
                f"dim is {dim} for a {name} of shape {tuple(weight.shape)}: give one "
                "of its axes, or None"
            )
        dim %= weight.ndim
    rule = _WeightNorm(name, dim)
    parametrize.register_parametrization(module, name, rule, unsafe=False)
    return module
