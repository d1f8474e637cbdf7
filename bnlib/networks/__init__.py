"""The networks that chapters and experiments train, and the one-hidden-layer problem.

`OneHiddenLayer` and its companions come from `bnlib.problems` and `bnlib.optim`.
"""

from bnlib.networks._small import accuracy, feed_forward, mlp, train_classifier
from bnlib.networks._watch import Watched, watch
from bnlib.optim import SweepTrace, gdnp_sweeps
from bnlib.problems import Coefficients, FiniteOneHiddenLayer, OneHiddenLayer

__all__ = [
    "Coefficients",
    "FiniteOneHiddenLayer",
    "OneHiddenLayer",
    "SweepTrace",
    "Watched",
    "accuracy",
    "feed_forward",
    "gdnp_sweeps",
    "mlp",
    "train_classifier",
    "watch",
]
