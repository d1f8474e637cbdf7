"""p-norms of any exponent, their tangent projections, and flows on their spheres."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bnlib import _checks
from bnlib.implicit_bias import _arguments
from bnlib.implicit_bias._integrate import MOST_EVALUATIONS, integrate


class TangentFlow(NamedTuple):
    """A flow on a sphere: ``points`` has one entry for each of ``times``.

    ``drift`` is the largest change of the norm, which is constant in exact arithmetic.
    ``stop_reason`` is "reached", or says where the integration gave up.
    """

    times: np.ndarray
    points: np.ndarray
    drift: float
    stop_reason: str


def lengths(w, p=2):
    """Return the p-norms along the last axis, of arrays of any magnitude."""
    largest = np.abs(w).max(axis=-1, keepdims=True)
    scaled = np.abs(w) / np.where(largest == 0, 1, largest)
    return largest[..., 0] * (scaled**p).sum(axis=-1) ** (1 / p)


def directions(w, p=2):
    """Return w divided by its p-norm, along the last axis."""
    largest = np.abs(w).max(axis=-1, keepdims=True)
    scaled = w / largest
    return scaled / lengths(scaled, p)[..., None]


def _point(name, V, p):
    _arguments.exponent(p)
    V = _checks.finite_array(name, V)
    if not V.any():
        raise ValueError(f"{name} is zero: its norm has no gradient there")
    return V


def norm_gradient(V: ArrayLike, p: float = 2) -> np.ndarray:
    """Return the gradient of the entrywise norm ``|V|_p``.

    Parameters
    ----------
    V : array, any shape
    p : float, at least 1
        At p = 1 the norm has a kink where an entry is 0; the slope there counts as 0.

    Returns
    -------
    array, the shape of V

    Raises
    ------
    TypeError, ValueError
        If V is zero or p is below 1 or not finite.

    Examples
    --------
    >>> [norm_gradient([3.0, -4.0], p).round(12).tolist() for p in (1, 2)]
    [[1.0, -1.0], [0.6, -0.8]]

    References
    ----------
    Poggio, Banburski and Liao 2019; chapter 12, "Weight normalization".
    """
    return _normal(_point("V", V, p), p)


def tangent_projection(V: ArrayLike, g: ArrayLike, p: float = 2) -> np.ndarray:
    """Return g minus its part along the gradient of ``|V|_p``.

    A flow ``dV/dt = tangent_projection(V, g)`` keeps the norm.

    Parameters
    ----------
    V, g : arrays of one shape
    p : float, at least 1

    Returns
    -------
    array, the same shape

    Raises
    ------
    TypeError, ValueError
        If the shapes differ, V is zero, or p is below 1 or not finite.

    Examples
    --------
    >>> tangent_projection([0.0, 2.0], [3.0, 5.0]).tolist()
    [3.0, 0.0]

    References
    ----------
    Poggio, Banburski and Liao 2019; chapter 12, "Weight normalization".
    """
    V, g = _point("V", V, p), _checks.finite_array("g", g)
    if g.shape != V.shape:
        raise ValueError(f"V has shape {V.shape} and g {g.shape}: give equal ones")
    return _projected(V, g, p)


def _projected(V, g, p):
    normal = _normal(V, p)
    return g - normal * ((normal * g).sum() / (normal**2).sum())


def _normal(V, p):
    unit = directions(V.ravel(), p).reshape(V.shape)
    return np.sign(unit) * np.abs(unit) ** (p - 1)


def tangent_flow(
    force: Callable[[np.ndarray], np.ndarray],
    start: ArrayLike,
    times: ArrayLike,
    p: float = 2,
    *,
    max_evaluations: int = MOST_EVALUATIONS,
) -> TangentFlow:
    """Follow the flow in which ``dV/dt`` is the tangent projection of ``force(V)``.

    Parameters
    ----------
    force : callable
        Takes an array of the start's shape and returns one.
    start : array, any shape, not zero
        The point at time 0.
    times : array, shape (T,)
        Increasing times, 0 or later.
    p : float, at least 1
    max_evaluations : int
        The number of evaluations of the force after which the integration gives up.

    Returns
    -------
    TangentFlow

    Raises
    ------
    TypeError, ValueError
        If the start is zero, the times do not increase or begin before 0, the force has
        another shape than the start, or p is below 1 or not finite.

    Examples
    --------
    >>> flow = tangent_flow(lambda V: [1.0, 0.0], [0.0, 1.0], [0.0, 1.0, 5.0])
    >>> np.allclose(flow.points[:, 0], np.tanh(flow.times), atol=1e-9)
    True

    References
    ----------
    Poggio, Banburski and Liao 2019; chapter 12, "Weight normalization".
    """
    start = _point("start", start, p)
    times = _arguments.increasing("times", times)
    _checks.check_number("times[0]", float(times[0]), 0)
    _checks.check_integer("max_evaluations", max_evaluations, 1)

    tangent_projection(start, force(start), p)  # checks the force

    def rate(_, flat):
        V = flat.reshape(start.shape)
        return _projected(V, np.asarray(force(V)), p).ravel()

    states, place, reason = integrate(rate, start.ravel(), times, max_evaluations)
    norms = lengths(np.vstack([start.ravel(), states]), p)
    drift = float(np.abs(norms - norms[0]).max())
    points = states.reshape(-1, *start.shape)
    if reason != "reached":
        reason = f"gave up: {reason} at time {place:.6g}"
    return TangentFlow(times[: len(points)], points, drift, reason)
