"""Check that an argument is a model of torch, and find its batch-norm layers."""

import torch

from bnlib._torch_internals import BatchNormBase


def check_module(name, module):
    """Raise unless the argument of that name is a module of torch."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{name} is a {type(module).__name__}: give a torch.nn.Module")


def batch_norm_layers(model, own_name=None):
    """Return the batch-norm layers of a model, torch's and bnlib's, by their names.

    If the model itself is such a layer, its name is ``own_name``, or its class's name.
    """
    own_name = type(model).__name__ if own_name is None else own_name
    return {
        name or own_name: module
        for name, module in model.named_modules()
        if isinstance(module, BatchNormBase)
    }
