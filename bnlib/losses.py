"""Losses of one number t = z.w, where z = -(label) x: those of `bnlib.problems`."""

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
