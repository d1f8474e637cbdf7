"""SciPy's L-BFGS-B under the interface of the other optimisers."""

from collections.abc import Callable
from typing import Any

import array_api_compat as compat
import numpy as np
from scipy.optimize import minimize

from bnlib import _arrays, _checks
from bnlib._arrays import Array
from bnlib.optim._problem import check_run, ray_of
from bnlib.optim._trace import Recorder, Trace
from bnlib.problems import Problem


def lbfgs(
    problem: Problem,
    w0: Array,
    *,
    steps: int,
    tol: float = 0.0,
    callback: Callable[..., Any] | None = None,
    memory: int = 10,
) -> Trace:
    """Minimise a problem by SciPy's L-BFGS-B.

    Parameters
    ----------
    problem : Problem
    w0, steps, tol, callback
        As for `gradient_descent`. A step may cost several evaluations.
    memory : int, at least 1
        The number of past steps that model the curvature.

    Returns
    -------
    Trace
        It stops as "stalled" if the line search finds no lower value, as at rounding.

    Raises
    ------
    TypeError, ValueError
        If w0 does not fit the problem or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import LeastSquares
    >>> problem = LeastSquares(np.diag([1.0, 9.0]), np.array([1.0, 9.0]))
    >>> trace = lbfgs(problem, np.zeros(2), steps=50, tol=1e-9)
    >>> trace.solution.round(6).tolist(), trace.stop_reason
    ([1.0, 1.0], 'tolerance')

    References
    ----------
    Liu and Nocedal 1989; Byrd, Lu, Nocedal and Zhu 1995.
    """
    w = check_run(problem, w0, steps, tol, callback)
    _checks.check_integer("memory", memory, 1)
    recorder = Recorder(tol, callback)
    with _arrays.silently():
        oracle = _Oracle(problem, w)
        start = oracle.host(w)
        reason = oracle.record(start, recorder)
        if reason is None and steps > 0:
            reason = _minimise(oracle, start, recorder, steps, memory)
        return recorder.trace(reason or "steps")


def _minimise(oracle, start, recorder, steps, memory):
    reason = None
    taken = 0

    def after_step(intermediate_result):
        nonlocal reason, taken
        reason = oracle.record(intermediate_result.x, recorder)
        taken += 1
        if reason or taken == steps:
            reason = reason or "steps"
            raise StopIteration

    # SciPy's tolerances are off: the trace decides when to stop.
    options = {"maxiter": steps + 1, "maxfun": 2**31 - 1, "ftol": 0.0, "gtol": 0.0}
    minimize(
        oracle,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=after_step,
        options=options | {"maxcor": memory},
    )
    return reason or "stalled"


class _Oracle:
    """Value and gradient on NumPy arrays, for SciPy; it keeps the last ones."""

    def __init__(self, problem, like):
        self._problem = problem
        self._xp = compat.array_namespace(like)
        self._like = {"dtype": like.dtype, "device": compat.device(like)}
        self._x = self._ray = self._gradient = None

    def __call__(self, x):
        self._evaluate(x)
        return self._ray.value(), self.host(self._gradient)

    def record(self, x, recorder):
        self._evaluate(x)
        return recorder.record(self._ray, self._gradient)

    def host(self, array):
        on_torch = compat.is_torch_array(array)
        return np.array(array.cpu().numpy() if on_torch else array, dtype=float)

    def _evaluate(self, x):
        if self._x is None or not np.array_equal(x, self._x):
            self._x = np.array(x)
            w = self._xp.asarray(self._x + 0, **self._like)
            self._ray = ray_of(self._problem, w)
            self._gradient = self._ray.gradient()
