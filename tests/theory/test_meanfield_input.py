"""Growth factors: what they refuse, and that they say why."""

import numpy as np
import pytest
import torch
from refusals import refused

from bnlib.meanfield import (
    degree_shares,
    fixed_point,
    gradient_norms,
    growth_factor,
    residual_growth,
    simulate_growth,
)


def refuses(kind, message, function, *arguments, **options):
    with refused(kind, *message):
        function(*arguments, **options)


@pytest.mark.parametrize("function", [growth_factor, fixed_point, degree_shares])
@pytest.mark.parametrize(
    ("batch_size", "reason"),
    [
        (-2, "no such batch"),
        (0, "no such batch"),
        (1, "one value has no variance"),
        (2, "no gradient gets through"),
        (3, "variance over three Gaussian values diverges"),
    ],
)
def test_a_batch_too_small_is_refused_with_the_reason(function, batch_size, reason):
    refuses(
        ValueError,
        ("batch_size", f"{batch_size} {reason}", "at least 4"),
        function,
        "relu",
        batch_size,
    )


@pytest.mark.parametrize("batch_size", [4.0, True, "8", np.nan, [8]], ids=str)
def test_a_batch_size_is_an_integer(batch_size):
    refuses(
        TypeError,
        ("batch_size", repr(batch_size), "integer"),
        growth_factor,
        "relu",
        batch_size,
    )


def test_numpy_integers_do_not_overflow():
    assert growth_factor("relu", np.uint8(4)) == growth_factor("relu", 4)
    assert growth_factor("tanh", np.int8(100)) == growth_factor("tanh", 100)


def test_an_unknown_name_lists_those_there_are():
    refuses(
        ValueError,
        ("activation", "'swoosh'", "relu tanh, function of a tensor"),
        growth_factor,
        "swoosh",
    )


@pytest.mark.parametrize("activation", [None, 3, torch.ones(2)], ids=str)
def test_an_activation_is_a_name_or_a_function(activation):
    refuses(
        TypeError,
        ("activation", repr(activation), "name, function"),
        growth_factor,
        activation,
    )


SIZES = pytest.mark.parametrize("batch_size", [None, 4, 64])
WRONG = {
    "constant": (
        torch.ones_like,
        ("activation", "constant on the numbers that reach it"),
    ),
    "flat": (
        lambda x: 0 * x + 2,
        ("activation", "constant on the numbers that reach it"),
    ),
    "step": (torch.sign, ("activation", "jumps")),
    "detached": (
        lambda x: torch.tanh(x.detach()),
        ("activation", "autograd not derivative", "smooth"),
    ),
    "not finite": (
        lambda x: torch.log(x),
        (
            "activation value",
            "nan",
            "finite",
        ),
    ),
    "steep": (lambda x: x.sign() * x.abs().sqrt(), ("activation", "derivative")),
    "softmax": (
        lambda x: torch.softmax(x, -1),
        ("activation", "number", "each number alone"),
    ),
    "centred": (
        lambda x: x - x.mean(),
        ("activation", "number", "each number alone"),
    ),
    "dropout": (
        torch.nn.Dropout(),
        ("activation", "number", "each number alone"),
    ),
    "float32": (
        lambda x: x.float(),
        (
            "activation",
            "float32",
            "float64, keeps both",
        ),
    ),
    "shorter": (
        lambda x: x[:1],
        (
            "activation",
            (1,),
            "keeps both",
        ),
    ),
    "wild": (
        lambda x: torch.sin(1e6 * x),
        ("activation", "varies too fast", "smooth"),
    ),
}


@SIZES
@pytest.mark.parametrize(("function", "message"), WRONG.values(), ids=WRONG)
def test_a_function_that_is_no_activation_is_refused(function, message, batch_size):
    refuses(ValueError, message, growth_factor, function, batch_size)


@SIZES
@pytest.mark.parametrize("function", [lambda x: x.detach().numpy(), lambda x: "x"])
def test_a_function_returns_a_tensor(function, batch_size):
    refuses(
        TypeError,
        ("activation", type(function(torch.ones(2))), "torch operations, tensor"),
        growth_factor,
        function,
        batch_size,
    )


@pytest.mark.parametrize(
    "function", [lambda x: torch.exp(x**2 / 4), lambda x: torch.exp(40 * x)]
)
def test_a_function_without_a_gaussian_mean_square_is_refused(function):
    refuses(ValueError, ("activation",), growth_factor, function)
    assert growth_factor(function, 6) > 1


def test_a_function_constant_on_small_batches_alone_is_refused_there_alone():
    def late(x):
        return torch.relu(x - 3)

    refuses(ValueError, ("activation", "constant -2.24 2.24"), growth_factor, late, 6)
    assert growth_factor(late, 16) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 1}, ("width", 1, "integer of at least 2")),
        ({"depth": 2}, ("depth", 2, "integer of at least 3")),
        ({"seed": -1}, ("seed", -1, "integer of at least 0")),
        ({"batch_size": 3}, ("batch_size", 3, "at least 4")),
    ],
)
def test_a_simulation_too_small_is_refused(options, message):
    refuses(ValueError, message, simulate_growth, "relu", **options)


def test_a_simulation_needs_a_batch_size():
    refuses(
        TypeError,
        ("batch_size", None, "integer"),
        simulate_growth,
        "relu",
        None,
    )


def test_a_simulation_says_where_the_gradient_is_lost():
    small = {"batch_size": 8, "width": 16, "depth": 4}
    refuses(
        ValueError,
        ("gradient at layer 3 of 4", "squared norm 0.0"),
        simulate_growth,
        torch.sign,
        **small,
    )
    bad = {
        "function": lambda x: x / 0,
        "message": ("gradient at layer 3 of 4", "squared norm nan"),
    }
    refuses(ValueError, bad["message"], simulate_growth, bad["function"], **small)
    refuses(
        ValueError,
        ("activation", "shape (2, 16) (8, 16)", "one that keeps both"),
        simulate_growth,
        lambda x: x[:2],
        **small,
    )


def test_residual_growth_refuses_what_is_no_depth_or_variance():
    refuses(
        ValueError,
        ("depth", 0, "integer of at least 1"),
        residual_growth,
        "relu",
        depth=0,
    )
    refuses(TypeError, ("depth", 2.5, "integer"), residual_growth, "relu", depth=2.5)
    refuses(
        ValueError,
        ("variance", 0, "number above 0"),
        residual_growth,
        "relu",
        depth=3,
        variance=0,
    )


def test_shares_are_of_at_least_one_degree():
    refuses(
        ValueError, ("degrees", 0, "integer of at least 1"), degree_shares, "relu", 8, 0
    )


def test_gradient_norms_refuse_what_autograd_or_shapes_forbid():
    x = torch.ones(3, 2)
    refuses(
        ValueError,
        ("layer 0", "autograd"),
        gradient_norms,
        [lambda h: h.detach()],
        x,
        x,
    )
    refuses(
        ValueError,
        ("upstream", (2,), "that of the output, (3, 2)"),
        gradient_norms,
        [torch.tanh],
        x,
        x[0],
    )
    refuses(
        ValueError,
        ("gradient at layer 1 of 1", "squared norm 0.0"),
        gradient_norms,
        [torch.tanh],
        x,
        0 * x,
    )
