"""The readable backend: `bnlib.transform` on tensors, in float64."""

import torch

from bnlib import _arrays, _batches
from bnlib.statistics import Statistics
from bnlib.transform import (
    batch_norm_backward,
    batch_norm_forward,
    batch_norm_inference,
)


def normalise(input, running_mean, running_var, weight, bias, training, momentum, eps):
    """Return the output, the mean and the variance, all differentiable.

    In training the running statistics take in the batch; else they are the mean and
    the variance.
    """
    if not training:
        output = batch_norm_inference(
            input, running_mean, running_var, weight, bias, eps
        )
        return output, _arrays.upcast(running_mean), _arrays.upcast(running_var)
    output, cache = batch_norm_forward(input, weight, bias, eps)
    if running_mean is not None:
        batch = Statistics(cache.mean, cache.var, input[:, 0].numel())
        _batches.update_running(running_mean, running_var, batch, momentum)
    return output, cache.mean, cache.var


def batch_norm(
    input, running_mean, running_var, weight, bias, training, momentum, eps, relu
):
    """Return the output, differentiable any number of times."""
    output, _, _ = normalise(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )
    return output.relu() if relu else output


def gradients(grad_output, input, statistics, weight, bias, training, eps, relu):
    """Return the three gradients by formulas that are differentiable themselves.

    ``statistics`` are what a fast backend returned: constants in eval mode. In
    training the batch's are taken anew, as functions of it.
    """
    axes = _arrays.averaged_axes(input, None)
    if training:
        y, cache = batch_norm_forward(input, weight, bias, eps)
    else:
        shape = _arrays.kept_as_ones(input.shape, axes)
        mean, rest, inv_std = (row.view(shape) for row in statistics)
        scale = 1 if weight is None else _arrays.upcast(weight).view(shape)
        shift = 0 if bias is None else _arrays.upcast(bias).view(shape)
        x_hat = (_arrays.upcast(input) - mean - rest) * inv_std
        y = x_hat * scale + shift
    if relu:
        grad_output = torch.where(y <= 0, torch.zeros_like(grad_output), grad_output)
    if training:
        return batch_norm_backward(grad_output, cache)
    upstream = _arrays.upcast(grad_output)
    return (
        (upstream * inv_std * scale).to(input.dtype),
        weight if weight is None else (upstream * x_hat).sum(axes).to(weight.dtype),
        bias if bias is None else upstream.sum(axes).to(bias.dtype),
    )
