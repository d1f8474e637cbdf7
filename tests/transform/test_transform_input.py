"""What the transform refuses, and how it says so."""

import numpy as np
import pytest
import torch
from refusals import refused

from bnlib.transform import (
    batch_norm_backward,
    batch_norm_backward_steps,
    batch_norm_forward,
    batch_norm_inference,
)

x32, X = np.ones((3, 2), np.float32), np.arange(6.0).reshape(3, 2)


class Duck:
    shape, ndim, dtype = (3, 2), 2, np.dtype(np.float64)


NOT_ARRAYS = [None, [[1.0], [2.0]], 3.0, "x", Duck(), X.view(np.matrix), np.ma.array(X)]
NOT_FLOATS = [int, bool, complex, object, "U1", "datetime64[s]", [("a", "f4")]]


@pytest.mark.parametrize("bad", NOT_ARRAYS, ids=lambda bad: type(bad).__name__)
def test_what_is_no_array_is_named(bad):
    for name, call in {
        "x": lambda: batch_norm_forward(bad),
        "mean": lambda: batch_norm_inference(X, bad, np.ones(2)),
        "dy": lambda: batch_norm_backward(bad, batch_norm_forward(X)[1]),
    }.items():
        with refused(TypeError, name, type(bad), "NumPy array, torch tensor"):
            call()


@pytest.mark.parametrize("dtype", NOT_FLOATS, ids=str)
def test_a_dtype_that_is_not_real_and_floating_is_named(dtype):
    bad = np.zeros((3, 2), dtype)
    with refused(TypeError, "x", str(bad.dtype), "real floating dtype"):
        batch_norm_forward(bad)
    with refused(TypeError, "gamma", str(bad.dtype), "real floating dtype"):
        batch_norm_forward(X, bad[0])


TORCH_ODDITIES = {
    "int64": lambda: torch.ones(3, 2, dtype=torch.int64),
    "complex64": lambda: torch.ones(3, 2, dtype=torch.complex64),
    "float8_e4m3fn": lambda: torch.ones(3, 2).to(torch.float8_e4m3fn),
    "sparse_coo": lambda: torch.eye(3).to_sparse(),
}


@pytest.mark.parametrize("bad", TORCH_ODDITIES)
def test_a_tensor_of_another_kind_is_named(bad):
    with refused(TypeError, "x", bad, "dense" if "sparse" in bad else "floating dtype"):
        batch_norm_forward(TORCH_ODDITIES[bad]())


def test_mixed_libraries_and_devices_are_named():
    with refused(TypeError, "x", "NumPy array, beta torch tensor", "one library"):
        batch_norm_forward(X, None, torch.ones(2))
    with refused(ValueError, "x", "on cpu but gamma is on meta", "both on one device"):
        batch_norm_forward(torch.ones(3, 2), torch.ones(2, device="meta"))
    _, cache = batch_norm_forward(torch.randn(3, 2))
    with refused(TypeError, "dy", "NumPy array, x_hat torch tensor", "one library"):
        batch_norm_backward(X, cache)


@pytest.mark.parametrize("shape", [(1, 4), (1, 4, 1, 1), (1, 4, 1)], ids=str)
def test_one_value_a_feature_is_an_error_that_says_what_to_do(shape):
    with refused(
        ValueError, "x", f"{shape} one value per feature", "larger batch"
    ) as raised:
        batch_norm_forward(np.ones(shape))
    assert str(shape) in str(raised.value)
    batch_norm_forward(np.ones((1, 4, 1, 4)))


@pytest.mark.parametrize("shape", [(0, 5, 9), (0, 3), (4, 3, 0)], ids=str)
def test_an_empty_batch_is_named(shape):
    for kind in (np.zeros, torch.zeros):
        with refused(ValueError, "x", f"{shape} empty"):
            batch_norm_forward(kind(shape))


def test_no_features_give_an_empty_output():
    for kind in (np.zeros, torch.zeros):
        y, cache = batch_norm_forward(kind((3, 0)), kind(0), kind(0))
        assert tuple(y.shape) == (3, 0)
        dx, dgamma, _ = batch_norm_backward(y, cache)
        assert (tuple(dx.shape), tuple(dgamma.shape)) == ((3, 0), (0,))


EPS_OUT_OF_RANGE = [
    -1,
    -1e-300,
    np.nan,
    np.inf,
    -np.inf,
    pytest.param(10**400, id="1e400"),
]


@pytest.mark.parametrize("eps", EPS_OUT_OF_RANGE)
def test_an_eps_out_of_range_is_named(eps):
    for call in (batch_norm_forward, batch_norm_inference):
        statistics = () if call is batch_norm_forward else (X[0], X[1])
        with refused(ValueError, "eps", str(eps), "finite, at least 0"):
            call(X, *statistics, eps=eps)


@pytest.mark.parametrize("eps", [None, "1e-5", True, 1j, np.array(0.1), [1e-5]])
def test_an_eps_that_is_no_number_is_named(eps):
    with refused(TypeError, "eps", repr(eps), "number"):
        batch_norm_forward(X, eps=eps)


@pytest.mark.parametrize("eps", [0, 1, np.float32(0.5), np.int64(2), 1e300])
def test_any_real_number_will_do_for_eps(eps):
    _, cache = batch_norm_forward(X, eps=eps)
    np.testing.assert_allclose(cache.inv_std, 1 / np.sqrt(X.var(axis=0) + float(eps)))


@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
def test_too_few_axes_are_named(shape):
    with refused(ValueError, "x", shape, "(m, C), (N, C, *spatial)"):
        batch_norm_forward(np.ones(shape))
    with refused(ValueError, "x", shape, "(m, C), (N, C, *spatial)"):
        batch_norm_inference(np.ones(shape), np.ones(3), np.ones(3))


@pytest.mark.parametrize("axes", [(), [], 2, -3, (0, 5)])
def test_axes_that_are_not_there_are_named(axes):
    with refused(ValueError, "axes", axes, "at least one, from -2 to 1"):
        batch_norm_forward(X, axes=axes)


@pytest.mark.parametrize("axes", [(0, 0), (0, -2)])
def test_an_axis_named_twice_is_refused(axes):
    with refused(ValueError, "axes", axes, "each once"):
        batch_norm_forward(X, axes=axes)


@pytest.mark.parametrize("axes", ["0", 0.0, (0.5,), {0}, True, (True,), object()])
def test_axes_that_are_no_integers_are_named(axes):
    with refused(TypeError, "axes", repr(axes), "int, tuple of ints"):
        batch_norm_forward(X, axes=axes)


@pytest.mark.parametrize("size", [(3,), (1,), (), (2, 1), (1, 2, 1), (2, 2), (0,)])
def test_parameters_that_do_not_fit_are_named(size):
    for name in ("gamma", "beta"):
        with refused(ValueError, name, size, "(2,)"):
            batch_norm_forward(X, **{name: np.ones(size)})
    for name in ("mean", "var"):
        statistics = {"mean": np.ones(2), "var": np.ones(2), name: np.ones(size)}
        with refused(ValueError, name, size, "(2,)"):
            batch_norm_inference(X, **statistics)


def test_an_upstream_gradient_that_does_not_fit_is_named():
    _, cache = batch_norm_forward(X)
    for call in (batch_norm_backward, batch_norm_backward_steps):
        with refused(ValueError, "dy", (3, 1), "(3, 2)"):
            call(np.ones((3, 1)), cache)
        with refused(TypeError, "cache", "tuple", "Cache batch_norm_forward"):
            call(X, tuple(cache))
        with refused(TypeError, "dy", "int64", "real floating dtype"):
            call(np.ones((3, 2), np.int64), cache)
