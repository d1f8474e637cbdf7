"""The part of the protocol that every backend keeps, whatever it computes with."""

import inspect

import pytest
import torch
from kernels import EVERY, EXACT, HERE, error, normal
from refusals import refused

from bnlib import kernels
from bnlib.conformance import reference
from bnlib.functional import batch_norm

GIVEN = ["grad_output", "input", "statistics", "weight", "bias", "options"]


@pytest.mark.parametrize("name", kernels.BACKENDS)
def test_a_backend_has_the_functions_of_the_protocol(name):
    backend = kernels.module(name)
    for method in ("refusal", "forward"):
        asked = inspect.signature(getattr(kernels.Backend, method)).parameters
        found = inspect.signature(getattr(backend, method)).parameters
        assert list(found) == list(asked)[1:]
    if backend.backward is not None:
        assert list(inspect.signature(backend.backward).parameters) == GIVEN


@pytest.mark.parametrize(
    "backend", [name for name in HERE if kernels.module(name).backward]
)
@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
def test_statistics_are_the_mean_its_rest_and_one_over_the_deviation(backend, training):
    chosen = kernels.module(backend)
    x = normal(50, 3, mean=1e4)
    running = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])
    options = kernels.Options(training, 0.1, 1e-5, False)
    _, statistics = chosen.forward(x, *running, None, None, options)
    assert (statistics.shape, statistics.dtype) == ((3, 3), torch.float64)
    wide = x.double()
    mean, var = running if not training else (wide.mean(0), wide.var(0, correction=0))
    if training:
        assert error(statistics[0] + statistics[1], mean) <= 1e-14
        assert error(statistics[2], (var + 1e-5).rsqrt()) <= 1e-10
    else:
        assert torch.equal(statistics[:2], torch.stack([mean, 0 * mean]).double())
        assert error(statistics[2], (var.double() + 1e-5).rsqrt()) <= 1e-15


@EXACT
def test_the_second_derivative_goes_with_the_first_of_the_same_statistics(backend):
    x = normal(20, 4, mean=1e4).requires_grad_()
    upstream = normal(20, 4, seed=2)
    y = batch_norm(x, None, None, training=True, backend=backend)
    (dx,) = torch.autograd.grad(y, x, upstream, create_graph=True)
    assert error(dx, reference(x, upstream)[1]) <= 2e-7


LAYOUTS = {
    "float32": lambda vector: vector,
    "float16": torch.Tensor.half,
    "strided": lambda vector: vector.repeat_interleave(2)[::2],
}


@EVERY
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_an_update_raises_the_version_counters_and_nothing_else_does(
    backend, layout, grad
):
    x = normal(6, 3).requires_grad_(grad)
    mean, var = (LAYOUTS[layout](vector) for vector in (torch.zeros(3), torch.ones(3)))
    weight = torch.ones(3, requires_grad=grad)
    tensors = x, mean, var, weight
    before = [tensor._version for tensor in tensors]
    y = batch_norm(x, mean, var, weight, training=True, backend=backend)
    raised = [tensor._version > old for tensor, old in zip(tensors, before)]
    assert raised == [False, True, True, False]
    before = [tensor._version for tensor in tensors]
    batch_norm(x, mean, var, weight, backend=backend)
    assert [tensor._version for tensor in tensors] == before
    # The counters must not stand in the way of the backward pass.
    batch_norm(x, mean, var, weight, training=True, backend=backend)
    if grad:
        y.sum().backward()


@EVERY
def test_a_graph_that_needs_the_statistics_of_before_notices_an_update(backend):
    mean, var = torch.zeros(3), torch.ones(3)
    scale = torch.ones(3, requires_grad=True)
    product = (scale * mean).sum()
    batch_norm(normal(6, 3), mean, var, training=True, backend=backend)
    with refused(RuntimeError, "modified by an inplace operation"):
        product.backward()


@pytest.mark.parametrize("name", ["native", "cpu", "fast"])
def test_an_old_or_unknown_name_in_the_environment_is_answered_with_the_four(
    monkeypatch, name
):
    monkeypatch.setenv("BNLIB_BACKEND", name)
    with refused(ValueError, "BNLIB_BACKEND", name, " ".join(kernels.BACKENDS)):
        batch_norm(normal(4, 3), None, None, training=True)
