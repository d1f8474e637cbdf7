"""Convert a model's BatchNorm layers from torch's to bnlib's, and back."""

import torch

from bnlib import _modules
from bnlib.nn._layers import BatchNorm1d, BatchNorm2d, BatchNorm3d
from bnlib.nn._sync import SyncBatchNorm

_OURS = {
    torch.nn.BatchNorm1d: BatchNorm1d,
    torch.nn.BatchNorm2d: BatchNorm2d,
    torch.nn.BatchNorm3d: BatchNorm3d,
    torch.nn.SyncBatchNorm: SyncBatchNorm,
}
_KINDS = {"bnlib": _OURS, "torch": {ours: theirs for theirs, ours in _OURS.items()}}


def convert(model: torch.nn.Module, to: str = "bnlib") -> torch.nn.Module:
    """Convert every BatchNorm layer of a model to bnlib's, or back to torch's.

    The layers change their class and nothing else: they stay the same objects, with the
    same parameters, buffers, hooks and modes, so an optimiser or a state dict made
    before still fits.

    Parameters
    ----------
    model : Module
        Changed in place; may be a BatchNorm layer itself. A subclass of such a
        layer, such as a lazy one that has seen no batch, stays as it is.
    to : "bnlib" or "torch"

    Returns
    -------
    Module
        ``model``.

    Raises
    ------
    TypeError
        If ``model`` is no Module.
    ValueError
        If ``to`` is anything else, or, on the way to torch, a layer has an activation
        or frozen statistics, which torch's layers lack. Nothing has then changed.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    >>> type(convert(model)[1]).__module__
    'bnlib.nn._layers'
    >>> type(convert(model, to="torch")[1]) is torch.nn.BatchNorm1d
    True

    References
    ----------
    Chapter 15, "Practice".
    """
    _modules.check_module("model", model)
    if to not in _KINDS:
        raise ValueError(f"to is {to!r}: give 'bnlib' or 'torch'")
    layers = {
        name: layer
        for name, layer in _modules.batch_norm_layers(model).items()
        if type(layer) in _KINDS[to]
    }
    if to == "torch":
        for name, layer in layers.items():
            _check_torch_can(name, layer)
    for layer in layers.values():
        layer.__class__ = _KINDS[to][type(layer)]
    return model


def _check_torch_can(name, layer):
    if layer.activation is not None:
        raise ValueError(
            f"layer {name!r} has activation={layer.activation!r}, which torch's has "
            "not: put the activation into a layer of its own"
        )
    if layer.frozen_statistics:
        raise ValueError(
            f"layer {name!r} has frozen statistics, which torch's cannot keep in "
            "training mode: thaw it first, freeze(model, statistics=False)"
        )
