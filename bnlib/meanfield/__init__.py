"""How fast gradients grow with depth in networks with batch normalization.

A layer here is a linear map, then batch normalization (scale 1, shift 0, eps 0), then
an activation, with random weights. The growth factor says by how much one layer
multiplies the *squared* norm of the gradient, from the top down.
"""

from bnlib.meanfield._growth import (
    FixedPoint,
    degree_shares,
    fixed_point,
    growth_factor,
    residual_growth,
)
from bnlib.meanfield._simulation import Growth, gradient_norms, simulate_growth

__all__ = [
    "FixedPoint",
    "Growth",
    "degree_shares",
    "fixed_point",
    "gradient_norms",
    "growth_factor",
    "residual_growth",
    "simulate_growth",
]
