"""Second-derivative blocks: what is refused, and what it says."""

import math

import numpy as np
import pytest
import torch
from common import assert_unchanged, randn, snapshot
from refusals import refused
from torch import nn

from bnlib import smoothness

X = randn(6, 3)
FUNCTIONS = {
    "exact": smoothness.block_norms,
    "estimate": smoothness.estimate_block_norms,
    "block": lambda n, loss, layer, others=(1,), **o: smoothness.hessian_block(
        n, loss, layer, others[0], **o
    ),
}
EACH = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def two_layers():
    made = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    with torch.no_grad():
        for number, parameter in enumerate(made.parameters()):
            parameter.copy_(randn(*parameter.shape, seed=number))
    return made


def loss(network):
    return network(X).square().mean()


@EACH
@pytest.mark.parametrize("layer", [2, 7, -1, np.int64(5)])
def test_a_layer_that_does_not_exist_is_named_with_those_that_do(function, layer):
    with refused(ValueError, "layer", int(layer), "2 linear layers, 0 to 1"):
        function(two_layers(), loss, layer)


@EACH
def test_another_layer_that_does_not_exist_is_named_too(function):
    with refused(ValueError, "others", 3, "2 linear layers, 0 to 1"):
        function(two_layers(), loss, 0, [3])


@EACH
@pytest.mark.parametrize("layer", ["0", 0.0, True, None, [0]])
def test_a_layer_is_an_integer(function, layer):
    with refused(TypeError, "layer", repr(layer), "integer from 0 to 1"):
        function(two_layers(), loss, layer)


@pytest.mark.parametrize("others", [1, "1", 1.5])
def test_others_are_a_list(others):
    with refused(TypeError, "others", repr(others), "list of layers"):
        smoothness.block_norms(two_layers(), loss, 0, others)


def test_there_is_nothing_to_depend_on_without_others():
    with refused(ValueError, "others", "empty", "at least one layer"):
        smoothness.block_norms(two_layers(), loss, 0, [])
    with refused(ValueError, "layer", "1, last", "name the others"):
        smoothness.block_norms(two_layers(), loss, 1)


def test_others_may_be_any_sequence_and_twice_the_same():
    found = smoothness.block_norms(two_layers(), loss, 1, np.array([0, 0, 1]))
    assert found.shape == (3,)
    assert found[0] == found[1]
    listed = smoothness.estimate_block_norms(two_layers(), loss, 0, (n for n in (1, 0)))
    assert listed.layers == [1, 0]


@EACH
@pytest.mark.parametrize("network", [nn.Tanh(), nn.Sequential(), nn.Conv1d(1, 1, 1)])
def test_a_network_without_linear_layers_has_no_blocks(function, network):
    with refused(ValueError, "network", "no torch.nn.Linear"):
        function(network, loss, 0)


@EACH
@pytest.mark.parametrize("network", [loss, None, randn(3, 2)])
def test_a_network_is_a_module(function, network):
    with refused(TypeError, "network", type(network), "torch.nn.Module"):
        function(network, loss, 0)


@EACH
def test_coordinates_are_among_three(function):
    with refused(
        ValueError, "coordinates", "'wn'", "one of weights, directions, bn_directions"
    ):
        function(two_layers(), loss, 0, coordinates="wn")


@EACH
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (3.0, TypeError, ("loss", "float", "function of the network")),
        (lambda n: n(X), ValueError, ("loss", (6, 1), "tensor of one element")),
        (lambda n: 1.0, ValueError, ("loss", 1.0, "tensor of one element")),
        (lambda n: X.sum(), ValueError, ("loss", "not depend on parameters")),
        (
            lambda n: loss(n) * math.nan,
            ValueError,
            ("loss", "nan"),
        ),
        (
            lambda n: loss(n) * math.inf,
            ValueError,
            ("loss", "inf"),
        ),
    ],
)
def test_a_loss_that_cannot_be_differentiated_is_named(function, wrong, error, message):
    made = two_layers()
    before = snapshot(made)
    with refused(error, *message):
        function(made, wrong, 0)
    assert_unchanged(made, before)


@EACH
def test_a_loss_of_another_network_is_named(function):
    other = two_layers()
    with refused(ValueError, "loss", "not depend on parameters"):
        function(two_layers(), lambda n: loss(other), 0)


@EACH
def test_layers_that_share_their_weights_are_refused(function):
    made = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    made[2].weight = made[0].weight
    with refused(ValueError, "layers 0 2", "share weights"):
        function(made, loss, 0)


@EACH
def test_weights_that_are_computed_from_others_are_refused(function):
    made = two_layers()
    nn.utils.parametrizations.weight_norm(made[2])
    with refused(ValueError, "2.weight", "parametrised", "plain weights"):
        function(made, loss, 0)


@EACH
def test_a_row_of_zeros_has_no_direction_and_no_trouble_as_weights(function):
    made = two_layers()
    with torch.no_grad():
        made[0].weight[1] = 0
    for kind in ("directions", "bn_directions"):
        with refused(ValueError, "row 1 of 0.weight", "length 0.0"):
            function(made, loss, 0, coordinates=kind)
    function(made, loss, 0, coordinates="weights")


@EACH
def test_a_unit_that_is_constant_over_the_batch_has_no_direction_under_bn(function):
    made = two_layers()
    with torch.no_grad():
        made[0].bias.fill_(1e6)
    with refused(ValueError, "row 0 of 2.weight", "length 0.0"):
        function(made, loss, 0, coordinates="bn_directions")
    function(made, loss, 0, coordinates="directions")


@EACH
@pytest.mark.parametrize("x", [X[:1], X[0]])
def test_a_single_example_has_no_covariance(function, x):
    with refused(ValueError, "row 0", "length 0.0"):
        function(two_layers(), lambda n: n(x).sum(), 0, coordinates="bn_directions")


def test_a_layer_that_the_loss_does_not_call_has_blocks_of_zero_but_no_covariance():
    made = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)]).double()

    def first_alone(layers):
        return layers[0](X).square().sum()

    assert smoothness.block_norms(made, first_alone, 0, [1]).tolist() == [0.0]
    with refused(ValueError, "layer 1", "does not call"):
        smoothness.block_norms(made, first_alone, 0, [1], coordinates="bn_directions")


def test_weights_that_are_not_finite_have_no_direction():
    for value in (math.nan, math.inf, -math.inf):
        made = two_layers()
        with torch.no_grad():
            made[0].weight[0, 0] = value
        with refused(ValueError, "row 0 of 0.weight", f"length {abs(value)}"):
            smoothness.block_norms(made, loss, 0, coordinates="directions")


def test_exact_norms_of_a_large_layer_are_refused_and_can_be_estimated():
    made = nn.Sequential(nn.Linear(3, 1500), nn.Linear(1500, 1)).double()
    for function in (smoothness.block_norms, FUNCTIONS["block"]):
        with refused(
            ValueError,
            "layer",
            "4500 weights estimate_block_norms",
            "one of at most 4000",
        ):
            function(made, loss, 0)
    assert smoothness.estimate_block_norms(made, loss, 0, samples=2).norms > 0


def test_a_block_of_too_many_entries_is_refused(monkeypatch):
    monkeypatch.setattr("bnlib.smoothness._blocks.MOST_PARAMETERS", 3)
    made = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 3)).double()
    with refused(
        ValueError, "block", "2 x 6 entries", "block_norms or estimate_block_norms"
    ):
        smoothness.hessian_block(made, lambda n: n(X[:, :1]).square().sum(), 0, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"samples": 1}, ValueError, ("samples", 1, "integer of at least 2")),
        ({"samples": 2.0}, TypeError, ("samples", 2.0, "integer")),
        ({"seed": -1}, ValueError, ("seed", -1, "integer of at least 0")),
        ({"seed": None}, TypeError, ("seed", None, "integer")),
    ],
)
def test_samples_and_seed_are_integers_in_their_range(options, error, message):
    with refused(error, *message):
        smoothness.estimate_block_norms(two_layers(), loss, 0, **options)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"value": 1.0}, TypeError, ("value", "float", "tensor")),
        ({"first": [1.0]}, TypeError, ("first", "list", "tensor")),
        ({"second": np.ones(2)}, TypeError, ("second", "ndarray", "tensor")),
        ({"first": torch.ones(2)}, ValueError, ("first", "not gradient")),
        (
            {"value": torch.ones(())},
            ValueError,
            ("value", "not gradient"),
        ),
        (
            {"value": torch.ones(2, requires_grad=True)},
            ValueError,
            ("value", (2,), "one element"),
        ),
    ],
)
def test_second_derivatives_take_tensors_with_gradients(change, error, message):
    a = torch.ones(2, requires_grad=True)
    arguments = {"value": a.square().sum(), "first": a, "second": a} | change
    with refused(error, *message):
        smoothness.second_derivatives(**arguments)
