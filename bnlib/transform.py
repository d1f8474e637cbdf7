"""The batch normalization transform, its gradient, and its form at inference.

The functions take NumPy arrays or torch tensors. They compute every sum in float64,
about the mean, so a float32 feature of mean 1e6 and standard deviation 1 loses
nothing. Results have the dtype of the arguments.
"""

import math
from typing import NamedTuple

import array_api_compat as compat

from bnlib import _arrays, _checks
from bnlib._arrays import Array
from bnlib.statistics import centre

__all__ = [
    "BackwardSteps",
    "Cache",
    "batch_norm_backward",
    "batch_norm_backward_steps",
    "batch_norm_forward",
    "batch_norm_inference",
]


class Cache(NamedTuple):
    """What the forward pass keeps for the backward pass, in float64.

    ``x_hat`` has the shape of ``x`` and costs 8 bytes a value; ``inv_std``,
    ``mean`` and ``var`` have the shape of the axes that are not averaged over.
    """

    x_hat: Array
    inv_std: Array
    mean: Array
    var: Array
    gamma: Array | None
    eps: float
    axes: tuple[int, ...]
    beta: Array | None


class BackwardSteps(NamedTuple):
    """The six gradients of the chain rule, in the order in which they are found."""

    dx_hat: Array
    dvar: Array
    dmean: Array
    dx: Array
    dgamma: Array | None
    dbeta: Array | None


@_arrays.silently()
def batch_norm_forward(
    x: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
    *,
    axes: int | tuple[int, ...] | None = None,
) -> tuple[Array, Cache]:
    """Normalise a batch with its own statistics: y = gamma * x_hat + beta.

    Parameters
    ----------
    x : array, shape (m, C) or (N, C, *spatial), any real floating dtype
        float64 values beyond about 1e150 overflow the variance.
    gamma, beta : arrays, optional
        Scale and shift, shape (C,); None means 1 and 0. With other ``axes``, give
        either one value per feature, or an array of as many axes as ``x`` that
        broadcasts against it. Features lie on axis 1, or on the only axis kept if
        axis 0 is averaged over.
    eps : float, at least 0
        Added to the variance, inside the root. With 0, a constant feature
        gives NaN (0/0).
    axes : int or tuple of int, optional
        The axes to average over; None means all but axis 1. ``(1,)`` of (m, C)
        is layer norm, ``(2, 3)`` of (N, C, H, W) instance norm, and ``(2, 3, 4)``
        of (N, G, C // G, H, W) group norm.

    Returns
    -------
    y : array
        Shape and dtype of ``x``.
    cache : Cache
        What the backward pass needs.

    Raises
    ------
    TypeError
        If ``x``, ``gamma`` or ``beta`` is no NumPy array or torch tensor, the two are
        mixed, a dtype is not real and floating, ``eps`` is no number, or ``axes``
        no integers.
    ValueError
        If shapes or devices do not fit, ``x`` lacks one of ``axes``, a feature has
        fewer than two values, or ``eps`` is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache = batch_norm_forward(np.array([[1.0], [3.0]]), eps=0.0)
    >>> y.ravel().tolist(), cache.mean.tolist(), cache.var.tolist()
    ([-1.0, 1.0], [2.0], [1.0])

    References
    ----------
    Chapter 02, "The transform"; Ioffe and Szegedy 2015, algorithm 1.
    """
    xp = _arrays.namespace({"gamma": gamma, "beta": beta}, x=x)
    _checks.check_number("eps", eps, 0)
    axes = _arrays.averaged_axes(x, axes)
    _checks.check_training_count("x", x, axes)
    scale = _broadcast("gamma", gamma, x.shape, axes)
    shift = _broadcast("beta", beta, x.shape, axes)
    y, x_hat, *statistics = normalise(x, scale, shift, eps, axes)
    shape = _arrays.kept(x.shape, axes)
    inv_std, mean, var = (xp.reshape(s, shape) for s in statistics)
    return y, Cache(x_hat, inv_std, mean, var, gamma, eps, axes, beta)


def normalise(x, scale, shift, eps, axes):
    """Return y, x_hat, inv_std, mean and var of a batch, without any check.

    Parameters
    ----------
    x : array, any shape and real floating dtype
    scale, shift : arrays of float64 that broadcast against ``x``, or None
    eps : float, at least 0
    axes : tuple of int
        Those averaged over, from 0.

    Returns
    -------
    y : array
        Shape and dtype of ``x``.
    x_hat : array of float64, shape of ``x``
    inv_std, mean, var : arrays of float64
        They keep the averaged axes with size 1.

    Examples
    --------
    >>> import numpy as np
    >>> y, _, _, mean, var = normalise(np.array([[1.0], [3.0]]), None, None, 0, (0,))
    >>> y.tolist(), mean.tolist(), var.tolist()
    ([[-1.0], [1.0]], [[2.0]], [[1.0]])

    References
    ----------
    Chapter 02, "The transform".
    """
    xp = compat.array_namespace(x)
    mean, deviations, var = centre(x, axes)  # (1, C), (m, C), (1, C)
    inv_std = 1 / xp.sqrt(var + eps)  # (1, C)
    x_hat = deviations * inv_std  # (m, C)
    y = _affine(x_hat, scale, shift)  # (m, C)
    # A caller may change y in place, so y must not be the cache's array.
    y = xp.astype(y, x.dtype, copy=y is x_hat)
    return y, x_hat, inv_std, mean, var


@_arrays.silently()
def batch_norm_backward(
    dy: Array, cache: Cache
) -> tuple[Array, Array | None, Array | None]:
    """Return the gradients of a loss by the compact formula.

    With ``g = gamma * dy`` and averages over the batch,
    ``dx = inv_std * (g - mean(g) - x_hat * mean(g * x_hat))``.

    Parameters
    ----------
    dy : array
        Gradient of the loss with respect to ``y``, shape of ``y``.
    cache : Cache
        From `batch_norm_forward`.

    Returns
    -------
    dx : array
        Shape and dtype of ``dy``.
    dgamma, dbeta : arrays or None
        Shape and dtype of ``gamma`` and ``beta``; None if the parameter was None.

    Raises
    ------
    TypeError
        If ``cache`` is no Cache, or ``dy`` is no real floating array of the library
        of ``y``.
    ValueError
        If ``dy`` has another shape or device than ``y``.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache = batch_norm_forward(np.array([[0.0], [1.0], [5.0]]))
    >>> dx, dgamma, dbeta = batch_norm_backward(np.ones((3, 1)), cache)
    >>> float(abs(dx).max()) < 1e-15, dgamma is None
    (True, True)

    References
    ----------
    Chapter 03, "Backpropagation".
    """
    xp, upstream = _check_upstream(dy, cache)
    g, inv_std = _scaled(upstream, cache), _expand(xp, cache.inv_std, cache)
    dx = input_gradient(g, cache.x_hat, inv_std, cache.axes)
    return xp.astype(dx, dy.dtype, copy=False), *_parameter_gradients(upstream, cache)


def input_gradient(g, x_hat, inv_std, axes):
    """Return dx from ``g``, the gradient with respect to x_hat, without any check.

    Parameters
    ----------
    g, x_hat : arrays of float64, of one shape
    inv_std : array of float64
        It keeps the averaged axes with size 1.
    axes : tuple of int
        Those averaged over, from 0.

    Returns
    -------
    array of float64, shape of ``g``

    Examples
    --------
    >>> import numpy as np
    >>> g, x_hat = np.array([[1.0], [0.0]]), np.array([[-1.0], [1.0]])
    >>> input_gradient(g, x_hat, np.ones((1, 1)), (0,)).tolist()
    [[0.0], [0.0]]

    References
    ----------
    Chapter 03, the compact form.
    """
    xp = compat.array_namespace(g)
    count = math.prod(g.shape[axis] for axis in axes)

    def average(values):
        return xp.sum(values, axis=axes, keepdims=True) / count  # (1, C)

    return inv_std * (g - average(g) - x_hat * average(g * x_hat))  # (m, C)


@_arrays.silently()
def batch_norm_backward_steps(dy: Array, cache: Cache) -> BackwardSteps:
    """Return the gradients of `batch_norm_backward` by the chain rule, step by step.

    Parameters
    ----------
    dy : array
        Gradient of the loss with respect to ``y``, shape of ``y``.
    cache : Cache
        From `batch_norm_forward`.

    Returns
    -------
    BackwardSteps
        ``dx_hat`` and ``dx`` have the shape and dtype of ``dy``, ``dvar`` and
        ``dmean`` those of the statistics; ``dgamma`` and ``dbeta`` are as in
        `batch_norm_backward`.

    Raises
    ------
    TypeError, ValueError
        As `batch_norm_backward`.

    Examples
    --------
    >>> import numpy as np
    >>> x, dy = np.array([[0.0], [1.0], [5.0]]), np.array([[1.0], [0.0], [0.0]])
    >>> y, cache = batch_norm_forward(x)
    >>> steps = batch_norm_backward_steps(dy, cache)
    >>> bool(np.allclose(steps.dx, batch_norm_backward(dy, cache)[0]))
    True

    References
    ----------
    Ioffe and Szegedy 2015, section 3; chapter 03, "Backpropagation".
    """
    xp, upstream = _check_upstream(dy, cache)
    axes, shape = cache.axes, cache.mean.shape
    count = math.prod(dy.shape[axis] for axis in axes)
    inv_std = _expand(xp, cache.inv_std, cache)  # (1, C)
    deviations = cache.x_hat / inv_std  # (m, C)

    def total(values):
        return xp.sum(values, axis=axes, keepdims=True)  # (1, C)

    dx_hat = _scaled(upstream, cache)  # (m, C)
    dvar = total(dx_hat * deviations) * -0.5 * inv_std**3  # (1, C)
    dmean = -inv_std * total(dx_hat) - dvar * 2 * total(deviations) / count  # (1, C)
    dx = dx_hat * inv_std + dvar * 2 * deviations / count + dmean / count  # (m, C)
    return BackwardSteps(
        xp.astype(dx_hat, dy.dtype, copy=dx_hat is dy),
        xp.reshape(dvar, shape),
        xp.reshape(dmean, shape),
        xp.astype(dx, dy.dtype, copy=False),
        *_parameter_gradients(upstream, cache),
    )


@_arrays.silently()
def batch_norm_inference(
    x: Array,
    mean: Array,
    var: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """Normalise with given statistics: each example is mapped by itself.

    Parameters
    ----------
    x : array, shape (m, C) or (N, C, *spatial), any real floating dtype
        May be empty.
    mean, var : arrays, shape (C,)
        Population or running statistics. They may also have as many axes as ``x``.
    gamma, beta : arrays, shape (C,), optional
        Scale and shift; None means 1 and 0.
    eps : float, at least 0

    Returns
    -------
    array
        Shape and dtype of ``x``.

    Raises
    ------
    TypeError
        If an array is no NumPy array or torch tensor, the two are mixed, a dtype is
        not real and floating, or ``eps`` is no number.
    ValueError
        If shapes or devices do not fit, or ``eps`` is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> mean, var = np.array([1.0]), np.array([4.0])
    >>> batch_norm_inference(np.array([[5.0]]), mean, var, eps=0.0).item()
    2.0

    References
    ----------
    Chapter 04, "Inference"; Ioffe and Szegedy 2015, algorithm 2.
    """
    given = {"gamma": gamma, "beta": beta}
    _arrays.check_arrays(given, x=x, mean=mean, var=var)
    _checks.check_number("eps", eps, 0)
    axes = _arrays.averaged_axes(x, None)
    mean = _broadcast("mean", mean, x.shape, axes)
    var = _broadcast("var", var, x.shape, axes)
    scale = _broadcast("gamma", gamma, x.shape, axes)
    shift = _broadcast("beta", beta, x.shape, axes)
    return normalise_with(x, mean, var, scale, shift, eps)


def normalise_with(x, mean, var, scale, shift, eps):
    """Return y for given statistics, without any check.

    Parameters
    ----------
    x : array, any shape and real floating dtype
    mean, var : arrays of float64 that broadcast against ``x``
    scale, shift : such arrays, or None
    eps : float, at least 0

    Returns
    -------
    array
        Shape and dtype of ``x``.

    Examples
    --------
    >>> import numpy as np
    >>> x, one = np.array([[1.0], [3.0]]), np.ones((1, 1))
    >>> normalise_with(x, one, 4 * one, None, None, 0).tolist()
    [[0.0], [1.0]]

    References
    ----------
    Chapter 04, "Inference".
    """
    xp = compat.array_namespace(x)
    x_hat = (_arrays.upcast(x) - mean) / xp.sqrt(var + eps)  # (m, C)
    return xp.astype(_affine(x_hat, scale, shift), x.dtype, copy=False)


def _broadcast(name, parameter, shape, axes):
    """Return the parameter in float64, shaped to broadcast; None stays None."""
    if parameter is None:
        return None
    xp = compat.array_namespace(parameter)
    size = _arrays.parameter_shape(name, parameter, shape, axes)
    return xp.reshape(_arrays.upcast(parameter), size)


def _affine(x_hat, scale, shift):
    scaled = x_hat if scale is None else x_hat * scale
    return scaled if shift is None else scaled + shift


def _check_upstream(dy, cache):
    if not isinstance(cache, Cache):
        raise TypeError(
            f"cache is a {type(cache).__name__}: give the Cache that "
            "batch_norm_forward returned"
        )
    xp = _arrays.namespace(dy=dy, x_hat=cache.x_hat)
    if dy.shape != cache.x_hat.shape:
        raise ValueError(
            f"dy has shape {tuple(dy.shape)}: give that of y, "
            f"{tuple(cache.x_hat.shape)}"
        )
    return xp, _arrays.upcast(dy)


def _scaled(upstream, cache):
    scale = _broadcast("gamma", cache.gamma, upstream.shape, cache.axes)
    return upstream if scale is None else upstream * scale


def _expand(xp, statistic, cache):
    return xp.reshape(statistic, _arrays.kept_as_ones(cache.x_hat.shape, cache.axes))


def _parameter_gradients(upstream, cache):
    return (
        _summed_to("gamma", cache.gamma, upstream * cache.x_hat, cache.axes),
        _summed_to("beta", cache.beta, upstream, cache.axes),
    )


def _summed_to(name, parameter, gradient, axes):
    """Sum a gradient over the axes along which the parameter was broadcast."""
    if parameter is None:
        return None
    xp = compat.array_namespace(gradient)
    size = _arrays.parameter_shape(name, parameter, gradient.shape, axes)
    summed = tuple(axis for axis, length in enumerate(size) if length == 1)
    if summed:
        gradient = xp.sum(gradient, axis=summed)
    return xp.astype(
        xp.reshape(gradient, parameter.shape), parameter.dtype, copy=not summed
    )
