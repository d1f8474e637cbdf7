"""Freeze BatchNorm layers: their statistics, their parameters, or both."""

from typing import TypeVar

import torch

from bnlib import _modules
from bnlib.nn._layers import Layer

Model = TypeVar("Model", bound=torch.nn.Module)


def freeze(model: Model, statistics: bool = True, affine: bool = True) -> Model:
    """Freeze the BatchNorm layers of a model, or thaw them.

    ==========  =======  ==================  =====================================
    statistics  affine   ``layer.frozen``    in training mode
    ==========  =======  ==================  =====================================
    True        True     "all"               a fixed affine map
    True        False    "statistics"        normalises with the buffers, which
                                             stay; weight and bias are learnt
    False       True     "affine"            normalises with the batch and updates
                                             the buffers; weight and bias stay
    False       False    None                not frozen
    ==========  =======  ==================  =====================================

    ``train()`` and ``eval()`` do not change this. A layer without weight and bias
    counts as affinely frozen when its statistics are frozen. Copies and pickles stay
    frozen; a state dict does not keep this: freeze again after loading one.

    Parameters
    ----------
    model : Module
        Changed in place; may be a layer itself. Its layers must be bnlib's: see
        `convert`.
    statistics, affine : bool
        What to freeze; False thaws. A frozen parameter does not require a gradient and
        has none, so an optimiser does not change it, not even by weight decay.

    Returns
    -------
    Module
        ``model``.

    Raises
    ------
    TypeError
        If ``model`` is no Module, or a flag no bool.
    ValueError
        If it has no BatchNorm layer or one of torch's, or statistics are to be frozen
        in a layer that has none. Nothing has then changed.

    Examples
    --------
    >>> import bnlib
    >>> layer = bnlib.nn.BatchNorm1d(2)
    >>> freeze(layer, affine=False).frozen
    'statistics'
    >>> layer.train().frozen
    'statistics'

    References
    ----------
    Chapter 15, "Practice".
    """
    _modules.check_module("model", model)
    for name, flag in (("statistics", statistics), ("affine", affine)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} is {flag!r}: give True or False")
    layers = _layers(model)
    for name, layer in layers.items():
        if statistics and (layer.running_mean is None or layer.running_var is None):
            raise ValueError(
                f"layer {name!r} has no running statistics to freeze: make it with "
                "track_running_stats=True, or freeze with statistics=False"
            )
    for layer in layers.values():
        layer.frozen_statistics = statistics
        for parameter in layer.parameters():
            parameter.requires_grad_(not affine)
            if affine:
                parameter.grad = None
    return model


def _layers(model):
    """Return the BatchNorm layers by their names; raise if there is none of bnlib's."""
    layers = _modules.batch_norm_layers(model)
    if not layers:
        raise ValueError(f"model, a {type(model).__name__}, has no BatchNorm layer")
    for name, layer in layers.items():
        if not isinstance(layer, Layer):
            raise ValueError(
                f"layer {name!r} is torch's {type(layer).__name__}, which train() "
                "would thaw: bnlib.nn.convert(model) first"
            )
    return layers
