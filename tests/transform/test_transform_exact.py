"""The transform's exactness, its dtypes, and any shape, stride and value."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from transform_reference import (
    EPS,
    assert_close,
    by_autograd,
    case,
)

from bnlib.conformance import definition
from bnlib.transform import (
    batch_norm_backward,
    batch_norm_backward_steps,
    batch_norm_forward,
    batch_norm_inference,
)

# Exactness.


@pytest.mark.parametrize(("mean", "std"), [(1e6, 1), (1e4, 1), (1e4, 1e-2), (-1e6, 1)])
@pytest.mark.parametrize("kind", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_a_far_mean_costs_float32_nothing(mean, std, kind):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((256, 4, 9)) * std + mean).astype(np.float32)
    dy = rng.standard_normal(x.shape).astype(np.float32)
    gamma, beta = rng.standard_normal((2, 4)).astype(np.float32)
    y, dx, dgamma, dbeta = by_autograd(x, dy, gamma, beta, eps=1e-5)
    found, cache = batch_norm_forward(kind(x), kind(gamma), kind(beta))
    sides = (found, *batch_norm_backward(kind(dy), cache))
    for side, expected in zip(sides, (y, dx, dgamma, dbeta)):
        error = np.abs(np.asarray(side, dtype=np.float64) - expected).max()
        assert error <= 2e-7 * np.abs(expected).max()


def test_a_far_mean_leaves_float64_statistics_right_to_the_last_digits():
    deviations = np.tile([-1.0, 0.5, 0.5], 100)[:, None]
    _, cache = batch_norm_forward(deviations + 2.0**30)
    assert cache.mean.tolist() == [2.0**30]
    assert cache.var.tolist() == [0.5]


CONSTANTS = [3.7, 100, 1e8, 0.1, -1 / 3]


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble"])
@pytest.mark.parametrize("count", [2, 3, 7, 1000, 65_537])
def test_a_constant_feature_gives_exactly_beta(constant, dtype, count):
    constant = min(constant, 6e4) if dtype == "float16" else constant
    x = np.full((count, 1), constant, dtype)
    beta = np.array([0.3], dtype)
    y, cache = batch_norm_forward(x, None, beta)
    assert (y == beta).all()
    assert cache.var.tolist() == [0.0]
    if dtype != "longdouble":
        beta = torch.from_numpy(beta)
        y, _ = batch_norm_forward(torch.from_numpy(x), None, beta)
        assert (y == beta).all()


def test_the_gradient_of_a_constant_feature_is_the_upstream_less_its_mean():
    x, dy = np.full((4, 1), 3.7), np.array([[1.0], [2.0], [3.0], [6.0]])
    expected = by_autograd(np.zeros((4, 1)), dy, None, None)[1]
    np.testing.assert_allclose(expected, (dy - 3) / EPS**0.5)
    dx = batch_norm_backward(dy, batch_norm_forward(x, eps=EPS)[1])[0]
    np.testing.assert_allclose(dx, expected, rtol=1e-12, atol=0)
    flat = batch_norm_backward(np.ones((4, 1)), batch_norm_forward(x, eps=EPS)[1])[0]
    assert (flat == 0).all()


@pytest.mark.parametrize("kind", [np.array, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_bad_value_spoils_its_own_channel_alone(value, kind):
    x, dy, gamma, beta = case((6, 3, 4))
    clean = batch_norm_forward(kind(x), kind(gamma), kind(beta))
    x[2, 1, 3] = value
    spoilt = batch_norm_forward(kind(x), kind(gamma), kind(beta))
    assert np.isnan(np.asarray(spoilt[0])[:, 1]).all()
    for upstream in (dy, np.ones_like(dy)):
        pairs = [(clean[0], spoilt[0])]
        pairs += zip(
            *(batch_norm_backward(kind(upstream), c) for _, c in (clean, spoilt))
        )
        for good, bad in pairs:
            axis = 1 if good.ndim > 1 else 0
            good, bad = (np.delete(np.asarray(a), 1, axis) for a in (good, bad))
            np.testing.assert_array_equal(good, bad)


def test_one_bad_upstream_value_spoils_its_own_channel_alone():
    x, dy, gamma, beta = case((6, 3))
    _, cache = batch_norm_forward(x, gamma, beta)
    clean = batch_norm_backward_steps(dy, cache)
    dy[0, 1] = np.inf
    spoilt = batch_norm_backward_steps(dy, cache)
    for good, bad in zip(clean, spoilt, strict=True):
        good, bad = (np.delete(a, 1, axis=-1) for a in (good, bad))
        np.testing.assert_array_equal(good, bad)


def test_eps_zero_and_a_constant_feature_give_nan_without_a_complaint():
    y, cache = batch_norm_forward(np.array([[1.0, 1.0], [1.0, 2.0]]), eps=0.0)
    assert np.isnan(y[:, 0]).all()
    assert y[:, 1].tolist() == [-1.0, 1.0]
    dx = batch_norm_backward(np.ones((2, 2)), cache)[0]
    assert np.isnan(dx[:, 0]).all()


def test_half_precision_does_not_overflow_in_the_statistics():
    rng = np.random.default_rng(1)
    x = (200 * rng.standard_normal((65_536, 1)) + 1000).astype(np.float16)
    expected = by_autograd(x, np.ones_like(x), None, None)[0]
    for kind in (np.array, torch.tensor):
        y, cache = batch_norm_forward(kind(x), eps=EPS)
        assert y.dtype == kind(x).dtype
        assert abs(float(cache.var[0]) / np.var(x.astype(np.float64)) - 1) < 1e-12
        np.testing.assert_allclose(np.asarray(y), expected, rtol=2**-11, atol=1e-6)


def test_bfloat16_statistics_are_those_of_its_values():
    x = (5 + 0.1 * torch.randn(4096, 2, generator=torch.Generator().manual_seed(0))).to(
        torch.bfloat16
    )
    y, cache = batch_norm_forward(x, eps=EPS)
    assert y.dtype == torch.bfloat16
    expected = definition(x, eps=EPS)
    assert (y.double() - expected).abs().max() <= 2.0**-8 * expected.abs().max()
    torch.testing.assert_close(cache.mean, x.double().mean(0), rtol=1e-13, atol=0)


def test_an_output_too_large_for_its_dtype_is_infinite():
    x = np.array([[1.0], [3.0]], np.float16)
    y, _ = batch_norm_forward(x, np.array([1e6]))
    assert y.ravel().tolist() == [-np.inf, np.inf]


# The dtype rule: results in the dtype of what was given, statistics in float64.


FLOATS = ["float16", "float32", "float64", "longdouble", ">f4", ">f8"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("other", FLOATS)
def test_each_result_has_the_dtype_of_what_it_belongs_to(dtype, other):
    x = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 4.0]], dtype)
    gamma, beta = np.ones(2, other), np.zeros(2, np.float32)
    y, cache = batch_norm_forward(x, gamma, beta)
    dx, dgamma, dbeta = batch_norm_backward(x, cache)
    steps = batch_norm_backward_steps(x, cache)
    for result in (y, dx, steps.dx_hat, steps.dx):
        assert result.dtype == x.dtype
    assert dgamma.dtype == steps.dgamma.dtype == gamma.dtype
    assert dbeta.dtype == np.float32
    wide = np.longdouble if dtype == "longdouble" else np.float64
    assert cache.mean.dtype == cache.var.dtype == cache.x_hat.dtype == wide
    expected = by_autograd(x, x, gamma, beta, eps=1e-5)
    rounding = max(2 * float(np.finfo(dtype).eps), 1e-13)
    assert_close(y, expected[0], rounding)
    assert_close(dx, expected[1], rounding)
    mean, var = np.zeros(2, other), np.ones(2, other)
    assert batch_norm_inference(x, mean, var, gamma, beta).dtype == x.dtype


def test_longdouble_is_computed_in_longdouble():
    x = np.array([[0.0], [1.0], [5.0]], np.longdouble) + np.longdouble(2) ** -60
    y, _ = batch_norm_forward(x, eps=0.0)
    exact = (x - x.mean()) / np.sqrt(((x - x.mean()) ** 2).mean())
    assert np.abs(y - exact).max() <= 4 * np.finfo(np.longdouble).eps


# Any shape, stride, dtype and value.


@st.composite
def batches(draw):
    """An array of at least two finite values per feature, in some layout."""
    spatial = draw(st.lists(st.integers(1, 4), max_size=3))
    shape = (draw(st.integers(2, 6)), draw(st.integers(1, 4)), *spatial)
    dtype, largest = draw(
        st.sampled_from([(np.float16, 6e4), (np.float32, 1e37), (np.float64, 1e150)])
    )
    bound = float(dtype(draw(st.sampled_from([1e-3, 1.0, 1e3, largest]))))
    width = 8 * np.dtype(dtype).itemsize
    elements = st.floats(-bound, bound, width=width)
    x = draw(arrays(dtype, shape, elements=elements))
    order = draw(st.permutations(range(x.ndim)))
    flips = draw(st.lists(st.booleans(), min_size=x.ndim, max_size=x.ndim))
    moved = np.transpose(x, order).copy().transpose(np.argsort(order))
    return moved[tuple(slice(None, None, -1 if flip else 1) for flip in flips)]


@settings(max_examples=150, deadline=None)
@given(x=batches(), eps=st.sampled_from([1e-8, 1e-5, 1.0]))
def test_the_output_is_centred_bounded_and_of_known_second_moment(x, eps):
    y, cache = batch_norm_forward(x, eps=eps)
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    m = x.size // x.shape[1]
    assert np.abs(cache.x_hat).max() <= np.sqrt(m - 1) * (1 + 1e-12)
    assert np.abs(cache.x_hat.mean(axis=axes)).max() <= 1e-12
    exact = cache.var / (cache.var + eps)
    np.testing.assert_allclose(
        (cache.x_hat**2).mean(axis=axes), exact, rtol=1e-9, atol=1e-12
    )


@settings(max_examples=150, deadline=None)
@given(x=batches(), seed=st.integers(0, 2**31))
def test_numpy_and_torch_agree_on_anything(x, seed):
    rng = np.random.default_rng(seed)
    gamma, beta = rng.standard_normal((2, x.shape[1]))
    dy = rng.standard_normal(x.shape).astype(x.dtype)
    y, cache = batch_norm_forward(x, gamma, beta)
    t = torch.from_numpy(x.copy())
    ours, torchs = batch_norm_forward(t, torch.tensor(gamma), torch.tensor(beta))
    found = (y, *batch_norm_backward(dy, cache))
    others = (ours, *batch_norm_backward(torch.from_numpy(dy), torchs))
    for side, other in zip(found, others):
        other = other.numpy()
        assert side.dtype == other.dtype
        exact = max(4 * np.finfo(side.dtype).eps, 1e-9)
        largest = np.abs(other).max()
        with np.errstate(invalid="ignore"):
            near = np.abs(side - other) <= exact * max(largest, 1)
        assert (near | (side == other)).all()


@settings(max_examples=100, deadline=None)
@given(
    constant=st.floats(-1e300, 1e300),
    m=st.integers(2, 3000),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_any_constant_gives_exactly_zero(constant, m, dtype):
    largest = float(np.finfo(dtype).max) / 2
    constant = max(-largest, min(constant, largest))
    x = np.full((m, 1), constant, dtype)
    assert (batch_norm_forward(x)[0] == 0).all()
    assert (batch_norm_forward(torch.from_numpy(x))[0] == 0).all()
