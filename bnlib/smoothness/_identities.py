"""Gradient and curvature before batch normalization, from those after it."""

from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from bnlib import _arrays, transform
from bnlib._arrays import Array
from bnlib.transform import Cache


class GradientTerms(NamedTuple):
    """The terms of the squared norm of a loss's gradient, unit by unit.

    ``factor`` is ``gamma**2 / (var + eps)`` and ``upstream`` the squared norm of
    ``dy``; batch normalization subtracts ``along_ones`` and ``along_x_hat``. Each has
    the shape of the statistics and is in float64.
    """

    factor: Array
    upstream: Array
    along_ones: Array
    along_x_hat: Array

    @property
    def squared_norm(self) -> Array:
        """The squared norm of the gradient with respect to ``x``."""
        return self.factor * (self.upstream - self.along_ones - self.along_x_hat)


class CurvatureTerms(NamedTuple):
    """The second derivative of a loss along a direction ``v``, in two parts.

    ``downstream`` comes from the loss's curvature after batch normalization, a float.
    ``by_scale`` is subtracted because of the division by the standard deviation, one
    number per unit.
    """

    downstream: float
    by_scale: Array

    @property
    def total(self) -> Array:
        """The second derivative along ``v``, a float."""
        return self.downstream - float(self.by_scale.sum())


class _Units:
    """The units of a layer at one batch, with the operations of all identities."""

    def __init__(self, cache, **arrays):
        for name, array in arrays.items():
            _check_like_output(name, array, cache)
        self.axes, self.x_hat = cache.axes, _arrays.detached(cache.x_hat)
        self.xp = compat.array_namespace(self.x_hat)
        self.count = _arrays.values_averaged("x_hat", self.x_hat, self.axes)
        self.shape = _arrays.kept(self.x_hat.shape, self.axes)
        ones = _arrays.kept_as_ones(self.x_hat.shape, self.axes)
        self.inv_std = self.xp.reshape(_arrays.detached(cache.inv_std), ones)
        self.eps_share = cache.eps * self.inv_std**2
        self.scale = self._scale(cache)

    def _scale(self, cache):
        """Return gamma, one value per unit, shaped to broadcast."""
        if cache.gamma is None:
            return self.xp.ones_like(self.inv_std)
        shape = tuple(self.x_hat.shape)
        size = _arrays.parameter_shape("gamma", cache.gamma, shape, cache.axes)
        if any(size[axis] > 1 for axis in cache.axes):
            raise ValueError(
                f"gamma has shape {tuple(cache.gamma.shape)} and varies along the axes "
                f"averaged over, {cache.axes}: give one value a unit"
            )
        return self.xp.reshape(plain(cache.gamma), size)

    def inner(self, a, b):
        """Return the inner product of each unit's values, shaped to broadcast."""
        return self.xp.sum(a * b, axis=self.axes, keepdims=True)  # (1, C)

    def project(self, v):
        """Return P v: v minus its mean and minus its part along x_hat."""
        mean = self.xp.sum(v, axis=self.axes, keepdims=True) / self.count  # (1, C)
        return v - mean - self.x_hat * self.inner(v, self.x_hat) / self.count  # (m, C)

    def through(self, v):
        """Return gamma / s * P v: the derivative of y along v; the map is symmetric."""
        return self.scale * self.inv_std * self.project(v)  # (m, C)

    def per_unit(self, values):
        """Return one number per unit, in the shape of the statistics."""
        full = self.xp.broadcast_to(values, self.inv_std.shape)
        return self.xp.reshape(full, self.shape)


def plain(array):
    """Return the array in float64, without torch's record of where it came from."""
    return _arrays.upcast(_arrays.detached(array))


def _check_like_output(name, array, cache):
    """Raise unless the array has the shape, library and device of the output."""
    if not isinstance(cache, transform.Cache):
        raise TypeError(
            f"cache is a {type(cache).__name__}: give the Cache that "
            "batch_norm_forward returned"
        )
    _arrays.check_arrays(**{name: array, "x_hat": cache.x_hat})
    if tuple(array.shape) != tuple(cache.x_hat.shape):
        raise ValueError(
            f"{name} has shape {tuple(array.shape)}: give that of y, "
            f"{tuple(cache.x_hat.shape)}"
        )


@_arrays.silently()
def gradient_terms(dy: Array, cache: Cache) -> GradientTerms:
    """Split the squared norm of the gradient before batch normalization into terms.

    With ``s**2 = var + eps``, for each unit

    ``|dx|^2 = gamma^2/s^2 (|dy|^2 - sum(dy)^2/m - (1 + eps/s^2) (dy.x_hat)^2/m)``.

    Parameters
    ----------
    dy : array
        Gradient of the loss with respect to ``y``, shape of ``y``.
    cache : Cache
        From `bnlib.batch_norm_forward`; any axes, with one gamma a unit.

    Returns
    -------
    GradientTerms

    Raises
    ------
    TypeError, ValueError
        If ``cache`` is no Cache, ``dy`` has another library, device or shape than
        ``y``, or gamma varies within a unit.

    Examples
    --------
    >>> import numpy as np
    >>> import bnlib
    >>> y, cache = bnlib.batch_norm_forward(np.array([[0.0], [1.0], [5.0]]))
    >>> dy = np.array([[1.0], [0.0], [0.0]])
    >>> terms = gradient_terms(dy, cache)
    >>> dx, _, _ = bnlib.batch_norm_backward(dy, cache)
    >>> bool(np.allclose(terms.squared_norm, (dx**2).sum(axis=0)))
    True

    References
    ----------
    Chapter 06, "Smoothness"; Santurkar et al. 2018, theorem 4.1.
    """
    units = _Units(cache, dy=dy)
    delta = plain(dy)  # (m, C)
    along_ones = units.inner(delta, units.xp.ones_like(delta)) ** 2 / units.count
    along_x_hat = units.inner(delta, units.x_hat) ** 2 / units.count  # (1, C)
    return GradientTerms(
        units.per_unit((units.scale * units.inv_std) ** 2),
        units.per_unit(units.inner(delta, delta)),
        units.per_unit(along_ones),
        units.per_unit((1 + units.eps_share) * along_x_hat),
    )


@_arrays.silently()
def hessian_product(
    v: Array, dy: Array, cache: Cache, curvature: Callable[[Array], Array]
) -> Array:
    """Return the Hessian of the loss with respect to ``x``, times ``v``.

    For one unit, with ``H`` the Hessian with respect to ``y`` and ``r = P dy``, it is

    ``gamma^2/s^2 P H P - gamma/(m s^2) (x_hat r^T + r x_hat^T + (dy.x_hat) P)``.

    In a layer, ``H`` also couples the units; the second part does not.

    Parameters
    ----------
    v : array
        Shape of ``x``.
    dy : array
        Gradient of the loss with respect to ``y``, shape of ``y``.
    cache : Cache
        From `bnlib.batch_norm_forward`; any axes, with one gamma a unit.
    curvature : callable
        Takes an array of the shape of ``y`` and returns ``H`` times it.

    Returns
    -------
    array
        Shape of ``x``, in float64.

    Raises
    ------
    TypeError, ValueError
        As `gradient_terms`; also if ``v`` or the result of ``curvature`` does not fit
        ``y``, or ``curvature`` is no function.

    Examples
    --------
    >>> import numpy as np
    >>> import bnlib
    >>> y, cache = bnlib.batch_norm_forward(np.array([[0.0], [1.0], [5.0]]))
    >>> shifted = hessian_product(np.ones((3, 1)), y - 1, cache, lambda u: u)
    >>> float(abs(shifted).max()) < 1e-12
    True

    References
    ----------
    Chapter 06, "Smoothness"; Santurkar et al. 2018, theorem 4.2.
    """
    units = _Units(cache, v=v, dy=dy)
    v, delta = plain(v), plain(dy)
    curved = _curved(units, v, cache, curvature)  # (m, C)
    arrives = units.project(delta)  # (m, C)
    bend = units.x_hat * units.inner(arrives, v) + arrives * units.inner(units.x_hat, v)
    bend = bend + units.inner(delta, units.x_hat) * units.project(v)
    return units.through(curved) - units.scale * units.inv_std**2 / units.count * bend


@_arrays.silently()
def curvature_terms(
    v: Array, dy: Array, cache: Cache, curvature: Callable[[Array], Array]
) -> CurvatureTerms:
    """Split the second derivative of the loss along ``v``, a direction of ``x``.

    Parameters
    ----------
    v, dy, cache, curvature
        As `hessian_product`.

    Returns
    -------
    CurvatureTerms

    Raises
    ------
    TypeError, ValueError
        As `hessian_product`.

    Examples
    --------
    >>> import numpy as np
    >>> import bnlib
    >>> x = np.array([[0.0], [1.0], [5.0]])
    >>> y, cache = bnlib.batch_norm_forward(x, eps=0.0)
    >>> v, dy = np.array([[1.0], [0.0], [0.0]]), 2 * y
    >>> terms = curvature_terms(v, dy, cache, lambda u: 2 * u)
    >>> abs(terms.total) < 1e-12  # the loss, the sum of y**2, is constant
    True

    References
    ----------
    Chapter 06, "Smoothness".
    """
    units = _Units(cache, v=v, dy=dy)
    v, delta = plain(v), plain(dy)
    curved = _curved(units, v, cache, curvature)  # (m, C)
    along = units.inner(units.x_hat, v)  # (1, C)
    bend = 2 * along * units.inner(units.project(delta), v)
    bend = bend + units.inner(delta, units.x_hat) * units.inner(v, units.project(v))
    by_scale = units.scale * units.inv_std**2 / units.count * bend  # (1, C)
    downstream = float((units.through(v) * curved).sum())
    return CurvatureTerms(downstream, units.per_unit(by_scale))


def _curved(units, v, cache, curvature):
    """Return H times the derivative of y along v; raise unless it fits y."""
    if not callable(curvature):
        raise TypeError(f"curvature is {curvature!r}: give a function of an array")
    curved = curvature(units.through(v))
    _check_like_output("what curvature returned", curved, cache)
    return plain(curved)
