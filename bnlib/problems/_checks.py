"""The checks that both kinds of halfspace problem share."""

from bnlib import _checks


def zeta_of(loss):
    zeta = getattr(loss, "zeta", None)
    if zeta is None:
        raise ValueError(
            "the loss does not say zeta, the largest |d2|: give it that attribute, or "
            "give the optimiser its step"
        )
    _checks.check_positive("loss.zeta", zeta)
    return zeta
