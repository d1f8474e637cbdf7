"""What the backends do beyond the cases of `bnlib.conformance`: tighter, or fused."""

import pytest
import torch
from common import assert_same, buffers, randn
from kernels import EVERY, EXACT, error, normal

from bnlib.conformance import definition
from bnlib.functional import batch_norm


def train(x, *vectors, **options):
    return batch_norm(x, None, None, *vectors, training=True, **options)


# 8: an empty batch.


@EVERY
@pytest.mark.parametrize("shape", [(0, 5, 9), (0, 5), (4, 5, 0)], ids=str)
@pytest.mark.parametrize("activation", [None, "relu"])
def test_an_empty_batch_gives_an_empty_output_and_leaves_the_buffers(
    shape, backend, activation
):
    mean, var = buffers(5)
    before = mean.clone(), var.clone()
    leaves = [torch.zeros(size).requires_grad_() for size in (shape, 5, 5)]
    options = {"activation": activation, "backend": backend}
    for training in (True, False):
        y = batch_norm(leaves[0], mean, var, *leaves[1:], training, **options)
        assert (y.shape, y.dtype) == (shape, torch.float32)
        dx, *grads = torch.autograd.grad(y.sum(), leaves)
        assert dx.shape == shape
        assert all((grad == 0).all() for grad in grads)
    assert_same([mean, var], before, allowed=0)


# 11: half precision.


@EVERY
def test_half_precision_of_large_deviation_does_not_overflow(backend):
    x = (200 * randn(65_536, 1)).half()
    mean, var = torch.zeros(1), torch.ones(1)
    y = batch_norm(x, mean, var, training=True, momentum=1.0, backend=backend)
    assert torch.isfinite(y).all()
    largest = 1e-6 if backend != "torch" else 1e-4
    assert var.item() == pytest.approx(x.double().var().item(), rel=largest)
    assert y.double().std().item() == pytest.approx(1, rel=1e-3)


@EXACT
def test_bfloat16_with_little_deviation_has_the_statistics_of_its_values(backend):
    x = (5 + 0.1 * randn(4096, 2)).bfloat16()
    expected = definition(x)
    found = train(x, backend=backend)
    assert error(found, expected) <= 2**-8
    mean, var = torch.zeros(2), torch.ones(2)
    batch_norm(x, mean, var, training=True, momentum=1.0, backend=backend)
    torch.testing.assert_close(mean.double(), x.double().mean(0), rtol=1e-6, atol=0)
    torch.testing.assert_close(var.double(), x.double().var(0), rtol=1e-4, atol=0)


# 13: strides.


@EVERY
@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((2, 3, 4, 5), torch.channels_last),
        ((1, 3, 4, 5), torch.channels_last),
        ((2, 3, 4, 5, 2), torch.channels_last_3d),
    ],
)
def test_channels_last_stays_channels_last(shape, layout, backend):
    x = normal(*shape).to(memory_format=layout).requires_grad_()
    for training in (True, False):
        y = batch_norm(x, *buffers(3), training=training, backend=backend)
        assert y.is_contiguous(memory_format=layout)
        (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
        if backend != "torch":
            assert dx.is_contiguous(memory_format=layout)


# 22, masks, is in test_functional_mask.py.
