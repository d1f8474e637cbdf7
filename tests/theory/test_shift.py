"""Covariate shift: measured as defined, on any network, leaving it as it was."""

import copy

import numpy as np
import pytest
import torch
from common import assert_unchanged, generator, snapshot
from refusals import refused
from torch import nn

from bnlib.networks import mlp
from bnlib.shift import distribution_distance, gradient_shift


def network(widths=(3, 4, 5, 2), batch_norm=True):
    options = {"generator": generator(), "dtype": torch.float64}
    return mlp(widths, batch_norm=batch_norm, **options)


def loss_of(n=12, seed=1):
    x = torch.randn(n, 3, generator=generator(seed), dtype=torch.float64)
    return lambda net: net(x).square().mean() + net(x).sum()


def chain(*weights):
    """Linear maps of one number each."""
    layers = [nn.Linear(1, 1, bias=False) for _ in weights]
    for layer, weight in zip(layers, weights):
        nn.init.constant_(layer.weight, weight)
    return nn.Sequential(*layers)


def product_loss(net):
    """The product of the weights of a chain."""
    return net(torch.ones(1, 1)).sum()


def test_two_numbers_by_hand():
    # ell = a b c. Gradients: (bc, ac, ab) = (12, 8, 6). With eta = 1/8:
    # a' = 2 - 1.5 = 0.5, b' = 3 - 1 = 2; so G2' = a' c = 2 and G3' = a' b' = 1.
    shift = gradient_shift(chain(2.0, 3.0, 4.0), product_loss, 1 / 8)
    np.testing.assert_allclose(shift.norms, [8, 6])
    np.testing.assert_allclose(shift.distances, [6, 5])
    np.testing.assert_allclose(shift.cosines, [1, 1])
    np.testing.assert_allclose(shift.relative, [6 / 8, 5 / 6])


def test_a_gradient_that_turns_round_has_cosine_minus_one():
    # a' = 2 - 12 / 4 = -1, so G2' = -4 where G2 = 8.
    shift = gradient_shift(chain(2.0, 3.0, 4.0), product_loss, 1 / 4)
    assert shift.cosines[0] == pytest.approx(-1)


@pytest.mark.parametrize("batch_norm", [True, False])
def test_it_agrees_with_a_measurement_step_by_step(batch_norm):
    net, loss, rate = network(batch_norm=batch_norm), loss_of(), 0.3
    linear = [m for m in net if isinstance(m, nn.Linear)]
    weights = [m.weight for m in linear]
    before = torch.autograd.grad(loss(net), weights)
    expected = []
    for i in range(1, 3):
        other = copy.deepcopy(net)
        own = [m.weight for m in other if isinstance(m, nn.Linear)]
        with torch.no_grad():
            for j in range(i):
                own[j] -= rate * before[j]
        (after,) = torch.autograd.grad(loss(other), own[i])
        expected.append((after - before[i]).norm().item())
    shift = gradient_shift(net, loss, rate, layers=[[w] for w in weights])
    np.testing.assert_allclose(shift.distances, expected, rtol=1e-10)


def test_the_network_is_left_as_it_was():
    net = network()
    before = snapshot(net)
    gradient_shift(net, loss_of(), 0.1)
    assert_unchanged(net, before)
    assert all(p.grad is None for p in net.parameters())


def test_a_function_may_take_the_step():
    def descend(net):
        torch.optim.SGD(net.parameters(), lr=0.1).step()

    net, loss = network(), loss_of()
    one, other = (gradient_shift(net, loss, step) for step in (0.1, descend))
    np.testing.assert_allclose(one.distances, other.distances, rtol=1e-12)
    np.testing.assert_allclose(one.cosines, other.cosines, rtol=1e-12)


def test_a_step_of_another_optimiser_gives_another_shift():
    def adam(net):
        torch.optim.Adam(net.parameters(), lr=0.1).step()

    net, loss = network(), loss_of()
    one, other = (gradient_shift(net, loss, step) for step in (0.1, adam))
    assert not np.allclose(one.distances, other.distances, rtol=0.1)


def test_batch_norm_belongs_to_the_layer_before_it():
    net = network()
    by_default = gradient_shift(net, loss_of(), 0.1)
    by_hand = gradient_shift(net, loss_of(), 0.1, layers=[net[:2], net[3:5], net[6]])
    assert len(by_default.norms) == 2
    np.testing.assert_array_equal(by_default.distances, by_hand.distances)


def test_what_is_in_no_layer_stays():
    net = network()
    weights = [[m.weight] for m in net if isinstance(m, nn.Linear)]
    whole = gradient_shift(net, loss_of(), 0.1)
    alone = gradient_shift(net, loss_of(), 0.1, layers=weights)
    assert not np.allclose(whole.distances, alone.distances)


def test_frozen_parameters_do_not_move():
    net = network()
    frozen = copy.deepcopy(net)
    for parameter in frozen[0].parameters():
        parameter.requires_grad_(False)
    layers = [[m.weight] for m in frozen[3:] if isinstance(m, nn.Linear)]
    shift = gradient_shift(frozen, loss_of(), 0.1, layers=layers)
    first, second = (m.weight for m in net[3:] if isinstance(m, nn.Linear))
    same = gradient_shift(net, loss_of(), 0.1, layers=[[first], [second]])
    np.testing.assert_allclose(shift.distances, same.distances)


def test_smaller_steps_shift_less():
    net, loss = network(), loss_of()
    big, small = (gradient_shift(net, loss, rate) for rate in (1e-2, 1e-3))
    np.testing.assert_allclose(small.distances, big.distances / 10, rtol=0.1)


def test_a_step_that_leaves_the_finite_numbers_leads_to_entries_that_are_not():
    shift = gradient_shift(network(batch_norm=False), loss_of(), 1e200)
    assert not np.isfinite(shift.distances).all()


def test_a_gradient_of_zero_has_no_angle():
    shift = gradient_shift(chain(2.0, 0.0, 4.0), product_loss, 0.1)
    # ac = 8 for the second layer, but ab = 0 for the third.
    assert np.isnan(shift.cosines[1])
    assert shift.norms[1] == 0


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x))


def bad(**changed):
    given = {"network": network(), "loss": loss_of(), "step": 0.1}
    given |= changed
    return lambda: gradient_shift(given.pop("network"), **given)


def nothing(net):
    return torch.tensor(1.0)


def not_finite(net):
    return loss_of()(net) / 0


def dropped(net):
    return loss_of()(net) * torch.rand(())


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (bad(network=3), TypeError, ("network", "int", "torch.nn.Module")),
        (bad(loss=3), TypeError, ("loss", "int", "function of the network")),
        (bad(step="0.1"), TypeError, ("step", "'0.1'", "number")),
        (bad(step=0), ValueError, ("step", 0, "number above 0")),
        (bad(step=-1.0), ValueError, ("step", -1.0, "finite, above 0")),
        (bad(step=float("nan")), ValueError, ("step", "nan", "finite, above 0")),
        (bad(network=nn.ReLU()), ValueError, ("network", "no parameter")),
        (
            bad(network=network((3, 2))),
            ValueError,
            ("network", "1 layer", "two or more"),
        ),
        (bad(layers=[]), ValueError, ("network", "0 layer", "two or more")),
        (bad(layers=3), TypeError, ("layers", 3, "sequence of layers")),
        (bad(layers=[3, 4]), TypeError, ("a layer", "int", "module or its parameters")),
        (
            bad(layers=[[3], [4]]),
            TypeError,
            ("a layer", "list", "module or its parameters"),
        ),
        (
            bad(layers=[[], []]),
            ValueError,
            ("layer 1", "no parameter that requires a gradient"),
        ),
        (
            bad(layers=[nn.Linear(3, 3)] * 2),
            ValueError,
            ("layer 1", "parameter that is not the network's"),
        ),
        (bad(network=Shared().double()), ValueError, ("layers 1 2", "share")),
        (bad(loss=nothing), ValueError, ("loss", "not depend")),
        (bad(loss=not_finite), ValueError, ("loss", "", "network's parameters")),
        (bad(loss=dropped), ValueError, ("loss", "two gradients at one network")),
    ],
)
def test_what_cannot_be_measured_is_named(call, error, says):
    with refused(error, *says):
        call()


# Distances between distributions.


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_a_shift_and_a_stretch_are_the_distance(kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 3))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    moved = rng.permutation(3 + 2 * x)
    distance = distribution_distance(kind(x), kind(moved))
    np.testing.assert_allclose(distance, np.sqrt(3**2 + 1))


def test_the_order_of_the_examples_does_not_count():
    x = np.random.default_rng(0).standard_normal((20, 2))
    np.testing.assert_array_equal(distribution_distance(x, x[::-1]), [0, 0])


@pytest.mark.parametrize(
    ("before", "after", "error", "says"),
    [
        (
            [[1.0]],
            np.ones((1, 1)),
            TypeError,
            ("before", "list", "NumPy array, torch tensor"),
        ),
        (
            np.ones((2, 1)),
            torch.ones(2, 1),
            TypeError,
            ("before", "NumPy array, after torch tensor", "one library"),
        ),
        (
            np.ones(3),
            np.ones(3),
            ValueError,
            ("shapes", "(3,) and (3,)", "(m, C) twice, not empty"),
        ),
        (
            np.ones((3, 1)),
            np.ones((2, 1)),
            ValueError,
            ("shapes", "(3, 1) and (2, 1)", "(m, C) twice, not empty"),
        ),
        (
            np.ones((0, 1)),
            np.ones((0, 1)),
            ValueError,
            ("shapes", "(0, 1) and (0, 1)", "(m, C) twice, not empty"),
        ),
        (np.ones((2, 1)), np.full((2, 1), np.nan), ValueError, ("after", "not finite")),
        (
            np.full((2, 1), np.inf),
            np.ones((2, 1)),
            ValueError,
            ("before", "not finite"),
        ),
    ],
)
def test_values_that_have_no_distance_are_named(before, after, error, says):
    with refused(error, *says):
        distribution_distance(before, after)
