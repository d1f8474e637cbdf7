"""Gradient descent in normalised parameters: a step on the direction, then the length.

Kohler et al. 2019, algorithm 1, with the step of chapter 09.
"""

import math
from collections.abc import Callable
from typing import Any

from bnlib import _arrays, _checks
from bnlib._arrays import Array
from bnlib.optim import _length
from bnlib.optim._problem import (
    check_aligned,
    check_length,
    check_normalised,
    check_run,
    has_length,
)
from bnlib.optim._trace import Recorder, Trace, separates
from bnlib.problems import NormalisedProblem


def gdnp(
    problem: NormalisedProblem,
    w0: Array,
    g0: float | None = None,
    *,
    steps: int = 100,
    tol: float = 0.0,
    step: str = "paper",
    length: str = "bisection",
    bisection_steps: int = 40,
    bracket: tuple[float, float] | None = None,
    callback: Callable[..., Any] | None = None,
) -> Trace:
    """Minimise f(g w / |w|_S) by turns: a gradient step on w, then a search for g.

    The step on w is ``w - s grad_w f`` with ``s = -|w|_S^3 / (L g h)`` and
    ``h = c1 u.w``. For Gaussian z, and for least squares, it is one of gradient
    descent on rho with ``eta = |w|_S^2 / (2 L |rho|)`` whatever g, and
    ``rho(w_t) - rho* <= (1 - mu/L)^(2 t) (rho(w_0) - rho*)``.
    For other data it may stall or go up; the line search goes down.

    On a `FiniteHalfspace` a step costs one product with Z and one with its transpose
    (two if S is not formed), everything else O(n).

    Parameters
    ----------
    problem : NormalisedProblem
    w0 : array, shape (d,)
        The start, with u.w0 and |w0|_S not 0. It is copied to float64, and not
        changed.
    g0 : float other than 0, optional
        The length at the start. None searches for it as at every other iterate, from
        1 with the sign opposite to u.w0; with ``length="gradient"`` that is the
        length itself.
    steps : int, at least 0
        The largest number of steps.
    tol : float, at least 0
        Stop where the norm of f's gradient is at most this.
    step : "paper" or "line_search"
        "line_search" goes along the same direction until the slope of f at fixed g is
        at most a tenth of its first value.
    length : "bisection", "newton" or "gradient"
        How to find g at each new w. "bisection" halves a bracket ``bisection_steps``
        times. "newton" ends at rounding after two to four evaluations. "gradient" takes
        one step of gradient descent and needs no minimum to exist: the plain sigmoid
        has none over a Gaussian, and over data often one very far out.
    bisection_steps : int, at least 0
    bracket : pair of floats, optional
        Lengths between which the slope along w goes from below 0 to above, at every
        iterate. None searches for them about the last g, on both sides of 0.
    callback : callable, optional
        ``callback(step, w, value)``, called at every iterate with a copy of w; a
        true answer stops.

    Returns
    -------
    Trace
        If it stops as "no bracket" or "separable", its last entry has the length of
        the entry before it; at the start, the length from which the search began.

    Raises
    ------
    TypeError, ValueError
        If the problem has no rays, w0 does not fit it, |w0|_S or u.w0 is 0, g0 is 0,
        ``steps``, ``tol`` or ``bisection_steps`` is negative, ``step``, ``length``,
        ``bracket`` or ``callback`` is none of the above, a bracket is given with
        ``length="gradient"``, or the slope does not rise through 0 across the bracket
        at w0.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import GaussianHalfspace
    >>> problem = GaussianHalfspace(np.array([0.6, 0.0]), np.diag([1.0, 0.1]))
    >>> trace = gdnp(problem, np.array([1.0, 2.0]), steps=400, tol=1e-10)
    >>> trace.stop_reason, trace.solution.round(6).tolist()
    ('tolerance', [-1.875, -0.0])

    References
    ----------
    Kohler et al. 2019, algorithm 1; chapter 09, "Learning halfspaces".
    """
    w = check_run(problem, w0, steps, tol, callback)
    _check_choice("step", step, ("paper", "line_search"))
    _check_choice("length", length, ("bisection", "newton", "gradient"))
    _checks.check_integer("bisection_steps", bisection_steps, 0)
    if length == "gradient" and bracket is not None:
        raise ValueError('length="gradient" takes no bracket')
    _length.check_bracket(bracket)
    if g0 is not None:
        check_length(g0)
    ray = check_normalised(problem, w)
    with _arrays.silently():
        check_aligned(problem, ray)
        if bracket is not None:
            _check_signs(ray, bracket)
        lengths = _Lengths(problem, length, bisection_steps, bracket)
        mover = _LineSearch(problem) if step == "line_search" else _PaperStep(problem)
        recorder = Recorder(tol, callback)
        return recorder.trace(_run(ray, g0, steps, lengths, mover, recorder))


def _run(ray, g0, steps, lengths, mover, recorder):
    """Take the steps and record them; return the reason for the stop."""
    g, reason = float(g0 or 0), None
    if g0 is None:
        g, reason = lengths.first(ray)
    for step in range(steps + 1):
        # The moments come first: the gradient uses their evaluations too.
        moments = ray.moments(g / ray.norm)
        gradient = ray.gradient(g / ray.norm)
        found = recorder.record(ray, gradient, g)
        if found or reason or step == steps:
            return found or reason or "steps"
        new, reason = mover.move(ray, g, gradient, moments)
        if new is None:
            return reason
        ray = new
        g, reason = lengths.next(ray, g)


class _Lengths:
    """Finds the length at each iterate."""

    def __init__(self, problem, method, bisection_steps, bracket):
        self._problem = problem
        self._method = method
        self._bisection_steps = bisection_steps
        self._bracket = bracket
        self._before = None
        # A slope of 0 of an increasing loss is an underflow, not a minimum.
        loss = getattr(problem, "loss", None)
        self._flat = not getattr(loss, "strictly_increasing", False)

    def first(self, ray):
        """Return the length at the start, and a reason to stop there or None."""
        usual = -math.copysign(1.0, ray.uw)
        if self._method == "gradient":
            return usual, None
        found = self.next(ray, usual)
        # The distance from the usual start does not predict the next change of g.
        self._before = None
        return found

    def next(self, ray, g):
        """Return the length that follows g, and a reason to stop or None."""
        slope = _length.slope_along(ray)
        if self._method == "gradient":
            # The slope's own Lipschitz constant, since E (z.w)^2 = |w|_S^2.
            lr = self._problem.L / self._problem.gradient_lipschitz
            return g - lr * slope(g), None
        found, ends = None, self._bracket
        if ends is None or _length.rises(slope, ends, self._flat):
            if self._method == "newton":
                found = _length.newton(ray, self._guess(g), ends, self._flat)
            elif ends := ends or _length.find_bracket(slope, g, self._flat):
                found = _length.bisect(slope, ends, self._bisection_steps)
        self._before = g
        if found is not None:
            return found, None
        one_sided = separates(ray, 1.0) or separates(ray, -1.0)
        return g, "separable" if one_sided else "no bracket"

    def _guess(self, g):
        """Return Newton's start: g changed by as much as at the last iterate."""
        on = g if self._before is None else 2 * g - self._before
        return on if on * g > 0 else g


class _PaperStep:
    """The paper's step: one of gradient descent on rho."""

    def __init__(self, problem):
        self._problem = problem

    def move(self, ray, g, gradient, moments):
        """Return the next ray and None, or None and why there is none."""
        tangent, size = tangent_and_size(self._problem, ray, gradient, moments)
        return _checked(self._problem.ray(ray.w + size * tangent))


class _LineSearch:
    """A line search on f's slope along the same direction; a trial costs O(n)."""

    def __init__(self, problem):
        self._problem = problem
        self._last = None

    def move(self, ray, g, gradient, moments):
        """Return the next ray and None, or None and why there is none."""
        tangent, size = tangent_and_size(self._problem, ray, gradient, moments)
        direction = self._problem.ray(math.copysign(1.0, g) * tangent)
        first = self._last or abs(size)
        if not math.isfinite(first) and direction.norm > 0:
            first = ray.norm / direction.norm
        start = _slope(ray, direction, g)
        if not (start < 0 and math.isfinite(first)):
            return None, "stalled"
        value = ray.value(g / ray.norm)
        step, new = _search(ray, direction, g, first, start)
        allowed = value + 1e-13 * abs(value)
        for _ in range(60):
            if new.value(g / new.norm) <= allowed:
                self._last = step
                return _checked(new)
            step /= 4
            new = ray.minus(step, direction)
        return None, "stalled"


def _search(ray, direction, g, step, start):
    """Return a step at which the slope is at most a tenth of that at the start."""
    low, high = 0.0, math.inf
    slope_low, slope_high = start, math.nan
    for _ in range(12):
        new = ray.minus(step, direction)
        slope = _slope(new, direction, g)
        if not abs(slope) > 0.1 * abs(start):
            break
        if slope < 0:
            past, low, slope_low = (low, slope_low), step, slope
        else:
            high, slope_high = step, slope
        if high < math.inf:
            step = (low * slope_high - high * slope_low) / (slope_high - slope_low)
            step = min(max(step, 0.9 * low + 0.1 * high), 0.1 * low + 0.9 * high)
        else:
            rise = (slope - past[1]) / (low - past[0])
            guess = low - slope / rise if rise > 0 else math.inf
            step = min(max(guess, 2 * low), 10 * low)
    return step, new


def _slope(ray, direction, g):
    """Return the derivative of f(g w / |w|_S) by t as w moves to w - t direction."""
    scale = g / ray.norm
    radial = ray.slope(scale) / ray.norm / ray.norm
    return -scale * (ray.along(direction, scale) - radial * ray.inner(direction))


def tangent_and_size(problem, ray, gradient, moments):
    """Return t and r: grad_w f = g/|w|_S t, and the step of GDNP adds r t to w.

    ``t = grad f - (w.grad f / |w|_S^2) S w``. Because g cancels in s grad_w f, neither
    t nor r contains it. |w|_S^3 is not formed either: it would overflow first.
    """
    tangent = gradient - (moments.slope / ray.norm / ray.norm) * ray.Sw  # (d,)
    divisor = problem.L * moments.c1
    size = ray.norm / ray.uw * (ray.norm / divisor) if divisor else math.inf
    return tangent, size


def _checked(ray):
    fits = has_length(ray) and ray.uw != 0 and math.isfinite(ray.uw)
    return (ray, None) if fits else (None, "overflow")


def _check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(f"{name} is {value!r}: give one of {', '.join(choices)}")


def _check_signs(ray, bracket):
    slope = _length.slope_along(ray)
    low, high = (slope(float(end)) for end in bracket)
    if not low < 0 < high:
        raise ValueError(
            f"bracket is {tuple(bracket)}: along w0 the slope goes from {low:.3g} to "
            f"{high:.3g} there; give lengths between which it rises through 0"
        )
