"""The check of a claim: its two sides, and whether they agree."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace

import array_api_compat as compat
import numpy as np

from bnlib import _arrays, _checks
from bnlib._arrays import Array

RELATIONS = ("==", "<=", ">=")
_MADE: ContextVar[list["Check"] | None] = ContextVar("made", default=None)


@dataclass(frozen=True, eq=False)
class Check:
    """Two sides of a claim on one instance, and whether they agree.

    Parameters
    ----------
    left, right : float or array
        The two sides, computed in different ways; they are kept as NumPy arrays.
    relation : str
        "==", "<=" or ">=".
    allowed : float
        The largest error with which the claim still holds.
    scale : float, optional
        The unit of errors. None means the largest magnitude on either side, so the
        error is relative. Give a scale if a side is 0.

    Raises
    ------
    TypeError, ValueError
        If a side is no number or array, the shapes differ (a single number fits every
        shape), the relation is unknown, or allowed or scale is out of range.

    Examples
    --------
    >>> print(Check(2.0, 2.0 + 2e-15, "==", allowed=1e-12))
    holds: error 1e-15, allowed 1e-12
    >>> Check([1.0, 3.0], 2.0, "<=", allowed=0.0).holds
    False
    """

    left: Array
    right: Array
    relation: str
    allowed: float
    scale: float | None = None

    def __post_init__(self):
        if self.relation not in RELATIONS:
            raise ValueError(
                f"relation is {self.relation!r}: give one of {', '.join(RELATIONS)}"
            )
        _checks.check_number("allowed", self.allowed, 0)
        if self.scale is not None:
            _checks.check_positive("scale", self.scale)
        for name in ("left", "right"):
            object.__setattr__(self, name, _plain(name, getattr(self, name)))
        left, right = self.left.shape, self.right.shape
        if left and right and left != right:
            raise ValueError(
                f"left has shape {left} and right {right}: give equal shapes, or a "
                "number on one side"
            )
        made = _MADE.get()
        if made is not None:
            made.append(self)

    @property
    @_arrays.silently()
    def error(self) -> float:
        """Return the largest amount by which the relation is missed, over the scale."""
        left, right = np.broadcast_arrays(self.left, self.right)
        if left.size == 0:
            return float("nan")
        missed = left - right if self.relation != ">=" else right - left
        missed = np.abs(missed) if self.relation == "==" else np.maximum(missed, 0)
        scale = self.scale
        if scale is None:
            scale = max(np.abs(left).max(), np.abs(right).max())
        largest = float(missed.max())
        return largest if largest == 0 else largest / float(scale)

    @property
    def holds(self) -> bool:
        """Return True if the error is at most the allowed one; False for NaN."""
        return bool(self.error <= self.allowed)

    @property
    def resolution(self) -> float:
        """Return the smallest relative change of the right side that is rejected.

        An equality must reject the change in either direction, an inequality the one
        that makes it harder to meet. Where the right side is 0, the change is a share
        of the scale. It is found by changing the side and comparing again, to within
        0.2 %, and is infinite if a change by the factor 1000 is not rejected.
        """
        signs = {"==": (1, -1), "<=": (-1,), ">=": (1,)}[self.relation]
        if not self.holds:
            return 0.0
        return max(_smallest_rejected(self, sign) for sign in signs)

    def __str__(self) -> str:
        word = "holds" if self.holds else "fails"
        return f"{word}: error {_short(self.error)}, allowed {_short(self.allowed)}"

    @staticmethod
    def worst(*checks: "Check") -> "Check":
        """Return the check that is closest to failing, or that fails by most.

        Examples
        --------
        >>> fine, bad = Check(1, 1, "==", 1e-9), Check(1, 2, "==", 1e-9)
        >>> Check.worst(fine, bad).holds
        False
        """
        if not checks:
            raise ValueError("give at least one check")
        return max(checks, key=_strain)


@contextlib.contextmanager
def recorded() -> Iterator[list[Check]]:
    """Collect every comparison that is made in the block.

    Yields
    ------
    list of Check
        It grows as the block goes on.

    Examples
    --------
    >>> with recorded() as made:
    ...     check = Check(1.0, 1.0, "==", allowed=0.0)
    >>> len(made)
    1
    """
    made: list[Check] = []
    token = _MADE.set(made)
    try:
        yield made
    finally:
        _MADE.reset(token)


def _smallest_rejected(check, sign):
    """Return by how much, and no less, the right side may change to be rejected."""
    sizes = np.abs(check.left).max(), np.abs(check.right).max()
    fixed = check.scale or max(sizes) or 1.0
    unit = np.abs(check.right) if sizes[1] else fixed

    def rejected(change):
        right = check.right + sign * change * unit
        # The scale stays: a larger right side must not excuse a larger miss.
        return not replace(check, right=right, scale=fixed).holds

    low, high = 1e-18, 1e3
    if not rejected(high):
        return float("inf")
    while high / low > 1.002:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if rejected(middle) else (middle, high)
    return high


def _plain(name, side):
    """Return one side as a float64 NumPy array; tensors may lie on any device."""
    if compat.is_torch_array(side):
        side = side.detach().double().cpu().numpy()
    try:
        if side is not None:  # NumPy would turn None into NaN
            # A copy: a buffer that changes later must not change the verdict.
            return np.array(side, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{name} is {side!r}: give a number or an array")


def _strain(check):
    if not check.holds:
        return (
            True,
            np.nan_to_num(check.error, nan=np.inf) / max(check.allowed, 1e-300),
        )
    return (False, check.error / check.allowed if check.allowed else 0.0)


def _short(number):
    return "0" if number == 0 else f"{number:.0e}"
