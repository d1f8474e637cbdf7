"""Find the length g at which the slope of f(g w / |w|_S) rises through 0."""

import math

from bnlib import _checks

# Lengths are in units of the spread of z.w, so this is as good as infinite.
_LONGEST = 1e8
# The next step of Newton's method would be of about the square of this.
_CLOSE = 1e-6
_ATTEMPTS = 30


def find_bracket(slope, g, flat):
    """Return (a, b) with slope below 0 at a and above 0 at b, or None.

    The search doubles its stride, first downhill from g, through 0 if need be, and then
    the other way: if f is not convex, its minimum may lie behind a maximum. With
    ``flat``, the slope may be 0 at an end, as in a minimum that is an interval.
    """
    start = slope(g)
    if start == 0:
        around = g - _stride(g), g + _stride(g)
        if flat or rises(slope, around, flat):
            return around
    downhill = 1.0 if start < 0 else -1.0
    for side in (downhill, -downhill):
        found = _scan(slope, g, start, side, flat)
        if found:
            return found
    # Long strides may have passed over a minimum near 0.
    return find_bracket(slope, math.copysign(1.0, g), flat) if abs(g) > 1 else None


def _scan(slope, g, start, side, flat):
    """Return two points on one side of g that have a minimum between them, or None."""
    last, last_slope = g, start
    stride = _stride(g)
    new = g + side * stride
    while abs(new) <= _LONGEST:
        new_slope = slope(new)
        low, high = (last_slope, new_slope) if side > 0 else (new_slope, last_slope)
        if low < 0 < high or (flat and low <= 0 <= high):
            return (last, new) if side > 0 else (new, last)
        # A point with slope exactly 0 lies inside the interval of its neighbours.
        if new_slope != 0:
            last, last_slope = new, new_slope
        stride *= 2
        new += side * stride
    return None


def check_bracket(bracket):
    """Raise unless the bracket is None or a pair of numbers, in order."""
    if bracket is None:
        return
    if not isinstance(bracket, tuple | list) or len(bracket) != 2:
        raise TypeError(f"bracket is {bracket!r}: give a pair (a, b), a below b")
    for number in bracket:
        _checks.check_number("bracket's end", number, -math.inf)
    if not bracket[0] < bracket[1]:
        raise ValueError(f"bracket is {bracket!r}: give a pair (a, b), a below b")


def _stride(g):
    return max(abs(g), 1e-6) / 16


def rises(slope, ends, flat):
    """Return True if the slope rises through 0 between the ends."""
    low, high = (slope(end) for end in ends)
    return low < 0 < high or (flat and low <= 0 <= high)


def bisect(slope, ends, steps):
    """Return the middle of the interval after this number of halvings."""
    low, high = ends
    for _ in range(steps):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        here = slope(middle)
        if here == 0:
            return middle
        if here < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def newton(ray, g, bracket, flat):
    """Return the root by Newton's method from g, or None.

    Bisection replaces a step that fails or leaves the interval known to hold the root.
    """
    low, high = bracket or (-math.inf, math.inf)
    if not low < g < high:
        g = (low + high) / 2
    for _ in range(_ATTEMPTS):
        moments = ray.moments(g / ray.norm)
        here = moments.slope / ray.norm
        curvature = moments.curvature / ray.norm / ray.norm
        if here == 0 and (flat or curvature > 0):
            return g
        low, high = (g, high) if here < 0 else (low, g)
        new = g - here / curvature if 0 < curvature < math.inf else math.nan
        if not (low < new < high and abs(new - g) <= 4 * max(abs(g), 1.0)):
            break
        # A tail that falls for ever does not end here: along one like e^-g the steps
        # stay above g / 745 until it underflows.
        if abs(new - g) <= _CLOSE * abs(g):
            return new
        g = new
    slope = slope_along(ray)
    ends = (low, high) if high - low < math.inf else find_bracket(slope, g, flat)
    return None if ends is None else bisect(slope, ends, 100)


def slope_along(ray):
    """Return the derivative of g -> f(g w / |w|_S)."""
    norm = ray.norm
    return lambda g: ray.slope(g / norm) / norm
