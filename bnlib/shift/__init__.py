"""Internal covariate shift, measured, and the layers of the experiments about it."""

from bnlib.shift._layers import BatchNoise, LpBatchNorm, with_noise
from bnlib.shift._measures import (
    GradientShift,
    distribution_distance,
    gradient_shift,
)

__all__ = [
    "BatchNoise",
    "GradientShift",
    "LpBatchNorm",
    "distribution_distance",
    "gradient_shift",
    "with_noise",
]
