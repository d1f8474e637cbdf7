"""Checks of arguments: each error names what was given and says what is taken.

A function that works on NumPy arrays and on torch tensors takes no lists; it calls
`bnlib._arrays.check_arrays`. One that promises a NumPy array calls `check_numpy`. One
that computes in NumPy alone also takes lists; it calls `plain_array` or `finite_array`.
"""

import math
from numbers import Real

import array_api_compat as compat
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
    """Return whether a number is finite; raise unless it is real."""
    # float comes first: isinstance on the abstract class takes five times as long.
    if not isinstance(value, (float, Real)) or isinstance(value, bool):
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
    """Raise unless the activation is one that batch norm can apply to its output."""
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
    """Return how many values each feature has; raise if there are fewer than two."""
    count = values_averaged(name, x, axes)
    if count == 1:
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, one value per feature: batch "
            "statistics need at least two; give a larger batch, or use running "
            "statistics"
        )
    return count


def check_finite(name, array):
    """Raise unless every value of an array is finite."""
    xp = compat.array_namespace(array)
    if not bool(xp.all(xp.isfinite(array))):
        raise ValueError(f"{name} has values that are not finite")


def check_numpy(**arrays):
    """Raise unless all are NumPy arrays, dense, real and floating."""
    for name, array in arrays.items():
        if not compat.is_numpy_array(array):
            raise TypeError(f"{name} is a {type(array).__name__}: give a NumPy array")
    check_arrays(**arrays)


def plain_array(name, value):
    """Return an array or a list as a new NumPy array of dtype float64."""
    kind = type(value).__name__
    try:
        found = np.asarray(value)
        # Casting would drop an imaginary part and a mask, and read text as numbers.
        if found.dtype.kind in "fiub" and not isinstance(value, np.ma.MaskedArray):
            return found.astype(np.float64)
        kind = f"{kind} of dtype {found.dtype}"
    except (TypeError, ValueError, RuntimeError):
        pass
    raise TypeError(f"{name} is a {kind}: give a plain array of real numbers")


def finite_array(name, value, ndim=None):
    """Return the value as `plain_array` does; raise if it is empty or not finite.

    With ``ndim``, also raise unless the array has that number of axes.
    """
    found = plain_array(name, value)
    if (ndim is not None and found.ndim != ndim) or found.size == 0:
        axes = "an array" if ndim is None else f"{ndim} axes"
        raise ValueError(
            f"{name} has shape {found.shape}: give {axes} with at least one entry"
        )
    check_finite(name, found)
    return found
