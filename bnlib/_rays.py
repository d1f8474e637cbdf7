"""What the problems share: all they are asked at w is asked of the ray through w."""

import math
from typing import NamedTuple

import array_api_compat as compat

from bnlib import _arrays, _checks


class Moments(NamedTuple):
    """What a step needs of f along a ray, at one scale.

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


def double(array):
    """Return a checked array in float64, or float32 where the device has no more."""
    wide = _arrays.upcast(_arrays.detached(array))
    xp = compat.array_namespace(wide)
    return xp.astype(wide, xp.float64) if wide.dtype.itemsize > 8 else wide


def s_norm(w, Sw):
    """Return |w|_S, also where its square overflows or vanishes."""
    with _arrays.silently():
        square = float(w @ Sw)
    if 1e-280 < square < 1e280:
        return math.sqrt(square)
    largest = float(compat.array_namespace(w).max(abs(w)))
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(max(float((w / largest) @ (Sw / largest)), 0.0))


class RayProblem:
    """Value, gradient and lengths of a problem that has rays.

    A class derived from this sets ``dim``, ``u`` and ``_ray(w)``, and its rays
    answer as `bnlib.optim.Ray` says.
    """

    def ray(self, w):
        """Return the ray through w, the function ``scale -> f(scale w)``."""
        _checks.check_vector("w", w, self.u, self.dim)
        with _arrays.silently():
            return self._ray(double(w))

    def value(self, w):
        """Return f(w), a float."""
        with _arrays.silently():
            return self.ray(w).value()

    def gradient(self, w):
        """Return the gradient at w, shape (d,)."""
        with _arrays.silently():
            return self.ray(w).gradient()

    def norm(self, w):
        """Return |w|_S, the root of w.S w: the length that BN divides by."""
        return self.ray(w).norm

    def rho(self, w):
        """Return the Rayleigh quotient -(u.w)^2 / |w|_S^2.

        Raises
        ------
        ValueError
            Also where |w|_S is 0.
        """
        ray = self.ray(w)
        if ray.norm == 0:
            raise ValueError("|w|_S is 0: rho is not defined there")
        return -((ray.uw / ray.norm) ** 2)

    def c1(self, w):
        """Return E phi'(z.w) - (u.w) E phi''(z.w), a float."""
        with _arrays.silently():
            return self.ray(w).moments().c1

    def c2(self, w):
        """Return E phi''(z.w), a float."""
        with _arrays.silently():
            return self.ray(w).moments().c2
