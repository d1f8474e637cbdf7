"""Every backend against float64: values, gradients, dtypes, layouts, ReLU."""

import math
import os
import shutil

import pytest
import torch
from common import assert_same, buffers, parameters, randn, torchs
from hypothesis import given, settings, strategies as st
from kernels import EVERY, EXACT, NEEDS_C, channels_last, error, normal
from refusals import refused
from torch.autograd import gradcheck, gradgradcheck

from bnlib import kernels
from bnlib.conformance import definition, reference
from bnlib.functional import batch_norm

RELU = pytest.mark.parametrize("activation", [None, "relu"])


def passes(x, weight, bias, upstream, activation=None, **options):
    """Return the output and the three gradients."""
    leaves = [t.detach().clone().requires_grad_() for t in (weight, bias)]
    x = x.detach().requires_grad_()
    y = batch_norm(
        x, None, None, *leaves, training=True, activation=activation, **options
    )
    return y.detach(), *torch.autograd.grad(y, (x, *leaves), upstream)


# Hard inputs: at most 2e-7 of the largest value, output and gradient.

HARD = {
    "mean 1e4, columns": normal(4096, 24, mean=1e4),
    "mean 1e4, planes": normal(16, 6, 25, 30, mean=1e4),
    "mean 1e4, channels last": channels_last(normal(16, 6, 25, 30, mean=1e4)),
    "mean 1e6": normal(1000, 40, mean=1e6),
    "mean -1e6, planes": normal(8, 3, 600, mean=-1e6),
    "mean 1e4, deviation 1e-2": normal(512, 4, 7, mean=1e4, std=1e-2),
    "few rows": normal(3, 50, mean=1e4),
    "deviation 1e-12": normal(100, 5, std=1e-12),
    "deviation 1e12": normal(100, 5, std=1e12),
    "deviation 1e37": normal(100, 5, std=1e37),
    "many rows": normal(2**18, 2, mean=3.0),
    "two values": torch.tensor([0.1, 0.3]).repeat(3000).view(-1, 1),
    "one outlier, first": torch.cat([torch.tensor([[1e6]]), normal(9999, 1)]),
    "one outlier, sampled": normal(8000, 1).index_fill(0, torch.tensor([3000]), 1e5),
    "one outlier of very many": torch.cat([torch.tensor([[1e7]]), normal(2**18, 1)]),
    "deviation 1e22": normal(2000, 3, std=1e22),
    "growing": torch.arange(60_000.0).view(-1, 3),
}


@EXACT
@RELU
@pytest.mark.parametrize("hard", HARD)
def test_hard_inputs_lose_no_digits(hard, activation, backend):
    x = HARD[hard]
    weight, bias = (p.detach().float() for p in parameters(x.shape[1], (True, True)))
    upstream = channels_last(normal(*x.shape, mean=0.5, seed=3))
    found = passes(x, weight, bias, upstream, activation, backend=backend)
    exact = reference(x, upstream, weight, bias, relu=activation == "relu")
    for one, other in zip(found[:2], exact[:2]):
        assert error(one, other) <= 2e-7
    # The parameters' gradients are sums over the batch, so the rounding error that is
    # allowed grows with the sum of the terms' sizes.
    terms = upstream.abs() * (definition(x).abs() + 1)
    allowed = 2e-7 * terms.movedim(1, 0).flatten(1).sum(1)
    for one, other in zip(found[2:], exact[2:]):
        assert ((one - other).abs() <= allowed).all()


@EXACT
@pytest.mark.parametrize("layout", [torch.clone, channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 8), (7, 8), (1000, 8), (3, 8, 50), (9, 8, 700)])
def test_constants_give_exactly_beta_and_no_gradient(shape, dtype, layout, backend):
    values = torch.tensor([3.7, 100, 1e8, 0.1, -1 / 3, 0.0, 1e-30, 3e38])
    beta, column = torch.linspace(-7, 3, 8), (-1, *[1] * (len(shape) - 2))
    x = layout(values.to(dtype).view(column).expand(shape).contiguous())
    x.requires_grad_()
    y = batch_norm(x, None, None, None, beta, training=True, backend=backend)
    assert (y == beta.to(dtype).view(column)).all()
    # A sum of equal float64 numbers may be rounded, unless they are short.
    for each in (0.5, -3.0) if dtype == torch.float64 else (0.1, -1 / 3):
        (dx,) = torch.autograd.grad(y, x, torch.full_like(y, each), retain_graph=True)
        assert not dx.any()


@EXACT
def test_half_the_channels_constant_and_half_not(backend):
    x = torch.full((4096, 32), 3.7)
    x[:, ::2] = normal(4096, 16, mean=1e4)
    y = batch_norm(x, None, None, training=True, backend=backend)
    assert (y[:, 1::2] == 0).all()
    assert error(y[:, ::2], definition(x)[:, ::2]) <= 2e-7


@EXACT
@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_an_upstream_gradient_along_the_output_leaves_almost_nothing_but_right(
    backend, mean
):
    x = normal(500, 7, mean=mean)
    upstream = (definition(x) + 1e-3 * normal(500, 7, seed=2)).float()
    ones, zeros = torch.ones(7), torch.zeros(7)
    found = passes(x, ones, zeros, upstream, backend=backend)
    exact = reference(x, upstream)
    assert exact[1].abs().max() < 1e-2
    assert error(found[1], exact[1]) <= 2e-7


@EVERY
def test_float64_keeps_all_its_digits(backend):
    x = randn(700, 5) * torch.logspace(-3, 3, 5, dtype=torch.float64) + 2.0
    upstream, (weight, bias) = randn(700, 5, seed=2), parameters(5, (True, True))
    found = passes(x, weight, bias, upstream, backend=backend)
    for one, other in zip(found, reference(x, upstream, weight, bias)):
        assert one.dtype == torch.float64
        assert error(one, other) <= (5e-15 if backend != "torch" else 1e-12)


@EVERY
@RELU
@pytest.mark.parametrize("layout", [torch.clone, channels_last])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_within_one_unit_of_the_last_place(
    backend, activation, layout, dtype
):
    x = layout(normal(64, 5, 9, 7, mean=2.0).to(dtype))
    upstream = layout(normal(64, 5, 9, 7, seed=2).to(dtype))
    weight, bias = (p.detach().float() for p in parameters(5, (True, True)))
    found = passes(x, weight, bias, upstream, activation, backend=backend)
    relu = activation == "relu"
    y, dx, dweight, dbias = reference(x, upstream, weight, bias, relu=relu)
    unit = torch.finfo(dtype).eps
    smallest = torch.finfo(dtype).smallest_normal
    if backend == "torch":
        # It rounds before the ReLU and in between.
        assert error(found[0], y) <= unit
    else:
        for one, other in ((found[0], y), (found[1], dx)):
            assert ((one - other).abs() <= unit * other.abs() + unit * smallest).all()
        assert error(found[2], dweight) <= 2e-7
        assert error(found[3], dbias) <= 2e-7


@NEEDS_C
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_every_half_number_goes_through_c_as_through_torch(dtype):
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    x = bits.view(dtype).view(-1, 1)
    mean, var = torch.zeros(1), torch.ones(1)
    y = batch_norm(x, mean, var, eps=0.0, backend="c")
    assert torch.equal(y.isnan(), x.isnan())
    assert torch.equal(y[~x.isnan()], x[~x.isnan()])
    scale = torch.tensor([0.3])
    y = batch_norm(x, mean, var, scale, eps=0.0, backend="c")
    expected = (x.float() * scale).to(dtype)
    assert torch.equal(y[~x.isnan()], expected[~x.isnan()])


# Against torch in float64, for any shape, dtype, strides and parameters.

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@st.composite
def inputs(draw):
    """A batch and an upstream gradient, each in a layout of its own."""
    channels = draw(st.integers(1, 40))
    spatial = draw(st.lists(st.integers(1, 9), max_size=3))
    shape = [draw(st.integers(3, 70)), channels, *spatial]
    seed, dtype = draw(st.integers(0, 2**31)), draw(st.sampled_from(DTYPES))

    def laid_out(values):
        order = draw(st.permutations(range(values.ndim)))
        back = sorted(range(values.ndim), key=lambda axis: order[axis])
        return values.permute(order).contiguous().permute(back)

    scale, shift = draw(st.sampled_from([1e-2, 1.0, 30.0])), draw(st.integers(-3, 3))
    x = (randn(*shape, seed=seed) * scale + shift).to(dtype)
    return laid_out(x), laid_out(randn(*shape, seed=seed + 1).to(dtype)), seed


@EVERY
@settings(max_examples=60, deadline=None)
@given(case=inputs(), momentum=st.floats(0, 1), other=st.sampled_from(DTYPES))
def test_any_input_is_normalised_and_differentiated_as_in_float64(
    backend, case, momentum, other
):
    x, upstream, seed = case
    weight, bias = (
        p.detach().to(other) for p in parameters(x.shape[1], (True, True), seed)
    )
    found = passes(x, weight, bias, upstream, backend=backend)
    exact = reference(x, upstream, weight, bias)
    lowest = max(torch.finfo(x.dtype).eps, 2e-7 if backend != "torch" else 1e-3)
    if x.dtype == torch.float64:
        lowest = 1e-12
    elif backend == "torch" and x.dtype.itemsize == 2:
        # It rounds in between, too.
        lowest *= 2
    for name, one, other_side in zip(["y", "x", "w", "b"], found, exact):
        own = x if name in "yx" else weight
        assert one.dtype == own.dtype
        allowed = max(lowest, torch.finfo(one.dtype).eps)
        largest = max(float(other_side.abs().max()), 1e-2)
        if name == "x":
            # dx is a difference, of terms of this size.
            largest = max(largest, float(upstream.abs().max()))
        assert (one.double() - other_side).abs().max() <= allowed * largest
    mean, var = buffers(x.shape[1], seed)
    expected = mean.clone(), var.clone()
    batch_norm(x, mean, var, training=True, momentum=momentum, backend=backend)
    torchs(x.double().contiguous(), *expected, training=True, momentum=momentum)
    allowed = 1e-12
    if x.dtype != torch.float64:
        allowed = {"readable": 1e-12, "c": 1e-6, "torch": 1e-2}[backend]
    assert_same([mean, var], expected, allowed)


@EVERY
@RELU
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 7), (2, 3, 4, 5)], ids=str)
def test_eval_is_an_affine_map_with_its_own_gradient(backend, activation, shape):
    for layout in (torch.clone, channels_last):
        x = layout(normal(*shape)).requires_grad_()
        mean, var = buffers(3, dtype=torch.float32)
        weight, bias = (
            p.detach().float().requires_grad_() for p in parameters(3, (True, True))
        )
        view = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
        wide = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
        x_hat = (wide[0] - mean.view(view)) / (var.double() + 1e-3).sqrt().view(view)
        exact = x_hat * wide[1].view(view) + wide[2].view(view)
        exact = exact.relu() if activation else exact
        y = batch_norm(
            x, mean, var, weight, bias, eps=1e-3, activation=activation, backend=backend
        )
        upstream = normal(*shape, seed=4)
        found = torch.autograd.grad(y, (x, weight, bias), upstream)
        exacts = torch.autograd.grad(exact, wide, upstream.double())
        for one, other in zip((y, *found), (exact, *exacts)):
            assert error(one, other) <= (2e-7 if backend != "torch" else 2e-6)


@EVERY
@RELU
@pytest.mark.filterwarnings("ignore:Input #[0-9]* requires gradient:UserWarning")
@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("layout", [torch.clone, channels_last])
def test_first_and_second_derivatives_pass_torchs_check(
    backend, activation, training, layout
):
    statistics = (None, None) if training else buffers(2)
    x = layout(randn(3, 2, 2, 2)).requires_grad_()
    weight, bias = parameters(2, (True, True))

    def function(x, weight, bias):
        return batch_norm(
            x,
            *statistics,
            weight,
            bias,
            training,
            eps=1e-2,
            activation=activation,
            backend=backend,
        )

    assert gradcheck(function, (x, weight, bias))
    assert gradgradcheck(function, (x, weight, bias))


@EVERY
def test_a_second_derivative_reaches_what_the_input_was_made_of(backend):
    seeds = randn(6, 3).requires_grad_()
    weight, bias = parameters(3, (True, True))

    def norm_of_gradient(leaf, **options):
        y = batch_norm(leaf.sin(), None, None, weight, bias, True, **options)
        (first,) = torch.autograd.grad((y**3).sum(), leaf, create_graph=True)
        return torch.autograd.grad(first.square().sum(), (leaf, weight))

    found = norm_of_gradient(seeds, backend=backend)
    y = torchs(seeds.sin(), None, None, weight, bias, True)
    (first,) = torch.autograd.grad((y**3).sum(), seeds, create_graph=True)
    expected = torch.autograd.grad(first.square().sum(), (seeds, weight))
    assert_same(found, expected, 1e-10)


# ReLU in the same pass.


@EVERY
def test_relu_is_relu_of_the_output(backend):
    x = normal(300, 20)
    plain = batch_norm(x, None, None, training=True, backend=backend)
    fused = batch_norm(x, None, None, training=True, activation="relu", backend=backend)
    assert torch.equal(fused, plain.relu())
    assert not fused.signbit().any()


@EVERY
def test_relu_keeps_nan_and_lets_its_gradient_through(backend):
    x = normal(8, 2).requires_grad_()
    with torch.no_grad():
        x[3, 1] = float("nan")
    mean, var = torch.zeros(2), torch.ones(2)
    y = batch_norm(x, mean, var, activation="relu", backend=backend)
    expected = x.detach().clone().requires_grad_()
    relu = torchs(expected, mean, var).relu()
    assert torch.equal(y.isnan(), relu.isnan())
    y.sum().backward()
    relu.sum().backward()
    torch.testing.assert_close(x.grad, expected.grad)


# Threads, buffers and memory.


@NEEDS_C
@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((5000, 70), torch.clone),
        ((40, 30, 20, 20), torch.clone),
        ((8, 3, 200, 210), torch.clone),
        ((40, 30, 20, 20), channels_last),
    ],
)
def test_the_number_of_threads_changes_no_bit(shape, layout):
    x, upstream = layout(normal(*shape)), layout(normal(*shape, seed=2))
    weight, bias = torch.ones(shape[1]), torch.zeros(shape[1])
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(passes(x, weight, bias, upstream, "relu", backend="c"))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for one, two in zip(results[0], other):
            assert torch.equal(one, two)


@NEEDS_C
def test_autograd_notices_that_c_wrote_the_running_statistics():
    mean, var = torch.zeros(3), torch.ones(3)
    factor = torch.ones(3, requires_grad=True)
    kept = factor * mean
    batch_norm(normal(4, 3), mean, var, training=True, backend="c")
    with refused(RuntimeError, "modified by an inplace operation"):
        kept.sum().backward()


@EVERY
def test_the_device_that_is_the_default_changes_nothing(backend):
    x, upstream = normal(9, 61).requires_grad_(), normal(9, 61, seed=2)
    exact = reference(x, upstream)
    with torch.device("meta"):
        y = batch_norm(x, None, None, training=True, backend=backend)
        # The backward pass of the first call might take this call's memory for its own.
        batch_norm(100 * x, None, None, training=True, backend=backend)
        (dx,) = torch.autograd.grad(y, x, upstream)
    for one, other in zip((y, dx), exact):
        assert error(one, other) <= (2e-7 if backend != "torch" else 1e-5)


@EVERY
def test_running_statistics_in_strides_and_half_precision_are_written(backend):
    x = normal(50, 4, mean=3.0)
    storage = torch.zeros(2, 4, 3).half()
    mean, var = storage[0, :, 1], storage[1, :, 2]
    batch_norm(x, mean, var, training=True, momentum=1.0, backend=backend)
    assert (mean - x.double().mean(0)).abs().max() <= 2e-3
    assert (var - x.double().var(0)).abs().max() <= 2e-3
    assert (storage[0, :, 0] == 0).all()


@NEEDS_C
@pytest.mark.parametrize("offset", range(5))
@pytest.mark.parametrize("channels", [3, 16, 37])
def test_large_outputs_at_any_address_are_written_whole(channels, offset):
    rows = 1_200_000 // channels
    x = torch.zeros(rows * channels + 16)[offset : offset + rows * channels]
    x = x.view(rows, channels).copy_(normal(rows, channels))
    y = batch_norm(x, None, None, training=True, backend="c")
    assert error(y, definition(x)) <= 2e-7
    planes = x.T.unsqueeze(0).contiguous()
    z = batch_norm(planes, None, None, training=True, backend="c")
    assert error(z, definition(planes)) <= 2e-7


@NEEDS_C
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", [torch.clone, channels_last])
@pytest.mark.parametrize("shape", [(60, 181, 14, 14), (11, 60, 58, 57)], ids=str)
def test_large_outputs_with_running_statistics_are_written_whole(shape, layout, dtype):
    storage = torch.zeros(math.prod(shape) + 3, dtype=dtype)[3:].view(shape)
    x = layout(storage.copy_(normal(*shape))).requires_grad_()
    mean, var = buffers(shape[1])
    y = batch_norm(x, mean, var, eps=0.0, backend="c")
    scale = var.rsqrt().view(-1, 1, 1)
    exact = (x.detach().double() - mean.view(-1, 1, 1)) * scale
    allowed = max(2e-7 if dtype != torch.float64 else 0, torch.finfo(dtype).eps)
    assert error(y, exact) <= 2 * allowed
    upstream = layout(normal(*shape, seed=2).to(dtype))
    (dx,) = torch.autograd.grad(y, x, upstream)
    assert error(dx, upstream.double() * scale) <= 2 * allowed


@pytest.mark.skipif(
    "CC" in os.environ or shutil.which("cc") is None,
    reason="the C compiler, cc, is not here, or not the one asked for",
)
def test_where_there_is_a_compiler_the_c_kernel_is_here():
    """Otherwise every test of it would be skipped."""
    assert kernels.refusal("c", torch.ones(2, 3)) is None
