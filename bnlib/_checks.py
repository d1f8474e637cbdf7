"""Checks of arguments: each error names what was given and says what is taken."""

import math
from numbers import Real

import numpy as np

from bnlib._arrays import check_arrays, values_averaged


def check_number(name, value, low, high=math.inf):
    """Raise unless value is a finite real number in [low, high]."""
    if not (_is_finite(name, value) and low <= value <= high):
        raise ValueError(f"{name} is {value}: give a finite number{_range(low, high)}")


def check_positive(name, value):
    """Raise unless value is a finite real number above 0."""
    if not (_is_finite(name, value) and value > 0):
        raise ValueError(f"{name} is {value}: give a finite number above 0")


def _is_finite(name, value):
    """Return whether a real number is finite; raise if it is no real number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}: give a number")
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond float's range
        return False


def _range(low, high):
    if high != math.inf:
        return f" in [{low}, {high}]"
    return "" if low == -math.inf else f" of at least {low}"


def check_integer(name, value, low):
    """Raise unless value is an integer of at least low."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}: give an integer")
    if value < low:
        raise ValueError(f"{name} is {value}: give an integer of at least {low}")


def check_momentum(momentum):
    """Raise unless momentum is None or a number in [0, 1]."""
    if momentum is not None:
        check_number("momentum", momentum, 0, 1)


def check_activation(activation):
    """Raise unless it is one that batch norm can apply to its output."""
    if activation not in (None, "relu"):
        raise ValueError(f"activation is {activation!r}: give None or 'relu'")


def check_vector(name, vector, like, dim):
    """Raise unless the vector has shape (dim,) and the library and device of like."""
    check_arrays(**{name: vector, "S": like})
    if tuple(vector.shape) != (dim,):
        raise ValueError(
            f"{name} has shape {tuple(vector.shape)}: the problem takes ({dim},)"
        )


def check_features(name, x, num_features):
    """Raise unless axis 1 of x has num_features entries."""
    if x.shape[1] != num_features:
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, {x.shape[1]} features on axis 1: "
            f"give {num_features}"
        )


def check_training_count(name, x, axes):
    """Raise if batch statistics would rest on one value per feature, or on none."""
    if values_averaged(name, x, axes) == 1:
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, one value per feature: batch "
            "statistics need at least two; give a larger batch, or use running "
            "statistics"
        )
