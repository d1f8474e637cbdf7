"""The experiments on approximation: the networks, the functions, what is measured."""

import pytest
import torch
from common import generator
from experiment_toys import context
from refusals import refused
from torch.nn import functional

from bnlib import data, experiments
from bnlib.approximation import TreeNetwork
from bnlib.experiments import poggio

SMALL = {"frequency": 2.0, "points": 200, "steps": 20}


def unit(arm="tree", inputs=4, parameters=84, seed=0, **changed):
    settings = SMALL | changed
    return poggio.poggio_approximation(
        context(seed), arm, inputs, parameters, **settings
    )


# Composed functions.


def test_the_function_is_a_tree_of_cosines():
    levels = poggio.draw_levels(4, 3.0, generator())
    x = torch.rand(10, 4, generator=generator(1), dtype=torch.float64)
    (w, p), (v, q) = levels
    low = [torch.cos(x[:, 2 * i : 2 * i + 2] @ w[i] + p[i]) for i in (0, 1)]
    expected = torch.cos(v[0, 0] * low[0] + v[0, 1] * low[1] + q[0])
    found = poggio.level_values(levels, x)
    torch.testing.assert_close(found[1][:, 0], expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(found[0], torch.stack(low, 1), rtol=0, atol=1e-14)
    for frequencies, _ in levels:
        torch.testing.assert_close(frequencies.norm(dim=1).max().item(), 3.0)


def test_pieces_are_fitted_each_to_its_own_node():
    levels = poggio.draw_levels(4, 2.0, generator(3))
    x = poggio._sphere(400, 4, generator(4))
    values = poggio.level_values(levels, x)
    tree = TreeNetwork(4, 10, generator=generator(5))
    poggio.fit_pieces(tree, x, values, 150, generator(6))
    with torch.no_grad():
        left = (tree(x) - values[-1][:, 0]).square().mean().sqrt()
    assert left < 0.05 * values[-1].std()


def test_rotated_axes_leave_the_points_on_their_sphere():
    x = poggio._sphere(50, 8, generator())
    torch.testing.assert_close(x.norm(dim=1), torch.full((50,), 8**0.5).double())


@pytest.mark.parametrize("kind", ["tree", "dense", "shallow"])
@pytest.mark.parametrize("inputs", [4, 8])
def test_a_network_has_at_most_the_parameters_asked_for(kind, inputs):
    network = poggio._network(kind, inputs, 336, generator())
    count = sum(p.numel() for p in network.parameters())
    assert 0.85 * 336 < count <= 336
    assert network(torch.zeros(3, inputs, dtype=torch.float64)).shape == (3,)


def test_pieces_and_tree_are_the_same_network():
    counts = {unit(arm)["parameters_used"] for arm in ("pieces", "tree")}
    assert counts == {84}


def test_a_unit_depends_on_its_seed_alone():
    torch.manual_seed(1)
    first = unit("shallow", seed=3)
    torch.manual_seed(2)
    assert unit("shallow", seed=3) == first != unit("shallow", seed=4)


@pytest.fixture
def seen(monkeypatch):
    """The points and values that every fit is given."""
    given, fit = [], poggio.fit

    def spy(network, x, y, steps):
        given.append((x.clone(), y.clone()))
        return fit(network, x, y, steps=steps)

    monkeypatch.setattr(poggio, "fit", spy)
    return given


def test_arms_and_sizes_of_one_seed_meet_the_same_function(seen):
    chosen = {"arms": ["tree", "shallow"], "parameter_counts": [84, 168], "seeds": [0]}
    experiments.run("poggio-approximation", device="cpu", steps=1, **chosen)
    assert len(seen) == 4
    for x, y in seen[1:]:
        torch.testing.assert_close(x, seen[0][0], rtol=0, atol=0)
        torch.testing.assert_close(y, seen[0][1], rtol=0, atol=0)


def test_rotated_axes_change_the_function_and_not_the_points(seen):
    for arm in ("tree", "tree_rotated"):
        unit(arm, steps=1)
    (x, y), (same, other) = seen
    torch.testing.assert_close(x, same, rtol=0, atol=0)
    assert (y - other).abs().max() > 0.5


def test_arms_on_the_digits_share_their_permutation():
    assert experiments.get("poggio-digits").paired == ("arm",)


def test_the_live_run_ranks_the_arms():
    record = experiments.run("poggio-approximation", device="cpu")
    pieces, shallow, rotated = record.array("error")[:, 0, 0]
    assert (pieces < 0.5 * shallow).all()
    assert (rotated > 3 * pieces).all()
    assert (record.array("largest_error") > 0).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"parameters": 11},
            ("parameters", 11, "4 inputs, at least 12"),
        ),
        ({"inputs": 6}, ("inputs", 6, "power of the arity, 2")),
        ({"frequency": 0.0}, ("frequency", 0, "number above 0")),
        ({"points": 0}, ("points", 0, "integer of at least 1")),
        ({"steps": 0}, ("steps", 0, "integer of at least 1")),
    ],
)
def test_impossible_settings_are_named(changed, message):
    with refused(ValueError, *message):
        unit(**changed)


# Digits.


def digits(arm, **changed):
    settings = {"examples": 200, "learning_rate": 0.02, "steps": 20} | changed
    return poggio.poggio_digits(context(digits=data.load("digits")), arm, **settings)


def test_a_shared_tree_is_two_convolutions_of_stride_two_and_a_linear_map():
    tree = poggio.QuadTree(3, 5, shared=True, generator=generator())
    images = torch.randn(4, 1, 8, 8, generator=generator(1))
    with torch.no_grad():
        h = images
        for weight, bias in list(zip(tree.weights, tree.biases))[:2]:
            # Inputs of a node: rows, then columns, then channels.
            kernel = weight[0].T.reshape(weight.shape[2], 2, 2, -1).permute(0, 3, 1, 2)
            h = torch.tanh(functional.conv2d(h, kernel, bias[0, 0], stride=2))
        last = h.permute(0, 2, 3, 1).reshape(4, -1) @ tree.weights[2][0]
        expected = last + tree.biases[2][0, 0]
        found = tree(images.reshape(4, 64))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_an_unshared_node_sees_its_own_block_of_pixels_alone():
    tree = poggio.QuadTree(2, 3, shared=False, generator=generator())
    x = torch.zeros(1, 64)
    x[0, [6, 7, 14, 15]] = 1.0  # the block at the top right
    tree(x).sum().backward()
    seen = tree.weights[0].grad.abs().sum(dim=(1, 2)) > 0
    assert seen.nonzero().flatten().tolist() == [3]


def test_the_three_networks_have_about_as_many_parameters():
    counts = [
        digits(a, steps=0)["parameters_used"] for a in ("local", "shared", "dense")
    ]
    assert counts == [978, 999, 985]


def test_the_live_run_on_digits_learns():
    record = experiments.run("poggio-digits", device="cpu")
    assert record.array("accuracy").min() > 0.85


@pytest.mark.parametrize("arm", ["local", "shared"])
def test_a_permutation_of_the_pixels_reaches_the_network(arm):
    assert digits(arm) == digits(arm) != digits(f"{arm}_permuted")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"examples": 0}, ("examples", 0, "number from 1 to 1347")),
        ({"examples": 1348}, ("examples", 1348, "number from 1 to 1347")),
        ({"learning_rate": 0.0}, ("learning_rate", 0, "number above 0")),
        ({"steps": -1}, ("steps", -1, "integer of at least 0")),
    ],
)
def test_impossible_settings_for_digits_are_named(changed, message):
    with refused(ValueError, *message):
        digits("dense", **changed)
