"""Check a function of your own with two derivatives before it is used."""

import array_api_compat as compat
import numpy as np

from bnlib import _arrays

#: The points to check at; kinks usually lie at rounder numbers.
PROBES = np.array([-3.3137, -1.6180, -0.5772, 0.1234, 0.6931, 1.4142, 2.7183])
_STEP = 1e-5


def check_derivatives(name, given, known, like):
    """Raise unless an object's value, d1 and d2 act elementwise and fit each other.

    ``known`` names bnlib's functions of that kind, for the error. The check uses arrays
    of the library and device of ``like``.
    """
    missing = [
        method
        for method in ("value", "d1", "d2")
        if isinstance(given, type) or not callable(getattr(given, method, None))
    ]
    if missing:
        raise TypeError(
            f"{name} is {given!r}, without {', '.join(missing)}: give an object with "
            f"methods value, d1 and d2, or one of {', '.join(known)}"
        )
    xp = compat.array_namespace(like)
    points = xp.asarray(PROBES, device=compat.device(like))
    found = {}
    for method in ("value", "d1", "d2"):
        found[method] = getattr(given, method)(points)
        if getattr(found[method], "shape", None) != points.shape:
            raise ValueError(f"{name}.{method} does not act elementwise on arrays")
    for method, derivative in (("value", "d1"), ("d1", "d2")):
        function, slopes = getattr(given, method), found[derivative]
        near = (function(points + _STEP) - function(points - _STEP)) / (2 * _STEP)
        if not bool(xp.all(xp.abs(slopes - near) <= 1e-3 * (1 + xp.abs(near)))):
            raise ValueError(
                f"{name}.{derivative} is not the derivative of {name}.{method}: "
                f"{_arrays.detached(slopes).tolist()} against differences "
                f"{_arrays.detached(near).tolist()} at {PROBES.tolist()}"
            )
