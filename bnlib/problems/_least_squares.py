"""Least squares, the first problem in which length and direction are separated."""

import math

from bnlib import _arrays, _checks
from bnlib._arrays import Array
from bnlib.problems._ray import Moments, RayProblem, s_norm


class LeastSquares(RayProblem):
    """The least squares problem f(w) = mean((y - X w)^2).

    With ``S = X^T X / n`` and ``u = -X^T y / n`` it is
    ``f(w) = 2 u.w + w.S w + mean(y^2)``. It is computed about its minimiser, as
    ``least + (w - best).S (w - best)``: the first form would lose digits there. A
    value or a gradient costs one product with S, a (d, d) matrix; the data are not
    kept.

    Parameters
    ----------
    X : array, shape (n, d), any real floating dtype
        One example per row. Converted to float64.
    y : array, shape (n,)

    Attributes
    ----------
    dim : int
        d.
    u, S : arrays, shapes (d,) and (d, d)
    mu, L : float
        The smallest and the largest eigenvalue of S.
    gradient_lipschitz : float
        2L.
    best : array, shape (d,)
        The minimiser; if there are several, the shortest one.
    least : float
        The value at the minimiser.

    Raises
    ------
    TypeError
        If X or y is no NumPy array or torch tensor of a real floating dtype.
    ValueError
        If the shapes do not fit, there are no data, X is zero, a value is not finite,
        or a product overflows.

    Examples
    --------
    >>> import numpy as np
    >>> problem = LeastSquares(np.eye(2), np.array([1.0, 2.0]))
    >>> round(problem.value(np.zeros(2)), 6), problem.gradient(np.zeros(2)).tolist()
    (2.5, [-1.0, -2.0])

    References
    ----------
    Kohler et al. 2019, section 3; chapter 08, "Length and direction".
    """

    def __init__(self, X: Array, y: Array):
        xp = _arrays.namespace(X=X, y=y)
        if X.ndim != 2 or y.ndim != 1 or len(X) != len(y) or 0 in X.shape:
            raise ValueError(
                f"X has shape {tuple(X.shape)} and y {tuple(y.shape)}: give (n, d) "
                "and (n,), neither n nor d being 0"
            )
        for name, array in (("X", X), ("y", y)):
            _checks.check_finite(name, array)
        X, y = (_arrays.double(array) for array in (X, y))
        self.dim = X.shape[1]
        with _arrays.silently():
            self.S = X.T @ X / len(X)  # (d, d)
            self.u = -(X.T @ y) / len(X)  # (d,)
            largest = float(xp.max(xp.abs(self.S))) + float(y @ y)
        if not math.isfinite(largest):
            raise ValueError("X and y are too large: X.T @ X or y @ y overflows")
        eigenvalues = xp.linalg.eigvalsh(self.S)
        self.mu, self.L = float(eigenvalues[0]), float(eigenvalues[-1])
        if self.L <= 0:
            raise ValueError("X is zero: every w has the same value")
        self.gradient_lipschitz = 2 * self.L
        self.best = xp.linalg.pinv(X) @ y  # (d,)
        residual = y - X @ self.best  # (n,)
        self.least = float(residual @ residual) / len(X)

    @property
    def lambda_1(self) -> float:
        """u.S^+ u, the mean square of the best fit's values."""
        return float(self.best @ (self.S @ self.best))

    def _ray(self, w):
        return _Ray(self, w)


class _Ray:
    """f along a ray, computed about the minimiser."""

    def __init__(self, problem, w):
        self._problem = problem
        self.w, self.Sw = w, problem.S @ w
        self.uw = float(problem.u @ w)
        self.norm = s_norm(w, self.Sw)

    def value(self, scale=1.0):
        offset = self._offset(scale)
        square = float(offset @ (self._problem.S @ offset))
        return self._problem.least + max(square, 0.0)

    def slope(self, scale=1.0):
        return 2 * float(self.Sw @ self._offset(scale))

    def moments(self, scale=1.0):
        return Moments(self.slope(scale), 2 * self.norm * self.norm, 2.0, 2.0)

    def gradient(self, scale=1.0):
        return 2 * (self._problem.S @ self._offset(scale))  # (d,)

    def along(self, other, scale=1.0):
        return 2 * float(other.Sw @ self._offset(scale))

    def inner(self, other):
        return float(self.Sw @ other.w)

    def minus(self, step, other):
        return _Ray(self._problem, self.w - step * other.w)

    def _offset(self, scale):
        return scale * self.w - self._problem.best  # (d,)
