"""The problem over a Gaussian: exact expectations, by several other routes."""

import numpy as np
import pytest
import torch
from common import KINDS
from halfspace_problems import expectation, gaussian, moments_of, slope_of
from refusals import refused
from scipy.optimize import brentq

from bnlib.halfspaces import GaussianHalfspace
from bnlib.losses import LOSSES

NAMES = pytest.mark.parametrize("name", LOSSES)


@NAMES
@pytest.mark.parametrize("lambda_1", [1e-4, 0.97])
@pytest.mark.parametrize("length", [1e-6, 0.01, -1.0, 30.0, -1e4])
def test_expectations_are_exact_at_every_length_of_w(name, lambda_1, length):
    problem = GaussianHalfspace(np.array([lambda_1**0.5, 0.0]), np.eye(2), name)
    w = length * np.array([0.8, 0.6])
    mean = problem.u @ w
    spread = np.sqrt(w @ w - mean**2)
    loss = problem.loss
    value, first, second = (
        expectation(function, mean, spread, loss.breaks)
        for function in (loss.value, loss.d1, loss.d2)
    )
    assert problem.value(w) / value == pytest.approx(1, rel=1e-10)
    assert problem.c2(w) / second == pytest.approx(1, rel=1e-9)
    found = problem.c1(w) + mean * problem.c2(w)
    assert found / first == pytest.approx(1, rel=1e-10)


@pytest.mark.parametrize(("mean", "spread"), [(-300.0, 5.0), (-700.0, 20.0)])
def test_exponentially_small_expectations_keep_their_digits(mean, spread):
    # So far out log(1 + e^t) is e^t, and its expectation is known.
    second = mean**2 + spread**2
    problem = GaussianHalfspace(np.array([mean]), np.array([[second]]))
    expected = np.exp(mean + spread**2 / 2)
    w = np.ones(1)
    assert problem.value(w) / expected == pytest.approx(1, rel=1e-10)
    assert problem.c2(w) / expected == pytest.approx(1, rel=1e-10)


@NAMES
def test_a_short_w_has_the_value_at_0(name):
    problem, w = gaussian(loss=name)
    expected = problem.loss.value(np.zeros(1))[0]
    assert problem.value(1e-14 * w) == pytest.approx(expected, rel=1e-12)


def test_a_slope_that_nearly_cancels_keeps_its_digits():
    # Far out only the density near 0 counts: E sigma'(g X) X is p'(0) pi^2 / (3 g^3).
    problem, w = gaussian(loss="sigmoid")
    ray = problem.ray(w / problem.norm(w))
    variance = 1 - ray.uw**2
    density = np.exp(-(ray.uw**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    for g in (1e5, -1e7):
        expected = density * ray.uw / variance * np.pi**2 / 3 / abs(g) ** 3
        assert ray.slope(g) / expected == pytest.approx(1, rel=1e-6)


@NAMES
@KINDS
def test_the_gradient_is_the_slope_of_the_value(name, kind):
    problem, w = gaussian(loss=name)
    problem = GaussianHalfspace(kind(problem.u), kind(problem.S), name)
    for axis, found in enumerate(problem.gradient(kind(w))):
        step = np.zeros(5)
        step[axis] = 1

        def value(x, step=step):
            return problem.value(kind(w + x * step))

        assert float(found) == pytest.approx(slope_of(value, 0.0, 2e-3), abs=1e-9)
    assert type(problem.gradient(kind(w))) is type(kind(w))


@NAMES
def test_the_gradient_is_the_mean_over_a_sample(name):
    problem, w = gaussian(loss=name, d=3)
    covariance = problem.S - np.outer(problem.u, problem.u)
    rng = np.random.default_rng(2)
    z = rng.multivariate_normal(problem.u, covariance, size=200_000)
    sample = z * problem.loss.d1(z @ w)[:, None]
    error = (sample.mean(axis=0) - problem.gradient(w)) / sample.std(axis=0)
    assert np.abs(error).max() < 5 / np.sqrt(len(z))
    values = problem.loss.value(z @ w)
    error = (values.mean() - problem.value(w)) / values.std()
    assert abs(error) < 5 / np.sqrt(len(z))


def test_a_covariance_of_s_instead_would_be_another_gradient():
    problem, w = gaussian(d=3, lambda_1=0.8)
    wider = GaussianHalfspace(problem.u, problem.S + np.outer(problem.u, problem.u))
    change = np.linalg.norm(wider.gradient(w) - problem.gradient(w))
    assert change > 0.02 * np.linalg.norm(problem.gradient(w))


@NAMES
def test_the_gradient_is_c1_u_plus_c2_s_w(name):
    problem, w = gaussian(loss=name, seed=3)
    found = problem.c1(w) * problem.u + problem.c2(w) * problem.S @ w
    np.testing.assert_allclose(problem.gradient(w), found, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("lambda_1", [0.01, 0.5, 0.99])
def test_the_logistic_minimum_is_the_discriminant_of_the_two_gaussians(lambda_1):
    problem, _ = gaussian(d=6, condition=100.0, lambda_1=lambda_1)
    best = -2 * np.linalg.solve(problem.S - np.outer(problem.u, problem.u), problem.u)
    assert np.linalg.norm(problem.gradient(best)) < 1e-13
    assert problem.norm(best) == pytest.approx(
        2 / (1 - lambda_1) * lambda_1**0.5, rel=1e-9
    )


@NAMES
@pytest.mark.parametrize("scale", [0.7, -2.0, 40.0])
def test_a_ray_knows_its_derivatives(name, scale):
    problem, w = gaussian(loss=name, seed=1)
    ray = problem.ray(w)
    moments = ray.moments(scale)
    step = 1e-3 * abs(scale)
    assert ray.slope(scale) == pytest.approx(slope_of(ray.value, scale, step), abs=1e-8)
    assert moments.slope == pytest.approx(ray.slope(scale), rel=1e-12, abs=1e-15)
    curvature = slope_of(ray.slope, scale, step)
    assert moments.curvature == pytest.approx(curvature, rel=1e-6, abs=1e-8)
    assert moments.c1 == pytest.approx(problem.c1(scale * w), rel=1e-12)
    assert ray.slope(scale) == pytest.approx(w @ problem.gradient(scale * w), abs=1e-12)


def test_rays_of_a_combination_need_no_further_product():
    problem, w = gaussian()
    p = np.arange(5.0)
    ray, other = problem.ray(w), problem.ray(p)
    moved, expected = ray.minus(0.3, other), problem.ray(w - 0.3 * p)
    assert moved.norm == pytest.approx(expected.norm, rel=1e-13)
    assert moved.value(2.0) == pytest.approx(expected.value(2.0), rel=1e-13)
    assert ray.along(other, 0.5) == pytest.approx(p @ problem.gradient(0.5 * w))
    assert ray.inner(other) == pytest.approx(w @ problem.S @ p)


def test_norm_rho_and_the_eigenvalues_are_those_of_s():
    problem, w = gaussian(condition=50.0, lambda_1=0.3)
    eigenvalues = np.linalg.eigvalsh(problem.S)
    assert (problem.mu, problem.L) == pytest.approx((eigenvalues[0], eigenvalues[-1]))
    assert problem.norm(w) == pytest.approx(np.sqrt(w @ problem.S @ w), rel=1e-13)
    rho = -((problem.u @ w) ** 2) / (w @ problem.S @ w)
    assert problem.rho(w) == pytest.approx(rho, rel=1e-13)
    assert problem.lambda_1 == pytest.approx(0.3, rel=1e-12)
    best = np.linalg.solve(problem.S, problem.u)
    assert problem.rho(best) == pytest.approx(-problem.lambda_1, rel=1e-12)


@NAMES
def test_no_two_gradients_differ_by_more_than_the_constant_allows(name):
    problem, w = gaussian(loss=name)
    for scale in (1e-3, 1.0, 30.0):
        step = scale * np.random.default_rng(1).standard_normal(5)
        change = np.linalg.norm(problem.gradient(w + step) - problem.gradient(w))
        assert change <= problem.gradient_lipschitz * np.linalg.norm(step)


def test_the_constant_is_near_for_short_w():
    problem, _ = gaussian()
    top = 1e-6 * np.linalg.eigh(problem.S)[1][:, -1]
    change = np.linalg.norm(problem.gradient(top) - problem.gradient(-top))
    assert change == pytest.approx(problem.gradient_lipschitz * 2e-6, rel=1e-6)


class Plain:
    """A loss that does not say where it bends."""

    def __init__(self, loss, centre=0.0):
        self._loss, self._centre = loss, centre

    def value(self, t):
        return self._loss.value(t - self._centre)

    def d1(self, t):
        return self._loss.d1(t - self._centre)

    def d2(self, t):
        return self._loss.d2(t - self._centre)


@NAMES
@pytest.mark.parametrize("length", [0.01, 1.0, 3e3])
def test_an_own_loss_is_integrated_as_exactly(name, length):
    problem, w = gaussian(loss=name)
    own = GaussianHalfspace(problem.u, problem.S, Plain(LOSSES[name]))
    w = length * w
    assert own.value(w) == pytest.approx(problem.value(w), rel=1e-11)
    np.testing.assert_allclose(own.gradient(w), problem.gradient(w), rtol=1e-9)


def test_an_own_loss_may_bend_far_from_0():
    problem, w = gaussian()
    own = GaussianHalfspace(problem.u, problem.S, Plain(LOSSES["sigmoid"], 41.3))
    w = 60 * w
    mean, spread = problem.u @ w, np.sqrt(w @ problem.S @ w - (problem.u @ w) ** 2)
    expected = expectation(own.loss.d1, mean, spread, [41.3])
    assert own.c1(w) + mean * own.c2(w) == pytest.approx(expected, rel=1e-10)


def test_an_own_loss_that_varies_too_fast_is_refused():
    class Waves:
        def value(self, t):
            return np.sin(3e3 * t) / 3e3

        def d1(self, t):
            return np.cos(3e3 * t)

        def d2(self, t):
            return -3e3 * np.sin(3e3 * t)

    problem, w = gaussian()
    own = GaussianHalfspace(problem.u, problem.S, Waves())
    with refused(ValueError, "loss", "varies too fast"):
        own.value(100 * w)


def test_a_loss_that_also_falls_may_have_critical_points_off_the_line():
    class Dip:
        def value(self, t):
            return np.logaddexp(t, -t) - np.log(2) + 2 * np.exp(-t * t / 2)

        def d1(self, t):
            return np.tanh(t) - 2 * t * np.exp(-t * t / 2)

        def d2(self, t):
            return 1 - np.tanh(t) ** 2 + 2 * (t * t - 1) * np.exp(-t * t / 2)

    problem = GaussianHalfspace(np.array([0.6, 0.0, 0.0]), np.eye(3), Dip())
    across = np.array([0.0, 0.6, 0.8])
    length = brentq(lambda s: problem.c2(s * across), 0.5, 3.0, xtol=1e-14)
    assert length == pytest.approx(1.17034, abs=5e-6)
    assert np.linalg.norm(problem.gradient(length * across)) < 1e-13


def test_a_w_of_length_0_has_a_value_and_a_gradient():
    problem, _ = gaussian()
    assert problem.value(np.zeros(5)) == pytest.approx(np.log(2), rel=1e-14)
    np.testing.assert_allclose(problem.gradient(np.zeros(5)), problem.u / 2, rtol=1e-14)
    with refused(ValueError, "|w|_S", 0):
        problem.rho(np.zeros(5))


def test_a_w_beyond_the_finite_lengths_has_no_value_and_no_warning():
    problem, w = gaussian()
    assert problem.value(1e200 * w) == pytest.approx(1e100 * problem.value(1e100 * w))
    assert not np.isfinite(problem.value(1e308 * w))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8", np.longdouble])
def test_other_dtypes_are_computed_with_in_float64(dtype):
    u, S, w = np.array([0.5, 0.25]), np.diag([1.0, 2.0]), np.array([0.5, -2.0])
    problem = GaussianHalfspace(u.astype(dtype), S.astype(dtype))
    found = problem.gradient(w.astype(dtype))
    assert found.dtype == problem.S.dtype == np.float64
    np.testing.assert_array_equal(found, GaussianHalfspace(u, S).gradient(w))


def test_the_moments_may_change_afterwards():
    u, S = moments_of(np.random.default_rng(0), 3)
    problem = GaussianHalfspace(u, S)
    before = problem.value(np.ones(3))
    u[:], S[:] = 0, 0
    assert problem.value(np.ones(3)) == before


U, S = np.array([0.6, 0.0]), np.eye(2)
BAD = [
    (
        U[:, None],
        S,
        ValueError,
        ("u", "(2, 1) and S (2, 2)", "(d,) and (d, d), d at least 1"),
    ),
    (U, S[:1], ValueError, ("u", "(2,) and S (1, 2)", "(d,) and (d, d), d at least 1")),
    (
        U[:0],
        S[:0, :0],
        ValueError,
        ("u", "(0,) and S (0, 0)", "(d,) and (d, d), d at least 1"),
    ),
    (0 * U, S, ValueError, ("u", 0, "no direction better")),
    (
        U,
        np.diag([1.0, -1.0]),
        ValueError,
        ("S", "the eigenvalue -1 beside 1", "positive definite S"),
    ),
    (
        U,
        np.diag([1.0, 0.0]),
        ValueError,
        ("S", "the eigenvalue 0 beside 1", "positive definite S"),
    ),
    (U, np.array([[1.0, 0.5], [0.4, 1.0]]), ValueError, ("S", "not symmetric")),
    (U / 0.6, S, ValueError, ("u.S^-1 u", "1, not below 1", "no Gaussian - no")),
    (2 * U, S, ValueError, ("u.S^-1 u", "1.44, not below 1")),
    (U * np.nan, S, ValueError, ("u", "not finite")),
    (U, S + np.diag([np.inf, 0]), ValueError, ("S", "not finite")),
    (U.astype(int), S, TypeError, ("u", "int64", "real floating dtype")),
    (U, S.astype(object), TypeError, ("S", "object", "real floating dtype")),
    (U.tolist(), S, TypeError, ("u", "list", "NumPy array, torch tensor")),
    (U, None, TypeError, ("S", "NoneType", "NumPy array, torch tensor")),
    (
        torch.tensor(U),
        S,
        TypeError,
        ("u", "torch tensor, S NumPy array", "one library"),
    ),
]


@pytest.mark.parametrize(
    ("u", "S", "error", "says"), BAD, ids=[str(case[3]) for case in BAD]
)
def test_bad_moments_are_named(u, S, error, says):
    with refused(error, *says):
        GaussianHalfspace(u, S)


@pytest.mark.parametrize(
    "method", ["value", "gradient", "norm", "rho", "c1", "c2", "ray"]
)
@pytest.mark.parametrize(
    ("w", "error", "given"),
    [
        (np.ones((5, 1)), ValueError, (5, 1)),
        (np.ones(4), ValueError, (4,)),
        ([1.0] * 5, TypeError, list),
    ],
    ids=["column", "short", "list"],
)
def test_a_w_that_does_not_fit_is_named(method, w, error, given):
    with refused(error, "w", given):
        getattr(gaussian()[0], method)(w)


@pytest.mark.parametrize("name", ["logistic", "pseudo_huber"])
def test_a_length_near_the_largest_float_is_no_exception(name):
    problem = GaussianHalfspace(np.array([0.6, 0.0]), np.eye(2), name)
    short, long = (size * np.array([-1.0, 0.3]) for size in (1e200, 3e306))
    assert np.allclose(problem.gradient(long), problem.gradient(short), rtol=1e-12)
