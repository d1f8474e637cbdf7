"""What the optimisers ask of a problem: a value, a gradient, and rays."""

import math
from typing import NamedTuple, Protocol

import array_api_compat as compat

from bnlib import _arrays, _checks
from bnlib._arrays import Array


class Problem(Protocol):
    """The interface that the gradient methods and L-BFGS need of a problem.

    Attributes
    ----------
    dim : int
        The number of variables d.
    gradient_lipschitz : float
        A Lipschitz constant of the gradient; 1 over it is a safe step. It is not used
        if the step is given, and `lbfgs` never uses it.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> problem = LeastSquares(np.eye(2), np.ones(2))
    >>> problem.dim, problem.gradient_lipschitz
    (2, 1.0)

    References
    ----------
    Chapter 08, "Length and direction".
    """

    @property
    def dim(self) -> int: ...

    @property
    def gradient_lipschitz(self) -> float: ...

    def value(self, w: Array) -> float:
        """Return the value at w, shape (d,)."""

    def gradient(self, w: Array) -> Array:
        """Return the gradient at w, shape (d,)."""


class Ray(Protocol):
    """The function ``scale -> f(scale w)``, which keeps what a step along w needs.

    Attributes
    ----------
    w, Sw : arrays, shape (d,)
    norm : float
        |w|_S, so that ``scale = g / norm`` stands for length g.
    uw : float
        u.w.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> ray = LeastSquares(np.eye(2), np.ones(2)).ray(np.array([1.0, 0.0]))
    >>> round(ray.value(scale=2.0), 6), round(ray.slope(scale=2.0), 6), ray.uw
    (1.0, 1.0, -0.5)

    References
    ----------
    Chapter 09, "Learning halfspaces".
    """

    @property
    def w(self) -> Array: ...

    @property
    def Sw(self) -> Array: ...

    @property
    def norm(self) -> float: ...

    @property
    def uw(self) -> float: ...

    def value(self, scale: float = 1.0) -> float:
        """Return f(scale w)."""

    def slope(self, scale: float = 1.0) -> float:
        """Return the derivative of f(scale w) in scale."""

    def moments(self, scale: float = 1.0) -> "Moments":
        """Return slope, curvature, c1 and c2 at scale, as `bnlib.problems.Moments`."""

    def gradient(self, scale: float = 1.0) -> Array:
        """Return the gradient of f at scale w, shape (d,)."""

    def along(self, other: "Ray", scale: float = 1.0) -> float:
        """Return other.w . gradient(scale)."""

    def inner(self, other: "Ray") -> float:
        """Return w.S other.w."""

    def minus(self, step: float, other: "Ray") -> "Ray":
        """Return the ray through w - step other.w."""


class NormalisedProblem(Problem, Protocol):
    """A problem whose length and direction can be separated.

    `gdnp`, `bn_gradient_descent` and `wn_gradient_descent` need one.

    Attributes
    ----------
    u : array, shape (d,)
    S : array, shape (d, d)
        Defines the length ``norm(w) = |w|_S``.
    mu, L : float
        The smallest and the largest eigenvalue of S. Optimisers use L alone.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> problem = LeastSquares(np.eye(2), np.ones(2))
    >>> problem.mu, problem.L, round(problem.norm(np.ones(2)), 6)
    (0.5, 0.5, 1.0)

    References
    ----------
    Kohler et al. 2019; chapter 08, "Length and direction".
    """

    @property
    def u(self) -> Array: ...

    @property
    def S(self) -> Array: ...

    @property
    def mu(self) -> float: ...

    @property
    def L(self) -> float: ...

    def norm(self, w: Array) -> float:
        """Return the length |w|_S."""

    def rho(self, w: Array) -> float:
        """Return the Rayleigh quotient -(u.w)^2 / |w|_S^2."""

    def ray(self, w: Array) -> Ray:
        """Return the ray through w."""


class Moments(NamedTuple):
    """The derivatives of f along a ray, at one scale, that a step needs.

    Attributes
    ----------
    slope, curvature : float
        The first and second derivative of ``scale -> f(scale w)``.
    c1, c2 : float
        ``E phi' - (scale u.w) E phi''`` and ``E phi''``. For Gaussian z the gradient
        is ``c1 u + c2 scale S w``.

    Examples
    --------
    >>> Moments(slope=0.0, curvature=1.0, c1=0.5, c2=0.2).c1
    0.5
    """

    slope: float
    curvature: float
    c1: float
    c2: float


def s_norm(w: Array, Sw: Array) -> float:
    """Return |w|_S, even if its square overflows or underflows.

    Parameters
    ----------
    w, Sw : arrays, shape (d,), float64
        The vector, and S times it; give w twice for the Euclidean length.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> w = np.array([3e200, 4e200])
    >>> f"{s_norm(w, w):.6e}"
    '5.000000e+200'

    References
    ----------
    Chapter 08, "Length and direction".
    """
    with _arrays.silently():
        square = float(w @ Sw)
    if 1e-280 < square < 1e280:
        return math.sqrt(square)
    largest = float(compat.array_namespace(w).max(abs(w)))
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(max(float((w / largest) @ (Sw / largest)), 0.0))


class RayProblem:
    """The base of problems that have rays: value, gradient and lengths.

    Everything at w is computed by the ray through w. A subclass sets ``dim`` and ``u``
    and defines ``_ray(w)``, which takes a checked w in float64 and returns a `Ray`.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> problem = LeastSquares(np.eye(2), np.ones(2))
    >>> isinstance(problem, RayProblem), round(problem.rho(np.ones(2)), 6)
    (True, -1.0)

    References
    ----------
    Chapter 08, "Length and direction".
    """

    def ray(self, w: Array) -> Ray:
        """Return the ray through w, the function ``scale -> f(scale w)``."""
        _checks.check_vector("w", w, self.u, self.dim)
        with _arrays.silently():
            return self._ray(_arrays.double(w))

    def value(self, w: Array) -> float:
        """Return f(w), a float."""
        with _arrays.silently():
            return self.ray(w).value()

    def gradient(self, w: Array) -> Array:
        """Return the gradient at w, shape (d,)."""
        with _arrays.silently():
            return self.ray(w).gradient()

    def norm(self, w: Array) -> float:
        """Return |w|_S, the root of w.S w: the length that BN divides by."""
        return self.ray(w).norm

    def rho(self, w: Array) -> float:
        """Return the Rayleigh quotient -(u.w)^2 / |w|_S^2.

        Raises
        ------
        ValueError
            If |w|_S is 0, or w does not fit the problem.
        """
        ray = self.ray(w)
        if ray.norm == 0:
            raise ValueError("|w|_S is 0: rho is not defined there")
        return -((ray.uw / ray.norm) ** 2)

    def c1(self, w: Array) -> float:
        """Return E phi'(z.w) - (u.w) E phi''(z.w), a float."""
        with _arrays.silently():
            return self.ray(w).moments().c1

    def c2(self, w: Array) -> float:
        """Return E phi''(z.w), a float."""
        with _arrays.silently():
            return self.ray(w).moments().c2
