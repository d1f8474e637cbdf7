"""The identities in front of batch normalization: against autograd and brute force."""

import numpy as np
import pytest
import torch
from common import KINDS, randn
from refusals import refused

import bnlib
from bnlib import smoothness

SHAPES = [(5, 1), (7, 3), (4, 2, 3), (3, 2, 2, 2)]
EPS = pytest.mark.parametrize("eps", [0.0, 1e-5, 0.8])
SHAPED = pytest.mark.parametrize("shape", SHAPES, ids=str)


def parts(shape, seed=0):
    """Return x, gamma and beta; standard deviations and scales differ by unit."""
    units = shape[1]
    spread = torch.arange(1, units + 1).reshape(1, units, *[1] * (len(shape) - 2))
    gamma = randn(units, seed=seed + 1) + torch.tensor([2.0, -2.0, 2.0])[:units]
    return randn(*shape, seed=seed) * spread + 3, gamma, randn(units, seed=seed + 2)


def mixing_loss(y):
    """A loss that couples all outputs, units and examples."""
    flat = y.reshape(-1)
    weights = randn(flat.numel(), flat.numel(), seed=7)
    return torch.sin(weights @ flat).sum() + (flat**3).mean()


def through(gamma, beta, eps):
    """The loss as a function of x, through torch's own kernel.

    Its public function refuses eps = 0.
    """
    return lambda x: mixing_loss(
        torch.batch_norm(x, gamma, beta, None, None, True, 0.0, eps, False)
    )


def behind(x, gamma, beta, eps):
    """Return the cache, the upstream gradient and the curvature behind, by autograd."""
    y, cache = bnlib.batch_norm_forward(x, gamma, beta, eps)
    delta = torch.autograd.functional.jacobian(mixing_loss, y)
    hessian = torch.autograd.functional.hessian(mixing_loss, y)

    def curvature(u):
        return torch.tensordot(hessian, u, dims=u.ndim)

    return cache, delta, curvature


def per_unit(values):
    return values.sum(dim=[axis for axis in range(values.ndim) if axis != 1])


def close(found, expected, allowed=1e-10):
    found, expected = (np.asarray(side, dtype=float) for side in (found, expected))
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= allowed * np.abs(expected).max()


@SHAPED
@EPS
def test_the_terms_give_each_units_squared_gradient(shape, eps):
    x, gamma, beta = parts(shape)
    cache, delta, _ = behind(x, gamma, beta, eps)
    terms = smoothness.gradient_terms(delta, cache)
    dx = torch.autograd.functional.jacobian(through(gamma, beta, eps), x)
    close(terms.squared_norm, per_unit(dx**2))
    close(terms.upstream, per_unit(delta**2))
    close(terms.factor, gamma**2 / (cache.var + eps))


@SHAPED
def test_what_is_subtracted_are_the_parameters_gradients_at_eps_0(shape):
    x, gamma, beta = parts(shape)
    cache, delta, _ = behind(x, gamma, beta, 0.0)
    terms = smoothness.gradient_terms(delta, cache)
    d_gamma, d_beta = torch.autograd.functional.jacobian(
        lambda scale, shift: through(scale, shift, 0.0)(x), (gamma, beta)
    )
    count = x.numel() / shape[1]
    close(terms.along_ones, d_beta**2 / count)
    close(terms.along_x_hat, d_gamma**2 / count)


@KINDS
@pytest.mark.parametrize("axes", [(1, 2, 3), (2, 3)], ids=["layer", "instance"])
def test_the_terms_hold_for_other_axes(kind, axes):
    rng = np.random.default_rng(0)
    x, delta = (kind(rng.standard_normal((3, 4, 2, 2))) for _ in range(2))
    _, cache = bnlib.batch_norm_forward(x, eps=0.3, axes=axes)
    dx, _, _ = bnlib.batch_norm_backward(delta, cache)
    found = smoothness.gradient_terms(delta, cache).squared_norm
    assert isinstance(found, type(x))
    close(found, np.asarray(dx**2).sum(axis=axes))


@SHAPED
@EPS
def test_the_hessian_times_a_vector_is_autograds(shape, eps):
    x, gamma, beta = parts(shape)
    cache, delta, curvature = behind(x, gamma, beta, eps)
    hessian = torch.autograd.functional.hessian(through(gamma, beta, eps), x)
    v = randn(*shape, seed=5)
    expected = torch.tensordot(hessian, v, dims=v.ndim)
    close(smoothness.hessian_product(v, delta, cache, curvature), expected)


@SHAPED
@EPS
def test_the_curvature_terms_add_up_to_the_second_derivative(shape, eps):
    x, gamma, beta = parts(shape)
    cache, delta, curvature = behind(x, gamma, beta, eps)
    hessian = torch.autograd.functional.hessian(through(gamma, beta, eps), x)
    v = randn(*shape, seed=5)
    expected = (v * torch.tensordot(hessian, v, dims=v.ndim)).sum()
    terms = smoothness.curvature_terms(v, delta, cache, curvature)
    size = abs(terms.downstream) + float(terms.by_scale.abs().sum())
    assert abs(terms.total - float(expected)) <= 1e-10 * size
    assert terms.by_scale.shape == (shape[1],)


def test_without_curvature_behind_only_the_scale_term_is_left():
    x, gamma, beta = parts((6, 2))
    _, cache = bnlib.batch_norm_forward(x, gamma, beta, 0.0)
    delta, v = randn(6, 2, seed=3), randn(6, 2, seed=4)
    terms = smoothness.curvature_terms(v, delta, cache, torch.zeros_like)
    assert terms.downstream == 0
    # The same by differences of the gradient of a linear loss.
    step = 1e-5

    def slope(t):
        _, moved = bnlib.batch_norm_forward(x + t * v, gamma, beta, 0.0)
        dx, _, _ = bnlib.batch_norm_backward(delta, moved)
        return (dx * v).sum(dim=0)

    close(-terms.by_scale, (slope(step) - slope(-step)) / (2 * step), allowed=1e-7)


def test_no_input_of_that_norm_gives_a_longer_gradient_and_one_reaches_it():
    rng = np.random.default_rng(0)
    x, delta = rng.standard_normal((2, 6, 1))
    _, cache = bnlib.batch_norm_forward(x, np.array([1.7]), eps=0.2)
    dx, _, _ = bnlib.batch_norm_backward(delta, cache)
    case = smoothness.worst_case(delta, cache, radius=3.0)
    for gradient, limit in ((delta, case.plain), (dx, case.normalised)):
        inputs = rng.standard_normal((200, 6, 4))
        inputs *= 3.0 / np.linalg.norm(inputs, ord=2, axis=(1, 2), keepdims=True)
        reached = ((inputs.transpose(0, 2, 1) @ gradient) ** 2).sum(axis=(1, 2))
        assert 0.1 * limit[0] < reached.max() <= limit[0]
        best = 3.0 * gradient / np.linalg.norm(gradient) @ np.ones((1, 1))
        close(((best.T @ gradient) ** 2).sum(axis=0), limit)


@KINDS
def test_the_closest_optimum_beats_a_grid_of_multiples(kind):
    start, optimum = np.array([1.0, 2.0, -1.0]), np.array([2.0, 1.0, 0.5])
    closest = smoothness.closest_optimum(kind(start), kind(optimum))
    grid = np.linspace(0.01, 2, 20_000)[:, None]
    distances = ((start - grid * optimum) ** 2).sum(axis=1)
    assert closest.squared <= distances.min()
    assert closest.squared == pytest.approx(distances.min(), rel=1e-6)
    assert float(closest.scale) == pytest.approx(grid[distances.argmin(), 0], abs=1e-4)
    assert closest.squared_plain == ((start - optimum) ** 2).sum()
    close(closest.point, float(closest.scale) * optimum)


def test_rows_have_scales_of_their_own():
    start, optimum = np.array([[1.0, 0.0], [0.0, 3.0]]), np.eye(2) * 2
    closest = smoothness.closest_optimum(start, optimum)
    assert closest.scale.tolist() == [0.5, 1.5]
    assert closest.squared == 0


# Whatever the caller's arrays are like.


def test_half_precision_and_strided_arrays_lose_nothing():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 6))[:, ::2]
    delta = rng.standard_normal((6, 8)).astype(np.float16).T[:, ::2]
    _, cache = bnlib.batch_norm_forward(x)
    found = smoothness.gradient_terms(delta, cache)
    wide = smoothness.gradient_terms(np.ascontiguousarray(delta, np.float64), cache)
    assert found.squared_norm.dtype == np.float64
    close(found.squared_norm, wide.squared_norm, allowed=1e-15)


def test_tensors_that_require_gradients_give_plain_results():
    x, gamma, beta = (part.requires_grad_() for part in parts((5, 2)))
    y, cache = bnlib.batch_norm_forward(x, gamma, beta)
    terms = smoothness.gradient_terms(y, cache)
    assert not any(term.requires_grad for term in terms)
    curved = smoothness.curvature_terms(y, y, cache, lambda u: u)
    assert isinstance(curved.total, float)


# What is refused.


def made():
    x = np.random.default_rng(0).standard_normal((5, 2))
    return bnlib.batch_norm_forward(x)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda y, c: smoothness.gradient_terms(y, None),
            TypeError,
            ("cache", "NoneType", "the Cache that batch_norm_forward returned"),
        ),
        (
            lambda y, c: smoothness.gradient_terms(y[:, :1], c),
            ValueError,
            ("dy", (5, 1), "that of y, (5, 2)"),
        ),
        (
            lambda y, c: smoothness.gradient_terms([[1.0]], c),
            TypeError,
            ("dy", "list", "NumPy array, torch tensor"),
        ),
        (
            lambda y, c: smoothness.gradient_terms(torch.from_numpy(y), c),
            TypeError,
            ("dy", "torch tensor, x_hat NumPy array", "one library"),
        ),
        (
            lambda y, c: smoothness.hessian_product(y[0], y, c, np.copy),
            ValueError,
            ("v", (2,), "that of y, (5, 2)"),
        ),
        (
            lambda y, c: smoothness.hessian_product(y, y, c, None),
            TypeError,
            ("curvature", None, "function of an array"),
        ),
        (
            lambda y, c: smoothness.curvature_terms(y, y, c, lambda u: u[0]),
            ValueError,
            ("what curvature", "has shape (2,)", "that of y, (5, 2)"),
        ),
        (
            lambda y, c: smoothness.worst_case(y, c, -1.0),
            ValueError,
            ("radius", -1.0, "finite, at least 0"),
        ),
        (
            lambda y, c: smoothness.worst_case(y, c, "1"),
            TypeError,
            ("radius", "'1'", "number"),
        ),
    ],
)
def test_bad_arguments_are_named(call, error, says):
    with refused(error, *says):
        call(*made())


def test_a_gamma_that_varies_within_a_unit_is_refused():
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    y, cache = bnlib.batch_norm_forward(x, np.ones(3), axes=(1, 2))
    with refused(
        ValueError, "gamma", "(3,) varies along axes (1, 2)", "one value a unit"
    ):
        smoothness.gradient_terms(y, cache)


@pytest.mark.parametrize(
    ("start", "optimum", "says"),
    [
        (
            [1.0, 1.0],
            [-1.0, 0.5],
            ("inner product of start and optimum", -0.5, "be above 0 in every row"),
        ),
        (
            [1.0, 0.0],
            [0.0, 1.0],
            ("inner product of start and optimum", 0, "be above 0 in every row"),
        ),
        (
            [[1.0, 0.0], [0.0, 1.0]],
            [[1.0, 0.0], [0.0, -1.0]],
            ("inner product of start and optimum", -1, "be above 0 in every row"),
        ),
        ([1.0, np.nan], [1.0, 1.0], ("start", "not finite")),
        ([1.0, 1.0], [1.0, np.inf], ("optimum", "not finite")),
        ([1e200, 1.0], [1e200, 1.0], ("start and optimum", "too large")),
        (
            [1.0],
            [1.0, 2.0],
            ("start", "(1,) and optimum (2,)", "(d,) or (units, d) for both"),
        ),
    ],
)
def test_a_start_without_a_closest_optimum_is_refused(start, optimum, says):
    with refused(ValueError, *says):
        smoothness.closest_optimum(np.array(start), np.array(optimum))


# The claims' instances, many of them: the identities are exact to rounding.

IDENTITIES = ["sant-lipschitz", "sant-lipschitz-gammabeta", "sant-correlates"]
IDENTITIES += ["sant-hessian", "sant-minmax", "sant-init"]


@pytest.mark.parametrize("id", IDENTITIES)
def test_an_identity_holds_to_1e_10_on_a_thousand_instances(id):
    claim = bnlib.claims.get(id)
    checks = [claim.check(seed) for seed in range(1000)]
    worst = max(checks, key=lambda check: check.error)
    assert worst.error <= 1e-10, str(worst)
    assert all(check.holds for check in checks)
