"""Models of torch: what is checked of one, and which of its layers are batch norms."""

import torch

from bnlib._torch_internals import BatchNormBase


def check_module(name, module):
    """Raise unless the argument of that name is a module of torch."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{name} is a {type(module).__name__}: give a torch Module")


def batch_norm_layers(model):
    """Return the batch-norm layers of a model, torch's and bnlib's, by their names.

    A model that is such a layer itself goes by the name of its class.
    """
    return {
        name or type(module).__name__: module
        for name, module in model.named_modules()
        if isinstance(module, BatchNormBase)
    }
