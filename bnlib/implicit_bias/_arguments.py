"""The checks of the arguments of the functions on implicit bias."""

import numpy as np

from bnlib import _checks

METHODS = ("gd", "wn")


def examples(X, y):
    """Return X (n, d) and y (n,) as arrays; raise unless y has labels of both signs."""
    X, y = _checks.finite_array("X", X, 2), _checks.finite_array("y", y, 1)
    if len(X) != len(y):
        raise ValueError(f"X has {len(X)} rows and y {len(y)} labels: give one a row")
    if not (np.abs(y) == 1).all():
        raise ValueError(f"y holds {np.unique(y)[:5].tolist()}: give labels -1 and 1")
    if (y == y[0]).all():
        raise ValueError(
            f"y is {y[0]:.0f} for every row: there is nothing to separate; give both "
            "labels"
        )
    return X, y


def weights_of(rows, w, name="w", ndim=None):
    """Return the weights as an array; raise unless the last axis fits the rows."""
    w = _checks.finite_array(name, w, ndim)
    if w.ndim == 0 or w.shape[-1] != rows.shape[1]:
        raise ValueError(
            f"{name} has shape {w.shape} for rows of length {rows.shape[1]}: give that "
            "length on the last axis"
        )
    return w


def increasing(name, values):
    """Return the values as a one-axis array; raise unless it increases strictly."""
    values = _checks.finite_array(name, values, 1)
    if (np.diff(values) <= 0).any():
        raise ValueError(f"{name} does not increase: sort it, each value once")
    return values


def exponent(p):
    """Raise unless p is the exponent of a norm that has a gradient."""
    _checks.check_number("p", p, 1)


def method(name):
    """Raise unless the method is known."""
    if name not in METHODS:
        raise ValueError(f"method is {name!r}: give one of {', '.join(METHODS)}")
