"""What the landscapes' functions ask of their arguments."""

import array_api_compat as compat

from bnlib import _arrays


def numpy_array(name, array):
    """Return the array, after checking that it is NumPy's, dense and floating."""
    if not compat.is_numpy_array(array):
        raise TypeError(f"{name} is a {type(array).__name__}: give a NumPy array")
    _arrays.check_arrays(**{name: array})
    return array
