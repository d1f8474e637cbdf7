"""How batch normalization changes a loss's gradient and curvature.

The identities hold for one unit over a batch: its inputs ``x``, its normalised
values ``x_hat``, and the gradient ``dy`` of the loss with respect to its outputs.
They take NumPy arrays or torch tensors, whole layers and images at once. The probes,
the spectra and the blocks of the Hessian between layers take any torch module and its
loss, ``loss(network)``. They work on a copy: the network keeps its state, running
statistics included.
"""

from bnlib.smoothness._blocks import (
    BlockNorms,
    block_norms,
    estimate_block_norms,
    hessian_block,
    second_derivatives,
)
from bnlib.smoothness._identities import (
    CurvatureTerms,
    GradientTerms,
    curvature_terms,
    gradient_terms,
    hessian_product,
)
from bnlib.smoothness._linear_layers import NoDirection, linear_layers
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
    "BlockNorms",
    "ClosestOptimum",
    "CurvatureTerms",
    "GradientTerms",
    "HessianOperator",
    "NoDirection",
    "Probe",
    "WorstCase",
    "block_norms",
    "closest_optimum",
    "curvature_terms",
    "estimate_block_norms",
    "extreme_eigenvalues",
    "gradient_terms",
    "hessian",
    "hessian_block",
    "hessian_product",
    "hessian_trace",
    "layer_terms",
    "linear_layers",
    "probe_gradient",
    "second_derivatives",
    "worst_case",
]
