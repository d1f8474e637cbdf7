"""What the tests of backends share: which are here, hard inputs, and the truth."""

import pytest
import torch
from common import generator

from bnlib import kernels

HERE = [
    name
    for name in kernels.BACKENDS
    if name != "triton" and kernels.refusal(name, torch.ones(2, 3)) is None
]
EVERY = pytest.mark.parametrize("backend", HERE)
#: Those that take their sums in float64.
EXACT = pytest.mark.parametrize("backend", [n for n in HERE if n != "torch"])
NEEDS_C = pytest.mark.skipif(
    "c" not in HERE, reason=str(kernels.refusal("c", torch.ones(2, 3)))
)


def channels_last(x):
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def sliced(x):
    return torch.repeat_interleave(x, 2, dim=0)[::2]


def expanded(x):
    return x[..., :1].expand(x.shape)


def normal(*shape, mean=0.0, std=1.0, seed=0):
    values = torch.randn(shape, generator=generator(seed), dtype=torch.float64)
    return (values * std + mean).float()


def truth(x, weight=None, bias=None, upstream=None, eps=1e-5, relu=False):
    """Return the output and the three gradients in float64, by plain autograd.

    The mean is taken off twice: what the first sum rounded away is gone then.
    """
    wide = x.detach().double().requires_grad_()
    axes = [axis for axis in range(x.ndim) if axis != 1]
    shape = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
    ones, zeros = torch.ones(x.shape[1]), torch.zeros(x.shape[1])
    weight, bias = (
        (one if given is None else given).detach().double().requires_grad_()
        for given, one in ((weight, ones), (bias, zeros))
    )
    centred = wide - wide.detach().mean(axes, keepdim=True)
    centred = centred - centred.mean(axes, keepdim=True)
    x_hat = centred / (centred.square().mean(axes, keepdim=True) + eps).sqrt()
    y = x_hat * weight.view(shape) + bias.view(shape)
    y = y.relu() if relu else y
    upstream = torch.ones_like(y) if upstream is None else upstream.double()
    return y.detach(), *torch.autograd.grad(y, (wide, weight, bias), upstream)


def error(found, exact):
    """Return the largest error relative to the largest value, if that is not 0."""
    found, exact = found.detach().double(), exact.detach()
    return float((found - exact).abs().max() / (exact.abs().max() or 1.0))
