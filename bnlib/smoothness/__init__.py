"""How batch normalization changes a loss's gradient and curvature.

The identities hold for one unit over a batch: its inputs ``x``, its normalised
values ``x_hat``, and the gradient ``dy`` of the loss with respect to its outputs.
They take NumPy arrays or torch tensors, whole layers and images at once. The probes
and the spectra take any torch module and a loss of it, ``loss(network)``; they work
on a copy of the network, which they leave as it was, running statistics included.
"""

from bnlib.smoothness._identities import (
    CurvatureTerms,
    GradientTerms,
    curvature_terms,
    gradient_terms,
    hessian_product,
)
from bnlib.smoothness._probes import Probe, layer_terms, probe_gradient
from bnlib.smoothness._spectra import (
    HessianOperator,
    extreme_eigenvalues,
    hessian,
    hessian_trace,
)
from bnlib.smoothness._weights import (
    ClosestOptimum,
    WorstCase,
    closest_optimum,
    worst_case,
)

__all__ = [
    "ClosestOptimum",
    "CurvatureTerms",
    "GradientTerms",
    "HessianOperator",
    "Probe",
    "WorstCase",
    "closest_optimum",
    "curvature_terms",
    "extreme_eigenvalues",
    "gradient_terms",
    "hessian",
    "hessian_product",
    "hessian_trace",
    "layer_terms",
    "probe_gradient",
    "worst_case",
]
