"""Linear classifiers through the origin: loss, margins, and where flows lead."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from bnlib import _arrays, _checks
from bnlib.implicit_bias import _arguments, _norms
from bnlib.problems import halfspace_rows

# The least margin divided by the largest row: below it the solution is only rounding.
_LEAST_MARGIN = 1e-6
_TIGHT = 1e-8


class MaxMargin(NamedTuple):
    """The hard-margin classifier through the origin.

    ``weights`` is the shortest w with ``rows @ w >= 1``, ``direction`` its direction
    and ``margin`` the largest margin of a unit vector, ``1 / |weights|``. The ``duals``
    are at least 0, and ``duals @ rows = weights``.
    """

    weights: np.ndarray
    direction: np.ndarray
    margin: float
    duals: np.ndarray


class L1Margin(NamedTuple):
    """A vector of l1 length 1 with the largest margin, and that margin."""

    direction: np.ndarray
    margin: float


def signed_rows(X: ArrayLike, y: ArrayLike) -> np.ndarray:
    """Return the rows ``y_n x_n``: a linear model has margins ``rows @ w``.

    They are minus the rows of `bnlib.halfspaces.halfspace_rows`, whose losses increase.

    Parameters
    ----------
    X : array, shape (n, d)
    y : array, shape (n,)
        Labels -1 and 1, both present.

    Returns
    -------
    array, shape (n, d)

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit, a value is not finite, a label is not -1 or 1, or
        all labels are equal.

    Examples
    --------
    >>> signed_rows([[1.0, 2.0], [3.0, 4.0]], [1, -1]).tolist()
    [[1.0, 2.0], [-3.0, -4.0]]

    References
    ----------
    Chapter 11, "Margins".
    """
    X, y = _arguments.examples(X, y)
    return -halfspace_rows(X, y)


def log_loss(rows: ArrayLike, w: ArrayLike) -> tuple[float, np.ndarray]:
    """Return log L and minus its gradient, for the exponential loss.

    ``L(w)`` is the sum of ``exp(-rows @ w)``; its logarithm is finite even if L
    overflows or underflows.

    Parameters
    ----------
    rows : array, shape (n, d)
    w : array, shape (d,)

    Returns
    -------
    value : float
        log L(w).
    descent : array, shape (d,)
        Minus the gradient of log L.

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit or a value is not finite.

    Examples
    --------
    >>> value, descent = log_loss([[1.0, 0.0]], [1000.0, 0.0])
    >>> float(value), descent.tolist()
    (-1000.0, [1.0, 0.0])

    References
    ----------
    Chapter 11, "Margins".
    """
    rows = _checks.finite_array("rows", rows, 2)
    w = _arguments.weights_of(rows, w, ndim=1)
    value, shares = log_sum(rows @ w)
    return value, shares @ rows


def log_sum(margins):
    """Return the log of the sum of exp(-margin), and each term's share of the sum."""
    least = margins.min()
    terms = np.exp(least - margins)
    total = terms.sum()
    return np.log(total) - least, terms / total


def normalised_margins(rows: ArrayLike, w: ArrayLike, p: float = 2) -> np.ndarray:
    """Return the margins ``rows @ w / |w|_p``.

    Parameters
    ----------
    rows : array, shape (n, d)
    w : array, shape (..., d)
    p : float, at least 1

    Returns
    -------
    array, shape (..., n)

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit, a w is zero, or p is below 1.

    Examples
    --------
    >>> normalised_margins([[1.0, 2.0]], [[0.0, 3.0], [2.0, 2.0]], p=1).tolist()
    [[2.0], [1.5]]

    References
    ----------
    Chapter 11, "Margins".
    """
    rows = _checks.finite_array("rows", rows, 2)
    w = _arguments.weights_of(rows, w)
    _arguments.exponent(p)
    if (w == 0).all(axis=-1).any():
        raise ValueError("w is zero: it has no direction")
    return _norms.directions(w, p) @ rows.T


def angle(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Return the angle between vectors, to full relative precision even if it is tiny.

    Parameters
    ----------
    a, b : arrays, shapes (..., d), that broadcast

    Returns
    -------
    array, shape (...)
        In radians, from 0 to pi.

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit or a vector is zero.

    Examples
    --------
    >>> float(angle([1.0, 0.0], [1.0, 1e-12]))
    1e-12

    References
    ----------
    Kahan 2006, "How futile are mindless assessments of roundoff", section 12;
    chapter 11, "Margins".
    """
    a, b = _checks.finite_array("a", a), _checks.finite_array("b", b)
    for name, vector in (("a", a), ("b", b)):
        if vector.ndim == 0 or (vector == 0).all(axis=-1).any():
            raise ValueError(f"{name} is zero or no vector: it has no direction")
    a, b = _norms.directions(a), _norms.directions(b)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"a has length {a.shape[-1]} and b {b.shape[-1]}")
    apart, together = _norms.lengths(a - b), _norms.lengths(a + b)
    return 2 * np.arctan2(apart, together)


@_arrays.silently()
def max_margin(rows: ArrayLike) -> MaxMargin:
    """Return the hard-margin classifier through the origin.

    It is the solution of a problem of non-negative least squares, exact up to rounding;
    gradient descent plays no part.

    Parameters
    ----------
    rows : array, shape (n, d)
        ``y_n x_n``.

    Returns
    -------
    MaxMargin

    Raises
    ------
    TypeError, ValueError
        If ``rows`` is no finite array of two axes, or no w has ``rows @ w > 0`` with a
        margin of at least 1e-6 of the longest row.

    Examples
    --------
    >>> found = max_margin([[1.0, 1.0], [1.0, -1.0], [3.0, 0.0]])
    >>> found.margin, found.duals.round(12).tolist()
    (1.0, [0.5, 0.5, 0.0])

    References
    ----------
    Lawson and Hanson 1974, *Solving least squares problems*, chapter 23; chapter
    11, "Margins".
    """
    rows = _checks.finite_array("rows", rows, 2)
    scale = _norms.lengths(rows).max()
    if scale == 0:
        raise ValueError("rows are all zero: nothing separates them")
    scaled = rows / scale
    system = np.vstack([scaled.T, np.ones(len(rows))])
    target = np.append(np.zeros(rows.shape[1]), 1.0)
    shares, residual = optimize.nnls(system, target)
    # The squared residual is m^2 / (1 + m^2) for a margin m.
    used = shares > 0
    if residual**2 > _LEAST_MARGIN**2:
        # The active rows are independent: solving with them removes rounding errors.
        weights = np.linalg.lstsq(scaled[used], np.ones(used.sum()))[0]
        if (scaled @ weights).min() > 1 - _TIGHT:
            duals = np.zeros(len(rows))
            duals[used] = np.linalg.lstsq(scaled[used].T, weights)[0]
            length = np.linalg.norm(weights)
            return MaxMargin(
                weights / scale,
                weights / length,
                float(scale / length),
                duals / scale / scale,
            )
    raise ValueError(
        "rows are not linearly separable: no w has rows @ w > 0, or only with a margin "
        f"below {_LEAST_MARGIN:g} of the longest row"
    )


def max_l1_margin(rows: ArrayLike) -> L1Margin:
    """Return a vector of l1 length 1 with the largest margin, by a linear program.

    Parameters
    ----------
    rows : array, shape (n, d)

    Returns
    -------
    L1Margin
        Several directions may have the margin; one of them is returned.

    Raises
    ------
    TypeError, ValueError
        If the rows are not linearly separable.

    Examples
    --------
    >>> found = max_l1_margin([[2.0, 1.0], [2.0, -1.0]])
    >>> found.direction.tolist(), found.margin
    ([1.0, 0.0], 2.0)

    References
    ----------
    Rosset, Zhu and Hastie 2004, "Boosting as a regularized path to a maximum margin
    classifier"; chapter 11, "Margins".
    """
    rows = _checks.finite_array("rows", rows, 2)
    n, d = rows.shape
    scale = np.abs(rows).max() or 1.0
    # Unknown: the positive part, the negative part, and the margin to be raised.
    constraints = np.hstack([-rows / scale, rows / scale, np.ones((n, 1))])
    found = optimize.linprog(
        np.append(np.zeros(2 * d), -1.0),
        A_ub=constraints,
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(2 * d), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * (2 * d) + [(None, None)],
    )
    if not found.success or found.x[-1] < _LEAST_MARGIN:
        raise ValueError(
            "rows are not linearly separable: no w has rows @ w > 0, or only with a "
            f"margin below {_LEAST_MARGIN:g} of the largest entry"
        )
    direction = found.x[:d] - found.x[d : 2 * d]
    return L1Margin(direction, float((rows @ direction).min()))


def limit_offset(rows: ArrayLike) -> np.ndarray:
    """Return the constant part of a flow's w(t), at right angles to the limit.

    If the rows nearest to the boundary have positive duals, gradient flow of the
    exponential loss has ``w(t) = w_hat log t + r + o(1)``, where w_hat is
    ``max_margin(rows).weights``. If these rows span the space, they alone determine the
    part of r at right angles to w_hat: it is the vector q at right angles to w_hat that
    minimises their sum of ``exp(-rows @ q)``. The angle between w(t) and w_hat, times
    log t, tends to the length of q times the margin.

    Parameters
    ----------
    rows : array, shape (n, d)

    Returns
    -------
    array, shape (d,)

    Raises
    ------
    TypeError, ValueError
        If the rows are not separable, the nearest ones do not span the space, or
        no choice of duals is positive on all of them.

    Examples
    --------
    >>> a, b = 0.3, 1.2
    >>> offset = limit_offset([[1.0, a], [1.0, -b]])
    >>> np.allclose(offset, [0.0, np.log(a / b) / (a + b)], atol=1e-12)
    True

    References
    ----------
    Soudry et al. 2018, "The implicit bias of gradient descent on separable data";
    chapter 11, "Margins".
    """
    rows = _checks.finite_array("rows", rows, 2)
    best = max_margin(rows)
    near = rows[rows @ best.weights < 1 + 1e-7] * np.linalg.norm(best.weights)
    across = np.linalg.svd(best.direction[None])[2][1:]
    if np.linalg.matrix_rank(near) < rows.shape[1]:
        raise ValueError(
            f"the rows nearest to the boundary span {np.linalg.matrix_rank(near)} of "
            f"{rows.shape[1]} dimensions: the offset depends on the start too"
        )
    if not len(across):
        return np.zeros(1)
    near = near @ across.T

    def slope(x):
        _, shares = log_sum(near @ x)
        mean = shares @ near
        return mean, np.outer(mean, mean) - (near.T * shares) @ near

    found = optimize.root(slope, np.zeros(len(across)), jac=True, tol=1e-14)
    _, shares = log_sum(near @ found.x)
    if np.abs(shares @ near).max() > 1e-9 * np.abs(near).max() or shares.min() < 1e-9:
        raise ValueError(
            "no choice of duals is positive on all rows nearest to the boundary: the "
            "offset is not finite"
        )
    return found.x @ across * np.linalg.norm(best.weights)
