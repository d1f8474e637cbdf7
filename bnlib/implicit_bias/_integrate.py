"""Integrate flows in a rescaled time in which falling losses cause no trouble."""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.integrate import LSODA

#: The number of evaluations of the rate after which an integration gives up.
MOST_EVALUATIONS = 50_000
_TOLERANCES = {"rtol": 1e-11, "atol": 1e-13}


def integrate(rate, start, grid, max_evaluations, solver=LSODA, **tolerances):
    """Follow ``d state / ds = rate(s, state)`` from s = 0 along the grid.

    Returns
    -------
    states : array, shape (T, dim)
        The states at the grid's points that were reached.
    place : float
        The point at which the integration ended.
    reason : str
        "reached", or the reason for ending early.
    """
    evaluations = 0

    def counted(s, state):
        nonlocal evaluations
        evaluations += 1
        return rate(s, state)

    states = [start for point in grid if point == 0]
    place, reason = 0.0, "reached"
    if len(states) < len(grid):
        steps = solver(counted, 0.0, start, grid[-1], **(_TOLERANCES | tolerances))
    while len(states) < len(grid):
        if evaluations > max_evaluations:
            reason = f"{evaluations} evaluations of the rate"
            break
        if not _advanced(steps):
            reason = "no step is small enough, or the rate is not finite"
            break
        place = steps.t
        passed = grid[len(states) :]
        passed = passed[passed <= place]
        if len(passed):
            states.extend(steps.dense_output()(passed).T)
    return np.reshape(states, (-1, len(start))), place, reason


def _advanced(steps):
    before = steps.t
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # The stop reason reports the same as a solver's warning.
        warnings.simplefilter("ignore", UserWarning)
        steps.step()
    finite = np.isfinite(steps.y).all()
    return steps.status != "failed" and steps.t > before and finite


class Path(NamedTuple):
    """The states at the times reached; ``reason`` says why the integration ended."""

    log_times: np.ndarray
    states: np.ndarray
    log_losses: np.ndarray
    reason: str


def follow(system, start, log_times, max_evaluations, slopes=None, **solver):
    """Follow a flow ``d state / dt = L(state) velocity(state)`` in s = log(1 + L_0 t).

    ``system(state)`` returns log L and the velocity; ``slopes(state)`` returns the
    derivatives of both, which a stiff flow needs. If L falls as 1/t, the rate in s is
    bounded, and no number of the size of t or 1/L is formed.
    """
    first, _ = system(start)

    def rate(s, state):
        log_value, velocity = system(state)
        return np.exp(s + log_value - first) * velocity

    def jacobian(s, state):
        log_value, velocity = system(state)
        gradient, change = slopes(state)
        return np.exp(s + log_value - first) * (change + np.outer(velocity, gradient))

    # Until the weights move, the rate grows as e^s: a longer step would overflow.
    solver["max_step"] = 10.0
    if slopes:
        solver["jac"] = jacobian
    grid = np.logaddexp(0, first + log_times)
    states, place, reason = integrate(rate, start, grid, max_evaluations, **solver)
    if reason != "reached":
        with np.errstate(divide="ignore"):
            log_time = place + np.log(-np.expm1(-place)) - first
        reason = f"gave up: {reason} at log t = {log_time:.6g}"
    log_losses = np.array([system(state)[0] for state in states])
    return Path(log_times[: len(states)], states, log_losses, reason)


def follow_descent(
    log_loss, coordinates, log_times, max_evaluations, hessian=None, **solver
):
    """Follow the gradient flow of L in these coordinates; return the path and drift.

    ``log_loss(layers)`` returns log L and minus its gradients by the layers;
    ``hessian(layers)``, for a single layer, returns the second derivative of log L. The
    drift is the largest change of a quantity that the coordinates conserve, or the
    largest error of ``d log L / dt = -|gradient of L|^2 / L``, which is integrated
    along with the flow.
    """

    def system(state):
        value, slopes = log_loss(coordinates.layers(state[:-1]))
        descent = coordinates.slopes(state[:-1], slopes)
        return value, np.append(descent, -(descent @ descent))

    def slopes(state):
        layers = coordinates.layers(state[:-1])
        (slope,) = log_loss(layers)[1]
        descent = coordinates.slopes(state[:-1], [slope])
        change = np.zeros((len(state), len(state)))
        change[:-1, :-1] = coordinates.change(state[:-1], slope, -hessian(layers))
        change[-1] = -2 * np.append(descent, 0.0) @ change
        return np.append(-descent, 0.0), change

    first, _ = log_loss(coordinates.layers(coordinates.start))
    start = np.append(coordinates.start, first)
    options = solver | {"slopes": slopes if hessian else None}
    path = follow(system, start, log_times, max_evaluations, **options)
    error = np.abs(path.log_losses - path.states[:, -1]).max(initial=0.0)
    states = path.states[:, :-1]
    kept = coordinates.drift(np.vstack([coordinates.start, states]))
    return path._replace(states=states), max(float(error), kept)
