"""The names of torch that are private and have no public form, in one place."""

import torch

#: The base of every batch norm, lazy and quantised ones too; a model may subclass it.
BatchNormBase = torch.nn.modules.batchnorm._BatchNorm


def is_transformed():
    """Say whether torch.func or forward mode is at work: tensors may be more than data.

    Of torch.func nothing public tells. Of forward mode `unpack_dual` does, tensor by
    tensor, which takes a tenth of the time of a small batch.
    """
    return (
        torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
    )


def is_in_backward_pass():
    """Say whether a backward pass runs this; torch.utils.checkpoint asks so, too."""
    return torch._C._current_graph_task_id() != -1
