"""The readable backend: the arithmetic of `bnlib.transform` on tensors, in float64."""

import torch

from bnlib import _arrays, _batches
from bnlib.statistics import Statistics
from bnlib.transform import input_gradient, normalise, normalise_with

backward = None


def refusal(input):
    """Return None: this backend takes every input."""
    return None


@_arrays.silently()
def forward(input, running_mean, running_var, weight, bias, options, keep=True):
    """Return the output, differentiable any number of times, and None."""
    given = input, running_mean, running_var, weight, bias
    return normalise_batch(*given, options)[0], None


def normalise_batch(input, running_mean, running_var, weight, bias, options):
    """Return the output, the mean and the variance, all differentiable.

    In training the batch updates the running statistics; otherwise they are the mean
    and the variance.
    """
    training, momentum, eps, relu = options
    scale, shift = _expanded(weight, input), _expanded(bias, input)
    if training:
        axes = _arrays.averaged_axes(input, None)
        y, _, _, mean, var = normalise(input, scale, shift, eps, axes)
        mean, var = mean.flatten(), var.flatten()
        if running_mean is not None:
            batch = Statistics(mean, var, input.numel() // input.shape[1])
            _batches.update_running(running_mean, running_var, batch, momentum)
    else:
        mean, var = _arrays.upcast(running_mean), _arrays.upcast(running_var)
        statistics = _expanded(mean, input), _expanded(var, input)
        y = normalise_with(input, *statistics, scale, shift, eps)
    return y.relu() if relu else y, mean, var


def gradients(grad_output, input, statistics, weight, bias, options):
    """Return the gradients that `backward` returns, by differentiable formulas.

    Parameters
    ----------
    grad_output, input : Tensors of one shape, (N, C) or (N, C, *spatial)
    statistics : Tensor of float64, shape (3, C)
        What `Backend.forward` returned: constants in evaluation. In training the
        batch's are computed again, as functions of it.
    weight, bias : Tensors of shape (C,), or None
    options : Options

    Returns
    -------
    Tensors, or None for weight or bias that is None
        The gradients of input, weight and bias, each in the dtype of what it belongs
        to.

    Examples
    --------
    >>> import torch
    >>> from bnlib.kernels import Options
    >>> x, options = torch.tensor([[1.0], [3.0]]), Options(True, 0.1, 1e-5, False)
    >>> given = torch.tensor([[2.0], [0.0], [1.0]]), None, None, options
    >>> gradients(torch.ones(2, 1), x, *given)[0].tolist()
    [[0.0], [0.0]]

    References
    ----------
    Chapters 03, the compact form, and 05, "Kernels".
    """
    axes = _arrays.averaged_axes(input, None)
    scale, shift = _expanded(weight, input), _expanded(bias, input)
    if options.training:
        y, x_hat, inv_std, _, _ = normalise(input, scale, shift, options.eps, axes)
    else:
        mean, rest, inv_std = (_expanded(row, input) for row in statistics)
        x_hat = (_arrays.upcast(input) - mean - rest) * inv_std
        y = x_hat if scale is None else x_hat * scale
        y = y if shift is None else y + shift
    if options.relu:
        grad_output = torch.where(y <= 0, torch.zeros_like(grad_output), grad_output)
    upstream = _arrays.upcast(grad_output)
    if options.training:
        g = upstream if scale is None else upstream * scale
        dx = input_gradient(g, x_hat, inv_std, axes)
    else:
        dx = upstream * inv_std
        dx = dx if scale is None else dx * scale
    return (
        dx.to(input.dtype),
        weight if weight is None else (upstream * x_hat).sum(axes).to(weight.dtype),
        bias if bias is None else upstream.sum(axes).to(bias.dtype),
    )


def _expanded(vector, input):
    """Return a vector of channels in float64, shaped to broadcast; None stays None."""
    if vector is None:
        return None
    return _arrays.upcast(vector).view(1, -1, *[1] * (input.ndim - 2))
