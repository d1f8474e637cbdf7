"""The networks that chapters and experiments train or take apart."""

from bnlib.networks._small import accuracy, mlp, train_classifier

__all__ = ["accuracy", "mlp", "train_classifier"]
