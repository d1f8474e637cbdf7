"""Weight normalization: torch's, with an error where that gives NaN."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from bnlib.nn import weight_norm


@pytest.mark.parametrize("dim", [0, 1, -1, None])
@pytest.mark.parametrize("layer", [nn.Linear(4, 3), nn.Conv2d(2, 3, 2)], ids=str)
def test_values_gradients_and_state_dict_are_torchs(layer, dim):
    if dim == -1:
        # torch reads -1 as None; here it is the last axis.
        theirs = parametrizations.weight_norm(
            copy.deepcopy(layer).double(), dim=layer.weight.ndim - 1
        )
    else:
        theirs = parametrizations.weight_norm(copy.deepcopy(layer).double(), dim=dim)
    ours = weight_norm(copy.deepcopy(layer).double(), dim=dim)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    shape = (5, 4) if isinstance(layer, nn.Linear) else (5, 2, 4, 4)
    x = torch.randn(shape, dtype=torch.float64)
    for model in (ours, theirs):
        model(x).square().sum().backward()
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-12)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-11, atol=1e-11)


def test_the_function_is_as_before_and_its_length_is_g():
    layer = nn.Linear(4, 3)
    x = torch.randn(5, 4)
    before = layer(x)
    weight_norm(layer)
    torch.testing.assert_close(layer(x), before)
    with torch.no_grad():
        layer.parametrizations.weight.original0.fill_(2.0)
    torch.testing.assert_close(layer.weight.norm(dim=1), torch.full((3,), 2.0))


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_tiny_and_huge_directions_have_a_length(size):
    layer = weight_norm(nn.Linear(4, 3))
    with torch.no_grad():
        layer.parametrizations.weight.original1.fill_(size)
        layer.parametrizations.weight.original0.fill_(2.0)
    torch.testing.assert_close(layer.weight, torch.full((3, 4), 1.0))


def test_a_zero_row_is_an_error_now():
    layer = nn.Linear(4, 3)
    with torch.no_grad():
        layer.weight[1] = 0
    with pytest.raises(ValueError, match="weight has no direction in row 1"):
        weight_norm(layer)
    assert isinstance(layer.weight, nn.Parameter)
    assert not hasattr(layer, "parametrizations")


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_a_row_that_becomes_zero_is_an_error_then(value):
    layer = weight_norm(nn.Linear(4, 3))
    with torch.no_grad():
        layer.parametrizations.weight.original1[2] = value
    with pytest.raises(ValueError, match="no direction in row 2"):
        layer(torch.ones(1, 4))


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((3,), TypeError, "module is a int"),
        ((nn.Linear(2, 2), "kernel"), ValueError, "one of weight, bias"),
        ((nn.Linear(2, 2), "weight", 2), ValueError, "dim is 2 for a weight"),
        ((nn.Linear(2, 2), "weight", 0.5), TypeError, "dim is 0.5"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments, error, says):
    with pytest.raises(error, match=says):
        weight_norm(*arguments)
