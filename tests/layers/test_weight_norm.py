"""Weight normalization: torch's, with an error where that gives NaN."""

import copy

import pytest
import torch
from refusals import refused
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


def empty():
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.empty(2, 0))
    return layer


def test_the_function_is_as_before_and_its_length_is_g():
    layer = nn.Linear(4, 3)
    x = torch.randn(5, 4)
    before = layer(x)
    weight_norm(layer)
    torch.testing.assert_close(layer(x), before)
    with torch.no_grad():
        layer.parametrizations.weight.original0.fill_(2.0)
    torch.testing.assert_close(layer.weight.norm(dim=1), torch.full((3,), 2.0))


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(1e-30, torch.float32), (1e30, torch.float32)]
    + [(size, torch.float64) for size in (1e-200, 1e200, 1e308)],
)
def test_tiny_and_huge_directions_have_a_length(size, dtype):
    layer = weight_norm(nn.Linear(4, 3, dtype=dtype))
    with torch.no_grad():
        layer.parametrizations.weight.original1.fill_(size)
        layer.parametrizations.weight.original0.fill_(2.0)
    torch.testing.assert_close(layer.weight, torch.full((3, 4), 1.0, dtype=dtype))


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_the_gradient_of_a_tiny_or_huge_direction_is_scaled_and_finite(size):
    """w(c v) = w(v), so the gradient by v at c v is the one at v over c."""
    slopes = []
    for factor in (1.0, size):
        layer = weight_norm(nn.Linear(4, 3, dtype=torch.float64))
        rows = torch.arange(1.0, 13, dtype=torch.float64).reshape(3, 4)
        with torch.no_grad():
            layer.parametrizations.weight.original1.copy_(rows * factor)
            layer.parametrizations.weight.original0.fill_(2.0)
        layer.weight[:, 0].sum().backward()
        slopes.append(layer.parametrizations.weight.original1.grad * factor)
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-12, atol=0)


@pytest.mark.parametrize("dim", [0, None])
def test_a_length_that_the_dtype_has_not_is_an_error_now(dim):
    layer = nn.Linear(4, 3, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.fill_(1.5e308)
    with refused(
        ValueError,
        "weight",
        "no finite length row 0 inf",
        "finite, not 0",
    ):
        weight_norm(layer, dim=dim)
    assert isinstance(layer.weight, nn.Parameter)


def test_a_weight_of_one_axis_has_a_length_for_each_entry_or_one():
    for dim, entries, lengths in (
        (0, [3e-200, -4e200], [3e-200, 4e200]),
        (None, [3e200, -4e200], 5e200),
    ):
        entries = torch.tensor(entries, dtype=torch.float64)
        layer = nn.Module()
        layer.weight = nn.Parameter(entries.clone())
        weight_norm(layer, dim=dim)
        found = layer.parametrizations.weight.original0
        right = torch.tensor(lengths, dtype=torch.float64)
        torch.testing.assert_close(found, right, rtol=1e-15, atol=0)
        torch.testing.assert_close(layer.weight, entries, rtol=1e-15, atol=0)


def test_a_zero_row_is_an_error_now():
    layer = nn.Linear(4, 3)
    with torch.no_grad():
        layer.weight[1] = 0
    with refused(
        ValueError,
        "weight",
        "no direction row 1 0",
        "finite, not 0",
    ):
        weight_norm(layer)
    assert isinstance(layer.weight, nn.Parameter)
    assert not hasattr(layer, "parametrizations")


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_a_row_that_becomes_zero_is_an_error_then(value):
    layer = weight_norm(nn.Linear(4, 3))
    with torch.no_grad():
        layer.parametrizations.weight.original1[2] = value
    with refused(
        ValueError,
        "weight",
        f"no direction row 2 {value}",
        "finite, not 0",
    ):
        layer(torch.ones(1, 4))


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((3,), TypeError, ("module", "int", "torch.nn.Module")),
        (
            (nn.Linear(2, 2), "kernel"),
            ValueError,
            ("name", "'kernel'", "weight, bias"),
        ),
        (
            (nn.Linear(2, 2), "weight", 2),
            ValueError,
            ("dim", "2 (2, 2)", "axes"),
        ),
        ((nn.Linear(2, 2), "weight", 0.5), TypeError, ("dim", 0.5, "integer")),
        ((empty(), "weight"), ValueError, ("weight", (2, 0), "no entries")),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments, error, says):
    with refused(error, *says):
        weight_norm(*arguments)
