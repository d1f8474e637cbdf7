"""The problem over data: dense and sparse, against autograd and numpy.linalg."""

import numpy as np
import pytest
import torch
from common import KINDS
from halfspace_problems import FORMATS, finite, rows, slope_of
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from refusals import refused
from scipy import sparse

from bnlib.halfspaces import FiniteHalfspace
from bnlib.losses import LOSSES

NAMES = pytest.mark.parametrize("name", LOSSES)
ALL = pytest.mark.parametrize(
    "kind", [*FORMATS.values(), torch.tensor], ids=[*FORMATS, "torch"]
)


def vector(kind, w):
    return torch.tensor(w) if kind is torch.tensor else w


@NAMES
@ALL
def test_value_and_gradient_are_autograds_of_the_definition(name, kind):
    Z, w = rows()
    leaf = torch.tensor(w, requires_grad=True)
    loss = LOSSES[name].value(torch.tensor(Z) @ leaf).mean()
    (expected,) = torch.autograd.grad(loss, leaf)
    problem = FiniteHalfspace(kind(Z), name)
    assert problem.value(vector(kind, w)) == pytest.approx(loss.item(), rel=1e-13)
    found = problem.gradient(vector(kind, w))
    assert type(found) is type(vector(kind, w))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-11, atol=1e-14)


@ALL
def test_the_moments_are_those_of_the_rows(kind):
    Z, w = rows()
    problem = FiniteHalfspace(kind(Z))
    S = Z.T @ Z / len(Z)
    eigenvalues = np.linalg.eigvalsh(S)
    np.testing.assert_allclose(problem.u, Z.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(problem.S, S, rtol=1e-12, atol=1e-14)
    assert (problem.mu, problem.L) == pytest.approx((eigenvalues[0], eigenvalues[-1]))
    assert problem.dim == 4
    w = vector(kind, w)
    rms = np.sqrt(np.mean((Z @ np.asarray(w)) ** 2))
    assert problem.norm(w) == pytest.approx(rms, rel=1e-13)
    mean = np.mean(Z @ np.asarray(w))
    assert problem.rho(w) == pytest.approx(-((mean / rms) ** 2), rel=1e-11)


@ALL
def test_c1_and_c2_are_the_means_of_stein_over_the_rows(kind):
    Z, w = rows()
    problem = FiniteHalfspace(kind(Z))
    t = Z @ w
    first, second = problem.loss.d1(t).mean(), problem.loss.d2(t).mean()
    w = vector(kind, w)
    assert problem.c2(w) == pytest.approx(second, rel=1e-12)
    assert problem.c1(w) == pytest.approx(first - t.mean() * second, rel=1e-12)


@ALL
def test_lambda_1_is_the_part_of_the_constant_1_that_the_data_fit(kind):
    Z, _ = rows()
    fit = Z @ np.linalg.lstsq(Z, np.ones(len(Z)))[0]
    assert FiniteHalfspace(kind(Z)).lambda_1 == pytest.approx(np.mean(fit**2))
    for column in (Z[:, 0], 0 * Z[:, 0]):
        singular = np.column_stack([Z, column])
        assert FiniteHalfspace(kind(singular)).lambda_1 == pytest.approx(
            np.mean(fit**2)
        )


@NAMES
@ALL
@pytest.mark.parametrize("scale", [0.7, -3.0])
def test_a_ray_knows_its_derivatives(name, kind, scale):
    # Away from the kinks of the smoothed hinge.
    Z, w = rows(seed=6)
    problem = FiniteHalfspace(kind(Z), name)
    ray = problem.ray(vector(kind, w))
    moments = ray.moments(scale)
    assert ray.slope(scale) == pytest.approx(slope_of(ray.value, scale, 1e-4), rel=1e-7)
    assert moments.slope == pytest.approx(ray.slope(scale), rel=1e-12)
    solution = vector(kind, scale * w)
    assert moments.c1 == pytest.approx(problem.c1(solution), rel=1e-11)
    curvature = slope_of(ray.slope, scale, 1e-4)
    assert moments.curvature == pytest.approx(curvature, rel=1e-6)
    np.testing.assert_allclose(ray.Sw, Z.T @ (Z @ w) / len(Z), rtol=1e-12, atol=1e-13)


@ALL
def test_rays_of_a_combination_need_no_further_product(kind):
    Z, w = rows()
    problem = FiniteHalfspace(kind(Z))
    w, p = vector(kind, w), vector(kind, np.arange(4.0))
    ray, other = problem.ray(w), problem.ray(p)
    problem._Z = None
    moved = ray.minus(0.3, other)
    margins = Z @ np.asarray(w - 0.3 * p)
    assert moved.norm == pytest.approx(np.sqrt(np.mean(margins**2)), rel=1e-13)
    value = np.mean(np.logaddexp(0, 2 * margins))
    assert moved.value(2.0) == pytest.approx(value, rel=1e-13)
    inner = np.mean((Z @ np.asarray(w)) * (Z @ np.asarray(p)))
    assert ray.inner(other) == pytest.approx(inner, rel=1e-12)
    slope = float(p @ ray.gradient(0.5))
    assert ray.along(other, 0.5) == pytest.approx(slope, rel=1e-11)


@pytest.mark.parametrize("kind", [sparse.csr_array, np.array, torch.tensor])
def test_wide_data_form_no_s_until_asked(kind):
    Z = np.random.default_rng(0).standard_normal((30, 1200))
    problem = FiniteHalfspace(kind(Z))
    assert problem._S is None
    top = np.linalg.svd(Z, compute_uv=False)[0] ** 2 / 30
    assert pytest.approx(top, rel=1e-10) == problem.L
    assert problem.mu == 0
    w = vector(kind, np.random.default_rng(1).standard_normal(1200))
    expected = Z.T @ (Z @ np.asarray(w)) / 30
    np.testing.assert_allclose(problem.ray(w).Sw, expected, rtol=1e-10, atol=1e-12)
    assert problem._S is None


def test_a_w_out_of_the_reach_of_the_data_has_length_0():
    problem = FiniteHalfspace(np.array([[1.0, 0.0], [2.0, 0.0]]))
    across = np.array([0.0, 1.0])
    assert (problem.mu, problem.norm(across)) == (0, 0)
    with refused(ValueError, "|w|_S", 0):
        problem.rho(across)


@KINDS
@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e160, 1e290])
def test_lengths_whose_squares_leave_the_floats_are_found(kind, scale):
    problem, w = finite(kind)
    whole = problem.norm(kind(w))
    assert problem.norm(kind(scale * w)) / scale == pytest.approx(whole, rel=1e-12)
    assert problem.rho(kind(scale * w)) == pytest.approx(problem.rho(kind(w)))


def test_a_w_that_overflows_gives_no_warning():
    problem, w = finite()
    assert not np.isfinite(problem.value(1e308 * w))
    assert not np.isfinite(problem.norm(1e308 * w))


@pytest.mark.parametrize(
    ("margins", "loss", "expected"),
    [
        ([-1.0, -2.0], "logistic", True),
        ([-1.0, 0.0], "sigmoid", True),
        ([1.0, 2.0], "logistic", False),
        ([-1.0, 2.0], "logistic", False),
        ([-1.0, -2.0], "smoothed_hinge", False),
        ([-1.0, -2.0], "pseudo_huber", False),
    ],
)
def test_a_ray_says_whether_f_falls_along_it_for_ever(margins, loss, expected):
    problem = FiniteHalfspace(np.array(margins)[:, None], loss)
    assert problem.ray(np.ones(1)).separates() is expected
    values = [problem.value(np.array([scale])) for scale in (1.0, 10.0, 100.0)]
    if expected:
        assert values[0] > values[1] > values[2]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8", np.longdouble])
def test_other_dtypes_are_computed_with_in_float64(dtype):
    Z, w = rows()
    Z, w = Z.astype(np.float16), w.astype(np.float16)
    expected = FiniteHalfspace(Z.astype(float)).gradient(w.astype(float))
    found = FiniteHalfspace(Z.astype(dtype)).gradient(w.astype(dtype))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.longdouble])
def test_sparse_data_too(dtype):
    Z, w = rows()
    Z = Z.astype(np.float32)
    found = FiniteHalfspace(sparse.coo_array(Z.astype(dtype))).gradient(w)
    assert found.dtype == np.float64
    np.testing.assert_allclose(
        found, FiniteHalfspace(Z.astype(float)).gradient(w), rtol=1e-12
    )


def test_strides_do_not_matter():
    Z, w = rows()
    strided = FiniteHalfspace(np.asfortranarray(Z)[::-1])
    assert strided.value(np.repeat(w, 2)[::2]) == pytest.approx(
        FiniteHalfspace(Z).value(w), rel=1e-13
    )


def test_data_that_need_a_gradient_leave_no_graph_behind():
    Z, w = (torch.tensor(array, requires_grad=True) for array in rows())
    problem = FiniteHalfspace(Z)
    assert not problem.S.requires_grad
    assert not problem.gradient(w).requires_grad


@settings(max_examples=60, deadline=None)
@given(
    Z=arrays(
        np.float64,
        array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.sampled_from([0.0, 1e-200, 1e200, np.inf, -np.inf, np.nan])
        | st.floats(-1e9, 1e9, allow_subnormal=False).filter(lambda x: abs(x) > 1e-9),
    ),
    name=st.sampled_from(sorted(LOSSES)),
)
def test_any_data_are_a_problem_or_a_named_error(Z, name):
    largest = np.abs(Z).max()
    if not 1e-150 < largest < 1e150:
        with refused(ValueError, "Z"):
            FiniteHalfspace(Z, name)
        return
    problem = FiniteHalfspace(Z, name)
    w = np.ones(Z.shape[1])
    assert np.isfinite(problem.value(w) + problem.norm(w))
    assert 0 <= problem.mu <= problem.L * (1 + 1e-12)


Z, W = rows()
BAD = [
    (Z[0], ValueError, ("Z", (4,), "(n, d), neither n nor d being 0")),
    (Z[None], ValueError, ("Z", (1, 60, 4), "(n, d), neither n nor d being 0")),
    (Z[:0], ValueError, ("Z", "", "(n, d), neither n nor d being 0")),
    (Z[:, :0], ValueError, ("Z", "", "(n, d), neither n nor d being 0")),
    (sparse.csr_array(Z)[:0], ValueError, ("Z", "", "(n, d), neither n nor d being 0")),
    (
        sparse.coo_array(Z[0]),
        ValueError,
        ("Z", (4,), "(n, d), neither n nor d being 0"),
    ),
    (0 * Z, ValueError, ("Z", "zero")),
    (sparse.csr_array((9, 4)), ValueError, ("Z", "zero")),
    (sparse.csr_array((9, 2000)), ValueError, ("Z", "zero")),
    (np.where(Z[3, 2] == Z, np.nan, Z), ValueError, ("Z", "not finite")),
    (
        sparse.csc_array(np.where(Z[3, 2] == Z, np.inf, Z)),
        ValueError,
        ("Z", "not finite"),
    ),
    (Z * 1e200, ValueError, ("Z", "too large")),
    (np.abs(Z) * 1e307, ValueError, ("Z", "too large")),
    (np.full((3, 1500), 1e200), ValueError, ("Z", "too large")),
    (Z.astype(int), TypeError, ("Z", "int64", "real floating dtype")),
    (Z.astype(object), TypeError, ("Z", "object", "real floating dtype")),
    (
        Z.astype(complex),
        TypeError,
        ("Z", "complex128", "real floating dtype such as float64"),
    ),
    (
        sparse.csr_array(Z.astype(int)),
        TypeError,
        ("Z", "int64", "real floating dtype such as float64"),
    ),
    (
        sparse.csr_array(Z.astype(complex)),
        TypeError,
        ("Z", "complex128", "real floating dtype such as float64"),
    ),
    (Z.tolist(), TypeError, ("Z", "list", "NumPy array, torch tensor")),
    (None, TypeError, ("Z", "NoneType", "NumPy array, torch tensor")),
    (np.ma.array(Z), TypeError, ("Z", "MaskedArray", "NumPy array, torch tensor")),
    (
        torch.tensor(Z).to_sparse(),
        TypeError,
        ("Z", "layout torch.sparse_coo", "dense tensor"),
    ),
]


@pytest.mark.parametrize(
    ("Z", "error", "says"), BAD, ids=[str(case[2]) for case in BAD]
)
def test_bad_data_are_named(Z, error, says):
    with refused(error, *says):
        FiniteHalfspace(Z)


@pytest.mark.parametrize(
    "method", ["value", "gradient", "norm", "rho", "c1", "c2", "ray"]
)
@pytest.mark.parametrize(
    ("w", "error", "given"),
    [
        (np.ones((4, 1)), ValueError, (4, 1)),
        (np.ones(2), ValueError, (2,)),
        ([1.0] * 4, TypeError, list),
        (torch.ones(4), TypeError, "torch tensor"),
    ],
    ids=["column", "short", "list", "torch"],
)
def test_a_w_that_does_not_fit_is_named(method, w, error, given):
    with refused(error, "w", given):
        getattr(finite(sparse.csr_array)[0], method)(w)
