"""Optimisers on one problem interface, with one trace of what they did."""

import math
import time
from dataclasses import dataclass
from typing import Protocol

import array_api_compat as compat

from bnlib import _arrays


class Problem(Protocol):
    """What gradient descent needs to know of a problem.

    Attributes
    ----------
    dim : int
        The number of variables d.
    gradient_lipschitz : float
        A Lipschitz constant of the gradient; 1 over it is a safe step.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.decoupling import LeastSquares
    >>> problem = LeastSquares(np.eye(2), np.ones(2))
    >>> problem.dim, problem.gradient_lipschitz
    (2, 1.0)

    References
    ----------
    Chapter 08, "Length and direction".
    """

    dim: int
    gradient_lipschitz: float

    def value(self, w) -> float:
        """Return the value at w, shape (d,)."""

    def gradient(self, w):
        """Return the gradient at w, shape (d,)."""


class NormalisedProblem(Problem, Protocol):
    """A problem whose length and direction can be parted.

    Attributes
    ----------
    u : array, shape (d,)
    S : array, shape (d, d)
        Defines the length ``norm(w) = |w|_S``.
    mu, L : float
        The extreme eigenvalues of S.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.decoupling import LeastSquares
    >>> problem = LeastSquares(np.eye(2), np.ones(2))
    >>> problem.mu, problem.L, round(problem.norm(np.ones(2)), 6)
    (0.5, 0.5, 1.0)

    References
    ----------
    Kohler et al. 2019; chapter 08, "Length and direction".
    """

    u: object
    S: object
    mu: float
    L: float

    def norm(self, w) -> float:
        """Return the length |w|_S."""

    def rho(self, w) -> float:
        """Return the Rayleigh quotient -(u.w)^2 / |w|_S^2."""


@dataclass(frozen=True, eq=False)
class Trace:
    """What an optimiser did; index 0 is the start.

    Attributes
    ----------
    w : array, shape (n_iter + 1, d)
        The iterates: 8 d bytes each.
    g : array, shape (n_iter + 1,)
        The length of the solution they stand for, ``g w / |w|_S``. A method that
        does not part length and direction has ``g = |w|_S``, or the Euclidean
        length on a problem that has no S.
    values, grad_norms : arrays, shape (n_iter + 1,)
        The value and the Euclidean norm of the gradient there.
    seconds : array, shape (n_iter + 1,)
        Time spent on the steps. The values and lengths of this trace, and the
        callback, are computed off the clock.
    solution : array, shape (d,)
        The last ``g w / |w|_S``.
    stop_reason : str
        "steps", "tolerance", "diverged" or "callback".

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.decoupling import LeastSquares
    >>> problem = LeastSquares(np.eye(2), np.array([1.0, 2.0]))
    >>> trace = gradient_descent(problem, np.zeros(2), steps=50, tol=1e-9)
    >>> trace.solution.round(6).tolist(), trace.stop_reason, trace.w.shape
    ([1.0, 2.0], 'tolerance', (2, 2))

    References
    ----------
    Chapter 08, "Length and direction".
    """

    w: object
    g: object
    values: object
    grad_norms: object
    seconds: object
    solution: object
    stop_reason: str

    @property
    def n_iter(self):
        """The number of steps taken."""
        return len(self.values) - 1


class _Recorder:
    """Collects a trace, iterate by iterate, off the clock."""

    def __init__(self, problem, tol, callback):
        self._problem = problem
        self._tol = tol
        self._callback = callback
        self._rows = []
        self._solution = None
        self._seconds = 0.0
        self._resumed = time.perf_counter()

    def record(self, w, grad_norm, g=None):
        """Take in an iterate, of length g if given; return why to stop, or None."""
        self._seconds += time.perf_counter() - self._resumed
        length = self._length(w)
        self._solution = w if g is None else w * (g / length)
        value = self._problem.value(self._solution)
        row = (w, length if g is None else g, value, grad_norm, self._seconds)
        self._rows.append(row)
        reason = self._reason(w, value, grad_norm)
        self._resumed = time.perf_counter()
        return reason

    def _length(self, w):
        if hasattr(self._problem, "norm"):
            return self._problem.norm(w)
        return float(w @ w) ** 0.5

    def _reason(self, w, value, grad_norm):
        if not math.isfinite(value + grad_norm):
            return "diverged"
        if grad_norm <= self._tol:
            return "tolerance"
        if self._callback and self._callback(len(self._rows) - 1, w + 0, value):
            return "callback"
        return None

    def trace(self, stop_reason):
        """Return what was recorded."""
        iterates, *columns = zip(*self._rows)
        xp = compat.array_namespace(iterates[0])
        like = {"dtype": iterates[0].dtype, "device": compat.device(iterates[0])}
        columns = [xp.asarray(column, **like) for column in columns]
        return Trace(xp.stack(iterates), *columns, self._solution, stop_reason)


def gradient_descent(problem, w0, *, steps, lr=None, tol=0.0, callback=None):
    """Minimise a problem by w <- w - lr * gradient(w).

    Parameters
    ----------
    problem : Problem
    w0 : array, shape (d,)
        The start. Computed with in float64; the argument is not changed.
    steps : int, at least 0
        The largest number of steps.
    lr : float above 0, optional
        None means ``1 / problem.gradient_lipschitz``.
    tol : float, at least 0
        Stop where the gradient's norm is at most this.
    callback : callable, optional
        ``callback(step, w, value)``, called at every iterate with a copy of w; a
        true answer stops.

    Returns
    -------
    Trace
        A run that leaves the finite numbers stops as "diverged"; its last
        entry shows where.

    Raises
    ------
    TypeError, ValueError
        If w0 does not fit the problem or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.decoupling import LeastSquares
    >>> problem = LeastSquares(np.diag([1.0, 3.0]), np.array([1.0, 3.0]))
    >>> trace = gradient_descent(problem, np.zeros(2), steps=200)
    >>> trace.solution.round(6).tolist(), trace.n_iter
    ([1.0, 1.0], 200)

    References
    ----------
    Chapter 08, "Length and direction".
    """
    w = _check_run(problem, w0, steps, tol, callback)
    if lr is None:
        lr = 1 / problem.gradient_lipschitz
    _arrays.check_positive("lr", lr)
    recorder = _Recorder(problem, tol, callback)
    with _arrays.silently():
        for step in range(steps + 1):
            gradient = problem.gradient(w)
            reason = recorder.record(w, float(gradient @ gradient) ** 0.5)
            if reason or step == steps:
                break
            w = w - lr * gradient
    return recorder.trace(reason or "steps")


def _check_run(problem, w0, steps, tol, callback):
    """Check what every optimiser takes; return the start, a copy in float64."""
    xp = _arrays.namespace(w0=w0)
    _arrays.check_vector("w0", w0, getattr(problem, "S", w0), problem.dim)
    if not bool(xp.all(xp.isfinite(w0))):
        raise ValueError("w0 has values that are not finite")
    _arrays.check_integer("steps", steps, 0)
    _arrays.check_number("tol", tol, 0)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback is {callback!r}: give a function")
    return _arrays.widen(_arrays.detached(w0)) + 0
