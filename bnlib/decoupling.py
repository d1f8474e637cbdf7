"""Length and direction apart: the problem of `bnlib.problems` to show it on first."""

from bnlib.problems import LeastSquares

__all__ = ["LeastSquares"]
