"""Growth factors: what they refuse, and that they say why."""

import numpy as np
import pytest
import torch

from bnlib.meanfield import (
    degree_shares,
    fixed_point,
    gradient_norms,
    growth_factor,
    residual_growth,
    simulate_growth,
)


def refuses(kind, message, function, *arguments, **options):
    with pytest.raises(kind, match=message):
        function(*arguments, **options)


@pytest.mark.parametrize("function", [growth_factor, fixed_point, degree_shares])
@pytest.mark.parametrize(
    ("batch_size", "reason"),
    [
        (-2, "there is no such batch"),
        (0, "there is no such batch"),
        (1, "one value has no variance"),
        (2, "no gradient gets through"),
        (3, "mean of 1 / variance over three Gaussian values diverges"),
    ],
)
def test_a_batch_too_small_is_refused_with_the_reason(function, batch_size, reason):
    refuses(ValueError, f"{batch_size}: .*{reason}.*4", function, "relu", batch_size)


@pytest.mark.parametrize("batch_size", [4.0, True, "8", np.nan, [8]], ids=str)
def test_a_batch_size_is_an_integer(batch_size):
    refuses(TypeError, "batch_size is", growth_factor, "relu", batch_size)


def test_numpy_integers_do_not_overflow():
    assert growth_factor("relu", np.uint8(4)) == growth_factor("relu", 4)
    assert growth_factor("tanh", np.int8(100)) == growth_factor("tanh", 100)


def test_an_unknown_name_lists_those_there_are():
    refuses(ValueError, "no activation 'swoosh': .*relu.*tanh", growth_factor, "swoosh")


@pytest.mark.parametrize("activation", [None, 3, torch.ones(2)], ids=str)
def test_an_activation_is_a_name_or_a_function(activation):
    refuses(TypeError, "give a name or a function", growth_factor, activation)


SIZES = pytest.mark.parametrize("batch_size", [None, 4, 64])
WRONG = {
    "constant": (torch.ones_like, "constant on the numbers that reach it"),
    "flat": (lambda x: 0 * x + 2, "constant on the numbers that reach it"),
    "step": (torch.sign, "it jumps there"),
    "detached": (lambda x: torch.tanh(x.detach()), "autograd does not give"),
    "not finite": (lambda x: torch.log(x), "value at -.* is nan"),
    "steep": (lambda x: x.sign() * x.abs().sqrt(), "derivative|at a point"),
    "softmax": (lambda x: torch.softmax(x, -1), "acts on each number alone"),
    "centred": (lambda x: x - x.mean(), "acts on each number alone"),
    "dropout": (torch.nn.Dropout(), "acts on each number alone"),
    "float32": (lambda x: x.float(), "torch.float32"),
    "shorter": (lambda x: x[:1], r"shape \(1,\)"),
    "wild": (lambda x: torch.sin(1e6 * x), "varies too fast"),
}


@SIZES
@pytest.mark.parametrize(("function", "message"), WRONG.values(), ids=WRONG)
def test_a_function_that_is_no_activation_is_refused(function, message, batch_size):
    refuses(ValueError, message, growth_factor, function, batch_size)


@SIZES
@pytest.mark.parametrize("function", [lambda x: x.detach().numpy(), lambda x: "x"])
def test_a_function_returns_a_tensor(function, batch_size):
    refuses(TypeError, "torch's operations", growth_factor, function, batch_size)


@pytest.mark.parametrize(
    "function", [lambda x: torch.exp(x**2 / 4), lambda x: torch.exp(40 * x)]
)
def test_a_function_without_a_gaussian_mean_square_is_refused(function):
    refuses(ValueError, "too fast|is inf", growth_factor, function)
    assert growth_factor(function, 6) > 1


def test_a_function_constant_on_small_batches_alone_is_refused_there_alone():
    def late(x):
        return torch.relu(x - 3)

    refuses(ValueError, "constant .*-2.24 to 2.24", growth_factor, late, 6)
    assert growth_factor(late, 16) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 1}, "width is 1"),
        ({"depth": 2}, "depth is 2"),
        ({"seed": -1}, "seed is -1"),
        ({"batch_size": 3}, "batch_size is 3"),
    ],
)
def test_a_simulation_too_small_is_refused(options, message):
    refuses(ValueError, message, simulate_growth, "relu", **options)


def test_a_simulation_needs_a_batch_size():
    refuses(TypeError, "batch_size is None", simulate_growth, "relu", None)


def test_a_simulation_says_where_the_gradient_is_lost():
    small = {"batch_size": 8, "width": 16, "depth": 4}
    refuses(ValueError, "layer 3 of 4 .* 0.0", simulate_growth, torch.sign, **small)
    bad = {"function": lambda x: x / 0, "message": "of 4 has squared norm nan"}
    refuses(ValueError, bad["message"], simulate_growth, bad["function"], **small)
    refuses(ValueError, r"shape \(2, 16\)", simulate_growth, lambda x: x[:2], **small)


def test_residual_growth_refuses_what_is_no_depth_or_variance():
    refuses(ValueError, "depth is 0", residual_growth, "relu", depth=0)
    refuses(TypeError, "depth is 2.5", residual_growth, "relu", depth=2.5)
    refuses(ValueError, "variance is 0", residual_growth, "relu", depth=3, variance=0)


def test_shares_are_of_at_least_one_degree():
    refuses(ValueError, "degrees is 0", degree_shares, "relu", 8, 0)


def test_gradient_norms_refuse_what_autograd_or_shapes_forbid():
    x = torch.ones(3, 2)
    refuses(ValueError, "layer 0", gradient_norms, [lambda h: h.detach()], x, x)
    refuses(ValueError, r"shape \(2,\)", gradient_norms, [torch.tanh], x, x[0])
    refuses(ValueError, "norm 0.0", gradient_norms, [torch.tanh], x, 0 * x)
