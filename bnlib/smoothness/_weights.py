"""What the identities say about a unit's weights: the worst input, and the start."""

from typing import NamedTuple

from bnlib import _arrays, _checks
from bnlib._arrays import Array
from bnlib.smoothness._identities import gradient_terms, plain
from bnlib.transform import Cache


class WorstCase(NamedTuple):
    """The largest squared gradient of a unit's weights, by the min-max argument.

    ``plain`` is without batch normalization, ``normalised`` with it, for the same
    upstream gradient; one number per unit, in float64.
    """

    plain: Array
    normalised: Array


class ClosestOptimum(NamedTuple):
    """The multiple of an optimum that is closest to a start.

    ``point`` is ``scale`` times the optimum, with one scale per row; ``squared`` and
    ``squared_plain`` are the squared distances of the start from ``point`` and from the
    optimum itself, both floats.
    """

    scale: Array
    point: Array
    squared: float
    squared_plain: float


def worst_case(dy: Array, cache: Cache, radius: float) -> WorstCase:
    """Bound the gradient of a unit's weights over all inputs up to a size.

    For ``x = X w`` that gradient is ``X^T dx``. ``X`` varies over all matrices of norm
    at most ``radius`` (spectral or Frobenius), while the upstream gradient, the
    standard deviation and ``x_hat`` are held fixed. The largest squared norms are then
    ``radius^2 |dy|^2`` without batch normalization and ``radius^2 |dx|^2`` with it.

    Parameters
    ----------
    dy, cache
        As `gradient_terms`.
    radius : float, at least 0

    Returns
    -------
    WorstCase

    Raises
    ------
    TypeError, ValueError
        As `gradient_terms`; also if the radius is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import bnlib
    >>> y, cache = bnlib.batch_norm_forward(np.array([[0.0], [1.0], [5.0]]))
    >>> case = worst_case(np.ones((3, 1)), cache, radius=2.0)
    >>> case.plain.tolist(), float(abs(case.normalised).max()) < 1e-12
    ([12.0], True)

    References
    ----------
    Chapter 06, "Smoothness"; Santurkar et al. 2018, theorem 4.4.
    """
    _checks.check_number("radius", radius, 0)
    terms = gradient_terms(dy, cache)
    return WorstCase(radius**2 * terms.upstream, radius**2 * terms.squared_norm)


def closest_optimum(start: Array, optimum: Array) -> ClosestOptimum:
    """Return the positive multiple of an optimum that is closest to a start.

    With batch normalization at ``eps = 0`` every positive multiple of a unit's
    optimal weights is optimal. Each row of a matrix is a unit and has its own scale.

    Parameters
    ----------
    start, optimum : arrays, shape (d,) or (units, d)

    Returns
    -------
    ClosestOptimum

    Raises
    ------
    TypeError
        If an argument is no NumPy array or torch tensor of floats, or they mix.
    ValueError
        If the shapes differ, values are not finite, or the inner product of a row of
        the start with that of the optimum is not positive: the closest multiple is then
        0, which batch normalization does not accept.

    Examples
    --------
    >>> import numpy as np
    >>> closest = closest_optimum(np.array([1.0, 1.0]), np.array([4.0, 0.0]))
    >>> closest.scale.item(), closest.squared, closest.squared_plain
    (0.25, 1.0, 10.0)

    References
    ----------
    Chapter 06, "Smoothness"; Santurkar et al. 2018, lemma 4.5.
    """
    xp = _arrays.namespace(start=start, optimum=optimum)
    if start.shape != optimum.shape or start.ndim not in (1, 2) or 0 in start.shape:
        raise ValueError(
            f"start has shape {tuple(start.shape)} and optimum "
            f"{tuple(optimum.shape)}: give (d,) or (units, d) for both"
        )
    start, optimum = plain(start), plain(optimum)
    for name, array in (("start", start), ("optimum", optimum)):
        if not bool(xp.all(xp.isfinite(array))):
            raise ValueError(f"{name} has values that are not finite")
    with _arrays.silently():
        inner = xp.sum(start * optimum, axis=-1, keepdims=True)
        square = xp.sum(optimum * optimum, axis=-1, keepdims=True)
    if not bool(xp.all(xp.isfinite(inner) & xp.isfinite(square))):
        raise ValueError("start and optimum are too large: their products overflow")
    if not bool(xp.all(inner > 0)):
        raise ValueError(
            f"the inner product of start and optimum is {float(xp.min(inner)):.3g}: "
            "it must be above 0 in every row"
        )
    scale = inner / square
    point = scale * optimum
    squared, squared_plain = (
        float(((start - place) ** 2).sum()) for place in (point, optimum)
    )
    return ClosestOptimum(scale[..., 0], point, squared, squared_plain)
