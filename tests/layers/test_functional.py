"""bnlib.functional.batch_norm: torch's function, exact and differentiable twice."""

import warnings

import numpy as np
import pytest
import torch
from common import PRESENT, SHAPES, assert_same, buffers, parameters, randn, torchs
from hypothesis import given, settings, strategies as st
from kernels import channels_last, expanded, sliced
from torch.autograd import gradcheck, gradgradcheck

from bnlib.functional import batch_norm


def gradients(output, *leaves, seed=8):
    """Return the gradients for one fixed upstream gradient, None for None."""
    leaves = [leaf for leaf in leaves if leaf is not None]
    upstream = randn(*output.shape, seed=seed, dtype=output.dtype)
    return torch.autograd.grad(output, leaves, upstream, allow_unused=True)


def contiguous(x):
    return x.clone()


def transposed(x):
    return (
        x.permute(*reversed(range(x.ndim)))
        .contiguous()
        .permute(*reversed(range(x.ndim)))
    )


LAYOUTS = [contiguous, transposed, sliced, channels_last, expanded]


# Against torch's own function in float64, on contiguous copies: its native kernel
# returns wrong gradients for some strides.


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_gradients_and_buffers_agree_with_torch(shape, training, layout):
    for present in PRESENT:
        weight, bias = parameters(shape[1], present)
        x = layout(randn(*shape) * 2 + 1).requires_grad_()
        plain = x.detach().contiguous().requires_grad_()
        ours, others = buffers(shape[1]), buffers(shape[1])
        found = batch_norm(x, *ours, weight, bias, training, 0.3, 1e-3)
        expected = torchs(plain, *others, weight, bias, training, 0.3, 1e-3)
        assert_same([found, *ours], [expected, *others])
        assert_same(
            gradients(found, x, weight, bias), gradients(expected, plain, weight, bias)
        )


# Derivatives, first and second.


@pytest.mark.filterwarnings("ignore:Input #[0-9]* requires gradient:UserWarning")
@pytest.mark.parametrize("present", PRESENT, ids=["both", "weight", "bias", "neither"])
@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("shape", [(4, 3), (2, 2, 3), (2, 2, 2, 2)], ids=str)
def test_first_and_second_derivatives_pass_torchs_check(shape, training, present):
    statistics = (None, None) if training else buffers(shape[1])
    x = randn(*shape, seed=1).requires_grad_()
    given = [p for p in parameters(shape[1], present) if p is not None]

    def function(x, *affine):
        rest = iter(affine)
        weight, bias = (next(rest) if here else None for here in present)
        return batch_norm(x, *statistics, weight, bias, training, eps=1e-2)

    assert gradcheck(function, (x, *given))
    assert gradgradcheck(function, (x, *given))


def test_derivatives_pass_the_check_on_strided_input():
    x = randn(3, 2, 4).transpose(1, 2).requires_grad_()
    assert not x.is_contiguous()
    assert gradcheck(lambda x: batch_norm(x, None, None, training=True), (x,))
    assert gradgradcheck(lambda x: batch_norm(x, None, None, training=True), (x,))


def test_the_eval_gradient_is_that_of_an_affine_map():
    x, (mean, var) = randn(4, 2).requires_grad_(), buffers(2)
    weight, bias = parameters(2, (True, True))
    y = batch_norm(x, mean, var, weight, bias, eps=0.1)
    dx, dweight, dbias = gradients(y, x, weight, bias)
    dy, inv_std = randn(4, 2, seed=8), (var + 0.1) ** -0.5
    x_hat = (x.detach() - mean) * inv_std
    expected = dy * weight.detach() * inv_std, (dy * x_hat).sum(0), dy.sum(0)
    assert_same((dx, dweight, dbias), expected)


def test_a_later_training_step_leaves_an_earlier_eval_gradient_right():
    x, (mean, var) = randn(4, 2).requires_grad_(), buffers(2)
    y = batch_norm(x, mean, var)
    expected = gradients(batch_norm(x, *buffers(2)), x)
    batch_norm(randn(5, 2, seed=3), mean, var, training=True)
    assert_same(gradients(y, x), expected)


def test_the_output_may_be_changed_in_place_before_the_backward_pass():
    x = randn(4, 2).requires_grad_()
    expected = gradients(torch.relu(torchs(x, None, None, training=True)), x)
    assert_same(
        gradients(batch_norm(x, None, None, training=True).relu_(), x), expected
    )


def test_only_what_needs_a_gradient_gets_one():
    weight, bias = parameters(3, (True, True))
    y = batch_norm(randn(4, 3), None, None, weight, bias.detach(), training=True)
    y.sum().backward()
    assert weight.grad is not None
    assert not batch_norm(randn(4, 3), None, None, training=True).requires_grad


# Exactness.


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_constant_channel_gives_exactly_the_bias(dtype):
    for constant in (3.7, 100, 0.1):
        x = torch.full((5, 2, 3), constant, dtype=dtype)
        bias = torch.tensor([0.3, -7.0], dtype=dtype)
        y = batch_norm(x, None, None, None, bias, training=True)
        assert (y == bias.view(2, 1)).all()


def test_running_statistics_of_a_far_mean_are_exact():
    x = (randn(500, 2) + 1e6).float()
    mean, var = torch.zeros(2), torch.ones(2)
    batch_norm(x, mean, var, training=True, momentum=1.0)
    torch.testing.assert_close(var.double(), x.double().var(0), rtol=1e-7, atol=0)
    torch.testing.assert_close(mean.double(), x.double().mean(0), rtol=1e-7, atol=0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
def test_one_bad_value_spoils_its_own_channel_alone(value, training):
    x, bad = (randn(6, 3, 2).requires_grad_() for _ in range(2))
    with torch.no_grad():
        bad[1, 1, 0] = value
    outputs = []
    for given_x in (x, bad):
        mean, var = buffers(3)
        y = batch_norm(given_x, mean, var, training=training)
        outputs.append((y, *gradients(y, given_x), mean, var))
    for clean, spoilt in zip(*outputs):
        axis = 1 if clean.ndim > 1 else 0
        keep = torch.tensor([0, 2])
        assert torch.equal(
            clean.index_select(axis, keep), spoilt.index_select(axis, keep)
        )
    assert not torch.isfinite(outputs[1][0][:, 1]).all()


# The dtype rule: the output in the input's dtype, whatever the rest are.


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("other", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_output_has_the_inputs_dtype_and_the_rest_keep_theirs(
    dtype, other, training
):
    x = randn(6, 2).to(dtype).requires_grad_()
    weight, bias = (
        p.detach().to(other).requires_grad_() for p in parameters(2, (1, 1))
    )
    mean, var = buffers(2, dtype=other)
    expected = torchs(
        x.double(),
        mean.double(),
        var.double(),
        weight.double(),
        bias.double(),
        training,
    )
    y = batch_norm(x, mean, var, weight, bias, training)
    found = gradients(y, x, weight, bias)
    assert [g.dtype for g in found] == [dtype, other, other]
    assert (y.dtype, mean.dtype, var.dtype) == (dtype, other, other)
    assert (y - expected).abs().max() <= torch.finfo(dtype).eps * expected.abs().max()
    assert batch_norm(x, mean, var, training=training).dtype == dtype


def test_half_precision_statistics_do_not_overflow():
    x = (200 * randn(65_536, 1) + 1000).half()
    mean, var = torch.zeros(1), torch.ones(1)
    y = batch_norm(x, mean, var, training=True, momentum=1.0)
    assert var.item() == pytest.approx(x.double().var().item(), rel=1e-6)
    assert y.double().std().item() == pytest.approx(1, rel=1e-3)


def test_autocast_leaves_the_rule_as_it_is():
    x = randn(4, 3, dtype=torch.float32)
    weight, bias = (p.float() for p in parameters(3, (True, True)))
    plain = batch_norm(x, None, None, weight, bias, training=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(
            batch_norm(x, None, None, weight, bias, training=True), plain
        )
        assert (
            batch_norm(x.bfloat16(), None, None, training=True).dtype == torch.bfloat16
        )


# Buffers.


@pytest.mark.parametrize("momentum", [0, 0.1, 0.9, 1, np.float64(0.5)])
def test_momentum_is_the_weight_of_the_batch(momentum):
    x, (mean, var), (old_mean, old_var) = randn(5, 2), buffers(2), buffers(2)
    batch_norm(x, mean, var, training=True, momentum=momentum)
    share = float(momentum)
    assert_same([mean], [(1 - share) * old_mean + share * x.mean(0)])
    assert_same([var], [(1 - share) * old_var + share * x.var(0, correction=1)])


def test_half_precision_buffers_are_rounded_once():
    x = randn(64, 1000).half()
    (mean, var), (old_mean, old_var) = (buffers(1000, dtype=torch.half) for _ in "ab")
    batch_norm(x, mean, var, training=True)
    wide = x.double()
    exact = 0.9 * old_mean.double() + 0.1 * wide.mean(0)
    assert (mean != exact.half()).float().mean() < 0.01
    exact = 0.9 * old_var.double() + 0.1 * wide.var(0)
    assert (var != exact.half()).float().mean() < 0.01


@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.inference_mode, torch.enable_grad]
)
def test_training_updates_the_buffers_and_eval_never_does_in_any_grad_mode(mode):
    x = randn(5, 2)
    with mode():
        mean, var = buffers(2)
        before = mean.clone(), var.clone()
        y = batch_norm(x, mean, var)
        assert torch.equal(mean, before[0])
        assert torch.equal(var, before[1])
        batch_norm(x, mean, var, training=True)
        assert not (mean == before[0]).any()
        assert not (var == before[1]).any()
        assert not y.requires_grad


def test_buffers_stay_out_of_the_graph():
    x, (mean, var) = randn(4, 2).requires_grad_(), buffers(2)
    batch_norm(x, mean, var, training=True)
    assert not mean.requires_grad
    assert not var.requires_grad


@pytest.mark.parametrize("shape", [(3, 0), (1, 0), (0, 0), (2, 0, 4)], ids=str)
def test_no_channels_give_an_empty_output(shape):
    for training in (True, False):
        y = batch_norm(
            torch.zeros(shape), torch.zeros(0), torch.ones(0), None, None, training
        )
        assert y.shape == shape


# torch's own kinds of tensor.


def test_a_parameter_as_input_gives_a_plain_tensor():
    y = batch_norm(torch.nn.Parameter(randn(4, 3)), None, None, training=True)
    assert type(y) is torch.Tensor
    assert y.requires_grad


def test_meta_tensors_give_the_shape():
    y = batch_norm(torch.empty(4, 3, 2, device="meta"), None, None, training=True)
    assert (y.shape, y.device.type, y.dtype) == ((4, 3, 2), "meta", torch.float32)


def test_it_maps_over_a_further_axis():
    x = randn(5, 4, 3)
    mapped = torch.func.vmap(lambda one: batch_norm(one, None, None, training=True))(x)
    assert_same(
        [mapped], [torch.stack([torchs(one, None, None, training=True) for one in x])]
    )


def test_a_hessian_in_forward_over_reverse_agrees_with_reverse_over_reverse():
    def loss(x):
        return (batch_norm(x, None, None, training=True, eps=0.1) ** 3).sum()

    x = randn(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        forward = torch.func.hessian(loss)(x)
    assert_same([forward], [torch.autograd.functional.hessian(loss, x)])


# Any shape, layout and values.


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    seed=st.integers(0, 2**31),
    spread=st.sampled_from([1e-6, 1.0, 1e6]),
    layout=st.sampled_from(LAYOUTS),
    training=st.booleans(),
)
def test_anything_agrees_with_torch_in_float64(sizes, seed, spread, layout, training):
    x = layout(randn(sizes[0] + 1, *sizes[1:], seed=seed) * spread)
    ours, others = buffers(sizes[1], seed), buffers(sizes[1], seed)
    weight, bias = parameters(sizes[1], (True, True), seed)
    found = batch_norm(x, *ours, weight, bias, training)
    expected = torchs(x.contiguous(), *others, weight, bias, training)
    assert_same([found, *ours], [expected, *others], 1e-11)
