"""Losses of one number t = z.w, where z = -(label) x: those of `bnlib.problems`."""

from bnlib.problems import (
    LOSSES,
    Logistic,
    Loss,
    PseudoHuber,
    Sigmoid,
    SmoothedHinge,
)
from bnlib.problems import resolve_loss as resolve

__all__ = [
    "LOSSES",
    "Logistic",
    "Loss",
    "PseudoHuber",
    "Sigmoid",
    "SmoothedHinge",
    "resolve",
]
