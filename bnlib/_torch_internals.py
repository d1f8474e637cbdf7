"""The names of torch that are private and have no public form, in one place."""

import torch

#: Kept, as the one base of every batch norm, lazy ones too, that a model may subclass.
BatchNormBase = torch.nn.modules.batchnorm._BatchNorm


def is_transformed():
    """Say whether torch.func or forward mode is at work: tensors may be more than data.

    Kept: `_are_functorch_transforms_active`, since nothing public tells of torch.func;
    `_current_level`, since the public `unpack_dual` of each tensor adds 6 % to the
    evaluation of a small network.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_transformed()
    False
    """
    return (
        torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
    )


def is_in_backward_pass():
    """Say whether a backward pass runs this.

    Kept: `_current_graph_task_id`, since nothing public tells; torch.utils.checkpoint
    asks so, too.
    """
    return torch._C._current_graph_task_id() != -1
