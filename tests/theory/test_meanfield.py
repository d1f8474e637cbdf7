"""Growth factors: against integrals, sampling and networks, by other routes."""

import numpy as np
import pytest
import torch
from scipy import integrate, special
from torch.nn import functional

import bnlib
from bnlib.meanfield import (
    degree_shares,
    fixed_point,
    gradient_norms,
    growth_factor,
    residual_growth,
    simulate_growth,
)

SIZES = [4, 5, 6, 8, 16, 64, 256]


def hard_tanh(x):
    return x.clamp(-1, 1)


def bent(x):
    """The identity up to the root of 5, eleven times as steep beyond."""
    return x + 10 * x.sign() * functional.relu(x.abs() - 5**0.5)


ACTIVATIONS = {
    "relu": lambda x: torch.relu(x),  # not by name: no closed form
    "tanh": "tanh",
    "gelu": "gelu",
    "elu": "elu",
    "hard_tanh": hard_tanh,
    "bent": bent,
    "exponential": torch.exp,
}
each = pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)


def spheres(batch_size, draws, seed=0):
    """Return draws of a normalised batch, uniform on its sphere, float64 torch."""
    rng = np.random.default_rng(seed)
    y, _ = bnlib.batch_norm_forward(rng.standard_normal((batch_size, draws)), eps=0.0)
    return torch.from_numpy(y.T)


def value_and_slope(activation, y):
    function = activation
    if isinstance(activation, str):
        function = {"tanh": torch.tanh, "gelu": functional.gelu, "elu": functional.elu}[
            activation
        ]
    y = y.clone().requires_grad_()
    values = function(y)
    (slopes,) = torch.autograd.grad(values.sum(), y)
    return values.detach(), slopes


def by_sampling(activation, batch_size, draws=40_000):
    """The theorem as it stands, with its matrices, and its standard error."""
    y = spheres(batch_size, draws)
    values, slopes = value_and_slope(activation, y)
    centring = torch.eye(batch_size).double() - 1 / batch_size
    P = centring - y[:, :, None] * y[:, None, :] / batch_size
    D = torch.diag_embed(slopes)
    traces = torch.einsum("nij,njk,kl,nli->n", P, D, centring, D)
    q = values.square().mean()
    means = values.mean(dim=1)
    c = (batch_size * means**2 - values.square().mean(dim=1)).mean() / (batch_size - 1)
    factor = batch_size / ((batch_size - 1) * (batch_size - 3) * (q - c))
    noise = traces.std() / traces.mean() / draws**0.5
    return (factor * traces.mean()).item(), noise.item()


def by_grid(activation, batch_size, points=1000):
    """Integrate over two values of a batch, on a fine grid of two angles."""
    a = (np.arange(points) + 0.5) / points * np.pi - np.pi / 2
    r = -1 / (batch_size - 1)
    weights = np.outer(np.cos(a) ** (batch_size - 3), np.cos(a) ** (batch_size - 4))
    weights /= weights.sum()
    one = np.sqrt(batch_size - 1) * np.sin(a)[:, None] + 0 * a
    across = np.cos(a)[:, None] * np.sin(a)
    two = np.sqrt(batch_size - 1) * (
        r * np.sin(a)[:, None] + (1 - r**2) ** 0.5 * across
    )
    (f, df), (g, dg) = (
        map(torch.Tensor.numpy, value_and_slope(activation, torch.from_numpy(y)))
        for y in (one, two)
    )
    kept = (batch_size - 1 - one**2) * df**2 + (1 + one * two) * df * dg
    mean = (weights * kept).sum()
    return mean / ((batch_size - 3) * (weights * (f**2 - f * g)).sum())


@each
@pytest.mark.parametrize("batch_size", [4, 5, 8])
def test_the_factor_is_the_integral_over_two_values_of_a_batch(activation, batch_size):
    # The grid is at its worst if the distribution ends at a kink, as at B = 4.
    expected = by_grid(activation, batch_size)
    assert growth_factor(activation, batch_size) == pytest.approx(expected, rel=5e-3)


@each
@pytest.mark.parametrize("batch_size", [6, 16])
def test_the_factor_is_the_mean_trace_of_the_theorem(activation, batch_size):
    expected, noise = by_sampling(activation, batch_size)
    assert growth_factor(activation, batch_size) == pytest.approx(
        expected, rel=6 * noise + 0.005
    )


@pytest.mark.parametrize("batch_size", SIZES)
def test_the_general_formula_gives_the_closed_forms(batch_size):
    relu, identity = (
        growth_factor(f, batch_size)
        for f in (lambda x: x.clamp(min=0), lambda x: 2 * x)
    )
    # At 4 and 5 a kink leaves some variation in degrees that are not summed.
    assert relu == pytest.approx(growth_factor("relu", batch_size), rel=1e-8)
    if batch_size >= 8:
        assert relu == pytest.approx(growth_factor("relu", batch_size), rel=1e-13)
    assert identity == pytest.approx((batch_size - 2) / (batch_size - 3), rel=1e-14)
    assert growth_factor("identity", batch_size) == (batch_size - 2) / (batch_size - 3)


@pytest.mark.parametrize("batch_size", SIZES)
def test_a_pure_degree_has_a_closed_form(batch_size):
    assert growth_factor(torch.square, batch_size) == pytest.approx(
        2 + 4 / (batch_size - 3), rel=1e-12
    )


def test_published_values_of_the_relu():
    expected = {
        4: 3.084,
        5: 2.274,
        6: 2.004,
        8: 1.788,
        16: 1.590,
        64: 1.493,
        256: 1.473,
    }
    for batch_size, value in expected.items():
        assert growth_factor("relu", batch_size) == pytest.approx(value, abs=5e-4)
    assert growth_factor("relu") == pytest.approx(np.pi / (np.pi - 1), rel=1e-15)


@each
def test_the_limit_is_a_ratio_of_gaussian_means(activation):
    def mean(term):
        def integrand(x):
            y = torch.tensor([x], dtype=torch.float64)
            return term(*value_and_slope(activation, y)).item() * np.exp(-(x**2) / 2)

        kinks = (-(5**0.5), -1, 0, 1, 5**0.5)
        found, _ = integrate.quad(integrand, -14, 14, points=kinks, limit=200)
        return found / np.sqrt(2 * np.pi)

    variance = mean(lambda f, df: f**2) - mean(lambda f, df: f) ** 2
    expected = mean(lambda f, df: df**2) / variance
    assert growth_factor(activation) == pytest.approx(expected, rel=1e-7)


@each
def test_large_batches_approach_the_limit_as_one_over_their_size(activation):
    misses = [
        growth_factor(activation, size) - growth_factor(activation)
        for size in (10**4, 10**5)
    ]
    assert misses[0] / misses[1] == pytest.approx(10, rel=0.02)


def test_the_largest_batches_lose_no_digits():
    misses = [growth_factor("tanh", 10**k) / growth_factor("tanh") - 1 for k in (9, 12)]
    assert np.abs(misses).max() < 1e-8


def test_hermite_coefficients_give_the_limit():
    rng = np.random.default_rng(0)
    coefficients = rng.standard_normal(6)

    powers = np.polynomial.hermite_e.herme2poly(coefficients)

    def polynomial(x):
        return sum(p * x**k for k, p in enumerate(powers))

    weights = coefficients**2 * special.factorial(np.arange(6))
    expected = (np.arange(6) * weights).sum() / weights[1:].sum()
    assert growth_factor(polynomial) == pytest.approx(expected, rel=1e-12)
    shares = degree_shares(polynomial, degrees=7)
    np.testing.assert_allclose(shares[:5], weights[1:] / weights[1:].sum(), atol=1e-14)
    np.testing.assert_allclose(shares[5:], 0, atol=1e-14)


@each
@pytest.mark.parametrize("batch_size", [*SIZES, None])
def test_no_activation_grows_less_than_the_identity(activation, batch_size):
    least = growth_factor("identity", batch_size)
    assert growth_factor(activation, batch_size) > least * (1 - 1e-14)


@each
@pytest.mark.parametrize("batch_size", [4, 8, 64, None])
def test_scale_and_shift_of_the_activation_do_not_matter(activation, batch_size):
    function = activation if callable(activation) else getattr(torch, activation, None)
    function = function or getattr(functional, activation)
    expected = growth_factor(function, batch_size)
    changed = growth_factor(lambda x: 1e3 - 70 * function(x), batch_size)
    assert changed == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("batch_size", [6, 16])
def test_shares_sum_to_one_and_their_mean_degree_is_the_factor(batch_size):
    shares = degree_shares("tanh", batch_size, degrees=80)
    k = np.arange(1, 81)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    mean = shares @ (k + k**2 / (batch_size - 3))
    assert mean == pytest.approx(growth_factor("tanh", batch_size), rel=1e-12)


@each
@pytest.mark.parametrize("batch_size", [5, 16])
def test_the_fixed_point_holds_the_moments_of_a_batch(activation, batch_size):
    values, _ = value_and_slope(activation, spheres(batch_size, 200_000, seed=1))
    q, c = fixed_point(activation, batch_size)
    pairs = (values.sum(dim=1) ** 2 - values.square().sum(dim=1)) / (
        batch_size * (batch_size - 1)
    )
    for found, draws in ((q, values.square().mean(dim=1)), (c, pairs)):
        noise = draws.std().item() / 200_000**0.5
        # One of these draws is always 1, and its noise is that of rounding.
        assert abs(found - draws.mean().item()) < 6 * noise + 1e-12


def test_the_fixed_point_of_the_relu_in_the_limit():
    assert fixed_point("relu") == pytest.approx((0.5, 1 / (2 * np.pi)))


# Simulation.


@pytest.mark.parametrize("activation", ["relu", "identity", "tanh"])
@pytest.mark.parametrize("batch_size", [16, 64])
def test_random_networks_grow_as_the_theory_says(activation, batch_size):
    factors = [
        simulate_growth(activation, batch_size, 256, 20, seed).factor for seed in (0, 1)
    ]
    expected = growth_factor(activation, batch_size)
    assert np.mean(factors) == pytest.approx(expected, rel=0.03)


def test_a_simulation_repeats_itself_and_leaves_torchs_generator_alone():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    runs = [simulate_growth("relu", 8, 32, 5, seed) for seed in (3, 3, 4)]
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(runs[0].log_squared_norms, runs[1].log_squared_norms)
    assert runs[0].factor != runs[2].factor


def test_norms_factor_and_spread_belong_together():
    growth = simulate_growth("tanh", 16, 64, 12)
    assert growth.log_squared_norms.shape == (13,)
    assert growth.log_squared_norms[-1] == 0
    ratios = np.exp(-np.diff(growth.log_squared_norms))[:-1]
    assert growth.factor == pytest.approx(ratios.mean())
    assert growth.spread == pytest.approx(ratios.std(ddof=1))


def test_norms_are_those_of_automatic_differentiation_through_the_whole_stack():
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(3, 5, 5, generator=generator, dtype=torch.float64)
    x = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    upstream = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    layers = [lambda h, w=w: torch.tanh(h @ w) for w in weights]
    states = [x.clone().requires_grad_()]
    for layer in layers:
        states.append(layer(states[-1]))
    gradients = torch.autograd.grad((states[-1] * upstream).sum(), states)
    expected = [g.square().sum().log().item() for g in gradients]
    np.testing.assert_allclose(
        gradient_norms(layers, x, upstream), expected, rtol=1e-12
    )


def test_no_depth_overflows():
    layers = [lambda x: 1e15 * x] * 40
    logs = gradient_norms(layers, torch.ones(2, 2) * 1e-30, torch.ones(2, 2))
    assert logs[0] - logs[-1] == pytest.approx(40 * 30 * np.log(10))


def test_residual_stacks_grow_as_the_theory_says():
    generator = torch.Generator().manual_seed(0)

    def layer():
        weights = torch.randn(256, 256, generator=generator) / 16
        norm = bnlib.nn.BatchNorm1d(256, eps=0.0, affine=False)
        return lambda h: h + torch.relu(norm(h)) @ weights

    upstream = torch.randn(32, 256, generator=generator)
    upstream -= upstream.mean(dim=0)
    x = torch.randn(32, 256, generator=generator)
    logs = gradient_norms([layer() for _ in range(32)], x, upstream)
    expected = np.log(residual_growth("relu", 32, depth=32))
    assert logs[0] - logs[-1] == pytest.approx(expected, rel=0.05)


def test_residual_growth_is_a_product_over_the_layers():
    q, c = fixed_point("tanh", 12)
    variances = 2.5 + np.arange(9) * (q - c)
    expected = np.prod(1 + growth_factor("tanh", 12) * (q - c) / variances)
    found = residual_growth("tanh", 12, depth=9, variance=2.5)
    assert found == pytest.approx(expected, rel=1e-13)
