"""The networks that chapters and experiments train or take apart."""

from bnlib.networks._blocks import (
    BlockNorms,
    block_norms,
    estimate_block_norms,
    hessian_block,
    second_derivatives,
)
from bnlib.networks._layers import linear_layers
from bnlib.networks._one_hidden import (
    Coefficients,
    FiniteOneHiddenLayer,
    OneHiddenLayer,
)
from bnlib.networks._one_hidden_sweeps import SweepTrace, gdnp_sweeps
from bnlib.networks._small import accuracy, mlp, train_classifier

__all__ = [
    "BlockNorms",
    "Coefficients",
    "FiniteOneHiddenLayer",
    "OneHiddenLayer",
    "SweepTrace",
    "accuracy",
    "block_norms",
    "estimate_block_norms",
    "gdnp_sweeps",
    "hessian_block",
    "linear_layers",
    "mlp",
    "second_derivatives",
    "train_classifier",
]
