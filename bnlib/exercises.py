"""What an exercise of a chapter says back: whether your code is right, and its number.

>>> from bnlib import exercises
>>> exercises.check(lambda x: 2 * x, 3.0, expected=6.0)
right: error 0, allowed 1e-09
"""

import math
from collections.abc import Callable
from typing import Any

from bnlib import _checks
from bnlib.claims.check import Check

#: The kind of output from which the site learns an exercise's answer.
ANSWER = "application/vnd.bnlib.answer+json"


def check(
    function: Callable[..., Any], *arguments: Any, expected: Any, allowed: float = 1e-9
) -> None:
    """Run the reader's function and print whether its result is the expected one.

    A blank that is still there, written ``...``, is no error: the line says so.

    Parameters
    ----------
    function : callable
        What the reader completes.
    *arguments
        What it is called with.
    expected : float, array or tuple of them
        What it should return, computed by another route.
    allowed : float
        The largest error, relative to the larger of both.

    Raises
    ------
    ValueError
        If ``allowed`` is negative.

    Examples
    --------
    >>> check(lambda x: ..., 3.0, expected=6.0)
    a blank is left: put code in place of ... and run the cell again
    >>> check(lambda x: x + 2, 3.0, expected=6.0)
    not yet: error 2e-01, allowed 1e-09
    """
    _checks.check_number("allowed", allowed, 0)
    try:
        result = function(*arguments)
    except Exception as error:  # the reader's own slip, told in a line
        print(_BLANK if "ellipsis" in str(error).lower() else f"not yet: {error!r}")
        return
    print(_said(result, expected, allowed))


_BLANK = "a blank is left: put code in place of ... and run the cell again"


def _said(result, expected, allowed):
    """Compare a result with what is expected, part by part; return a line."""
    if isinstance(expected, tuple):
        if not isinstance(result, tuple) or len(result) != len(expected):
            if result is ...:
                return _BLANK
            return f"not yet: give {len(expected)} results, separated by commas"
        pairs = list(zip(result, expected))
    else:
        pairs = [(result, expected)]
    if any(mine is ... for mine, _ in pairs):
        return _BLANK
    try:
        worst = Check.worst(*(Check(*pair, "==", allowed) for pair in pairs))
    except (TypeError, ValueError) as error:
        return f"not yet: {error}".replace("left", "your result", 1)
    told = str(worst).partition(": ")[2]
    return f"{'right' if worst.holds else 'not yet'}: {told}"


def answer(exercise: str, value: float, *, within: float) -> None:
    """Print the number that answers an exercise, and hand it to the page.

    The site gives the exercise a field; what a reader enters there is compared with
    the number that the solution computed, on the reader's own machine.

    Parameters
    ----------
    exercise : str
        The label of the exercise.
    value : float
        Its answer.
    within : float
        By how much a reader's number may differ from it.

    Raises
    ------
    ValueError
        If the value is not finite, or ``within`` not positive.

    Examples
    --------
    >>> answer("ex-mf-leaky", 0.5727, within=0.005)
    answer: 0.573
    """
    _checks.check_number("value", value, -math.inf)
    _checks.check_positive("within", within)
    print(f"answer: {float(value):.3g}")
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ModuleNotFoundError:
        return
    if get_ipython() is not None:
        # Rounded, so that another processor's last digits make no difference.
        told = {"exercise": exercise, "value": float(f"{value:.4g}"), "within": within}
        display({ANSWER: told}, raw=True)
