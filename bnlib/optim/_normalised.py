"""Gradient descent on length and direction, separated as in BN and weight norm."""

from collections.abc import Callable
from typing import Any

from bnlib import _arrays
from bnlib._arrays import Array
from bnlib.optim._gdnp import tangent_and_size
from bnlib.optim._problem import (
    check_aligned,
    check_length,
    check_normalised,
    check_run,
    check_step,
    has_length,
)
from bnlib.optim._trace import Recorder, Trace
from bnlib.problems import NormalisedProblem, s_norm


def bn_gradient_descent(
    problem: NormalisedProblem,
    w0: Array,
    g0: float | None = None,
    *,
    steps: int,
    lr: float | None = None,
    lr_g: float | None = None,
    tol: float = 0.0,
    callback: Callable[..., Any] | None = None,
) -> Trace:
    """Minimise f(g w / |w|_S) by gradient descent on w and g at once.

    Parameters
    ----------
    problem : NormalisedProblem
    w0 : array, shape (d,)
        The start, with |w0|_S not 0. Computed with in float64; the argument is not
        changed.
    g0 : float other than 0, optional
        The length at the start. None means |w0|_S, so that the start is w0 itself.
    steps : int, at least 0
        The largest number of steps.
    lr, lr_g : floats above 0, optional
        The steps on w and on g. None means ``1 / problem.gradient_lipschitz``, and
        lr.
    tol, callback
        As for `gradient_descent`.

    Returns
    -------
    Trace
        Of w, and of g.

    Raises
    ------
    TypeError, ValueError
        If w0 does not fit the problem or has |w0|_S = 0, or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> problem = LeastSquares(np.diag([1.0, 3.0]), np.array([1.0, 3.0]))
    >>> trace = bn_gradient_descent(problem, np.array([1.0, 0.5]), steps=400)
    >>> trace.solution.round(6).tolist()
    [1.0, 1.0]

    References
    ----------
    Kohler et al. 2019, sections 3 and 5; chapter 08, "Length and direction".
    """
    ray, recorder = _start(problem, w0, g0, steps, tol, callback)
    lr = check_step(problem, lr)
    lr_g = check_step(problem, lr if lr_g is None else lr_g, "lr_g")
    g = ray.norm if g0 is None else float(g0)
    with _arrays.silently():
        for step in range(steps + 1):
            scale = g / ray.norm
            gradient, slope = ray.gradient(scale), ray.slope(scale) / ray.norm  # (d,)
            reason = recorder.record(ray, gradient, g)
            if reason or step == steps:
                break
            tangent = gradient - (slope / ray.norm) * ray.Sw  # (d,)
            new = problem.ray(ray.w - (lr * scale) * tangent)
            if not has_length(new):
                reason = "overflow"
                break
            ray, g = new, g - lr_g * slope
        return recorder.trace(reason or "steps")


def wn_gradient_descent(
    problem: NormalisedProblem,
    w0: Array,
    g0: float | None = None,
    *,
    steps: int,
    lr: float | None = None,
    lr_g: float | None = None,
    tol: float = 0.0,
    callback: Callable[..., Any] | None = None,
) -> Trace:
    """Minimise f(g w / |w|) by gradient descent on w and g at once, |w| Euclidean.

    Parameters
    ----------
    problem : NormalisedProblem
    w0 : array, shape (d,)
        The start, with |w0|_S not 0. Computed with in float64; the argument is not
        changed.
    g0 : float other than 0, optional
        The Euclidean length at the start. None means |w0|, so that the start is w0
        itself.
    steps : int, at least 0
        The largest number of steps.
    lr, lr_g : floats above 0, optional
        The steps on w and on g. None means ``1 / problem.gradient_lipschitz``, and
        lr.
    tol, callback
        As for `gradient_descent`.

    Returns
    -------
    Trace
        The iterates w. As for every method, the trace's g is the length of the solution
        in the norm of S, here ``g |w|_S / |w|``.

    Raises
    ------
    TypeError, ValueError
        If w0 does not fit the problem or has |w0|_S = 0, or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> problem = LeastSquares(np.diag([1.0, 3.0]), np.array([1.0, 3.0]))
    >>> trace = wn_gradient_descent(problem, np.array([1.0, 0.5]), steps=400)
    >>> trace.solution.round(6).tolist()
    [1.0, 1.0]

    References
    ----------
    Salimans and Kingma 2016; chapter 08, "Length and direction".
    """
    ray, recorder = _start(problem, w0, g0, steps, tol, callback)
    lr = check_step(problem, lr)
    lr_g = check_step(problem, lr if lr_g is None else lr_g, "lr_g")
    size = _euclidean(ray.w)
    g = size if g0 is None else float(g0)
    with _arrays.silently():
        for step in range(steps + 1):
            scale = g / size
            gradient, slope = ray.gradient(scale), ray.slope(scale) / size
            reason = recorder.record(ray, gradient, scale * ray.norm)
            if reason or step == steps:
                break
            tangent = gradient - (slope / size) * ray.w  # (d,)
            new = problem.ray(ray.w - (lr * scale) * tangent)
            size = _euclidean(new.w)
            if not has_length(new):
                reason = "overflow"
                break
            ray, g = new, g - lr_g * slope
        return recorder.trace(reason or "steps")


def rayleigh_descent(
    problem: NormalisedProblem,
    w0: Array,
    *,
    steps: int,
    tol: float = 0.0,
    callback: Callable[..., Any] | None = None,
) -> Trace:
    """Minimise f(g w / |w|_S) by descent on rho, with the best g of least squares.

    That length is ``-u.w / |w|_S``, and the step on w is ``|w|_S^2 / (2 L |rho|)``
    times the gradient of rho. The best value of `bnlib.decoupling.LeastSquares` along w
    is ``rho(w)`` plus a constant, and ``rho(w_t) - rho*`` is at most
    ``(1 - mu/L)^(2 t) (rho(w_0) - rho*)``. On any other problem only the direction is
    meaningful.

    Parameters
    ----------
    problem : NormalisedProblem
    w0 : array, shape (d,)
        The start, with u.w0 not 0. Computed with in float64; the argument is not
        changed.
    steps : int, at least 0
        The largest number of steps.
    tol, callback
        As for `gradient_descent`.

    Returns
    -------
    Trace
        Of w, and of g.

    Raises
    ------
    TypeError, ValueError
        If w0 does not fit the problem, |w0|_S or u.w0 is 0, or a number is out of
        range.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> problem = LeastSquares(np.diag([1.0, 3.0]), np.array([1.0, 3.0]))
    >>> trace = rayleigh_descent(problem, np.array([1.0, 0.0]), steps=200)
    >>> trace.solution.round(6).tolist(), trace.n_iter
    ([1.0, 1.0], 200)

    References
    ----------
    Kohler et al. 2019, section 3; chapter 08, "Length and direction".
    """
    ray, recorder = _start(problem, w0, None, steps, tol, callback)
    check_aligned(problem, ray)
    with _arrays.silently():
        for step in range(steps + 1):
            g = -ray.uw / ray.norm
            gradient, moments = ray.gradient(g / ray.norm), ray.moments(g / ray.norm)
            reason = recorder.record(ray, gradient, g)
            if reason or step == steps:
                break
            tangent, size = tangent_and_size(problem, ray, gradient, moments)
            new = problem.ray(ray.w + size * tangent)
            if not (has_length(new) and new.uw != 0):
                reason = "overflow"
                break
            ray = new
        return recorder.trace(reason or "steps")


def _start(problem, w0, g0, steps, tol, callback):
    w = check_run(problem, w0, steps, tol, callback)
    if g0 is not None:
        check_length(g0)
    return check_normalised(problem, w), Recorder(tol, callback)


def _euclidean(vector):
    return s_norm(vector, vector)
