"""Folding: merge a BatchNorm in eval mode, which is affine, into the layer before it.

With ``a = gamma / sqrt(var + eps)``, channel by channel,
``a * (W x + b - mean) + beta = (a W) x + (a * (b - mean) + beta)``.
"""

import copy

import torch
from torch import nn
from torch.nn.parameter import is_lazy

import bnlib.nn
from bnlib import _arrays, _checks
from bnlib._arrays import Array

#: The layers that a BatchNorm can be folded into, and the BatchNorm of each.
_FOLLOWED_BY = {
    nn.Linear: nn.BatchNorm1d,
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
    nn.ConvTranspose1d: nn.BatchNorm1d,
    nn.ConvTranspose2d: nn.BatchNorm2d,
    nn.ConvTranspose3d: nn.BatchNorm3d,
}
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_NORM_FORWARDS = (
    nn.BatchNorm1d.forward,
    nn.SyncBatchNorm.forward,
    bnlib.nn.BatchNorm1d.forward,
)


@torch.no_grad()
def fold(layer: nn.Module, bn: nn.Module) -> nn.Module:
    """Return one layer that computes ``bn(layer(x))``, ``bn`` in eval mode.

    The result is exact up to rounding for any padding, padding mode, stride, dilation
    and groups: the layer is affine in its input and adds its bias everywhere. It is
    computed in float64 and rounded once.

    Parameters
    ----------
    layer : Linear, Conv1d to 3d or ConvTranspose1d to 3d of torch.nn
    bn : BatchNorm1d, 2d or 3d of torch.nn or bnlib.nn, or SyncBatchNorm
        In eval mode, with running statistics, one per output channel of the
        layer. After a Linear its input must be (N, C): on (N, C, L) a Linear
        acts along L and the BatchNorm along C, and no Linear does both.

    Returns
    -------
    Module
        A new layer of the kind, dtype, device and mode of ``layer``, always with a
        bias. ``layer`` and ``bn`` stay as they are and share nothing with it. Its
        parameters require gradients if those of ``layer`` do; a bias that ``layer``
        did not have, if its weight does.

    Raises
    ------
    TypeError
        If nothing can be folded into ``layer``, or ``bn`` is not the BatchNorm that
        takes its output.
    ValueError
        If ``bn`` is in training mode or without running statistics, the
        channels or devices do not fit, either module has hooks or parameters
        in another form (pruned, parametrised, lazy), or a folded number does
        not fit the layer's dtype.

    Examples
    --------
    >>> import torch
    >>> layer, bn = torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4)
    >>> fused = fold(layer, bn.eval())
    >>> x = torch.randn(2, 3, 5, 5)
    >>> bool(torch.allclose(fused(x), bn(layer(x)), atol=1e-6))
    True

    References
    ----------
    Chapter 04, "Inference".
    """
    kind = _kind(layer)
    _check_norm(bn, kind)
    for name, module in (("layer", layer), ("bn", bn)):
        _check_plain(name, module)
    weight = layer.weight
    if kind in _TRANSPOSED:
        weight = _regrouped(weight, layer.groups)
    if len(weight) != bn.num_features:
        raise ValueError(
            f"layer has {len(weight)} output channels but bn normalises "
            f"{bn.num_features}: give a bn with num_features={len(weight)}"
        )
    weight, bias = fold_arrays(
        weight, layer.bias, bn.running_mean, bn.running_var, bn.weight, bn.bias, bn.eps
    )
    if kind in _TRANSPOSED:
        weight = _regrouped(weight, layer.groups)
    fused = copy.deepcopy(layer)
    fused.weight = nn.Parameter(weight, layer.weight.requires_grad)
    like = layer.weight if layer.bias is None else layer.bias
    fused.bias = nn.Parameter(bias, like.requires_grad)
    return fused


@_arrays.silently()
def fold_arrays(
    weight: Array,
    bias: Array | None,
    mean: Array,
    var: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, Array]:
    """Return the weight and bias of a layer followed by a BatchNorm in eval mode.

    Parameters
    ----------
    weight : array, shape (C, ...), any real floating dtype
        Output channels on axis 0, as in torch's Linear and Conv. (torch's transposed
        convolutions have them on axis 1, within each group.)
    bias : array, shape (C,), or None
        None means 0.
    mean, var : arrays, shape (C,)
        Population or running statistics of the layer's output.
    gamma, beta : arrays, shape (C,), or None
        Scale and shift of the BatchNorm; None means 1 and 0.
    eps : float, at least 0

    Returns
    -------
    weight : array
        Shape and dtype of ``weight``.
    bias : array, shape (C,)
        Dtype of ``bias``, or of ``weight`` if ``bias`` is None.

    Raises
    ------
    TypeError
        If an array is no NumPy array or torch tensor, the two are mixed, a dtype is
        not real and floating, or ``eps`` is no number.
    ValueError
        If shapes or devices do not fit, ``eps`` is negative or not finite,
        ``var + eps`` is not above 0, or a result does not fit its dtype.

    Examples
    --------
    >>> import numpy as np
    >>> weight, mean, var = np.array([[2.0, 4.0]]), np.array([1.0]), np.array([4.0])
    >>> weight, bias = fold_arrays(weight, None, mean, var, eps=0.0)
    >>> weight.tolist(), bias.tolist()
    ([[1.0, 2.0]], [-0.5])

    References
    ----------
    Chapter 04, "Inference".
    """
    optional = {"bias": bias, "gamma": gamma, "beta": beta}
    xp = _arrays.namespace(weight=weight, mean=mean, var=var, optional=optional)
    _checks.check_number("eps", eps, 0)
    _check_shapes(weight, {"mean": mean, "var": var, **optional})
    spread = _arrays.upcast(var) + eps  # (C,)
    if bool(xp.any(spread <= 0)):
        raise ValueError("var + eps has values that are not above 0: nothing to divide")
    scale = 1 / xp.sqrt(spread)  # (C,)
    if gamma is not None:
        scale = scale * gamma
    folded_weight = weight * xp.reshape(scale, (-1,) + (1,) * (weight.ndim - 1))
    folded_bias = scale * (
        -_arrays.upcast(mean) if bias is None else bias - _arrays.upcast(mean)
    )
    if beta is not None:
        folded_bias = folded_bias + beta
    return (
        _rounded("weight", folded_weight, weight.dtype),
        _rounded("bias", folded_bias, (weight if bias is None else bias).dtype),
    )


def _check_shapes(weight, vectors):
    if weight.ndim < 1:
        raise ValueError("weight has shape (): give (C, ...), output channels first")
    for name, vector in vectors.items():
        if vector is not None and tuple(vector.shape) != (weight.shape[0],):
            raise ValueError(
                f"{name} has shape {tuple(vector.shape)} for a weight of shape "
                f"{tuple(weight.shape)}: give ({weight.shape[0]},), one value per "
                "output channel"
            )


def _rounded(name, wide, dtype):
    """Return the array in the dtype, unless a finite value would become infinite."""
    xp = _arrays.namespace(**{name: wide})
    narrow = xp.astype(wide, dtype, copy=False)
    if bool(xp.any(xp.isfinite(wide) & ~xp.isfinite(narrow))):
        raise ValueError(
            f"the folded {name} reaches {float(xp.max(xp.abs(wide))):.3g}, which "
            f"does not fit {dtype}: give a wider dtype"
        )
    return narrow


def _regrouped(weight, groups):
    """Move the output channels of a transposed convolution to axis 0, or back.

    Turn (C_in, C_out / G, ...) into (C_out, C_in / G, ...). Axis 0 holds one group
    after the other in both, so the input and output channels swap within each group.
    """
    by_group = weight.unflatten(0, (groups, -1))
    return by_group.transpose(1, 2).flatten(0, 1)


def _kind(layer):
    """Return the class of torch.nn whose forward the layer runs."""
    for kind in _FOLLOWED_BY:
        if isinstance(layer, kind) and all(
            _runs(layer, kind, method) for method in ("forward", "_conv_forward")
        ):
            return kind
    names = ", ".join(kind.__name__ for kind in _FOLLOWED_BY)
    raise TypeError(
        f"layer is a {_named(layer)}, which cannot be folded into: give one out of "
        f"torch.nn's {names}, its forward not overridden"
    )


def _named(module):
    """Return the class's full name: a quantised Linear is also called Linear."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _runs(module, kind, method):
    """Return True if the module runs the method of ``kind``, not an override."""
    own = getattr(module, method, None)
    return getattr(own, "__func__", None) is getattr(kind, method, None)


def _check_norm(bn, kind):
    wanted = _FOLLOWED_BY[kind]
    known = isinstance(bn, (wanted, nn.SyncBatchNorm))
    if not known or getattr(bn.forward, "__func__", None) not in _NORM_FORWARDS:
        raise TypeError(
            f"bn is a {_named(bn)}: after a {kind.__name__} give a "
            f"{wanted.__name__} of torch.nn or bnlib.nn, or a SyncBatchNorm, its "
            "forward not overridden"
        )
    if bn.training:
        raise ValueError(
            "bn is in training mode, where it normalises with the batch: call "
            "bn.eval() first"
        )
    if getattr(bn, "activation", None) is not None:
        raise ValueError(
            f"bn has activation={bn.activation!r}, which no linear layer computes: put "
            "the activation into a layer of its own"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError(
            "bn has no running statistics (track_running_stats=False): it normalises "
            "with the batch in eval mode too, and cannot be folded"
        )


def _check_plain(name, module):
    """Raise if the module's output depends on more than its weight and bias."""
    if any(map(is_lazy, [*module.parameters(), *module.buffers()])):
        raise ValueError(f"{name} is lazy: run a batch through it first")
    other = {key for key, _ in module.named_parameters()} - {"weight", "bias"}
    if other:
        raise ValueError(
            f"{name} makes its parameters from {', '.join(sorted(other))}: remove "
            "the pruning, weight norm or parametrization first, keeping the values"
        )
    if module._forward_hooks or module._forward_pre_hooks:
        raise ValueError(
            f"{name} has forward hooks, which may change its output: remove them first"
        )
