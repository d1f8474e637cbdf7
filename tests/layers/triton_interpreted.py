"""The Triton kernels on the CPU, in Triton's interpreter, against float64.

`test_triton.py` runs this file in a process of its own: the interpreter must be asked
for before triton is imported. Cases are small, since it takes a second for 50,000
values.
"""

import itertools

import pytest
import torch

from bnlib import kernels
from bnlib.conformance import definition, reference
from bnlib.functional import batch_norm
from bnlib.kernels import Options, _triton

EPS = 1e-5
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Odd planes, planes of several tiles, few and odd channels, one example, one row.
SHAPES = [
    (64, 8),
    (33, 65),
    (7, 1),
    (6, 5, 49),
    (4, 3, 14, 14),
    (1, 2, 1, 9),
    (3, 2, 37, 41),
    (2, 3, 3, 4, 5),
]
PRESENT = list(itertools.product([True, False], repeat=2))
LAYOUTS = ["contiguous", "channels_last"]


def drawn(*shape, seed=0, dtype=torch.float32):
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return made.to(dtype)


def laid_out(tensor, layout):
    if layout == "contiguous":
        return tensor
    return tensor.movedim(1, -1).contiguous().movedim(-1, 1)


def step(x, dy, weight=None, bias=None, relu=False, running=(None, None)):
    """One forward and one backward pass: y, dx, and the gradients of the two."""
    given = weight, bias, Options(True, 0.1, EPS, relu)
    y, statistics = _triton.forward(x, *running, *given)
    return y, *_triton.backward(dy, x, statistics, *given)


def assert_exact(found, exact, dtype):
    """Within 2e-7 of the largest value, and half precision rounded from that."""
    slack = 2e-7 * exact.abs().max()
    assert found.dtype == dtype
    assert found.isfinite().all()
    if dtype == torch.float16:
        low, high = (exact - slack).to(dtype), (exact + slack).to(dtype)
        assert ((low <= found) & (found <= high)).all()
    else:
        # The interpreter cuts bfloat16 off where a GPU rounds: a unit, not a half.
        unit = torch.finfo(dtype).eps * exact.abs() if dtype == torch.bfloat16 else 0
        assert ((found - exact).abs() <= slack + unit).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_output_and_gradients_are_exact(dtype, shape, layout):
    x, dy = (
        laid_out(drawn(*shape, seed=seed, dtype=dtype), layout) for seed in range(2)
    )
    y, dx, *none = step(x, dy)
    assert none == [None, None]
    for found, exact in zip((y, dx), reference(x, dy)):
        assert_exact(found, exact, dtype)
        assert found.stride() == x.stride()


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_weight_bias_and_relu_are_fused(dtype, layout, relu):
    shape = 4, 5, 12, 12
    x, dy = (laid_out(drawn(*shape, seed=n, dtype=dtype), layout) for n in range(2))
    weight, bias = drawn(2, 5, seed=2)
    y = definition(x, weight, bias)
    # Rounding decides on which side of 0 these are.
    dy[y.abs() < 1e-5] = 0
    exact = reference(x, dy, weight, bias, relu=relu)
    y, dx, grad_weight, grad_bias = step(x, dy, weight, bias, relu)
    assert_exact(y, exact[0], dtype)
    assert_exact(dx, exact[1], dtype)
    x_hat = definition(x)
    passed = dy.double() * (exact[0] > 0) if relu else dy.double()
    assert_exact(grad_weight, (passed * x_hat).sum((0, 2, 3)), torch.float32)
    assert_exact(grad_bias, passed.sum((0, 2, 3)), torch.float32)


@pytest.mark.parametrize("present", PRESENT, ids=str)
def test_an_absent_parameter_has_no_gradient(present):
    x, dy = drawn(20, 3), drawn(20, 3, seed=1)
    given = [p if here else None for p, here in zip(drawn(2, 3, seed=2), present)]
    y, dx, *grads = step(x, dy, *given)
    assert tuple(grad is not None for grad in grads) == present
    for found, exact in zip((y, dx), reference(x, dy, *given)):
        assert_exact(found, exact, torch.float32)


HARD = {
    "mean 1e4": lambda x: x + 1e4,
    "mean 1e6": lambda x: x + 1e6,
    "mean 1e4, deviation 1e-2": lambda x: x / 100 + 1e4,
    "a first value of 1e6": lambda x: x.index_fill(0, torch.tensor([0]), 1e6),
    "a last value of 1e6": lambda x: x.index_fill(0, torch.tensor([-1]), 1e6),
    "rising": lambda x: (
        x + torch.linspace(0, 1e4, len(x)).view(-1, *[1] * (x.ndim - 1))
    ),
    "deviation 1e30": lambda x: x * 1e30,
    "deviation 1e-12": lambda x: x * 1e-12,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", HARD)
def test_what_costs_others_their_digits_costs_none(name, layout):
    x = laid_out(HARD[name](drawn(40, 3, 11, 9)), layout)
    dy = laid_out(drawn(*x.shape, seed=1), layout)
    y, dx, *_ = step(x, dy)
    for found, exact in zip((y, dx), reference(x, dy)):
        assert_exact(found, exact, torch.float32)


def test_half_precision_neither_overflows_nor_loses_small_deviations():
    for x in ((200 * drawn(8192, 2)).half(), (drawn(8192, 2) / 10 + 5).bfloat16()):
        dy = drawn(8192, 2, seed=1, dtype=x.dtype)
        y, dx, *_ = step(x, dy)
        for found, exact in zip((y, dx), reference(x, dy)):
            assert_exact(found, exact, x.dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [3.7, 100.0, 1e8, 0.1])
def test_a_constant_channel_gives_exactly_the_bias(value, layout):
    x = laid_out(torch.full((13, 3, 7, 11), value), layout)
    weight, bias = drawn(2, 3)
    y, dx, grad_weight, _ = step(x, torch.full_like(x, 0.1), weight, bias)
    assert (y == bias.view(3, 1, 1)).all()
    assert (dx == 0).all()
    assert (grad_weight == 0).all()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_bad_value_spoils_its_own_channel_alone(bad, relu, layout):
    x, dy = (laid_out(drawn(6, 5, 7, 7, seed=seed), layout) for seed in range(2))
    expected = step(x, dy, relu=relu)[:2]
    x[2, 1, 3, 3] = bad
    for found, clean in zip(step(x, dy, relu=relu)[:2], expected):
        assert found[:, 1].isnan().all()
        others = [0, 2, 3, 4]
        assert torch.equal(found[:, others], clean[:, others])


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64], ids=str)
def test_running_statistics_take_in_the_batch(dtype):
    x = drawn(9, 4, 5) * 3 + 2
    mean, var = drawn(4, seed=3, dtype=dtype), drawn(4, seed=4).abs().to(dtype)
    old = mean.double().clone(), var.double().clone()
    step(x, x, running=(mean, var))
    batch = x.double().mean((0, 2)), x.double().var((0, 2))
    for found, before, new in zip((mean, var), old, batch):
        assert_exact(found, 0.9 * before + 0.1 * new, dtype)


def test_buffers_and_parameters_may_have_gaps():
    x, whole = drawn(20, 3), drawn(4, 6, seed=1).abs()
    strided = [row[::2] for row in whole.clone()]
    plain = [row.clone() for row in strided]
    for mean, var, weight, bias in (strided, plain):
        found = step(x, x, weight, bias, running=(mean, var))
        assert found[0].isfinite().all()
    for one, other in zip(strided, plain):
        assert torch.equal(one, other)
    assert not torch.equal(strided[0], whole[0, ::2])


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_inference_uses_the_running_statistics_and_leaves_them(layout, relu):
    x, dy = (laid_out(drawn(4, 3, 5, 5, seed=seed), layout) for seed in range(2))
    weight, bias, mean, var = drawn(4, 3, seed=2)
    var = var.abs() + 0.5
    buffers = mean.clone(), var.clone()
    inputs = [each.double().requires_grad_() for each in (x, weight, bias)]
    exact = torch.nn.functional.batch_norm(
        inputs[0], mean.double(), var.double(), *inputs[1:]
    )
    exact = exact.relu() if relu else exact
    exact.backward(dy.double())
    given = weight, bias, Options(False, 0.1, EPS, relu)
    y, statistics = _triton.forward(x, mean, var, *given)
    found = y, *_triton.backward(dy, x, statistics, *given)
    expected = exact.detach(), *(each.grad for each in inputs)
    for one, other in zip(found, expected):
        assert_exact(one, other, torch.float32)
    assert torch.equal(mean, buffers[0])
    assert torch.equal(var, buffers[1])


VIEWS = {
    "transposed": lambda x: x.transpose(2, 3),
    "sliced": lambda x: x[:, ::2, 1:],
    "sliced channels_last": lambda x: laid_out(x, "channels_last")[:, ::2, 1:],
    "expanded": lambda x: x[:, :, :1].expand(-1, -1, 5, -1),
    "offset by one value": lambda x: x.flatten()[1:1001].view(10, 5, 5, 4),
    "width in the place of examples": lambda x: x.reshape(-1, 5, 1, 1).transpose(0, 3),
    "permuted": lambda x: x.permute(3, 1, 0, 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_any_strides_give_the_values_of_contiguous_ones(name):
    x = VIEWS[name](drawn(6, 5, 8, 7))
    dy = VIEWS[name](drawn(6, 5, 8, 7, seed=1))
    y, dx, *_ = step(x, dy)
    for found, exact in zip((y, dx), reference(x, dy)):
        assert_exact(found, exact, torch.float32)
    assert y.stride() == torch.empty_like(x).stride()


def test_the_gradient_may_lie_otherwise_than_the_input():
    x, dy = drawn(3, 4, 6, 5), drawn(3, 4, 1, 1, seed=1).expand(3, 4, 6, 5)
    for input, upstream in (
        (x, laid_out(dy, "channels_last")),
        (laid_out(x, "channels_last"), dy),
    ):
        _, dx, *_ = step(input, upstream)
        assert_exact(dx, reference(x, dy)[1], torch.float32)


def test_a_channel_is_split_over_programs_and_merged(monkeypatch):
    x, dy = drawn(3, 2, 90, 60) + 1e4, drawn(3, 2, 90, 60, seed=1)
    assert _triton.cut(x).parts == 11
    for programs in (1, 5, 1024):
        monkeypatch.setattr(_triton, "PROGRAMS", programs)
        y, dx, *_ = step(x, dy)
        for found, exact in zip((y, dx), reference(x, dy)):
            assert_exact(found, exact, torch.float32)


def test_more_parts_than_one_step_of_merging_takes():
    x, dy = drawn(34816, 1) + 1e4, drawn(34816, 1, seed=1)
    assert _triton.cut(x).parts == 272
    assert _triton.cut(x).merging == ((1,), 2)
    y, dx, *_ = step(x, dy)
    for found, exact in zip((y, dx), reference(x, dy)):
        assert_exact(found, exact, torch.float32)


def test_it_is_a_backend_like_the_others():
    x = drawn(8, 3, 4, 4)
    assert kernels.refusal("triton", x) is None
    x.requires_grad_()
    weight, bias = drawn(2, 3, seed=2).requires_grad_()
    found = {}
    for backend in ("triton", "readable"):
        y = batch_norm(
            *(x, None, None, weight, bias),
            training=True,
            activation="relu",
            backend=backend,
        )
        (dx,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(dx.square().sum(), x)
        found[backend] = y, dx, second
    for one, other in zip(found["triton"], found["readable"]):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_auto_does_not_choose_the_interpreter():
    assert kernels.choose("auto", drawn(2, 3)) != "triton"


def test_an_update_raises_the_version_counters_of_the_running_statistics():
    x, mean, var = torch.randn(6, 3), torch.zeros(3), torch.ones(3)
    before = mean._version, var._version
    _triton.forward(x, mean, var, None, None, Options(True, 0.1, EPS, False))
    assert mean._version > before[0]
    assert var._version > before[1]
    before = mean._version, var._version
    _triton.forward(x, mean, var, None, None, Options(False, 0.1, EPS, False))
    assert (mean._version, var._version) == before
