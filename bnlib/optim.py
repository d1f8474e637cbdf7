"""Optimisers on one problem interface, with one trace of what they did."""

import math
import time
from dataclasses import dataclass
from typing import Protocol

import array_api_compat as compat

from bnlib import _arrays


class Problem(Protocol):
    """What an optimiser needs to know of a problem.

    Attributes
    ----------
    dim : int
        The number of variables d.
    S : array, shape (d, d)
        Defines the length ``norm(w) = |w|_S``.
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
    S: object
    gradient_lipschitz: float

    def value(self, w) -> float:
        """Return the value at w, shape (d,)."""

    def gradient(self, w):
        """Return the gradient at w, shape (d,)."""

    def norm(self, w) -> float:
        """Return the length |w|_S."""


@dataclass(frozen=True, eq=False)
class Trace:
    """What an optimiser did; index 0 is the start.

    Attributes
    ----------
    w : array, shape (n_iter + 1, d)
        The iterates: 8 d bytes each.
    g : array, shape (n_iter + 1,)
        The length of the solution they stand for, ``g w / |w|_S``. A method that
        does not part length and direction has ``g = |w|_S``.
    values, grad_norms : arrays, shape (n_iter + 1,)
        The value and the Euclidean norm of the gradient there.
    seconds : array, shape (n_iter + 1,)
        Wall time since the start.
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
    """Collects a trace, iterate by iterate."""

    def __init__(self, problem, callback):
        self._problem = problem
        self._callback = callback
        self._rows = []
        self._start = time.perf_counter()

    def record(self, w, gradient, tol):
        """Take in an iterate; return why to stop, or None."""
        xp = compat.array_namespace(w)
        value = self._problem.value(w)
        grad_norm = float(xp.sqrt(gradient @ gradient))
        seconds = time.perf_counter() - self._start
        self._rows.append((w, self._problem.norm(w), value, grad_norm, seconds))
        if not math.isfinite(value + grad_norm):
            return "diverged"
        if grad_norm <= tol:
            return "tolerance"
        if self._callback and self._callback(len(self._rows) - 1, w + 0, value):
            return "callback"
        return None

    def trace(self, stop_reason):
        """Return what was recorded."""
        iterates, *columns = zip(*self._rows)
        xp = compat.array_namespace(iterates[0])
        like = {"dtype": iterates[0].dtype, "device": compat.device(iterates[0])}
        g, values, grad_norms, seconds = (xp.asarray(c, **like) for c in columns)
        return Trace(
            xp.stack(iterates),
            g,
            values,
            grad_norms,
            seconds,
            iterates[-1],
            stop_reason,
        )


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
    w = _check_start(problem, w0)
    if lr is None:
        lr = 1 / problem.gradient_lipschitz
    _check_positive("lr", lr)
    _arrays.check_number("tol", tol, 0)
    _arrays.check_integer("steps", steps, 0)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback is {callback!r}: give a function")
    recorder = _Recorder(problem, callback)
    with _arrays.silently():
        for step in range(steps + 1):
            gradient = problem.gradient(w)
            reason = recorder.record(w, gradient, tol)
            if reason or step == steps:
                break
            w = w - lr * gradient
    return recorder.trace(reason or "steps")


def _check_start(problem, w0):
    xp = _arrays.namespace(w0=w0, S=problem.S)
    if tuple(w0.shape) != (problem.dim,):
        raise ValueError(
            f"w0 has shape {tuple(w0.shape)}: the problem takes ({problem.dim},)"
        )
    if not bool(xp.all(xp.isfinite(w0))):
        raise ValueError("w0 has values that are not finite")
    return _arrays.widen(_arrays.detached(w0)) + 0


def _check_positive(name, value):
    _arrays.check_number(name, value, 0)
    if value == 0:
        raise ValueError(f"{name} is 0: give a number above 0")
