"""Folding of plain arrays, NumPy's or torch's."""

import numpy as np
import pytest
import torch
from common import KINDS
from refusals import refused

import bnlib
from bnlib.folding import fold_arrays


def arrays(channels=4, rest=(3, 2), seed=0):
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((channels, *rest))
    bias, mean, gamma, beta = rng.standard_normal((4, channels))
    return weight, bias, mean, rng.uniform(0.5, 2, channels), gamma, beta


@KINDS
@pytest.mark.parametrize("missing", [(), (1,), (4, 5), (1, 4, 5)], ids=str)
def test_folded_arrays_agree_with_inference(missing, kind):
    given = arrays()
    x = np.random.default_rng(1).standard_normal((6, 3, 2))
    weight, bias, mean, var, gamma, beta = (
        None if i in missing else a for i, a in enumerate(given)
    )
    before = np.einsum("nij,cij->nc", x, weight) + (0 if bias is None else bias)
    expected = bnlib.batch_norm_inference(before, mean, var, gamma, beta, 1e-3)
    made = [None if i in missing else kind(a) for i, a in enumerate(given)]
    weight, bias = fold_arrays(*made, 1e-3)
    assert type(weight) is type(bias) is type(made[0])
    found = np.einsum("nij,cij->nc", x, np.asarray(weight)) + np.asarray(bias)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble])
def test_folded_arrays_keep_their_dtypes(dtype):
    weight, bias, *statistics = arrays()
    found = fold_arrays(weight.astype(dtype), bias.astype(np.float32), *statistics)
    assert [a.dtype for a in found] == [dtype, np.float32]
    found = fold_arrays(weight.astype(dtype), None, *statistics)
    assert [a.dtype for a in found] == [dtype, dtype]


def test_folded_arrays_are_new_and_the_given_ones_unchanged():
    given = arrays()
    kept = [array.copy() for array in given]
    for made in fold_arrays(*given):
        assert not any(np.shares_memory(made, array) for array in given)
        made[:] = 0
    for array, copied in zip(given, kept):
        np.testing.assert_array_equal(array, copied)


def test_folded_arrays_take_any_strides():
    weight, *rest = arrays()
    reversed_twice = np.asfortranarray(weight[::-1])[::-1]
    for one, other in zip(
        fold_arrays(weight, *rest), fold_arrays(reversed_twice, *rest)
    ):
        np.testing.assert_array_equal(one, other)


def test_gradients_flow_through_folded_tensors():
    given = [torch.tensor(array, requires_grad=True) for array in arrays()]
    assert torch.autograd.gradcheck(fold_arrays, given)


def test_a_spoilt_channel_leaves_the_others_alone():
    clean, given = arrays(), arrays()
    given[3][1] = np.nan
    keep = [0, 2, 3]
    for one, other in zip(fold_arrays(*given), fold_arrays(*clean)):
        assert np.isnan(one[1]).all()
        np.testing.assert_array_equal(one[keep], other[keep])


@pytest.mark.parametrize("index", range(1, 6))
@pytest.mark.parametrize("shape", [(3,), (4, 1), (), (1,)], ids=str)
def test_a_vector_that_does_not_fit_is_named(index, shape):
    given = list(arrays())
    given[index] = np.ones(shape)
    name = ["weight", "bias", "mean", "var", "gamma", "beta"][index]
    with refused(ValueError, name, shape, "(4,)"):
        fold_arrays(*given)


@pytest.mark.parametrize(
    ("index", "value", "error", "says"),
    [
        (
            0,
            np.array(1.0),
            ValueError,
            ("weight", (), "(C, ...), output channels first"),
        ),
        (0, [[1.0]], TypeError, ("weight", "list", "NumPy array, torch tensor")),
        (
            0,
            np.ones((4, 2), int),
            TypeError,
            ("weight", "int64", "real floating dtype"),
        ),
        (
            0,
            np.ones((4, 2), complex),
            TypeError,
            ("weight", "complex128", "real floating dtype"),
        ),
        (2, None, TypeError, ("mean", "NoneType", "NumPy array, torch tensor")),
        (
            3,
            torch.ones(4),
            TypeError,
            ("weight", "NumPy array, var torch tensor", "one library"),
        ),
        (3, -np.ones(4), ValueError, ("var + eps", "not above 0")),
        (6, -1.0, ValueError, ("eps", -1.0, "finite, at least 0")),
        (6, "1", TypeError, ("eps", "'1'", "number")),
        (6, float("nan"), ValueError, ("eps", "nan", "finite, at least 0")),
    ],
    ids=str,
)
def test_bad_arrays_are_named(index, value, error, says):
    given = [*arrays(), 1e-5]
    given[index] = value
    with refused(error, *says):
        fold_arrays(*given)


def test_no_variance_and_no_eps_is_refused():
    weight, bias, mean, var, *affine = arrays()
    with refused(ValueError, "var + eps", "not above 0"):
        fold_arrays(weight, bias, mean, 0 * var, *affine, 0.0)
