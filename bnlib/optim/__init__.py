"""Optimisers on one problem interface, with one trace of what they did."""

from bnlib.optim._descent import accelerated_gradient, gradient_descent
from bnlib.optim._gdnp import gdnp
from bnlib.optim._lbfgs import lbfgs
from bnlib.optim._normalised import (
    bn_gradient_descent,
    rayleigh_descent,
    wn_gradient_descent,
)
from bnlib.optim._sweeps import SweepTrace, gdnp_sweeps
from bnlib.optim._trace import Trace
from bnlib.problems import NormalisedProblem, Problem, Ray

__all__ = [
    "NormalisedProblem",
    "Problem",
    "Ray",
    "SweepTrace",
    "Trace",
    "accelerated_gradient",
    "bn_gradient_descent",
    "gdnp",
    "gdnp_sweeps",
    "gradient_descent",
    "lbfgs",
    "rayleigh_descent",
    "wn_gradient_descent",
]
