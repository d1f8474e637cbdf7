from . import (
    approximation as approximation,
    claims as claims,
    conformance as conformance,
    course as course,
    data as data,
    decoupling as decoupling,
    exercises as exercises,
    experiments as experiments,
    folding as folding,
    functional as functional,
    halfspaces as halfspaces,
    implicit_bias as implicit_bias,
    kernels as kernels,
    landscape as landscape,
    losses as losses,
    meanfield as meanfield,
    networks as networks,
    nn as nn,
    optim as optim,
    plotting as plotting,
    problems as problems,
    recalibration as recalibration,
    shift as shift,
    smoothness as smoothness,
    statistics as statistics,
    transform as transform,
)
from .folding import fold as fold
from .recalibration import recalibrate as recalibrate
from .statistics import RunningStatistics as RunningStatistics
from .transform import (
    batch_norm_backward as batch_norm_backward,
    batch_norm_backward_steps as batch_norm_backward_steps,
    batch_norm_forward as batch_norm_forward,
    batch_norm_inference as batch_norm_inference,
)

__version__: str
