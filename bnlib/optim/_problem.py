"""The checks of the optimisers' arguments, and rays of any problem."""

import math

from bnlib import _arrays, _checks

_SHORTEST = 1e-290


class _PlainRay:
    """A ray at scale 1 of a problem that defines no rays."""

    def __init__(self, problem, w):
        self._problem = problem
        self.w = w

    @property
    def norm(self):
        if hasattr(self._problem, "norm"):
            return self._problem.norm(self.w)
        return float(self.w @ self.w) ** 0.5

    def value(self, scale=1.0):
        return self._problem.value(scale * self.w)

    def gradient(self, scale=1.0):
        return self._problem.gradient(scale * self.w)

    def minus(self, step, other):
        return _PlainRay(self._problem, self.w - step * other.w)


def ray_of(problem, w):
    """Return the ray through w; the problem need not define rays."""
    return problem.ray(w) if hasattr(problem, "ray") else _PlainRay(problem, w)


def check_run(problem, w0, steps, tol, callback):
    """Check the arguments of every optimiser; return a copy of the start in float64."""
    if not hasattr(problem, "dim"):
        raise TypeError(
            f"problem is {problem!r}: give one with dim, value and gradient"
        )
    xp = _arrays.namespace(w0=w0)
    like = getattr(problem, "u", getattr(problem, "S", w0))
    _checks.check_vector("w0", w0, like, problem.dim)
    if not bool(xp.all(xp.isfinite(w0))):
        raise ValueError("w0 has values that are not finite")
    _checks.check_integer("steps", steps, 0)
    _checks.check_number("tol", tol, 0)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback is {callback!r}: give a function")
    return _arrays.double(w0) + 0


def check_step(problem, lr, name="lr"):
    """Return the learning rate of that name, or the safe one if it is None."""
    if lr is None:
        return 1 / problem.gradient_lipschitz
    _checks.check_positive(name, lr)
    return lr


def check_normalised(problem, w):
    """Return the ray through the start w; raise if w has no length or there is no S."""
    if not hasattr(problem, "ray"):
        raise TypeError(
            f"{type(problem).__name__} has no rays: give a problem with u, S and "
            "ray(w), such as those of bnlib.problems"
        )
    ray = problem.ray(w)
    if not has_length(ray):
        raise ValueError(
            f"|w0|_S is {ray.norm}: give a w0 of a finite length above {_SHORTEST}"
        )
    return ray


def has_length(ray):
    """Return True if g / |w|_S is finite for every g that may come up."""
    return _SHORTEST < ray.norm < math.inf


def check_aligned(problem, ray):
    """Raise if u.w0 is 0 up to rounding."""
    rounding = 1e-16 * (8 + problem.dim) * float(abs(problem.u * ray.w).sum())
    if abs(ray.uw) <= rounding:
        raise ValueError(f"u.w0 is {ray.uw:.3g}, 0 to rounding: rho has no slope there")


def check_length(g0):
    """Raise unless g0 is a finite number other than 0."""
    _checks.check_number("g0", g0, -math.inf)
    if g0 == 0:
        raise ValueError("g0 is 0: a vector of length 0 has no direction")
