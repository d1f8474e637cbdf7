"""Gradient descent and its accelerated form, on w as a whole."""

from collections.abc import Callable
from typing import Any

from bnlib import _arrays
from bnlib._arrays import Array
from bnlib.optim._problem import check_run, check_step, ray_of
from bnlib.optim._trace import Recorder, Trace
from bnlib.problems import Problem


def gradient_descent(
    problem: Problem,
    w0: Array,
    *,
    steps: int,
    lr: float | None = None,
    tol: float = 0.0,
    callback: Callable[..., Any] | None = None,
) -> Trace:
    """Minimise a problem by w <- w - lr * gradient(w).

    Parameters
    ----------
    problem : Problem
    w0 : array, shape (d,)
        The start. It is copied to float64, and not changed.
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
        A run that leaves the finite numbers stops as "diverged"; its last entry shows
        where.

    Raises
    ------
    TypeError, ValueError
        If w0 does not fit the problem or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> problem = LeastSquares(np.diag([1.0, 3.0]), np.array([1.0, 3.0]))
    >>> trace = gradient_descent(problem, np.zeros(2), steps=200)
    >>> trace.solution.round(6).tolist(), trace.n_iter
    ([1.0, 1.0], 200)

    References
    ----------
    Chapter 08, "Length and direction".
    """
    w = check_run(problem, w0, steps, tol, callback)
    lr = check_step(problem, lr)
    recorder = Recorder(tol, callback)
    with _arrays.silently():
        for step in range(steps + 1):
            ray = ray_of(problem, w)
            gradient = ray.gradient()  # (d,)
            reason = recorder.record(ray, gradient)
            if reason or step == steps:
                break
            w = w - lr * gradient
        return recorder.trace(reason or "steps")


def accelerated_gradient(
    problem: Problem,
    w0: Array,
    *,
    steps: int,
    lr: float | None = None,
    tol: float = 0.0,
    callback: Callable[..., Any] | None = None,
) -> Trace:
    """Minimise a problem by Nesterov's method with restarts.

    Each step is a step of gradient descent from a point beyond w, on the line through
    the last two iterates. If w moves up the gradient at that point, the momentum
    starts again from its first value.

    Parameters
    ----------
    problem, w0, steps, lr, tol, callback
        As for `gradient_descent`.

    Returns
    -------
    Trace
        The iterates w, not the points beyond them. The gradients at the iterates serve
        only the trace and tol, and their time does not count.

    Raises
    ------
    TypeError, ValueError
        If w0 does not fit the problem or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> problem = LeastSquares(np.diag([1.0, 9.0]), np.array([1.0, 9.0]))
    >>> trace = accelerated_gradient(problem, np.zeros(2), steps=500, tol=1e-10)
    >>> trace.solution.round(6).tolist(), trace.stop_reason
    ([1.0, 1.0], 'tolerance')

    References
    ----------
    Nesterov 1983; O'Donoghue and Candès 2015 for the restart by the gradient.
    """
    w = check_run(problem, w0, steps, tol, callback)
    lr = check_step(problem, lr)
    recorder = Recorder(tol, callback)
    with _arrays.silently():
        ray = beyond = ray_of(problem, w)
        momentum = 1.0
        for step in range(steps + 1):
            reason = recorder.record(ray, ray.gradient)
            if reason or step == steps:
                break
            gradient = beyond.gradient()  # (d,)
            last, ray = ray, ray_of(problem, beyond.w - lr * gradient)  # w: (d,)
            if float(gradient @ (ray.w - last.w)) > 0:
                momentum = 1.0
            following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            weight = (momentum - 1) / following
            beyond = ray.minus(-weight, ray.minus(1.0, last)) if weight else ray
            momentum = following
        return recorder.trace(reason or "steps")
