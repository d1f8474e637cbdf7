"""Second-derivative blocks: what is refused, and what it says."""

import math

import numpy as np
import pytest
import torch
from common import assert_unchanged, randn, snapshot
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
    with pytest.raises(
        ValueError, match=f"layer is {layer}: .* 2 linear layers.* 0 to 1"
    ):
        function(two_layers(), loss, layer)


@EACH
def test_another_layer_that_does_not_exist_is_named_too(function):
    with pytest.raises(ValueError, match=r"one of others is 3: .* 2 linear layers"):
        function(two_layers(), loss, 0, [3])


@EACH
@pytest.mark.parametrize("layer", ["0", 0.0, True, None, [0]])
def test_a_layer_is_an_integer(function, layer):
    with pytest.raises(TypeError, match=r"layer is .*: give an integer from 0 to 1"):
        function(two_layers(), loss, layer)


@pytest.mark.parametrize("others", [1, "1", 1.5])
def test_others_are_a_list(others):
    with pytest.raises(TypeError, match=r"others is .*: give a list of layers"):
        smoothness.block_norms(two_layers(), loss, 0, others)


def test_there_is_nothing_to_depend_on_without_others():
    with pytest.raises(ValueError, match="others is empty"):
        smoothness.block_norms(two_layers(), loss, 0, [])
    with pytest.raises(ValueError, match="layer is 1, the last one: name the others"):
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
    with pytest.raises(ValueError, match=r"no torch\.nn\.Linear"):
        function(network, loss, 0)


@EACH
@pytest.mark.parametrize("network", [loss, None, randn(3, 2)])
def test_a_network_is_a_module(function, network):
    with pytest.raises(TypeError, match=r"network is a .*: give a torch\.nn\.Module"):
        function(network, loss, 0)


@EACH
def test_coordinates_are_among_three(function):
    with pytest.raises(
        ValueError, match="coordinates is 'wn': give one of weights, di"
    ):
        function(two_layers(), loss, 0, coordinates="wn")


@EACH
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (3.0, TypeError, "loss is a float"),
        (lambda n: n(X), ValueError, r"loss returned the shape \(6, 1\)"),
        (lambda n: 1.0, ValueError, "loss returned 1.0"),
        (lambda n: X.sum(), ValueError, "does not depend on the parameters"),
        (lambda n: loss(n) * math.nan, ValueError, "loss is nan"),
        (lambda n: loss(n) * math.inf, ValueError, "loss is inf"),
    ],
)
def test_a_loss_that_cannot_be_differentiated_is_named(function, wrong, error, message):
    made = two_layers()
    before = snapshot(made)
    with pytest.raises(error, match=message):
        function(made, wrong, 0)
    assert_unchanged(made, before)


@EACH
def test_a_loss_of_another_network_is_named(function):
    other = two_layers()
    with pytest.raises(ValueError, match="does not depend on the parameters"):
        function(two_layers(), lambda n: loss(other), 0)


@EACH
def test_layers_that_share_their_weights_are_refused(function):
    made = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    made[2].weight = made[0].weight
    with pytest.raises(ValueError, match="the layers 0 and 2 share their weights"):
        function(made, loss, 0)


@EACH
def test_weights_that_are_computed_from_others_are_refused(function):
    made = two_layers()
    nn.utils.parametrizations.weight_norm(made[2])
    with pytest.raises(ValueError, match=r"2\.weight is parametrised"):
        function(made, loss, 0)


@EACH
def test_a_row_of_zeros_has_no_direction_and_no_trouble_as_weights(function):
    made = two_layers()
    with torch.no_grad():
        made[0].weight[1] = 0
    for kind in ("directions", "bn_directions"):
        with pytest.raises(ValueError, match=r"row 1 of 0\.weight has length 0\.0"):
            function(made, loss, 0, coordinates=kind)
    function(made, loss, 0, coordinates="weights")


@EACH
def test_a_unit_that_is_constant_over_the_batch_has_no_direction_under_bn(function):
    made = two_layers()
    with torch.no_grad():
        made[0].bias.fill_(1e6)
    with pytest.raises(ValueError, match=r"row 0 of 2\.weight has length 0\.0"):
        function(made, loss, 0, coordinates="bn_directions")
    function(made, loss, 0, coordinates="directions")


@EACH
@pytest.mark.parametrize("x", [X[:1], X[0]])
def test_a_single_example_has_no_covariance(function, x):
    with pytest.raises(ValueError, match=r"row 0 of .*\.weight has length 0\.0"):
        function(two_layers(), lambda n: n(x).sum(), 0, coordinates="bn_directions")


def test_a_layer_that_the_loss_does_not_call_has_blocks_of_zero_but_no_covariance():
    made = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)]).double()

    def first_alone(layers):
        return layers[0](X).square().sum()

    assert smoothness.block_norms(made, first_alone, 0, [1]).tolist() == [0.0]
    with pytest.raises(ValueError, match="does not call the layer 1"):
        smoothness.block_norms(made, first_alone, 0, [1], coordinates="bn_directions")


def test_weights_that_are_not_finite_have_no_direction():
    for value in (math.nan, math.inf, -math.inf):
        made = two_layers()
        with torch.no_grad():
            made[0].weight[0, 0] = value
        with pytest.raises(ValueError, match=r"row 0 of 0\.weight has length"):
            smoothness.block_norms(made, loss, 0, coordinates="directions")


def test_exact_norms_of_a_large_layer_are_refused_and_can_be_estimated():
    made = nn.Sequential(nn.Linear(3, 1500), nn.Linear(1500, 1)).double()
    for function in (smoothness.block_norms, FUNCTIONS["block"]):
        with pytest.raises(ValueError, match=r"4500 weights: .* estimate_block_norms"):
            function(made, loss, 0)
    assert smoothness.estimate_block_norms(made, loss, 0, samples=2).norms > 0


def test_a_block_of_too_many_entries_is_refused(monkeypatch):
    monkeypatch.setattr("bnlib.smoothness._blocks.MOST_PARAMETERS", 3)
    made = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 3)).double()
    with pytest.raises(ValueError, match="has 2 x 6 entries"):
        smoothness.hessian_block(made, lambda n: n(X[:, :1]).square().sum(), 0, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"samples": 1}, ValueError, "samples is 1"),
        ({"samples": 2.0}, TypeError, "samples is 2.0"),
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"seed": None}, TypeError, "seed is None"),
    ],
)
def test_samples_and_seed_are_integers_in_their_range(options, error, message):
    with pytest.raises(error, match=message):
        smoothness.estimate_block_norms(two_layers(), loss, 0, **options)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"value": 1.0}, TypeError, "value is a float: give a tensor"),
        ({"first": [1.0]}, TypeError, "first is a list"),
        ({"second": np.ones(2)}, TypeError, "second is a ndarray"),
        ({"first": torch.ones(2)}, ValueError, "first does not require a gradient"),
        ({"value": torch.ones(())}, ValueError, "value does not require a gradient"),
        (
            {"value": torch.ones(2, requires_grad=True)},
            ValueError,
            r"value has shape \(2,\)",
        ),
    ],
)
def test_second_derivatives_take_tensors_with_gradients(change, error, message):
    a = torch.ones(2, requires_grad=True)
    arguments = {"value": a.square().sum(), "first": a, "second": a} | change
    with pytest.raises(error, match=message):
        smoothness.second_derivatives(**arguments)
