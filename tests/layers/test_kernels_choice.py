"""Which backend an input goes to, and the error if a backend cannot take it."""

import pytest
import torch
from kernels import NEEDS_C, normal
from refusals import refused

from bnlib import kernels
from bnlib.functional import batch_norm


@pytest.fixture(autouse=True)
def no_override(monkeypatch):
    monkeypatch.delenv("BNLIB_BACKEND", raising=False)


def train(x, **options):
    return batch_norm(x, None, None, training=True, **options)


@NEEDS_C
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
@pytest.mark.parametrize("shape", [(2, 1), (2, 3, 4, 4), (300, 400)], ids=str)
def test_on_the_cpu_auto_is_the_c_kernel(shape, dtype):
    x = normal(*shape).to(dtype)
    assert kernels.choose("auto", x) == "c"
    assert kernels.choose("auto", x.mT) == "c"
    assert torch.equal(train(x), train(x, backend="c"))


@NEEDS_C
def test_the_environment_overrides_auto_at_any_time_and_a_name_overrides_it(
    monkeypatch,
):
    x = normal(4, 3)
    for name in ("torch", "readable", "c"):
        monkeypatch.setenv("BNLIB_BACKEND", name)
        assert kernels.choose("auto", x) == name
        assert torch.equal(train(x), train(x, backend=name))
        assert kernels.choose("torch", x) == "torch"
    for name in ("auto", ""):
        monkeypatch.setenv("BNLIB_BACKEND", name)
        assert kernels.choose("auto", x) == "c"


@pytest.mark.parametrize("name", ["C", "cpu", "native", "", None, 3, ("c",)])
def test_a_wrong_name_is_answered_with_the_right_ones(name):
    mean, var = torch.zeros(3), torch.ones(3)
    says = (
        "backend",
        repr(name),
        "one of 'auto', 'readable', 'torch', 'c', 'triton'",
    )
    with refused(ValueError, *says) as raised:
        batch_norm(normal(4, 3), mean, var, training=True, backend=name)
    assert f"backend is {name!r}" in str(raised.value)
    assert (mean == 0).all()


def test_a_backend_for_another_device_says_so_and_what_can():
    x = torch.empty(4, 3, device="meta")
    says = ("backend", "'c', input meta", "tensors cpu; readable, torch")
    with refused(ValueError, *says):
        train(x, backend="c")
    assert train(x).shape == (4, 3)


def test_an_override_that_cannot_take_an_input_says_that_it_is_one(monkeypatch):
    monkeypatch.setenv("BNLIB_BACKEND", "c")
    with refused(ValueError, "BNLIB_BACKEND", "'c', input meta", "cpu"):
        train(torch.empty(4, 3, device="meta"))


class Tagged(torch.Tensor):
    """A subclass that might do anything."""


def test_what_a_fast_backend_would_not_see_goes_to_the_readable_one():
    x = normal(4, 3)
    tagged = x.as_subclass(Tagged)
    assert kernels.choose("auto", tagged) == "readable"
    assert kernels.choose("auto", x, tagged) == "readable"
    assert type(train(tagged)) is Tagged
    with refused(ValueError, "backend", "'c'", "plain tensors"):
        train(tagged, backend="c")


def test_torch_func_works_and_says_what_it_cannot_do_with_a_fast_backend():
    x = normal(5, 4, 3)
    one_by_one = torch.stack([train(one) for one in x])
    torch.testing.assert_close(torch.func.vmap(train)(x), one_by_one)
    weight = torch.ones(3)

    def loss(weight):
        return (batch_norm(x[0], None, None, weight, training=True) ** 3).sum()

    expected = torch.autograd.functional.jacobian(loss, weight)
    torch.testing.assert_close(torch.func.grad(loss)(weight), expected)
    with refused(ValueError, "backend", "'c', torch.func"):
        torch.func.vmap(lambda one: train(one, backend="c"))(x)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_forward_mode_differentiation_works():
    x, tangent = normal(6, 2).double(), normal(6, 2, seed=1).double()
    with torch.autograd.forward_ad.dual_level():
        y = train(torch.autograd.forward_ad.make_dual(x, tangent))
        found = torch.autograd.forward_ad.unpack_dual(y).tangent
    expected = (train(x + 1e-6 * tangent) - train(x - 1e-6 * tangent)) / 2e-6
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_trace_holds_operations_and_not_one_result():
    traced = torch.jit.trace(train, normal(4, 3), check_trace=False)
    other = normal(4, 3, seed=1)
    torch.testing.assert_close(traced(other), train(other))


def test_saved_tensors_go_through_hooks():
    x = normal(6, 3).requires_grad_()
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: seen.append(tensor.shape) or tensor, lambda tensor: tensor
    ):
        y = train(x)
    y.sum().backward()
    assert (6, 3) in seen


def test_checkpointing_recomputes_and_updates_the_buffers_again():
    x = normal(6, 3).requires_grad_()
    mean, var = torch.zeros(3), torch.ones(3)
    y = torch.utils.checkpoint.checkpoint(
        lambda x: batch_norm(x, mean, var, training=True).sin(), x, use_reentrant=False
    )
    y.sum().backward()
    plain = x.detach().clone().requires_grad_()
    train(plain).sin().sum().backward()
    assert torch.equal(x.grad, plain.grad)
    twice = torch.zeros(3), torch.ones(3)
    for _ in range(2):
        batch_norm(x.detach(), *twice, training=True)
    assert torch.equal(mean, twice[0])
    assert torch.equal(var, twice[1])


@NEEDS_C
def test_a_changed_input_is_noticed_before_the_backward_pass():
    x = normal(6, 3).requires_grad_()
    leaf = x * 1
    y = train(leaf, backend="c")
    leaf.add_(1)
    with refused(RuntimeError, "modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("activation", ["ReLU", "gelu", torch.relu, 1, False])
def test_an_unknown_activation_is_named(activation):
    with refused(ValueError, "activation", repr(activation), "None, 'relu'"):
        train(normal(4, 3), activation=activation)
