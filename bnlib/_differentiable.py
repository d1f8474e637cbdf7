"""Differentiate the loss of a network without changing the network."""

import copy
import math

import torch

from bnlib import _modules


class Differentiable:
    """A copy of a network, its loss, and the parameters that require a gradient."""

    def __init__(self, network, loss):
        _modules.check_module("network", network)
        if not callable(loss):
            raise TypeError(
                f"loss is a {type(loss).__name__}: give a function of the network"
            )
        # A pass in training mode would change the network's running statistics.
        self.network, self._loss = copy.deepcopy(network), loss
        self.parameters = [p for p in self.network.parameters() if p.requires_grad]
        if not self.parameters:
            raise ValueError("no parameter of the network requires a gradient")
        self.size = sum(p.numel() for p in self.parameters)

    def value(self):
        """Return the loss as a scalar tensor that depends on the parameters."""
        with torch.enable_grad():
            value = self._loss(self.network)
            one = isinstance(value, torch.Tensor) and value.numel() == 1
            value = value.reshape(()) if one else value
        if not one:
            shape = getattr(value, "shape", None)
            what = repr(value) if shape is None else f"the shape {tuple(shape)}"
            raise ValueError(f"loss returned {what}: give a tensor of one element")
        if not value.requires_grad:
            raise _independent()
        return value

    def start(self):
        """Return the loss at the network's parameters; raise if it is not finite."""
        value = self.value()
        if not math.isfinite(value.item()):
            raise ValueError(f"loss is {value.item()} at the network's parameters")
        return value

    def gradients(self, value, **options):
        """Return the gradient by each parameter; 0 if the loss does not use it."""
        found = torch.autograd.grad(
            value, self.parameters, allow_unused=True, **options
        )
        if all(gradient is None for gradient in found):
            raise _independent()
        return [
            torch.zeros_like(parameter) if gradient is None else gradient
            for parameter, gradient in zip(self.parameters, found)
        ]


def _independent():
    return ValueError(
        "loss does not depend on the parameters of the network that it is given: "
        "compute it from that argument, with gradients"
    )


def flat(tensors):
    """Return the tensors as one vector."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
