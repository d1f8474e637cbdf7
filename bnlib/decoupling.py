"""Length and direction apart; least squares, the first problem to show it on."""

import math

from bnlib import _arrays


class LeastSquares:
    """The least squares problem f(w) = mean((y - X w)^2).

    With ``S = X^T X / n`` and ``u = -X^T y / n`` it is
    ``f(w) = 2 u.w + w.S w + mean(y^2)``. It is computed about its minimiser, as
    ``least + (w - best).S (w - best)``: the first form would cancel there. One
    value or gradient costs one product with S, a (d, d) matrix; the data are not
    kept.

    Parameters
    ----------
    X : array, shape (n, d), any real floating dtype
        One example a row. Computed with in float64.
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
        The minimiser; of several, the one of least length.
    least : float
        The value there.

    Raises
    ------
    TypeError
        If X or y is no NumPy array or torch tensor of a real floating dtype.
    ValueError
        If the shapes do not fit, there are no data, X is zero, or not all finite.

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

    def __init__(self, X, y):
        xp = _arrays.namespace(X=X, y=y)
        if X.ndim != 2 or y.ndim != 1 or len(X) != len(y) or 0 in X.shape:
            raise ValueError(
                f"X has shape {tuple(X.shape)} and y {tuple(y.shape)}: give (n, d) "
                "and (n,), neither n nor d being 0"
            )
        for name, array in (("X", X), ("y", y)):
            if not bool(xp.all(xp.isfinite(array))):
                raise ValueError(f"{name} has values that are not finite")
        X, y = (_arrays.widen(_arrays.detached(array)) for array in (X, y))
        self.dim = X.shape[1]
        with _arrays.silently():
            self.S = X.T @ X / len(X)
            self.u = -(X.T @ y) / len(X)
            largest = float(xp.max(xp.abs(self.S))) + float(y @ y)
        if not math.isfinite(largest):
            raise ValueError("X and y are too large: X.T @ X or y @ y overflows")
        eigenvalues = xp.linalg.eigvalsh(self.S)
        self.mu, self.L = float(eigenvalues[0]), float(eigenvalues[-1])
        if self.L <= 0:
            raise ValueError("X is zero: every w has the same value")
        self.gradient_lipschitz = 2 * self.L
        self.best = xp.linalg.pinv(X) @ y
        residual = y - X @ self.best
        self.least = float(residual @ residual) / len(X)

    def value(self, w):
        """Return f(w), a float.

        Parameters
        ----------
        w : array, shape (d,)

        Raises
        ------
        TypeError, ValueError
            If w does not fit the problem; the same for the other methods.
        """
        return self.least + self._square(self._offset(w))

    def gradient(self, w):
        """Return the gradient at w, shape (d,)."""
        return 2 * (self.S @ self._offset(w))

    def norm(self, w):
        """Return |w|_S, the root of w.S w: the length that BN divides by.

        For centred X it is the standard deviation of the pre-activation X w.
        """
        _arrays.check_vector("w", w, self.S, self.dim)
        return self._square(_arrays.widen(w)) ** 0.5

    def rho(self, w):
        """Return the Rayleigh quotient -(u.w)^2 / |w|_S^2.

        It is the least value along the line through w, less mean(y^2), and the
        same for every multiple of w.

        Raises
        ------
        ValueError
            Also where |w|_S is 0.
        """
        norm = self.norm(w)
        if norm == 0:
            raise ValueError("|w|_S is 0: rho is not defined there")
        return -((float(self.u @ _arrays.widen(w)) / norm) ** 2)

    def _offset(self, w):
        _arrays.check_vector("w", w, self.S, self.dim)
        return _arrays.widen(w) - self.best

    def _square(self, vector):
        return max(float(vector @ (self.S @ vector)), 0.0)
