"""The list of cases, and how a case is judged."""

from types import SimpleNamespace
from typing import NamedTuple

import torch

import bnlib

_CASES = {}


class Case(NamedTuple):
    """A row of the list: its number, its requirement, and the function to test it."""

    number: int
    asks: str
    function: object


class Outcome(NamedTuple):
    """The result of a case for a library.

    ``verdict`` is "right", "otherwise" or "not offered"; ``detail`` says what the
    library does instead.
    """

    verdict: str
    detail: str


class Otherwise(Exception):
    """Raised if the library does something else."""


class NotOffered(Exception):
    """Raised if the library does not offer the feature."""


def case(number, asks):
    """Register a function of a library as a case of the list."""

    def register(function):
        _CASES[number] = Case(number, asks, function)
        return function

    return register


def all_cases():
    """Return all cases, in order.

    Returns
    -------
    list of Case
        NamedTuples ``number``, ``asks`` (Markdown) and ``function``.

    Examples
    --------
    >>> all_cases()[9].asks
    'a constant channel: the output is exactly beta'

    References
    ----------
    Chapter 15, "Practice".
    """
    return [_CASES[number] for number in sorted(_CASES)]


def run(number, library="bnlib"):
    """Run one case.

    Parameters
    ----------
    number : int
        The number of the case, from 1.
    library : "bnlib" or "torch"

    Returns
    -------
    Outcome
        NamedTuple ``verdict`` ("right", "otherwise" or "not offered") and
        ``detail``.

    Raises
    ------
    ValueError
        If there is no such case or library.

    Examples
    --------
    >>> run(10).verdict
    'right'
    >>> run(22, library="torch").verdict
    'not offered'

    References
    ----------
    Chapter 15, "Practice".
    """
    if number not in _CASES:
        raise ValueError(f"number is {number!r}: give one from 1 to {max(_CASES)}")
    if library not in _LIBRARIES:
        raise ValueError(f"library is {library!r}: give 'bnlib' or 'torch'")
    # The devices are named: fork_rng warns if it takes several by default.
    with torch.random.fork_rng(range(torch.cuda.device_count()) or None):
        torch.manual_seed(number)
        try:
            _CASES[number].function(_LIBRARIES[library])
        except Otherwise as found:
            return Outcome("otherwise", str(found))
        except NotOffered as found:
            return Outcome("not offered", str(found))
    return Outcome("right", "")


def expect(condition, otherwise):
    """Raise Otherwise unless the condition holds; ``otherwise`` says what was found."""
    if not condition:
        raise Otherwise(otherwise)


def expect_close(found, right, allowed, what="the output", least=1e-300):
    """Raise unless the error, relative to the largest right value, is allowed.

    Values that are all below ``least`` are judged by that.
    """
    scale = right.double().abs().max().clamp(min=least)
    error = ((found.double() - right.double()).abs().max() / scale).item()
    expect(error <= allowed, f"{what} is off by {error:.0e}")


def expect_error(function, *named, kinds=(TypeError, ValueError)):
    """Raise unless the function raises one of ``kinds`` with all of ``named`` in it."""
    try:
        function()
    except kinds as error:
        message = str(error)
        missing = [word for word in named if word not in message]
        expect(not missing, f"the error does not name {', '.join(missing)}")
    except Exception as error:
        raise Otherwise(f"{type(error).__name__}, not {_names(kinds)}") from error
    else:
        raise Otherwise("no error")


def _names(kinds):
    return " or ".join(kind.__name__ for kind in kinds)


def gradient(function, x, dy):
    """Return the gradient of the sum of function(x) times dy, with respect to x."""
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(function(x), x, dy)[0]


_LIBRARIES = {
    "bnlib": SimpleNamespace(
        name="bnlib", nn=bnlib.nn, batch_norm=bnlib.functional.batch_norm
    ),
    "torch": SimpleNamespace(
        name="torch", nn=torch.nn, batch_norm=torch.nn.functional.batch_norm
    ),
}
