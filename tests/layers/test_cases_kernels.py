"""What users of other implementations have tripped over: the cases of the kernels.

Each on every backend that is here, with the smallest input that shows it.
"""

import pytest
import torch
from common import assert_same, buffers, parameters, randn, torchs
from kernels import EVERY, EXACT, channels_last, error, expanded, normal, sliced

from bnlib.conformance import definition, reference
from bnlib.functional import batch_norm


def train(x, *vectors, **options):
    return batch_norm(x, None, None, *vectors, training=True, **options)


def gradient(x, backend, upstream):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(train(x, backend=backend), x, upstream)[0]


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


# 9: a mean far from 0.


@EXACT
@pytest.mark.parametrize("shape", [(8, 3), (4, 3, 5), (2, 3, 4, 4)], ids=str)
@pytest.mark.parametrize(("mean", "std"), [(1e4, 1), (1e6, 1), (1e4, 1e-2)])
def test_a_far_mean_costs_float32_nothing_on_the_smallest_input(
    mean, std, shape, backend
):
    x, upstream = normal(*shape, mean=mean, std=std), normal(*shape, seed=3)
    y, dx, *_ = reference(x, upstream)
    assert error(train(x, backend=backend), y) <= 2e-7
    assert error(gradient(x, backend, upstream), dx) <= 2e-7


# 10: a constant channel.


@EXACT
@pytest.mark.parametrize("constant", [3.7, 100, 1e8, 0.1, -1 / 3, 0.0, 1e-30, 3e38])
@pytest.mark.parametrize("shape", [(2, 3), (7, 3), (1000, 3), (3, 3, 50), (9, 3, 700)])
def test_a_constant_channel_gives_exactly_the_bias_and_no_gradient(
    constant, shape, backend
):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for layout in (torch.clone, channels_last):
            x = layout(torch.full(shape, constant, dtype=dtype))
            bias = torch.tensor([0.3, -7.0, 0.0])
            y = train(x, None, bias, backend=backend)
            view = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
            assert (y == bias.to(dtype).view(view)).all()
            # Of float64, sums of equal numbers may be rounded.
            for upstream in (0.5, -3.0) if dtype == torch.float64 else (0.1, -1 / 3):
                flat = torch.full(shape, upstream, dtype=dtype)
                assert (gradient(x, backend, flat) == 0).all()


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


# 12: dtypes that differ.

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@EVERY
@pytest.mark.parametrize("other", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_output_has_the_inputs_dtype_and_all_else_its_own(dtype, other, backend):
    x = randn(6, 2).to(dtype).requires_grad_()
    mean, var = buffers(2, dtype=other)
    weight, bias = (
        p.detach().to(other).requires_grad_() for p in parameters(2, (1, 1))
    )
    for vectors in ((weight, bias), (None, None), (weight, None), (None, bias)):
        for training in (True, False):
            y = batch_norm(x, mean, var, *vectors, training, backend=backend)
            leaves = [x, *(v for v in vectors if v is not None)]
            grads = torch.autograd.grad(y.sum(), leaves)
            assert y.dtype == dtype
            assert [g.dtype for g in grads] == [leaf.dtype for leaf in leaves]
            assert mean.dtype == var.dtype == other


# 13: strides.


def shifted(x):
    return torch.cat([x, x], dim=-1)[..., x.shape[-1] :]


def transposed(x):
    return x.mT.contiguous().mT


def zero_stride(x):
    return x[:1].expand(x.shape)


def flipped_channels_last(x):
    return channels_last(x.flip(-1)).flip(-1)


LAYOUTS = [
    channels_last,
    sliced,
    shifted,
    transposed,
    expanded,
    zero_stride,
    flipped_channels_last,
]


@EVERY
@pytest.mark.parametrize("upstream_layout", [torch.clone, *LAYOUTS])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(6, 5), (3, 4, 5), (2, 3, 4, 5)], ids=str)
def test_strided_inputs_give_what_contiguous_ones_give(
    shape, layout, upstream_layout, backend
):
    x, upstream = layout(randn(*shape)), upstream_layout(randn(*shape, seed=2))
    plain = x.clone(memory_format=torch.contiguous_format)
    expected = reference(plain, upstream)
    before = plain.clone()
    found = train(x, backend=backend), gradient(x, backend, upstream)
    assert_same(found, expected[:2], 1e-11)
    assert torch.equal(x, before)


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


# 29: NaN and infinity.


@EVERY
@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("layout", [torch.clone, channels_last])
@pytest.mark.parametrize("shape", [(9, 3), (70, 3), (5, 3, 6), (9, 3, 600)], ids=str)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_one_bad_value_spoils_its_own_channel_alone(
    value, shape, layout, training, backend
):
    keep = torch.tensor([0, 2])
    upstream = normal(*shape, seed=2)
    sides = []
    for spoilt in (False, True):
        x = layout(normal(*shape))
        if spoilt:
            x[1, 1] = value
        x.requires_grad_()
        mean, var = buffers(3)
        y = batch_norm(x, mean, var, training=training, backend=backend)
        sides.append((y, torch.autograd.grad(y, x, upstream)[0], mean, var))
    for clean, spoilt in zip(*sides):
        axis = 1 if clean.ndim > 1 else 0
        assert torch.equal(
            clean.index_select(axis, keep), spoilt.index_select(axis, keep)
        )
    assert not torch.isfinite(sides[1][0][1, 1]).any()


@EVERY
def test_one_bad_upstream_value_spoils_its_own_channel_alone(backend):
    x, upstream = normal(40, 3), normal(40, 3, seed=2)
    clean = gradient(x, backend, upstream)
    upstream[3, 1] = float("inf")
    spoilt = gradient(x, backend, upstream)
    assert torch.equal(clean[:, ::2], spoilt[:, ::2])
    assert not torch.isfinite(spoilt[:, 1]).all()


# 33: strides that pass for two orders of memory, of input or of gradient.

AMBIGUOUS = [(1, 3, 1, 4), (1, 3, 4, 1), (1, 3, 4, 5), (2, 3, 1, 5), (1, 3, 2, 2, 2)]


@EVERY
@pytest.mark.parametrize("shape", AMBIGUOUS, ids=str)
def test_strides_that_pass_for_two_orders_get_right_gradients(shape, backend):
    x, upstream = randn(*shape), randn(*shape, seed=2)
    weight, bias = parameters(3, (True, True))
    expected = reference(x, upstream, weight, bias)
    orders = [
        torch.clone,
        channels_last,
        lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
        lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
        lambda t: (
            t.permute(*reversed(range(t.ndim)))
            .contiguous()
            .permute(*reversed(range(t.ndim)))
        ),
    ]
    for order in orders:
        for other in orders:
            leaf = order(x).requires_grad_()
            y = train(leaf, weight, bias, backend=backend)
            grads = torch.autograd.grad(y, (leaf, weight, bias), other(upstream))
            assert_same((y, *grads), expected, 1e-10)


@EVERY
def test_the_smallest_ambiguous_input_is_right(backend):
    x = randn(4, 3, 1, 1).transpose(0, 3).requires_grad_()
    weight, bias = parameters(3, (True, True))
    upstream = randn(1, 3, 1, 4, seed=2)
    y = train(x, weight, bias, backend=backend)
    grads = torch.autograd.grad(y, (x, weight, bias), upstream)
    assert_same((y, *grads), reference(x, upstream, weight, bias))
    plain = x.detach().contiguous().requires_grad_()
    y = torchs(plain, None, None, weight, bias, True)
    assert_same(torch.autograd.grad(y, (weight, bias), upstream), grads[1:], 1e-11)
