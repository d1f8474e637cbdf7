"""GDNP on Gaussian problems: it is Rayleigh descent, and has the same rate."""

import numpy as np
import pytest
import torch
from common import KINDS
from halfspace_problems import RATE_LOSSES, gaussian, moments_of
from scipy.optimize import brentq

from bnlib.halfspaces import GaussianHalfspace
from bnlib.optim import gdnp

LENGTHS = pytest.mark.parametrize("length", ["bisection", "newton", "gradient"])


def random_problem(seed, loss):
    """Return a problem of 2 to 60 dimensions, condition up to 1e4, and a start."""
    rng = np.random.default_rng(seed)
    u, S = moments_of(
        rng, int(rng.integers(2, 61)), 10 ** rng.uniform(0, 4), rng.uniform(0.02, 0.95)
    )
    w = rng.standard_normal(len(u)) * 10 ** rng.uniform(-3, 3)
    return GaussianHalfspace(u, S, loss), w


def rayleigh_descent(u, S, w, steps):
    """Return the iterates of gradient descent on rho with |w|_S^2 / (2 L |rho|)."""
    path, largest = [w], np.linalg.eigvalsh(S)[-1]
    for _ in range(steps):
        square = w @ S @ w
        rho = -((u @ w) ** 2) / square
        gradient = -2 / square * ((u @ w) * u + rho * (S @ w))
        w = w - square / (2 * largest * abs(rho)) * gradient
        path.append(w)
    return np.array(path)


def gaps(problem, path):
    """Return rho(w) - rho* along a path."""
    return np.array([problem.rho(w) for w in path]) + problem.lambda_1


def allowed_gaps(problem, gap, steps):
    """Return (1 - mu/L)^(2 t) times the gap at the start, t = 0 ... steps."""
    return (1 - problem.mu / problem.L) ** (2 * np.arange(steps + 1)) * gap


@pytest.mark.parametrize("seed", range(200))
def test_every_step_is_rayleighs_and_the_rate_holds_at_each(seed):
    problem, w = random_problem(seed, RATE_LOSSES[seed % 3])
    trace = gdnp(problem, w, steps=15, length="newton")
    path = rayleigh_descent(problem.u, problem.S, w, trace.n_iter)
    error = np.abs(trace.w - path).max(axis=1) / np.abs(path).max(axis=1)
    assert error.max() < 1e-12
    assert trace.stop_reason in ("steps", "tolerance")
    found = gaps(problem, trace.w)
    rounding = 1e-13 * problem.lambda_1
    assert (found <= allowed_gaps(problem, found[0], trace.n_iter) + rounding).all()


@LENGTHS
@pytest.mark.parametrize("g0", [None, 0.3, -7.0])
def test_the_directions_do_not_depend_on_the_lengths(length, g0):
    problem, w = gaussian(seed=2)
    trace = gdnp(problem, w, g0, steps=10, length=length)
    path = rayleigh_descent(problem.u, problem.S, w, 10)
    np.testing.assert_allclose(trace.w, path, rtol=1e-10)


def test_the_step_is_along_the_gradient_in_w():
    problem, w = gaussian(seed=4)
    g = 0.8
    moved = gdnp(problem, w, g, steps=1).w[1] - w
    norm = problem.norm(w)

    def value(w):
        return problem.value(g * w / problem.norm(w))

    step = 1e-5
    gradient = [(value(w + e) - value(w - e)) / (2 * step) for e in step * np.eye(5)]
    h = problem.c1(g * w / norm) * (problem.u @ w)
    expected = norm**3 / (problem.L * g * h) * np.array(gradient)
    np.testing.assert_allclose(moved, expected, rtol=1e-6)


def printed_step(problem, w, g):
    """Return the step with h = E phi' u.w - E phi'' (u.w)^2, as it is printed."""
    norm, mean = problem.norm(w), problem.u @ w
    solution = g * w / norm
    first = problem.c1(solution) + (problem.u @ solution) * problem.c2(solution)
    h = first * mean - problem.c2(solution) * mean**2
    full = problem.gradient(solution)
    gradient = g / norm * (full - problem.S @ w * (w @ full) / norm**2)
    return w + norm**3 / (problem.L * g * h) * gradient


def test_the_printed_step_is_the_same_only_where_the_length_is_that_of_w():
    problem, w = gaussian(seed=5)
    g = problem.norm(w)
    at_length = gdnp(problem, w, g, steps=1).w[1]
    np.testing.assert_allclose(printed_step(problem, w, g), at_length, rtol=1e-12)
    ours = gdnp(problem, 100 * w, g, steps=1).w[1] / 100
    np.testing.assert_allclose(ours, at_length, rtol=1e-12)
    printed = printed_step(problem, 100 * w, g) / 100
    assert np.linalg.norm(printed - at_length) > 0.1 * np.linalg.norm(at_length - w)


def test_the_printed_step_breaks_the_rate_and_may_go_up():
    broken, rises = 0, 0
    for seed in range(30):
        problem, w = gaussian(seed=seed, condition=20.0, loss="logistic")
        path = [10 * w]
        g = gdnp(problem, w, steps=0, length="newton").g[0]
        for _ in range(10):
            path.append(printed_step(problem, path[-1], g))
            g = gdnp(problem, path[-1], steps=0, length="newton").g[0]
        found = gaps(problem, path)
        broken += bool((found > allowed_gaps(problem, found[0], 10) * 1.000001).any())
        one = printed_step(problem, 100 * w, 1.0)
        rises += problem.rho(one) > problem.rho(w)
    assert broken >= 20
    assert rises >= 1


@LENGTHS
def test_it_finds_the_logistic_minimum(length):
    problem, w = gaussian(d=6, condition=5.0, lambda_1=0.4)
    trace = gdnp(problem, w, steps=200, tol=1e-12, length=length)
    best = -2 / (1 - 0.4) * np.linalg.solve(problem.S, problem.u)
    assert trace.stop_reason == "tolerance"
    np.testing.assert_allclose(trace.solution, best, rtol=1e-9, atol=1e-10)
    assert trace.g[-1] * np.sign(problem.u @ trace.w[-1]) == pytest.approx(
        -2 / 0.6 * 0.4**0.5, rel=1e-9
    )


@pytest.mark.parametrize("loss", RATE_LOSSES)
@pytest.mark.parametrize("length", ["bisection", "newton"])
def test_every_length_is_a_minimum_along_its_direction(loss, length):
    problem, w = gaussian(seed=1, loss=loss)
    trace = gdnp(problem, w, steps=8, length=length)
    for w, g in zip(trace.w, trace.g):
        ray = problem.ray(w)
        near = [ray.value(g * s / ray.norm) for s in (0.98, 1.0, 1.02)]
        assert near[1] < min(near[0], near[2])
        root = brentq(
            lambda g, ray=ray: ray.slope(g / ray.norm),
            *sorted((g / 2, 2 * g)),
            xtol=1e-15,
        )
        assert g == pytest.approx(root, rel=1e-10)


def test_a_shifted_sigmoid_is_learnt_though_it_is_not_convex():
    problem, w = gaussian(loss="shifted_sigmoid", condition=5.0)
    trace = gdnp(problem, w, steps=300, tol=1e-12)
    assert trace.stop_reason == "tolerance"
    line = np.linalg.solve(problem.S, problem.u)
    cosine = (trace.solution @ line) / np.linalg.norm(trace.solution)
    assert abs(cosine) / np.linalg.norm(line) == pytest.approx(1, rel=1e-12)


# The bound on the slope that bisections leave.


@pytest.mark.parametrize("loss", RATE_LOSSES)
@pytest.mark.parametrize("halvings", [0, 2, 8])
@pytest.mark.parametrize("tau", [0.01, 1.0, 100.0])
def test_halvings_leave_the_slope_below_the_corrected_bound(loss, halvings, tau):
    u, S = moments_of(np.random.default_rng(3), 4)
    problem = GaussianHalfspace(tau * u, tau**2 * S, loss)
    w = np.random.default_rng(4).standard_normal(4)
    bracket = (-400.0, 300.0)
    trace = gdnp(problem, w, 1.0, steps=4, bracket=bracket, bisection_steps=halvings)
    bound = 4.0**-halvings * (problem.loss.zeta * 700) ** 2
    for w, g in zip(trace.w[1:], trace.g[1:]):
        ray = problem.ray(w)
        assert (ray.slope(g / ray.norm) / ray.norm) ** 2 <= bound


def test_the_printed_bound_on_the_slope_fails_for_large_inputs():
    u, S = moments_of(np.random.default_rng(3), 4)
    problem = GaussianHalfspace(100 * u, 1e4 * S)
    zeta, bracket = problem.loss.zeta, (-30.0, 20.0)
    w = np.random.default_rng(4).standard_normal(4)
    trace = gdnp(problem, w, 1.0, steps=1, bracket=bracket, bisection_steps=2)
    ray = problem.ray(trace.w[1])
    left = (ray.slope(trace.g[1] / ray.norm) / ray.norm) ** 2
    assert left > 2.0**-2 * zeta * 50 / problem.mu**2
    assert left <= 4.0**-2 * zeta**2 * 50**2


# Scales and libraries.


@LENGTHS
@pytest.mark.parametrize("scale", [1e-290, 1e-140, 0.01, 1e3, 1e290])
def test_a_multiple_of_the_start_gives_the_same_multiple_of_the_path(length, scale):
    problem, w = gaussian(seed=6)
    one, other = (
        gdnp(problem, factor * w, steps=6, length=length) for factor in (1.0, scale)
    )
    np.testing.assert_allclose(other.w / scale, one.w, rtol=1e-11)
    np.testing.assert_allclose(other.g, one.g, rtol=1e-10)


@LENGTHS
def test_scaled_inputs_give_the_same_lengths_and_values(length):
    problem, w = gaussian(seed=7)
    large = GaussianHalfspace(1e3 * problem.u, 1e6 * problem.S)
    one, other = (gdnp(p, w, steps=6, length=length) for p in (problem, large))
    np.testing.assert_allclose(other.w, one.w, rtol=1e-10)
    np.testing.assert_allclose(other.g, one.g, rtol=1e-10)
    np.testing.assert_allclose(other.solution, one.solution / 1e3, rtol=1e-10)


@LENGTHS
def test_numpy_and_torch_take_the_same_path(length):
    problem, w = gaussian(seed=8)
    other = GaussianHalfspace(torch.tensor(problem.u), torch.tensor(problem.S))
    one = gdnp(problem, w, steps=10, length=length)
    two = gdnp(other, torch.tensor(w), steps=10, length=length)
    assert isinstance(two.w, torch.Tensor)
    np.testing.assert_allclose(two.w, one.w, rtol=1e-10)
    np.testing.assert_allclose(two.g, one.g, rtol=1e-10)


@KINDS
def test_the_trace_holds_what_the_iterates_stand_for(kind):
    plain, w = gaussian(seed=9)
    problem = GaussianHalfspace(kind(plain.u), kind(plain.S))
    trace = gdnp(problem, kind(w), steps=5)
    assert tuple(trace.w.shape) == (6, 5)
    assert trace.n_iter == 5
    for step in range(6):
        w, g = np.asarray(trace.w[step]), float(trace.g[step])
        solution = g * w / plain.norm(w)
        assert float(trace.values[step]) == pytest.approx(plain.value(solution))
        size = np.linalg.norm(plain.gradient(solution))
        assert float(trace.grad_norms[step]) == pytest.approx(size, rel=1e-9)
    np.testing.assert_allclose(trace.solution, solution, rtol=1e-12)
    assert (np.diff(np.asarray(trace.seconds)) >= 0).all()


def test_the_callback_sees_every_iterate_and_may_stop():
    problem, w = gaussian()
    seen = []
    trace = gdnp(problem, w, callback=lambda *args: seen.append(args) or len(seen) == 4)
    assert (trace.stop_reason, trace.n_iter) == ("callback", 3)
    assert [step for step, _, _ in seen] == [0, 1, 2, 3]
    np.testing.assert_array_equal([w for _, w, _ in seen], trace.w)
    np.testing.assert_array_equal([value for *_, value in seen], trace.values)
