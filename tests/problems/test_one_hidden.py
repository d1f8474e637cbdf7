"""One hidden layer: exact expectations and their derivatives, by other routes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from halfspace_problems import moments_of, slope_of
from refusals import refused
from scipy.stats import multivariate_normal

from bnlib import optim
from bnlib.halfspaces import GaussianHalfspace
from bnlib.losses import LOSSES
from bnlib.networks import FiniteOneHiddenLayer, OneHiddenLayer
from bnlib.problems import _one_hidden_plane

SMOOTH = pytest.mark.parametrize(
    "loss", ["logistic", "shifted_sigmoid", "pseudo_huber"]
)
ODD = pytest.mark.parametrize("activation", ["tanh", "erf"])


def layer_of(seed=0, d=4, m=2, lambda_1=0.5, **options):
    """Return a random layer over a Gaussian, and weights of length about 1."""
    rng = np.random.default_rng(seed)
    u, S = moments_of(rng, d, lambda_1=lambda_1)
    theta = rng.choice([-1, 1], m) * rng.uniform(0.5, 2, m)
    return OneHiddenLayer(u, S, theta, **options), rng.standard_normal((m, d)) / 2


def draws(layer, n, seed=0):
    covariance = layer.S - np.outer(layer.u, layer.u)
    return np.random.default_rng(seed).multivariate_normal(layer.u, covariance, size=n)


def differences(function, W, step=1e-3):
    """Return the derivatives of a function of W by its entries, along axis 0."""
    parts = []
    for index in np.ndindex(W.shape):
        moved = np.zeros_like(W)
        moved[index] = 1
        parts.append(slope_of(lambda x, e=moved: function(W + x * e), 0.0, step))
    return np.array(parts)


def summed(layer, W, count=401):
    """The value by the plain trapezoidal rule over the plane of two units."""
    x = np.linspace(-9, 9, count)
    p = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    covariance = W @ (layer.S - np.outer(layer.u, layer.u)) @ W.T
    values, vectors = np.linalg.eigh(covariance)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    t = W @ layer.u + grid @ (vectors * np.sqrt(np.maximum(values, 0))).T
    outputs = layer.activation.value(t) @ layer.theta
    return p @ layer.loss.value(outputs) @ p


@SMOOTH
@ODD
@pytest.mark.parametrize("lambda_1", [0.01, 0.9])
def test_the_value_is_that_of_a_plain_rule(loss, activation, lambda_1):
    layer, W = layer_of(lambda_1=lambda_1, loss=loss, activation=activation)
    assert layer.value(W) == pytest.approx(summed(layer, W), rel=1e-11)


def test_nodes_are_added_until_steep_outputs_lose_no_digits(monkeypatch):
    layer, W = layer_of(seed=5, loss="pseudo_huber")
    layer = OneHiddenLayer(layer.u, layer.S, np.array([8.5, -5.2]), loss=layer.loss)
    found = [layer.value(length * W) for length in (1, 10)]
    monkeypatch.setattr(_one_hidden_plane, "_STEPS", (0.01,))
    fine = [layer.value(length * W) for length in (1, 10)]
    np.testing.assert_allclose(found, fine, rtol=1e-13)


@pytest.mark.parametrize("apart", [1e-2, 1e-6, 1e-11, 0.0])
def test_units_that_are_nearly_parallel_lose_no_digits(apart):
    layer, W = layer_of(seed=3)
    W[1] = 0.7 * W[0] + apart * W[1]
    assert layer.value(W) == pytest.approx(summed(layer, W), rel=1e-11)


def test_very_long_weights_have_the_value_of_signs():
    layer, W = layer_of(seed=1)
    covariance = W @ (layer.S - np.outer(layer.u, layer.u)) @ W.T
    expected = 0
    for signs in np.ndindex(2, 2):
        s = 2 * np.array(signs) - 1
        law = multivariate_normal(s * (W @ layer.u), covariance * np.outer(s, s))
        share = 1 - law.cdf([0, np.inf]) - law.cdf([np.inf, 0]) + law.cdf([0, 0])
        expected += share * np.logaddexp(0, s @ layer.theta)
    for length in (1e7, 1e11):
        assert layer.value(length * W) == pytest.approx(expected, abs=2e-6)


@SMOOTH
@ODD
@pytest.mark.parametrize("length", [0.1, 1.0, 20.0])
def test_gradient_and_hessian_are_the_slopes(loss, activation, length):
    layer, W = layer_of(seed=2, d=3, loss=loss, activation=activation)
    W[0] *= length
    found = layer.gradient(W)
    np.testing.assert_allclose(
        found.ravel(), differences(layer.value, W), rtol=0, atol=1e-8
    )
    slopes = differences(layer.gradient, W).reshape(6, 6)
    np.testing.assert_allclose(layer.hessian(W), slopes, rtol=0, atol=1e-7)


@SMOOTH
def test_stein_gives_the_gradient_from_the_coefficients(loss):
    layer, W = layer_of(seed=4, loss=loss)
    alpha, beta = layer.coefficients(W)
    formula = np.outer(alpha, layer.u) + beta @ W @ layer.S
    np.testing.assert_allclose(
        layer.gradient(W), layer.theta[:, None] * formula, rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(layer.theta[:, None] * beta, (layer.theta * beta.T).T)


@pytest.mark.parametrize("length", [0.3, 40.0, 1e6])
def test_one_unit_is_a_halfspace_with_the_two_functions_in_one(length):
    layer, W = layer_of(m=1)
    theta, tanh = layer.theta[0], layer.activation

    class Both:
        breaks = (0.0,)

        def value(self, t):
            return layer.loss.value(theta * tanh.value(t))

        def d1(self, t):
            return layer.loss.d1(theta * tanh.value(t)) * theta * tanh.d1(t)

        def d2(self, t):
            bend = layer.loss.d2(theta * tanh.value(t)) * (theta * tanh.d1(t)) ** 2
            return bend + layer.loss.d1(theta * tanh.value(t)) * theta * tanh.d2(t)

    halfspace = GaussianHalfspace(layer.u, layer.S, Both())
    W = length * W
    assert layer.value(W) == pytest.approx(halfspace.value(W[0]), rel=1e-12)
    expected = halfspace.gradient(W[0])
    np.testing.assert_allclose(layer.gradient(W)[0], expected, rtol=1e-8, atol=1e-14)
    alpha, beta = layer.coefficients(W)
    assert theta * alpha[0] == pytest.approx(halfspace.c1(W[0]), rel=1e-7)
    assert theta * beta[0, 0] == pytest.approx(halfspace.c2(W[0]), rel=1e-9)


def test_a_sample_tends_to_the_gaussian():
    layer, W = layer_of(m=3, d=2)
    rows = draws(layer, 200_000)
    sample = FiniteOneHiddenLayer(rows, layer.theta)
    losses = layer.loss.value(layer.activation.value(rows @ W.T) @ layer.theta)
    error = losses.std() / np.sqrt(len(rows))
    assert abs(sample.value(W) - layer.value(W)) < 5 * error
    assert sample.value(W) == pytest.approx(losses.mean(), rel=1e-14)
    assert np.abs(sample.gradient(W) - layer.gradient(W)).max() < 0.02
    assert np.abs(sample.hessian(W) - layer.hessian(W)).max() < 0.05
    for ours, theirs in zip(sample.coefficients(W), layer.coefficients(W)):
        assert np.abs(ours - theirs).max() < 0.02


def test_the_samples_derivatives_are_the_slopes():
    rows = np.random.default_rng(0).exponential(size=(40, 3)) - 0.7
    layer = FiniteOneHiddenLayer(rows, np.array([1.0, -2.0, 0.5]))
    W = np.random.default_rng(1).standard_normal((3, 3))
    found = differences(layer.value, W)
    np.testing.assert_allclose(layer.gradient(W).ravel(), found, atol=1e-10)
    slopes = differences(layer.gradient, W).reshape(9, 9)
    np.testing.assert_allclose(layer.hessian(W), slopes, atol=1e-9)


def test_many_units_on_one_line_and_one_beside_them_are_covered():
    layer, W = layer_of(seed=5, d=5, m=4)
    W[:3] = np.outer([0.5, -1.0, 0.0], layer.line)
    rows = draws(layer, 100_000)
    losses = layer.loss.value(layer.activation.value(rows @ W.T) @ layer.theta)
    error = losses.std() / np.sqrt(len(rows))
    assert abs(losses.mean() - layer.value(W)) < 5 * error
    found = layer.gradient(W).ravel()
    np.testing.assert_allclose(found, differences_in_plane(layer, W), atol=1e-8)


def differences_in_plane(layer, W):
    """Return the gradient: by differences within the plane, by formula beside it."""
    along = np.stack([layer.line, W[3]])
    basis = np.linalg.qr(along.T)[0].T
    parts = np.zeros_like(W)
    for i in range(len(W)):
        for direction in basis:
            moved = np.zeros_like(W)
            moved[i] = direction
            slope = slope_of(lambda x, e=moved: layer.value(W + x * e), 0.0, 1e-3)
            parts[i] += slope * direction
    # Beside the plane the gradient is what Stein's lemma says.
    beside = np.eye(len(W[0])) - basis.T @ basis
    alpha, beta = layer.coefficients(W)
    stein = layer.theta[:, None] * (np.outer(alpha, layer.u) + beta @ W @ layer.S)
    return (parts + stein @ beside).ravel()


def test_three_units_in_a_plane_are_covered_and_in_space_refused():
    flat, W = layer_of(d=2, m=3)
    rows = draws(flat, 400_000)
    losses = flat.loss.value(flat.activation.value(rows @ W.T) @ flat.theta)
    assert abs(losses.mean() - flat.value(W)) < 5 * losses.std() / np.sqrt(len(rows))
    space, W = layer_of(d=3, m=3)
    for method in (space.value, space.gradient, space.hessian, space.coefficients):
        with refused(ValueError, "units", "plane", "FiniteOneHiddenLayer"):
            method(W)


def test_a_loss_with_a_corner_is_refused_where_it_is_felt():
    layer, W = layer_of(loss="smoothed_hinge", seed=1)
    with refused(ValueError, "quadrature", "not settled", "loss activation smooth"):
        layer.gradient(30 * W)


def test_a_zero_unit_and_equal_units_are_no_exception():
    layer, W = layer_of(d=3)
    assert layer.value(0 * W) == pytest.approx(np.log(2), rel=1e-14)
    expected = np.outer(layer.theta / 2, layer.u)
    np.testing.assert_allclose(layer.gradient(0 * W), expected, rtol=1e-13)
    W[1] = W[0]
    gradient = layer.gradient(W) / layer.theta[:, None]
    np.testing.assert_allclose(gradient[0], gradient[1], rtol=1e-12)
    W[1] = 0
    slopes = differences(layer.gradient, W).reshape(6, 6)
    np.testing.assert_allclose(layer.hessian(W), slopes, atol=1e-8)


def test_weights_beyond_all_lengths_have_no_value_and_no_warning():
    layer, W = layer_of()
    for size in (1e200, np.inf, np.nan):
        assert np.isnan(layer.value(size * W))
        assert np.isnan(layer.gradient(size * W)).all()


def test_angles_are_those_of_s():
    layer, _ = layer_of(d=3)
    across = np.array([1.0, 2.0, 3.0])
    across -= (across @ layer.u) / layer.lambda_1 * layer.line
    across *= np.sqrt(layer.lambda_1 / (across @ layer.S @ across))
    W = np.stack([-3 * layer.line, np.cos(0.4) * layer.line + np.sin(0.4) * across])
    np.testing.assert_allclose(layer.angles(W), [0, 0.4], atol=1e-7)
    W[0] = 0
    assert np.isnan(layer.angles(W)[0])
    np.testing.assert_allclose(layer.S @ layer.line, layer.u, rtol=1e-12)


@SMOOTH
@ODD
def test_no_two_gradients_differ_by_more_than_the_constants_allow(loss, activation):
    layer, W = layer_of(d=3, loss=loss, activation=activation)
    joint, unit = layer.joint, layer.unit(W, 1)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1.0):
        step = size * rng.standard_normal(6)
        change = joint.gradient(W.ravel() + step) - joint.gradient(W.ravel())
        assert np.linalg.norm(change) <= joint.gradient_lipschitz * np.linalg.norm(step)
        step = step[:3]
        change = unit.gradient(W[1] + step) - unit.gradient(W[1])
        assert np.linalg.norm(change) <= unit.gradient_lipschitz * np.linalg.norm(step)


def test_a_unit_is_a_row_of_the_layer_whatever_row_was_given():
    layer, W = layer_of(d=3)
    other = W.copy()
    other[1] = np.nan
    unit = layer.unit(other, 1)
    assert unit.value(W[1]) == layer.value(W)
    np.testing.assert_array_equal(unit.gradient(W[1]), layer.gradient(W)[1])


@pytest.mark.parametrize("scale", [0.7, -2.0, 0.0])
def test_a_ray_of_a_unit_knows_its_derivatives(scale):
    layer, W = layer_of(d=3, seed=7)
    ray = layer.unit(W, 0).ray(W[0])
    moments = ray.moments(scale)
    assert ray.slope(scale) == pytest.approx(slope_of(ray.value, scale, 2e-3), abs=1e-9)
    curvature = slope_of(ray.slope, scale, 2e-3)
    assert moments.curvature == pytest.approx(curvature, abs=1e-7)
    assert moments.slope == pytest.approx(ray.slope(scale), abs=1e-14)
    assert W[0] @ ray.gradient(scale) == pytest.approx(moments.slope, abs=1e-13)
    moved = ray.minus(0.3, layer.unit(W, 0).ray(W[1]))
    np.testing.assert_allclose(moved.w, W[0] - 0.3 * W[1])
    assert moved.uw == pytest.approx(layer.u @ moved.w)


def test_the_inputs_may_change_afterwards_and_are_not_changed():
    layer, W = layer_of()
    theta, u, S = layer.theta.copy(), layer.u.copy(), layer.S.copy()
    again = OneHiddenLayer(u, S, theta)
    before, kept = again.value(W), W.copy()
    theta[:], u[:], S[:] = 0, 0, 0
    assert again.value(W) == before
    again.hessian(W)
    np.testing.assert_array_equal(W, kept)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8", np.longdouble])
def test_other_dtypes_are_computed_with_in_float64(dtype):
    u, S = np.array([0.5, 0.25]), np.diag([1.0, 2.0])
    theta, W = np.array([1.0, -0.5]), np.array([[0.5, -2.0], [0.25, 1.0]])
    found = OneHiddenLayer(*(a.astype(dtype) for a in (u, S, theta)))
    gradient = found.gradient(W.astype(dtype))
    assert gradient.dtype == np.float64
    expected = OneHiddenLayer(u, S, theta).gradient(W)
    np.testing.assert_array_equal(gradient, expected)
    strided = np.repeat(W, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(found.gradient(strided), expected)


def activation_of(value, d1, d2):
    return SimpleNamespace(value=value, d1=d1, d2=d2)


U, S, THETA = np.array([0.6, 0.0]), np.eye(2), np.array([1.0, 2.0])
EVEN = activation_of(np.cos, lambda t: -np.sin(t), lambda t: -np.cos(t))
TILTED = activation_of(np.exp, np.exp, np.exp)
WRONG = activation_of(np.sin, np.sin, lambda t: -np.sin(t))
BAD = [
    ((U, S, np.array([1.0, 0.0])), {}, ValueError, ("theta[1]", 0, "unit never")),
    ((U, S, np.array([np.nan])), {}, ValueError, ("theta", "not finite")),
    ((U, S, THETA[:, None]), {}, ValueError, ("theta", (2, 1), "(m,), m at least 1")),
    ((U, S, THETA[:0]), {}, ValueError, ("theta", (0,), "(m,), m at least 1")),
    ((U, S, [1.0, 2.0]), {}, TypeError, ("theta", "list", "NumPy array, torch tensor")),
    (
        (U, S, np.array([1, 2])),
        {},
        TypeError,
        ("theta", "int64", "real floating dtype"),
    ),
    ((0 * U, S, THETA), {}, ValueError, ("u", 0)),
    (
        (2 * U, S, THETA),
        {},
        ValueError,
        ("u.S^-1 u", "1.44, not below 1", "no Gaussian - no"),
    ),
    (
        (torch.tensor(U), torch.tensor(S), THETA),
        {},
        TypeError,
        ("u", "Tensor", "NumPy array"),
    ),
    (
        (U, S, THETA),
        {"loss": "hinge"},
        ValueError,
        (
            "loss",
            "'hinge'",
            "one of logistic, sigmoid, shifted_sigmoid, smoothed_hinge, pseudo_huber",
        ),
    ),
    (
        (U, S, THETA),
        {"activation": "relu"},
        ValueError,
        ("activation", "'relu'", "one of tanh, erf"),
    ),
    (
        (U, S, THETA),
        {"activation": EVEN},
        ValueError,
        ("activation", "even", "theorem needs"),
    ),
    (
        (U, S, THETA),
        {"activation": TILTED},
        ValueError,
        ("activation", "not odd", "theorem needs"),
    ),
    (
        (U, S, THETA),
        {"activation": WRONG},
        ValueError,
        ("activation.d1", "not the derivative of activation.value"),
    ),
    (
        (U, S, THETA),
        {"activation": np.tanh},
        TypeError,
        (
            "activation",
            "'tanh' without value d1 d2",
            "object with methods value, d1 and d2",
        ),
    ),
]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"), BAD, ids=[str(case[3]) for case in BAD]
)
def test_what_the_problem_does_not_take_is_named(arguments, options, error, says):
    with refused(error, *says):
        OneHiddenLayer(*arguments, **options)


@pytest.mark.parametrize("method", ["value", "gradient", "hessian", "coefficients"])
@pytest.mark.parametrize(
    ("W", "error", "says"),
    [
        (np.ones(2), ValueError, ("W", (2,), "(2, 2), a unit a row")),
        (np.ones((3, 2)), ValueError, ("W", (3, 2), "(2, 2), a unit a row")),
        (np.ones((2, 2), dtype=int), TypeError, ("W", "int64", "real floating dtype")),
        (torch.ones(2, 2), TypeError, ("W", "Tensor", "NumPy array")),
        (None, TypeError, ("W", "NoneType", "NumPy array")),
    ],
    ids=["vector", "rows", "int", "torch", "none"],
)
def test_weights_that_do_not_fit_are_named(method, W, error, says):
    with refused(error, *says):
        getattr(OneHiddenLayer(U, S, THETA), method)(W)


def test_a_unit_that_is_not_there_is_named():
    layer, W = layer_of()
    with refused(ValueError, "index", 2, "units 0 1"):
        layer.unit(W, 2)
    with refused(TypeError, "index", 0.0, "integer"):
        layer.unit(W, 0.0)
    with refused(ValueError, "index", -1, "integer of at least 0"):
        layer.unit(W, -1)


def test_a_sample_without_a_mean_has_no_line():
    layer = FiniteOneHiddenLayer(np.array([[1.0, 2.0], [-1.0, -2.0]]), THETA)
    assert np.isfinite(layer.value(np.ones((2, 2))))
    for asked in (layer.angles, lambda W: layer.unit(W, 0)):
        with refused(ValueError, "u", 0, "no line"):
            asked(np.ones((2, 2)))


def test_gradient_descent_on_all_weights_goes_down_and_says_when_it_diverges():
    layer, W = layer_of(d=2)
    run = optim.gradient_descent(layer.joint, W.ravel(), steps=20)
    assert (np.diff(run.values) < 0).all()
    wild = optim.gradient_descent(layer.joint, W.ravel(), steps=20, lr=1e300)
    assert wild.stop_reason == "diverged"


@pytest.mark.parametrize("name", LOSSES)
def test_a_sample_takes_every_loss(name):
    rows = np.random.default_rng(0).standard_normal((50, 3)) - 0.3
    layer = FiniteOneHiddenLayer(rows, THETA, loss=name)
    W = np.random.default_rng(1).standard_normal((2, 3))
    found = differences(layer.value, W, step=1e-6)
    np.testing.assert_allclose(layer.gradient(W).ravel(), found, atol=1e-6)
