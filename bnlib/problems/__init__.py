"""What the optimisers minimise: functions with rays, and the losses they average.

A `Problem` has a value and a gradient. A `NormalisedProblem` also has a `Ray` through
each w, the function ``scale -> f(scale w)``, which separates length and direction. The
problems are least squares, halfspaces over a Gaussian or over data, and a unit of one
hidden layer. Labels y are +-1 and ``z = -y x``, as `halfspace_rows` returns them; a
loss is a function of ``t = z.w``.
"""

from bnlib.problems._finite_halfspace import FiniteHalfspace
from bnlib.problems._gaussian_halfspace import GaussianHalfspace
from bnlib.problems._least_squares import LeastSquares
from bnlib.problems._losses import (
    LOSSES,
    Logistic,
    Loss,
    PseudoHuber,
    Sigmoid,
    SmoothedHinge,
    resolve_loss,
)
from bnlib.problems._one_hidden import (
    Coefficients,
    FiniteOneHiddenLayer,
    OneHiddenLayer,
)
from bnlib.problems._ray import (
    Moments,
    NormalisedProblem,
    Problem,
    Ray,
    RayProblem,
    s_norm,
)
from bnlib.problems._rows import halfspace_rows

__all__ = [
    "LOSSES",
    "Coefficients",
    "FiniteHalfspace",
    "FiniteOneHiddenLayer",
    "GaussianHalfspace",
    "LeastSquares",
    "Logistic",
    "Loss",
    "Moments",
    "NormalisedProblem",
    "OneHiddenLayer",
    "Problem",
    "PseudoHuber",
    "Ray",
    "RayProblem",
    "Sigmoid",
    "SmoothedHinge",
    "halfspace_rows",
    "resolve_loss",
    "s_norm",
]
