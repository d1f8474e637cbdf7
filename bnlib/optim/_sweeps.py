"""Algorithm 2 of Kohler et al.: GDNP on one hidden unit after the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bnlib import _checks
from bnlib.optim._gdnp import gdnp
from bnlib.optim._trace import Trace
from bnlib.problems import FiniteOneHiddenLayer, OneHiddenLayer

# A line search stalls if the direction is already the best up to rounding.
_ENOUGH = ("steps", "tolerance", "stalled")


@dataclass(frozen=True, eq=False)
class SweepTrace:
    """The course of the sweeps; index 0 is before the first one, with all units 0.

    Attributes
    ----------
    W : array, shape (n_sweeps + 1, m, d)
        The weights after each sweep.
    values, grad_norms : arrays, shape (n_sweeps + 1,)
        The value and the Euclidean norm of the gradient in all units, at W.
    units : list of lists of bnlib.optim.Trace
        The traces of GDNP, by sweep and unit.
    stop_reason : str
        "sweeps" or "tolerance"; or, if GDNP ended early on the last unit of ``units``,
        its stop reason, for example "no bracket". An unfinished sweep counts as one.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import OneHiddenLayer
    >>> layer = OneHiddenLayer(np.array([0.6, 0.0]), np.eye(2), np.array([2.0, 2.0]))
    >>> trace = gdnp_sweeps(layer, np.array([[1.0, 0.5], [1.0, -2.0]]), sweeps=1)
    >>> trace.n_sweeps, trace.W.shape, trace.units[0][1].stop_reason
    (1, (2, 2, 2), 'steps')

    References
    ----------
    Chapter 10, "What a sweep reaches".
    """

    W: np.ndarray
    values: np.ndarray
    grad_norms: np.ndarray
    units: list[list[Trace]]
    stop_reason: str

    @property
    def n_sweeps(self) -> int:
        """The number of sweeps."""
        return len(self.values) - 1


def gdnp_sweeps(
    layer: OneHiddenLayer | FiniteOneHiddenLayer,
    W0: np.ndarray,
    *,
    sweeps: int = 1,
    tol: float = 0.0,
    **options: Any,
) -> SweepTrace:
    """Minimise over one hidden unit after the other by GDNP, in sweeps over all.

    In the first sweep the units that follow are 0, as the theorem on a unit requires;
    in later sweeps they keep their values from the sweep before.

    Parameters
    ----------
    layer : OneHiddenLayer or FiniteOneHiddenLayer
    W0 : NumPy array, shape (m, d)
        The start of each unit's first run. Only the directions of the rows count; u
        times a row must not be 0.
    sweeps : int, at least 0
    tol : float, at least 0
        Stop before or after a sweep where the norm of the gradient is at most this.
    **options
        Those of `bnlib.optim.gdnp` except ``tol``: ``steps`` on the direction of each
        unit, ``bisection_steps``, ``length`` and so on.

    Returns
    -------
    SweepTrace

    Raises
    ------
    TypeError, ValueError
        If `bnlib.optim.gdnp` refuses an argument, W0 does not fit or has a row that is
        0 or not finite, ``sweeps`` or ``tol`` is negative, or the units leave the plane
        that the quadrature covers: on a `OneHiddenLayer` of three or more units in
        three or more dimensions, each unit needs enough steps to reach the line.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.problems import OneHiddenLayer
    >>> layer = OneHiddenLayer(np.array([0.6, 0.0]), np.eye(2), np.array([1.0, 1.0]))
    >>> start = np.array([[1.0, 0.5], [1.0, -2.0]])
    >>> trace = gdnp_sweeps(layer, start, sweeps=20, steps=1, length="newton")
    >>> trace.W[-1][:, 0].round(4).tolist(), bool(trace.grad_norms[-1] < 1e-9)
    ([-1.2222, -1.2222], True)

    References
    ----------
    Kohler et al. 2019, algorithm 2; chapter 10, "What a sweep reaches".
    """
    W0 = layer._checked(W0)
    _checks.check_integer("sweeps", sweeps, 0)
    _checks.check_number("tol", tol, 0)
    for i, row in enumerate(W0):
        if not np.isfinite(row).all() or not row.any():
            raise ValueError(f"W0[{i}] is {row}: give a finite direction other than 0")
    W, directions = np.zeros_like(W0), W0.copy()
    rows, runs, reason = [_state(layer, W)], [], None
    while reason is None:
        if rows[-1][2] <= tol:
            reason = "tolerance"
        elif len(runs) == sweeps:
            reason = "sweeps"
        else:
            done, reason = _sweep(layer, W, directions, options)
            runs.append(done)
            rows.append(_state(layer, W))
    return SweepTrace(*(np.array(column) for column in zip(*rows)), runs, reason)


def _sweep(layer, W, directions, options):
    """Update W and the directions in place; return the traces and a reason to stop."""
    traces = []
    for i in range(layer.units):
        trace = gdnp(layer.unit(W, i), directions[i], **options)
        traces.append(trace)
        W[i], directions[i] = trace.solution, trace.w[-1]
        if trace.stop_reason not in _ENOUGH:
            return traces, trace.stop_reason
    return traces, None


def _state(layer, W):
    gradient = layer.gradient(W)
    return W.copy(), layer.value(W), float(np.sqrt((gradient**2).sum()))
