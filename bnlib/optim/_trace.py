"""The trace that every optimiser returns, and its recorder."""

import math
import time
from dataclasses import dataclass

import array_api_compat as compat

from bnlib._arrays import Array


@dataclass(frozen=True, eq=False)
class Trace:
    """The course of an optimiser; index 0 is the start.

    Attributes
    ----------
    w : array, shape (n_iter + 1, d)
        The iterates: 8 d bytes each.
    g : array, shape (n_iter + 1,)
        The lengths of the solutions ``g w / |w|_S``. A method that does not separate
        length and direction has ``g = |w|_S``, or the Euclidean length on a problem
        that has no S.
    values, grad_norms : arrays, shape (n_iter + 1,)
        The value and the Euclidean norm of the gradient of f, at the solutions.
    seconds : array, shape (n_iter + 1,)
        Time spent on the steps. The time of the callback, and of computing what only
        the trace needs, does not count.
    solution : array, shape (d,)
        The last ``g w / |w|_S``.
    stop_reason : str
        "steps", "tolerance" or "callback"; "diverged": the last entry is not finite;
        "overflow": the next entry would not be finite; "no bracket": along the last w
        no length has slope 0; "separable": the last w separates the data, and f falls
        along it for ever; "stalled": no step goes down.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> from bnlib.optim import gradient_descent
    >>> problem = LeastSquares(np.eye(2), np.array([1.0, 2.0]))
    >>> trace = gradient_descent(problem, np.zeros(2), steps=50, tol=1e-9)
    >>> trace.solution.round(6).tolist(), trace.stop_reason, trace.w.shape
    ([1.0, 2.0], 'tolerance', (2, 2))

    References
    ----------
    Chapter 08, "Length and direction".
    """

    w: Array
    g: Array
    values: Array
    grad_norms: Array
    seconds: Array
    solution: Array
    stop_reason: str

    @property
    def n_iter(self) -> int:
        """The number of steps taken."""
        return len(self.values) - 1


class Recorder:
    """A recorder of a trace, iterate by iterate; it stops the clock while it works."""

    def __init__(self, tol, callback):
        self._tol = tol
        self._callback = callback
        self._rows = []
        self._ray = self._scale = None
        self._seconds = 0.0
        self._resumed = time.perf_counter()

    def record(self, ray, gradient, g=None):
        """Record the ray's w, of length g if given; return a reason to stop or None.

        ``gradient`` is the gradient at the solution, or a function that computes it
        while the clock is stopped.
        """
        self._seconds += time.perf_counter() - self._resumed
        length = ray.norm
        self._ray, self._scale = ray, 1.0 if g is None else g / length
        if callable(gradient):
            gradient = gradient(self._scale)
        grad_norm = math.sqrt(float(gradient @ gradient))
        value = ray.value(self._scale)
        row = (ray.w, length if g is None else g, value, grad_norm, self._seconds)
        self._rows.append(row)
        reason = self._reason(ray.w, value, grad_norm)
        self._resumed = time.perf_counter()
        return reason

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
        ended = stop_reason in ("steps", "stalled")
        if ended and separates(self._ray, self._scale):
            stop_reason = "separable"
        iterates, *columns = zip(*self._rows)
        xp = compat.array_namespace(iterates[0])
        like = {"dtype": iterates[0].dtype, "device": compat.device(iterates[0])}
        columns = [xp.asarray(column, **like) for column in columns]
        solution = self._scale * self._ray.w
        return Trace(xp.stack(iterates), *columns, solution, stop_reason)


def separates(ray, scale):
    """Return True if f is known to fall for ever beyond scale w."""
    return hasattr(ray, "separates") and ray.separates(scale)
