"""What all forms of batch norm in torch share: masks, and buffers that are updated."""

import torch

from bnlib import _arrays
from bnlib.statistics import running_update


def check_mask(mask, input):
    """Raise unless the mask is boolean and has one entry per position of the input."""
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"mask is a {type(mask).__name__}: give a torch tensor")
    if mask.dtype != torch.bool:
        raise TypeError(f"mask has dtype {mask.dtype}: give torch.bool")
    shape = (input.shape[0], *input.shape[2:])
    if mask.shape != shape:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)} for an input of shape "
            f"{tuple(input.shape)}: give {shape}"
        )
    if mask.device != input.device:
        raise ValueError(
            f"input is on {input.device} but mask is on {mask.device}: put both on "
            "one device"
        )


def kept_rows(input, mask):
    """Return the positions that a mask keeps as rows of a matrix, (m, C)."""
    check_mask(mask, input)
    return input.movedim(1, -1)[mask]


def scatter(rows, input, mask):
    """Return an array of the input's shape: the rows where the mask is True, else 0."""
    output = torch.zeros_like(input)
    output.movedim(1, -1)[mask] = rows
    return output


@torch.no_grad()
def update_running(running_mean, running_var, batch, share):
    """Update running statistics in place, with the statistics of a batch."""
    # In float64, so that a half-precision buffer is rounded once.
    old = _arrays.upcast(running_mean), _arrays.upcast(running_var)
    for buffer, new in zip(
        (running_mean, running_var), running_update(*old, batch, share)
    ):
        buffer.copy_(new)
