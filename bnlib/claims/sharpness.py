"""How sharp a claim's check is: the smallest error that it would reject."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bnlib.claims.check import Check


@dataclass(frozen=True)
class Sharpness:
    """The smallest relative changes of a claim that its check rejects.

    A check may compare several pairs of sides, on several instances. A change is
    rejected if one instance rejects it; of several pairs the coarsest counts.

    Attributes
    ----------
    equality : float or None
        What the equalities reject; None if there is none. For exact sides this is the
        rounding that is allowed, for a measured side the noise.
    slack : float or None
        By how much the right side of an inequality may move towards the left, on the
        instance that leaves it least room; None if there is no inequality. It is
        infinite if only a sign is checked, such as "not 0".
    """

    equality: float | None
    slack: float | None

    def __str__(self) -> str:
        words = []
        if self.equality is not None:
            words.append(f"equal to {_share(self.equality)}")
        if self.slack is not None:
            words.append(_room(self.slack))
        return "; ".join(words)


def _share(number):
    """Write a share: as a power of ten where it is rounding, else in percent."""
    if number < 1e-15:
        return "the last digit"
    return f"{number:.0e}" if number < 1e-3 else f"{100 * number:.2g} %"


def _room(slack):
    if math.isinf(slack):
        return "a sign"
    if slack < 1e-6:
        return "bound attained"
    if slack <= 1:
        return f"slack {_share(slack)}"
    return f"slack a factor {1 + slack:.2g}"


def sharpness(runs: Sequence[Sequence[Check]]) -> Sharpness:
    """Return the sharpness of the comparisons that a check made.

    Parameters
    ----------
    runs : sequence of sequences of Check
        For each instance the comparisons made, in their order.

    Returns
    -------
    Sharpness

    Examples
    --------
    >>> exact, bound = Check(2, 2, "==", allowed=1e-9), Check(0.9, 1, "<=", allowed=0)
    >>> print(sharpness([[exact, bound]]))
    equal to 1e-09; slack 10 %
    """
    found = {True: [], False: []}
    for equality, values in found.items():
        kept = [[c for c in run if (c.relation == "==") is equality] for run in runs]
        kept = [[check.resolution for check in run] for run in kept if run]
        if len({len(run) for run in kept}) == 1:
            # The same pair of sides stands at the same place of each run.
            values += [min(place) for place in zip(*kept)]
        elif kept:
            values.append(min(max(run) for run in kept))
    return Sharpness(*(max(values, default=None) for values in found.values()))
