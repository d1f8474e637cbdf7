"""torch's own batch_norm, with bnlib's dtypes and with guards against its faults."""

import torch

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
backward = None


def refusal(input):
    """Return None: this backend takes every input."""
    return None


def forward(input, running_mean, running_var, weight, bias, options, keep=True):
    """Return the output, differentiable any number of times, and None."""
    training, momentum, eps, relu = options
    # Half precision takes parameters in float32; every other dtype takes its own.
    dtype = torch.float32 if input.dtype.itemsize == 2 else input.dtype
    weight, bias = (None if v is None else v.to(dtype) for v in (weight, bias))
    # torch writes to its arguments and saves them for the backward pass, but does not
    # increase the version counters. So in training it gets copies.
    running = running_mean, running_var
    mean, var = (None if v is None else v.to(dtype, copy=training) for v in running)
    output = torch.batch_norm(
        _unambiguous(input), weight, bias, mean, var, training, momentum, eps, True
    )
    if training and running_mean is not None:
        running_mean.copy_(mean)
        running_var.copy_(var)
    output = _as_laid_out(output, input)
    return output.relu() if relu else output, None


def _is_ambiguous(input):
    """Return True if the strides of this shape may fit two memory layouts.

    On the CPU torch 2.13 may then take one layout for the input and the other for the
    gradient, and return wrong gradients. It does so with four and five axes only.
    """
    return input.ndim in _FORMATS and (input.shape[0] == 1 or 1 in input.shape[2:])


def _unambiguous(input):
    return input.flatten(2) if _is_ambiguous(input) else input


def _as_laid_out(output, input):
    if not _is_ambiguous(input):
        return output
    output = output.reshape(input.shape)
    layout = _FORMATS[input.ndim]
    kept = not input.is_contiguous() and input.is_contiguous(memory_format=layout)
    return output.contiguous(memory_format=layout) if kept else output
