"""Length and direction apart: the first problem of `bnlib.problems` to show it on."""

from bnlib.problems import LeastSquares

__all__ = ["LeastSquares"]
