"""Lengths, directions and margins: where gradient descent leads, and how fast."""

from bnlib.implicit_bias._linear import (
    LinearFlow,
    OneSampleFlow,
    deep_growth,
    linear_flow,
    one_sample_flow,
)
from bnlib.implicit_bias._margins import (
    L1Margin,
    MaxMargin,
    angle,
    limit_offset,
    log_loss,
    max_l1_margin,
    max_margin,
    normalised_margins,
    signed_rows,
)
from bnlib.implicit_bias._networks import (
    NetworkFlow,
    euler_sums,
    gaussian_weights,
    layer_directions,
    layer_lengths,
    network_flow,
    relu_net,
    relu_net_gradients,
)
from bnlib.implicit_bias._norms import (
    TangentFlow,
    norm_gradient,
    tangent_flow,
    tangent_projection,
)
from bnlib.implicit_bias._paths import (
    CoordinatePath,
    constrained_path,
    coordinate_descent,
)

__all__ = [
    "CoordinatePath",
    "L1Margin",
    "LinearFlow",
    "MaxMargin",
    "NetworkFlow",
    "OneSampleFlow",
    "TangentFlow",
    "angle",
    "constrained_path",
    "coordinate_descent",
    "deep_growth",
    "euler_sums",
    "gaussian_weights",
    "layer_directions",
    "layer_lengths",
    "limit_offset",
    "linear_flow",
    "log_loss",
    "max_l1_margin",
    "max_margin",
    "network_flow",
    "norm_gradient",
    "normalised_margins",
    "one_sample_flow",
    "relu_net",
    "relu_net_gradients",
    "signed_rows",
    "tangent_flow",
    "tangent_projection",
]
