"""What the tests of backends share: which are here, and hard inputs."""

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
#: The backends that take their sums in float64.
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


def error(found, exact):
    """Return the largest error relative to the largest value, if that is not 0."""
    found, exact = found.detach().double(), exact.detach()
    return float((found - exact).abs().max() / (exact.abs().max() or 1.0))
