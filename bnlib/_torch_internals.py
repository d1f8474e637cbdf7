"""The private names of torch that bnlib needs because there is no public form."""

import torch

#: The base of every batch norm, lazy and quantised ones too; a model may subclass it.
BatchNormBase = torch.nn.modules.batchnorm._BatchNorm


def is_transformed():
    """Return True while torch.func or forward-mode differentiation is active.

    A tensor may then be more than its data. Nothing public tells whether torch.func is
    active. `unpack_dual` tells it for forward mode, one tensor at a time, but that
    takes a tenth of the time of a small batch.
    """
    return (
        torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
    )


def is_in_backward_pass():
    """Return True inside a backward pass; torch.utils.checkpoint asks the same way."""
    return torch._C._current_graph_task_id() != -1
