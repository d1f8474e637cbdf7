"""Paths that are no flows: the least loss at each length, and coordinate descent."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from bnlib import _checks
from bnlib.implicit_bias import _arguments
from bnlib.implicit_bias._margins import log_sum, max_margin

# The largest factor by which the length grows from one solve to the next.
_STRIDE = 1.3


class CoordinatePath(NamedTuple):
    """Greedy coordinate descent; index 0 is the start, at w = 0.

    ``travelled`` is the sum of the steps so far, at least the l1 length of w.
    """

    weights: np.ndarray
    travelled: np.ndarray
    log_losses: np.ndarray


def constrained_path(rows: ArrayLike, lengths: ArrayLike) -> np.ndarray:
    """Return, for each length, the w of least ``sum(exp(-rows @ w))``.

    Parameters
    ----------
    rows : array, shape (n, d)
        ``y_n x_n``, linearly separable.
    lengths : array, shape (T,)
        Increasing, above 0.

    Returns
    -------
    array, shape (T, d)

    Raises
    ------
    TypeError, ValueError
        If the rows are not separable, or the lengths do not increase from above 0.
    ArithmeticError
        If the equations of the minimum cannot be solved: at lengths near 1e9 divided by
        the margin, rounding dominates the loss.

    Examples
    --------
    >>> constrained_path([[2.0, 1.0], [2.0, -1.0]], [0.5, 3.0]).round(9).tolist()
    [[0.5, 0.0], [3.0, 0.0]]

    References
    ----------
    Rosset, Zhu and Hastie 2004, "Margin maximizing loss functions"; chapter 11,
    "Margins".
    """
    rows = _checks.finite_array("rows", rows, 2)
    lengths = _arguments.increasing("lengths", lengths)
    _checks.check_positive("lengths[0]", float(lengths[0]))
    max_margin(rows)  # raises if nothing separates the rows
    # For short vectors, the least loss lies along the mean row.
    mean = rows.mean(axis=0)
    length = 0.1 / np.linalg.norm(rows, axis=1).max()
    norm = np.linalg.norm(mean)
    solution, path = np.append(mean / norm, norm), []
    for target in lengths:
        while length < target:
            length = min(_STRIDE * length, target)
            solution = _constrained(rows, length, solution)
        solution = _constrained(rows, target, solution)
        path.append(target * solution[:-1])
    return np.array(path)


def _constrained(rows, length, start):
    """Solve for the direction v and the multiplier: descent = multiplier * v."""
    d = rows.shape[1]

    def equations(unknown):
        v, multiplier = unknown[:d], unknown[d]
        _, shares = log_sum(length * (rows @ v))
        descent = shares @ rows
        spread = (rows.T * shares) @ rows - np.outer(descent, descent)
        slope = np.zeros((d + 1, d + 1))
        slope[:d, :d] = -length * spread - multiplier * np.eye(d)
        slope[:d, d] = slope[d, :d] = -v
        return np.append(descent - multiplier * v, (1 - v @ v) / 2), slope

    found = optimize.root(equations, start, jac=True, tol=1e-13)
    missed = np.abs(equations(found.x)[0]).max()
    # A negative multiplier means the greatest loss of that length, not the least.
    if not (missed <= 1e-8 * max(1.0, np.abs(rows).max()) and found.x[d] > 0):
        raise ArithmeticError(f"no minimum found at length {length:.6g}")
    return found.x


def coordinate_descent(
    rows: ArrayLike, steps: int, rate: float = 1.0
) -> CoordinatePath:
    """Descend on the exponential loss, one coordinate at a time.

    Each step moves the coordinate along which log L has the largest slope, downhill. At
    step k = 0, 1, ... it moves by ``rate / (b sqrt(k + 1))``, where b is the largest
    entry of the rows in absolute value.

    Parameters
    ----------
    rows : array, shape (n, d)
        ``y_n x_n``; they need not be separable.
    steps : int, at least 0
    rate : float above 0

    Returns
    -------
    CoordinatePath

    Raises
    ------
    TypeError, ValueError
        If a number is out of range, or the rows are all zero.

    Examples
    --------
    >>> path = coordinate_descent([[2.0, 1.0], [2.0, -1.0]], steps=100)
    >>> path.weights[100, 1], bool(path.weights[100, 0] == path.travelled[100])
    (np.float64(0.0), True)

    References
    ----------
    Telgarsky 2013, "Margins, shrinkage, and boosting"; chapter 11, "Margins".
    """
    rows = _checks.finite_array("rows", rows, 2)
    _checks.check_integer("steps", steps, 0)
    _checks.check_positive("rate", rate)
    largest = np.abs(rows).max()
    if largest == 0:
        raise ValueError("rows are all zero: there is nothing to descend on")
    sizes = rate / (largest * np.sqrt(np.arange(1, steps + 1)))
    weights = np.zeros((steps + 1, rows.shape[1]))
    log_losses = np.zeros(steps + 1)
    margins = np.zeros(len(rows))
    for k in range(steps + 1):
        log_losses[k], shares = log_sum(margins)
        if k == steps:
            break
        descent = shares @ rows
        coordinate = np.abs(descent).argmax()
        step = sizes[k] * np.sign(descent[coordinate])
        weights[k + 1] = weights[k]
        weights[k + 1, coordinate] += step
        margins = margins + step * rows[:, coordinate]
    return CoordinatePath(weights, np.append(0.0, np.cumsum(sizes)), log_losses)
