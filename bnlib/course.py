"""Helpers for the tests of the problem sets, in a student's notebook and in grading.

A set's cells import :func:`expect` and :func:`instances`, and need NumPy alone.
The package ``grading``, in the repository, makes and grades the sets.
"""

import copy
import os

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["expect", "handed_over", "instances", "number"]


def instances(name: str) -> np.random.Generator:
    """Return the generator of one test's random instances.

    In a notebook, every call returns a new generator. Grading replaces this function
    by one whose generator follows from the course key, the set and the name, so that
    grading twice gives the same score and nobody without the key knows the instances.

    Parameters
    ----------
    name : str
        The test's name; each test has a different one.

    Returns
    -------
    numpy.random.Generator

    Raises
    ------
    RuntimeError
        If nbgrader grades without this course's configuration.

    Examples
    --------
    >>> instances("mean").normal(size=3).shape
    (3,)
    """
    if os.environ.get("NBGRADER_EXECUTION") == "autograde":
        raise RuntimeError(
            "nbgrader runs this set without the course folder's nbgrader_config.py: "
            "run it in that folder"
        )
    return np.random.default_rng()


def expect(
    what: str, found: ArrayLike, wanted: ArrayLike, allowed: float, look: str
) -> None:
    """Compare what a function returned with what it should have returned.

    Parameters
    ----------
    what : str
        The name of the numbers, in words.
    found : array_like
        The student's numbers.
    wanted : array_like
        The same numbers, computed in another way.
    allowed : float
        The largest difference that rounding, or the theory, explains.
    look : str
        What to look at if they differ: a hint, not the answer.

    Raises
    ------
    AssertionError
        Unless `found` has the shape of `wanted`, is finite, and differs by no more
        than `allowed`. The message gives the size of the miss.

    Examples
    --------
    >>> expect("mean", 2.0, np.mean([1.0, 3.0]), 1e-15, "Sum, then divide.")
    >>> expect("mean", 2.5, np.mean([1.0, 3.0]), 1e-15, "Sum, then divide.")
    Traceback (most recent call last):
    AssertionError: mean: off by 5.0e-01, allowed 1.0e-15. Sum, then divide.
    """
    wanted = np.asarray(wanted)
    if not np.isfinite(wanted).all() or not allowed >= 0:
        raise ValueError(f"{what}: wanted must be finite and allowed >= 0")
    miss = _miss(found, wanted, allowed)
    if miss:
        raise AssertionError(f"{what}: {miss}. {look}")


def number(what, found):
    """Return a function's result as a float; raise unless it is one number.

    Parameters
    ----------
    what : str
        The name of the number, in words.
    found : object
        What the student's function returned.

    Returns
    -------
    float

    Raises
    ------
    AssertionError
        If it is an array with axes, is not a number, or is not finite.

    Examples
    --------
    >>> number("slope", 2)
    2.0
    >>> number("slope", [2.0, 3.0])
    Traceback (most recent call last):
    AssertionError: slope: one number is asked for, found list
    """
    is_number = isinstance(found, int | float | np.number) and not isinstance(
        found, bool
    )
    if isinstance(found, np.ndarray):
        is_number = found.ndim == 0 and found.dtype.kind in "iuf"
    kind = type(found).__name__
    shape = f" of shape {found.shape}" if isinstance(found, np.ndarray) else ""
    assert is_number, f"{what}: one number is asked for, found {kind}{shape}"
    try:
        value = float(found)
    except (OverflowError, TypeError):
        value = np.nan
    assert np.isfinite(value), f"{what}: {kind} is not a finite number"
    return value


def handed_over(state, most):
    """Return a copy of a state as data of limited size, as another process gets it.

    In grading, the process that made the state has ended by then: what a function kept
    in a global variable or in a file is gone.

    Parameters
    ----------
    state : None, number, text, array, or a tuple, list or dict of these
        The state; the keys of a dict are text.
    most : int
        The largest number of bytes. A number, a tuple, a list and a dict count eight
        each; an array counts its values' bytes, and a text its letters'.

    Returns
    -------
    the same kinds of values, copied

    Raises
    ------
    AssertionError
        If it has more bytes, or is not made of data.

    Examples
    --------
    >>> handed_over({"count": 2, "mean": np.zeros(3)}, most=64)
    {'count': 2, 'mean': array([0., 0., 0.])}
    >>> handed_over([1.0] * 10, most=64)
    Traceback (most recent call last):
    AssertionError: the state has 88 bytes, at most 64 are handed over
    """
    size = _bytes_in(state)
    assert size <= most, f"the state has {size} bytes, at most {most} are handed over"
    return copy.deepcopy(state)


def _bytes_in(value):
    """Return the size of data in bytes; every value counts, so nothing can hide."""
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value), "a key must be text"
        return 8 + sum(_bytes_in(part) for pair in value.items() for part in pair)
    if isinstance(value, tuple | list):
        return 8 + sum(map(_bytes_in, value))
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, int) and not isinstance(value, bool):
        return max(8, (value.bit_length() + 7) // 8)
    if value is None or isinstance(value, bool | float):
        return 8
    if isinstance(value, complex):
        return 16
    array = np.asarray(value)
    assert array.dtype.kind in "biufc", f"a state cannot hold {type(value).__name__}"
    return max(8, array.nbytes) + 8 * array.ndim


def _miss(found, wanted, allowed):
    """Return what is wrong with a student's result, or None."""
    try:
        array = np.asarray(found)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype.kind not in "biufc":
        return f"found {type(found).__name__}, wanted numbers"
    if array.shape != wanted.shape:
        return f"shape {array.shape}, wanted {wanted.shape}"
    if not np.isfinite(array).all():
        return f"{(~np.isfinite(array)).sum()} of {array.size} values not finite"
    # NumPy cannot subtract booleans, and unsigned integers wrap around.
    wide = [np.asarray(a, np.result_type(a.dtype, float)) for a in (array, wanted)]
    with np.errstate(over="ignore"):
        off = np.abs(wide[0] - wide[1]).max(initial=0.0)
    return None if off <= allowed else f"off by {off:.1e}, allowed {allowed:.1e}"
