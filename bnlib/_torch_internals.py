"""The private names of torch that bnlib needs because there is no public form."""

import torch

#: Kept, as the one base of every batch norm, lazy ones too, that a model may subclass.
BatchNormBase = torch.nn.modules.batchnorm._BatchNorm


def is_transformed():
    """Return True while torch.func or forward-mode differentiation is active.

    `_are_functorch_transforms_active` stays, because nothing public tells whether
    torch.func is active. `_current_level` stays, because the public `unpack_dual` of
    each tensor adds 6 % to the evaluation of a small network. While one of them is
    active, a tensor may be more than its data.

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
    """Return True inside a backward pass.

    `_current_graph_task_id` stays, because nothing public tells; torch.utils.checkpoint
    asks the same way.
    """
    return torch._C._current_graph_task_id() != -1
