"""What both kinds of problem check."""

import array_api_compat as compat

from bnlib import _checks


def check_finite(name, array):
    xp = compat.array_namespace(array)
    if not bool(xp.all(xp.isfinite(array))):
        raise ValueError(f"{name} has values that are not finite")


def zeta_of(loss):
    zeta = getattr(loss, "zeta", None)
    if zeta is None:
        raise ValueError(
            "the loss does not say zeta, the largest |d2|: give it that attribute, or "
            "give the optimiser its step"
        )
    _checks.check_positive("loss.zeta", zeta)
    return zeta
