"""The losses of `bnlib.problems`: functions of one number t = z.w, z = -(label) x."""

from bnlib.problems import (
    LOSSES,
    Logistic,
    Loss,
    PseudoHuber,
    Sigmoid,
    SmoothedHinge,
    resolve_loss as resolve,
)

__all__ = [
    "LOSSES",
    "Logistic",
    "Loss",
    "PseudoHuber",
    "Sigmoid",
    "SmoothedHinge",
    "resolve",
]
