"""Least squares, the first problem: against its definition and numpy.linalg."""

import numpy as np
import pytest
import torch
from common import KINDS, regression
from refusals import refused

from bnlib.decoupling import LeastSquares


@KINDS
def test_the_value_is_the_mean_squared_error(kind):
    X, y, w = regression()
    problem = LeastSquares(kind(X), kind(y))
    assert problem.value(kind(w)) == pytest.approx(np.mean((y - X @ w) ** 2), rel=1e-12)
    assert isinstance(problem.value(kind(w)), float)
    assert problem.dim == 4


@KINDS
def test_the_gradient_is_autograds_of_the_definition(kind):
    X, y, w = regression()
    leaf = torch.tensor(w, requires_grad=True)
    loss = ((torch.tensor(y) - torch.tensor(X) @ leaf) ** 2).mean()
    (expected,) = torch.autograd.grad(loss, leaf)
    found = LeastSquares(kind(X), kind(y)).gradient(kind(w))
    assert type(found) is type(kind(w))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-12)


@KINDS
def test_the_eigenvalues_bound_the_spectrum_of_the_second_moment(kind):
    X, y, _ = regression()
    problem = LeastSquares(kind(X), kind(y))
    singular = np.linalg.svd(X, compute_uv=False) ** 2 / len(X)
    assert pytest.approx(singular.max(), rel=1e-12) == problem.L
    assert problem.mu == pytest.approx(singular.min(), rel=1e-12)
    np.testing.assert_allclose(problem.S, X.T @ X / 30, rtol=1e-12)
    np.testing.assert_allclose(problem.u, -X.T @ y / 30, rtol=1e-12)


def test_the_lipschitz_constant_is_attained_and_not_passed():
    X, y, w = regression()
    problem = LeastSquares(X, y)
    top = np.linalg.eigh(problem.S)[1][:, -1]
    for step, equal in ((top, True), (regression(seed=5)[2], False)):
        change = np.linalg.norm(problem.gradient(w + step) - problem.gradient(w))
        bound = problem.gradient_lipschitz * np.linalg.norm(step)
        assert change <= bound * (1 + 1e-12)
        assert equal is bool(change == pytest.approx(bound, rel=1e-10))


@KINDS
def test_the_norm_is_the_spread_of_centred_pre_activations(kind):
    X, y, w = regression()
    X = X - X.mean(axis=0)
    problem = LeastSquares(kind(X), kind(y))
    assert problem.norm(kind(w)) == pytest.approx(np.std(X @ w), rel=1e-12)
    assert problem.norm(kind(0 * w)) == 0


@KINDS
def test_the_rayleigh_quotient_is_the_least_value_along_the_line(kind):
    X, y, w = regression()
    problem = LeastSquares(kind(X), kind(y))
    feature = (X @ w)[:, None]
    _, residual, *_ = np.linalg.lstsq(feature, y)
    least = residual[0] / 30 - np.mean(y**2)
    for multiple in (1.0, -3.0, 1e-6):
        assert problem.rho(kind(multiple * w)) == pytest.approx(least, rel=1e-10)


def test_the_rayleigh_quotient_at_length_zero_is_an_error():
    X, y, w = regression()
    with refused(ValueError, "|w|_S", 0):
        LeastSquares(X, y).rho(0 * w)


def test_dependent_columns_give_a_least_eigenvalue_of_zero():
    X, y, _ = regression()
    problem = LeastSquares(np.column_stack([X, X[:, 0]]), y)
    assert abs(problem.mu) <= 1e-14 * problem.L


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8"])
def test_other_dtypes_are_computed_with_in_float64(dtype):
    X, y, w = regression()
    X, y = X.astype(dtype), y.astype(dtype)
    problem = LeastSquares(X, y)
    assert problem.S.dtype == problem.u.dtype == np.float64
    expected = np.mean((y.astype(float) - X.astype(float) @ w) ** 2)
    assert problem.value(w) == pytest.approx(expected, rel=1e-12)


def test_strides_do_not_matter():
    X, y, w = regression()
    expected = LeastSquares(X, y).value(w)
    strided = LeastSquares(np.asfortranarray(X)[::-1], y[::-1])
    assert strided.value(np.repeat(w, 2)[::2]) == pytest.approx(expected, rel=1e-13)


def test_the_data_may_change_afterwards():
    X, y, w = regression()
    problem = LeastSquares(X, y)
    before = problem.value(w)
    X[:], y[:] = 0, 0
    assert problem.value(w) == before


def test_data_that_need_a_gradient_leave_no_graph_behind():
    X, y, w = (torch.tensor(array, requires_grad=True) for array in regression())
    problem = LeastSquares(X, y)
    assert not problem.S.requires_grad
    assert not problem.u.requires_grad
    assert isinstance(problem.value(w.detach()), float)


X, Y, W = regression()
BAD = [
    (
        X[:, 0],
        Y,
        ValueError,
        ("X", "(30,) and y (30,)", "(n, d) and (n,), neither n nor d being 0"),
    ),
    (
        X,
        Y[:, None],
        ValueError,
        ("X", "(30, 4) and y (30, 1)", "(n, d) and (n,), neither n nor d being 0"),
    ),
    (
        X,
        Y[1:],
        ValueError,
        ("X", "(30, 4) and y (29,)", "(n, d) and (n,), neither n nor d being 0"),
    ),
    (
        X[:0],
        Y[:0],
        ValueError,
        ("X", "and y", "(n, d) and (n,), neither n nor d being 0"),
    ),
    (
        X[:, :0],
        Y,
        ValueError,
        ("X", "and y", "(n, d) and (n,), neither n nor d being 0"),
    ),
    (0 * X, Y, ValueError, ("X", "zero")),
    (
        np.where(X[3, 2] == X, np.nan, X),
        Y,
        ValueError,
        ("X", "not finite"),
    ),
    (X, np.where(Y[3] == Y, np.inf, Y), ValueError, ("y", "not finite")),
    (X * 1e200, Y, ValueError, ("X and y", "too large")),
    (X.astype(int), Y, TypeError, ("X", "int64", "real floating dtype")),
    (X.tolist(), Y, TypeError, ("X", "list", "NumPy array, torch tensor")),
    (X, Y.tolist(), TypeError, ("y", "list", "NumPy array, torch tensor")),
    (X, None, TypeError, ("y", "NoneType", "NumPy array, torch tensor")),
    (None, Y, TypeError, ("X", "NoneType", "NumPy array, torch tensor")),
    (
        X,
        torch.tensor(Y),
        TypeError,
        ("X", "NumPy array, y torch tensor", "one library"),
    ),
    (np.ma.array(X), Y, TypeError, ("X", "MaskedArray", "NumPy array, torch tensor")),
    (
        torch.tensor(X),
        torch.ones(30, device="meta"),
        ValueError,
        ("X", "on cpu but y is on meta", "both on one device"),
    ),
]


@pytest.mark.parametrize(
    ("X", "y", "error", "says"), BAD, ids=[str(case[3]) for case in BAD]
)
def test_bad_data_are_named(X, y, error, says):
    with refused(error, *says):
        LeastSquares(X, y)
