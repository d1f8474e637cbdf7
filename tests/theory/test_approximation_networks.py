"""Networks whose parameters are counted: what they compute and how they are fitted."""

import numpy as np
import pytest
import torch
from common import assert_unchanged, generator, snapshot
from refusals import refused

from bnlib import approximation
from bnlib.approximation import TreeNetwork, fit, polynomial_layer

CUBIC = {(0, 0): 0.5, (1, 0): -1.0, (1, 1): 2.0, (3, 0): 0.7, (1, 2): -0.4}


def uniform(*shape, seed=0):
    return 2 * torch.rand(shape, generator=generator(seed), dtype=torch.float64) - 1


def cubic(x):
    a, b = x.T
    return 0.5 - a + 2 * a * b + 0.7 * a**3 - 0.4 * a * b**2


def sine_layer(step, polynomial=CUBIC, degree=3, seed=0):
    derivatives = [np.sin(0.7 + order * np.pi / 2) for order in range(degree + 1)]
    rng = np.random.default_rng(seed)
    return polynomial_layer(polynomial, derivatives, point=0.7, step=step, rng=rng)


# The construction of Mhaskar's theorem.


def test_the_layer_comes_close_to_the_polynomial():
    x, layer = uniform(300, 2).numpy(), sine_layer(1e-3)
    np.testing.assert_allclose(layer(x, np.sin), cubic(x), atol=1e-4)
    assert layer.weights.shape == (2, approximation.polynomial_units(3, 2))


def test_its_error_is_of_second_order_in_the_step():
    x = uniform(300, 2).numpy()
    errors = [np.abs(sine_layer(s)(x, np.sin) - cubic(x)).max() for s in (0.2, 0.1)]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


def test_a_constant_takes_one_unit():
    layer = sine_layer(0.1, {(0, 0, 0): 3.0}, degree=0)
    np.testing.assert_allclose(layer(np.zeros((2, 3)), np.sin), [3.0, 3.0])
    assert layer.outputs.shape == (1,)


def test_the_directions_do_not_matter():
    x = uniform(100, 2).numpy()
    one, other = (sine_layer(1e-3, seed=s)(x, np.sin) for s in (0, 1))
    np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize(
    ("polynomial", "derivatives", "step", "error", "message"),
    [
        (
            {},
            [1.0],
            0.1,
            ValueError,
            ("polynomial", "the exponents []", "tuples, at least one"),
        ),
        (None, [1.0], 0.1, TypeError, ("polynomial", None, "dict")),
        (
            {1: 1.0},
            [1.0] * 2,
            0.1,
            ValueError,
            ("polynomial", "the exponents [1]", "tuples, at least one"),
        ),
        (
            {(): 1.0},
            [1.0],
            0.1,
            ValueError,
            ("polynomial", "the exponents [()]", "tuples of one length, at least 1"),
        ),
        (
            {(1,): 1.0, (1, 0): 1.0},
            [1.0] * 2,
            0.1,
            ValueError,
            (
                "polynomial",
                "the exponents [(1,), (1, 0)]",
                "tuples of one length, at least 1",
            ),
        ),
        (
            {(1,): np.nan},
            [1.0] * 2,
            0.1,
            ValueError,
            ("a coefficient", "nan", "finite"),
        ),
        (
            {(-1, 1): 1.0},
            [1.0],
            0.1,
            ValueError,
            ("an exponent", -1, "integer of at least 0"),
        ),
        ({(0.5,): 1.0}, [1.0], 0.1, TypeError, ("an exponent", 0.5, "integer")),
        ({(1,): 1.0}, [1.0], 0.1, ValueError, ("derivatives", (1,), "degree 1, (2,)")),
        (
            {(1,): 1.0},
            [1.0, 0.0],
            0.1,
            ValueError,
            ("derivatives", "[1. 0.]", "point where none is 0, all finite"),
        ),
        (
            {(1,): 1.0},
            [1.0, np.nan],
            0.1,
            ValueError,
            ("derivatives", "[ 1. nan]", "point where none is 0, all finite"),
        ),
        ({(1,): 1.0}, [1.0, 1.0], 0.0, ValueError, ("step", 0, "number above 0")),
    ],
)
def test_what_gives_no_construction_is_refused(
    polynomial, derivatives, step, error, message
):
    rng = np.random.default_rng(0)
    with refused(error, *message):
        polynomial_layer(polynomial, derivatives, point=0.0, step=step, rng=rng)


# Trees of networks.


def node(network, place, x):
    """One node of a tree network, written out."""
    weights, biases, outputs = (p.detach()[place] for p in network.parameters())
    return torch.tanh(x @ weights + biases) @ outputs


def test_a_tree_network_computes_node_by_node():
    network, x = TreeNetwork(8, 3, generator=generator()), uniform(20, 8)
    low = [node(network, i, x[:, 2 * i : 2 * i + 2]) for i in range(4)]
    middle = [node(network, 4 + i, torch.stack(low[2 * i :][:2], 1)) for i in (0, 1)]
    expected = node(network, 6, torch.stack(middle, 1))
    torch.testing.assert_close(network(x), expected, rtol=0, atol=1e-14)


def test_one_node_over_all_inputs_is_the_shallow_network():
    network, x = TreeNetwork(5, 7, arity=5, generator=generator()), uniform(20, 5)
    torch.testing.assert_close(network(x), node(network, 0, x), rtol=0, atol=1e-14)
    count = sum(p.numel() for p in network.parameters())
    assert count == approximation.shallow_parameters(7, 5)


def test_a_shared_tree_uses_one_node_everywhere():
    network, x = TreeNetwork(4, 3, shared=True, generator=generator()), uniform(20, 4)
    low = torch.stack([node(network, 0, x[:, :2]), node(network, 0, x[:, 2:])], 1)
    torch.testing.assert_close(network(x), node(network, 0, low), rtol=0, atol=1e-14)
    assert sum(p.numel() for p in network.parameters()) == 12


def test_the_output_does_not_depend_on_how_the_points_lie_in_memory():
    network, x = TreeNetwork(4, 3, generator=generator()), uniform(4, 20).T
    torch.testing.assert_close(network(x), network(x.contiguous()), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("inputs", "units", "arity", "message"),
    [
        (6, 3, 2, ("inputs", 6, "power of the arity, 2")),
        (4, 0, 2, ("units", 0, "integer of at least 1")),
        (4, 3, 1, ("arity", 1, "integer of at least 2")),
    ],
)
def test_a_tree_network_of_impossible_sizes_is_refused(inputs, units, arity, message):
    with refused(ValueError, *message):
        TreeNetwork(inputs, units, arity, generator=generator())


def test_points_of_another_width_are_refused():
    with refused(ValueError, "x", (3, 8), "(m, 4)"):
        TreeNetwork(4, 3, generator=generator())(uniform(3, 8))


# Fitting.


def test_a_fit_returns_the_error_that_the_network_now_has():
    network, x = TreeNetwork(2, 6, generator=generator()), uniform(200, 2)
    y = torch.cos(2 * x[:, 0] - x[:, 1])
    before = (network(x) - y).square().mean().sqrt().item()
    left = fit(network, x, y, steps=100)
    after = (network(x) - y).square().mean().sqrt().item()
    assert left == pytest.approx(after, rel=1e-12)
    assert after < 0.02 < before


def test_a_network_that_is_the_target_is_found_from_nearby():
    target, x = TreeNetwork(4, 2, generator=generator(1)), uniform(300, 4)
    y = target(x).detach()
    network = TreeNetwork(4, 2, generator=generator(1))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.05 * torch.randn(
                parameter.shape, generator=generator(2), dtype=torch.float64
            )
    assert fit(network, x, y, steps=1000) < 1e-5


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (uniform(3, 2).float(), uniform(3), TypeError, ("x", "", "float64 tensor")),
        (uniform(3, 2), np.zeros(3), TypeError, ("y", "", "float64 tensor")),
        (
            uniform(3, 2),
            uniform(4),
            ValueError,
            ("x", "(3, 2) and y (4,)", "(m, n) and (m,)"),
        ),
        (
            uniform(3, 2),
            uniform(3, 1),
            ValueError,
            ("x", "(3, 2) and y (3, 1)", "(m, n) and (m,)"),
        ),
        (
            uniform(0, 2),
            uniform(0),
            ValueError,
            ("x", "(0, 2) and y (0,)", "(m, n) and (m,)"),
        ),
        (
            uniform(3, 2) * torch.nan,
            uniform(3),
            ValueError,
            ("x", "numbers that are not finite"),
        ),
        (
            uniform(3, 2),
            uniform(3) / 0.0,
            ValueError,
            ("y", "numbers that are not finite"),
        ),
        (uniform(3, 4), uniform(3), ValueError, ("x", (3, 4), "(m, 2)")),
    ],
)
def test_a_fit_to_bad_data_is_refused_and_changes_nothing(x, y, error, message):
    network = TreeNetwork(2, 3, generator=generator())
    before = snapshot(network)
    with refused(error, *message):
        fit(network, x, y, steps=5)
    assert_unchanged(network, before)


class Wide(torch.nn.Module):
    """A linear map with so many outputs."""

    def __init__(self, outputs, dtype=torch.float64):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(2, outputs, dtype=dtype))

    def forward(self, x):
        return x @ self.w


@pytest.mark.parametrize(
    ("network", "error", "message"),
    [
        (
            Wide(1),
            ValueError,
            ("network", (3, 1), "one number a point, (3,)"),
        ),
        (
            Wide(1, torch.float32),
            TypeError,
            ("network", "float32", "parameters in float64"),
        ),
        (
            torch.nn.Flatten(),
            TypeError,
            ("network", "no parameters", "float64"),
        ),
        (
            TreeNetwork(2, 3, generator=generator()),
            ValueError,
            ("squared errors", "not finite before the first step"),
        ),
        (None, TypeError, ("network", "NoneType", "torch.nn.Module")),
    ],
)
def test_a_network_that_cannot_be_fitted_is_refused(network, error, message):
    if isinstance(network, TreeNetwork):
        with torch.no_grad():
            network.outputs.fill_(torch.inf)
    with refused(error, *message):
        fit(network, uniform(3, 2), uniform(3), steps=5)


def test_a_fit_of_no_steps_is_refused():
    network = TreeNetwork(2, 3, generator=generator())
    with refused(ValueError, "steps", 0, "integer of at least 1"):
        fit(network, uniform(3, 2), uniform(3), steps=0)
