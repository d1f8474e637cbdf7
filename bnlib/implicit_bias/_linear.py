"""Flows of linear models under the exponential loss, to any time."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import DOP853

from bnlib import _checks
from bnlib.implicit_bias import _arguments, _margins, _norms
from bnlib.implicit_bias._coordinates import COORDINATES
from bnlib.implicit_bias._integrate import (
    MOST_EVALUATIONS,
    follow,
    follow_descent,
)

# These flows are smooth and never stiff.
_FINE = {"solver": DOP853, "rtol": 1e-13, "atol": 1e-13}


@dataclass(frozen=True, eq=False)
class LinearFlow:
    """The weights of a flow at those of ``log_times`` that it reached.

    Attributes
    ----------
    log_times : array, shape (T,)
    weights : array, shape (T, d)
    log_losses : array, shape (T,)
    drift : float
        The largest change of a quantity that is constant exactly: log L minus the
        integral of its derivative, and, with weight normalization, the length of v. It
        measures the error of the integration.
    stop_reason : str
        "reached", or where and why the integration gave up.

    References
    ----------
    Chapter 11, "Margins".
    """

    log_times: np.ndarray
    weights: np.ndarray
    log_losses: np.ndarray
    drift: float
    stop_reason: str

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of the weights, shape (T,)."""
        return _norms.lengths(self.weights)

    @property
    def directions(self) -> np.ndarray:
        """The directions of the weights, shape (T, d)."""
        return _norms.directions(self.weights)


class OneSampleFlow(NamedTuple):
    """The flow of one sample: ``theta`` is the angle between w and y x.

    ``invariants`` are ``log(length) + log(sin theta)`` for gradient flow and
    ``log(sin theta) + length^2 / 2`` for weight normalization; ``drift`` is their
    largest change. ``stop_reason`` is "reached", or says where the integration gave
    up.
    """

    log_times: np.ndarray
    lengths: np.ndarray
    log_sines: np.ndarray
    log_losses: np.ndarray
    invariants: np.ndarray
    drift: float
    stop_reason: str


def linear_flow(
    rows: ArrayLike,
    start: ArrayLike,
    log_times: ArrayLike,
    method: str = "gd",
    *,
    max_evaluations: int = MOST_EVALUATIONS,
) -> LinearFlow:
    """Follow the flow of ``L(w) = sum(exp(-rows @ w))``, recorded in log t.

    Parameters
    ----------
    rows : array, shape (n, d)
        ``y_n x_n``, linearly separable.
    start : array, shape (d,)
        The weights at time 0.
    log_times : array, shape (T,)
        Increasing logarithms of times; a thousand is reached in about a second.
    method : str
        "gd" is the gradient flow of w; "wn" is that of g and v, with
        ``w = g v / |v|`` and v of length 1 at the start.
    max_evaluations : int
        The number of evaluations of the gradient after which the integration gives up.

    Returns
    -------
    LinearFlow

    Raises
    ------
    TypeError, ValueError
        If the rows are not separable, the shapes do not fit, a value is not finite, the
        times do not increase, the method is unknown, or "wn" starts at zero.

    Examples
    --------
    >>> from bnlib.implicit_bias import angle
    >>> flow = linear_flow([[1.0, 0.3], [1.0, -1.2]], [1.0, 0.0], [20.0, 60.0])
    >>> angles = angle(flow.weights, [1.0, 0.0])
    >>> (angles * flow.log_times).round(3).tolist(), flow.drift < 1e-8
    ([0.9, 0.916], True)

    References
    ----------
    Poggio, Banburski and Liao 2019; chapter 11, "Margins".
    """
    rows = _checks.finite_array("rows", rows, 2)
    start = _arguments.weights_of(rows, start, "start", ndim=1)
    log_times = _arguments.increasing("log_times", log_times)
    _arguments.method(method)
    _checks.check_integer("max_evaluations", max_evaluations, 1)
    _margins.max_margin(rows)  # raises if nothing separates the rows
    if method == "wn" and not start.any():
        raise ValueError("start is zero: weight normalization needs a direction")

    def log_loss(layers):
        value, shares = _margins.log_sum(rows @ layers[0])
        return value, [shares @ rows]

    def hessian(layers):
        _, shares = _margins.log_sum(rows @ layers[0])
        mean = shares @ rows
        return (rows.T * shares) @ rows - np.outer(mean, mean)

    coordinates = COORDINATES[method]([start])
    path, drift = follow_descent(
        log_loss, coordinates, log_times, max_evaluations, hessian
    )
    weights = [coordinates.layers(state)[0] for state in path.states]
    weights = np.reshape(weights, (-1, len(start)))
    return LinearFlow(path.log_times, weights, path.log_losses, drift, path.reason)


def one_sample_flow(
    size: float,
    length: float,
    angle: float,
    log_times: ArrayLike,
    method: str = "gd",
    *,
    max_evaluations: int = MOST_EVALUATIONS,
) -> OneSampleFlow:
    """Follow the flow of ``L(w) = exp(-y x.w)``, with the angle as a logarithm.

    With weight normalization the sine of the angle falls below the smallest float by
    log t = 40; its logarithm does not.

    Parameters
    ----------
    size : float above 0
        The length of x.
    length : float above 0
        The length of w at time 0.
    angle : float
        The angle between w and y x at time 0, above 0 and below pi.
    log_times : array, shape (T,)
        Increasing logarithms of times.
    method : str
        "gd", or "wn" for weight normalization with v of length 1.
    max_evaluations : int

    Returns
    -------
    OneSampleFlow

    Raises
    ------
    TypeError, ValueError
        If a number is out of range or the times do not increase.

    Examples
    --------
    >>> flow = one_sample_flow(1.0, 1.0, 0.8, [60.0, 600.0], method="wn")
    >>> (flow.log_sines / flow.log_times**2).round(3).tolist(), flow.drift < 1e-8
    ([-0.5, -0.5], True)

    References
    ----------
    Poggio, Banburski and Liao 2019; chapter 12, "Weight normalization".
    """
    _checks.check_positive("size", size)
    _checks.check_positive("length", length)
    _checks.check_positive("angle", angle)
    if not angle < math.pi:
        raise ValueError(f"angle is {angle}: give an angle below pi")
    log_times = _arguments.increasing("log_times", log_times)
    _arguments.method(method)
    _checks.check_integer("max_evaluations", max_evaluations, 1)
    power = 1 if method == "wn" else -1

    def system(state):
        # The second number is log tan(theta / 2): regular at every angle.
        rho, tangent = state
        cosine = -np.tanh(tangent)
        return -rho * size * cosine, size * np.array([cosine, -(rho**power)])

    start = np.array([length, np.log(np.tan(angle / 2))])
    path = follow(system, start, log_times, max_evaluations, **_FINE)
    states = np.vstack([start, path.states])
    rho, tangent = states[:, 0], np.abs(states[:, 1])
    log_sines = np.log(2) - tangent - np.log1p(np.exp(-2 * tangent))
    kept = log_sines + (rho**2 / 2 if method == "wn" else np.log(rho))
    drift = float(np.abs(kept - kept[0]).max())
    columns = (np.abs(rho), log_sines, np.append(0.0, path.log_losses), kept)
    columns = [column[1:] for column in columns]
    return OneSampleFlow(path.log_times, *columns, drift, path.reason)


def deep_growth(
    depth: int, margin: float, log_times: ArrayLike, length: float = 1.0
) -> np.ndarray:
    """Return the product of the layers' norms of a balanced deep network.

    For one sample, fixed directions and equal norms, the product rho of the norms of K
    layers satisfies ``d rho / dt = K rho^(2 - 2/K) m exp(-m rho)``, where m is the
    margin of the directions.

    Parameters
    ----------
    depth : int, at least 1
    margin : float above 0
    log_times : array, shape (T,)
        Increasing logarithms of times.
    length : float above 0
        rho at time 0.

    Returns
    -------
    array, shape (T,)

    Raises
    ------
    TypeError, ValueError
        If a number is out of range or the times do not increase.
    ArithmeticError
        If the integration gives up.

    Examples
    --------
    >>> growth = deep_growth(3, 0.5, [2000.0])
    >>> (0.5 * growth / 2000).round(3).tolist()
    [1.005]

    References
    ----------
    Poggio, Banburski and Liao 2019; chapter 11, "Margins".
    """
    _checks.check_integer("depth", depth, 1)
    _checks.check_positive("margin", margin)
    _checks.check_positive("length", length)
    log_times = _arguments.increasing("log_times", log_times)

    def system(state):
        return -margin * state[0], depth * margin * state ** (2 - 2 / depth)

    start = np.array([float(length)])
    path = follow(system, start, log_times, MOST_EVALUATIONS)
    if path.reason != "reached":
        raise ArithmeticError(path.reason)
    return path.states[:, 0]
