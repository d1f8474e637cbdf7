"""What the tests of the problem sets use, in a student's notebook as in grading.

A set's cells import :func:`expect` and :func:`instances`, and need NumPy alone. What
makes and grades the sets is ``grading``, in the repository.
"""

import os

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["expect", "instances"]


def instances(name: str) -> np.random.Generator:
    """Return the generator of one test's random instances.

    In a notebook it is another one at every call. Grading puts a function in its
    place whose generator follows from the course key, the set and the name: grading
    twice gives the same score, and nobody without the key knows the instances.

    Parameters
    ----------
    name : str
        A name of its own for every test.

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
    """Hold what a function gave against what it should have given.

    Parameters
    ----------
    what : str
        What is compared, in words.
    found : array_like
        The student's numbers.
    wanted : array_like
        The same numbers, come by another way.
    allowed : float
        The largest difference that rounding, or the theory, explains.
    look : str
        What to look at if they differ; not the answer.

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


def _miss(found, wanted, allowed):
    """Return what is wrong with what a student gave, or None."""
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
    # Booleans and unsigned integers have no difference of their own.
    wide = [np.asarray(a, np.result_type(a.dtype, float)) for a in (array, wanted)]
    with np.errstate(over="ignore"):
        off = np.abs(wide[0] - wide[1]).max(initial=0.0)
    return None if off <= allowed else f"off by {off:.1e}, allowed {allowed:.1e}"
