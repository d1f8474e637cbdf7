"""Landscapes: exact masses, ReLU networks under the exponential loss, their noise."""

import numpy as np
import pytest
import torch
from common import KINDS, randn
from scipy import integrate, special
from torch.nn.functional import cross_entropy

import bnlib
from bnlib import landscape

GROUNDS = [
    landscape.Wells("flat", 1, 4.0, 0.4),
    landscape.Wells("flat", 2, 0.5, 0.1, lift=0.1),
    landscape.Wells("quartic", 1, 2.0, 0.7, lift=0.2),
    landscape.Wells("quartic", 3, 4.0, 0.4),
]
EACH_GROUND = pytest.mark.parametrize("wells", GROUNDS, ids=str)


def places(wells, count=40, seed=0):
    return 1.4 * np.random.default_rng(seed).standard_normal((count, wells.dim))


# The two wells.


@EACH_GROUND
def test_the_gradient_is_that_of_the_value(wells):
    points, step = places(wells), 1e-6
    moves = step * np.eye(wells.dim)
    differences = [
        (wells.value(points + move) - wells.value(points - move)) / (2 * step)
        for move in moves
    ]
    expected = np.stack(differences, axis=-1)
    np.testing.assert_allclose(wells.gradient(points), expected, rtol=0, atol=1e-6)


@EACH_GROUND
def test_both_minima_are_critical_and_the_left_one_is_higher_by_the_lift(wells):
    minima = np.zeros((2, wells.dim))
    minima[:, 0] = -1, 1
    assert wells.value(minima).tolist() == pytest.approx([wells.lift, 0.0])
    np.testing.assert_allclose(wells.gradient(minima), 0.0, atol=1e-15)
    assert (wells.value(places(wells, 1000)) >= 0).all()


def test_a_flat_valley_is_level_and_a_quartic_one_has_no_curvature():
    y = np.linspace(-3, 3, 7)
    valley = np.stack([-np.ones(7), y], axis=1)
    assert landscape.Wells("flat").value(valley).tolist() == [0.0] * 7
    np.testing.assert_allclose(landscape.Wells("quartic").value(valley), y**4 / 4)


@pytest.mark.parametrize("wells", [GROUNDS[0], GROUNDS[2]], ids=str)
@pytest.mark.parametrize("temperature", [0.08, 0.3, 2.0])
def test_masses_are_those_of_a_sum_over_the_plane(wells, temperature):
    reach = np.pi if wells.kind == "flat" else 6.0
    y = np.linspace(-reach, reach, 401)
    expected = []
    # At x = -1 and 1 the step of the lift has a kink.
    for ends in ((-4, -1), (-1, 0), (0, 1), (1, 4)):
        x = np.linspace(*ends, 801)
        plane = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
        weights = np.exp(-wells.value(plane) / temperature)
        across = integrate.trapezoid(weights, y, axis=1)
        expected.append(integrate.simpson(across, x=x))
    found = np.exp(wells.log_masses(temperature))
    assert found[0] == pytest.approx(expected[0] + expected[1], rel=1e-8)
    assert found[1] == pytest.approx(expected[2] + expected[3], rel=1e-8)


@pytest.mark.parametrize("temperature", [1e-300, 1e-30, 1e-12, 1e-6])
def test_cold_masses_are_those_of_laplaces_method(temperature):
    flat = landscape.Wells("flat", k=3, stiffness=2.0, barrier=0.5)
    along = np.log(2 * np.pi * temperature / 4.0) / 2
    across = np.log(2 * np.pi * temperature / 2.0) / 2
    left, right = flat.log_masses(temperature)
    assert left == pytest.approx(along + 3 * np.log(2 * np.pi), abs=1e-5)
    assert right == pytest.approx(along + 3 * across, abs=1e-5)
    quartic = landscape.Wells("quartic", k=3, stiffness=2.0, barrier=0.5)
    across = np.log(special.gamma(0.25) / np.sqrt(2)) + np.log(temperature) / 4
    assert quartic.log_masses(temperature)[0] == pytest.approx(
        along + 3 * across, abs=1e-5
    )


@pytest.mark.parametrize("stiffness", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("barrier", [1e-3, 50.0])
@pytest.mark.parametrize("kind", ["flat", "quartic"])
def test_without_a_lift_the_ratio_falls_at_every_temperature(kind, barrier, stiffness):
    wells = landscape.Wells(kind, 5, stiffness, barrier)
    grid = np.geomspace(1e-8, 1e6, 60)
    ratios = np.array([wells.log_ratio(T) for T in grid])
    assert np.isfinite(ratios).all()
    assert (np.diff(ratios) < 0).all()


def test_a_lift_reverses_the_preference_in_the_cold():
    level, lifted = (landscape.Wells("flat", lift=lift) for lift in (0.0, 0.05))
    assert level.occupancy(0.1) < level.occupancy(0.01) < level.occupancy(0.001)
    assert lifted.occupancy(0.1) > 0.5 > lifted.occupancy(0.01) > 0.2
    assert lifted.occupancy(1e-3) < 1e-9


# Networks.


def small_network():
    layers = [randn(5, 3, seed=1), randn(4, 5, seed=2), randn(1, 4, seed=3)]
    X = 2 * randn(30, 3, seed=4)
    f = torch.relu(torch.relu(X @ layers[0].T) @ layers[1].T) @ layers[2].T
    keep = f[:, 0].abs() > 1e-3
    return layers, X[keep], f[keep, 0]


@KINDS
def test_margins_are_outputs_times_labels_in_either_library(kind):
    layers, X, f = small_network()
    y = torch.where(torch.arange(len(f)) % 3 == 0, 1.0, -1.0).double()
    given = [kind(a.numpy()) for a in (*layers, X, y)]
    found = landscape.margins(given[:-2], *given[-2:])
    assert type(found) is type(given[0])
    np.testing.assert_allclose(np.asarray(found), (y * f).numpy(), rtol=1e-13)
    loss = float(landscape.exponential_loss(given[:-2], *given[-2:]))
    assert loss == pytest.approx(float(torch.exp(-y * f).sum()), rel=1e-13)


@KINDS
def test_the_radial_slope_is_the_inner_product_with_each_layers_gradient(kind):
    layers, X, f = small_network()
    y = torch.sign(f)
    leaves = [w.clone().requires_grad_() for w in layers]
    landscape.exponential_loss(leaves, X, y).backward()
    given = [kind(a.numpy()) for a in (*layers, X, y)]
    found = landscape.radial_slope(given[:-2], *given[-2:])
    assert found < 0
    for leaf in leaves:
        assert found == pytest.approx((leaf * leaf.grad).sum().item(), rel=1e-12)


def test_a_kink_changes_nothing():
    weights = [torch.tensor([[1.0], [0.0]], requires_grad=True)]
    weights += [torch.tensor([[1.0, 1.0]], requires_grad=True)]
    X, y = torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 1.0])
    landscape.exponential_loss(weights, X, y).backward()
    m = landscape.margins([w.detach() for w in weights], X, y)
    for w in weights:
        assert (w * w.grad).sum().item() == pytest.approx(-(m * (-m).exp()).sum())


@KINDS
def test_the_linear_hessian_is_that_of_autograd(kind):
    X, w = randn(6, 4, seed=5), randn(4, seed=6)
    y = torch.tensor([1.0, -1, 1, 1, -1, -1]).double()
    expected = torch.autograd.functional.hessian(
        lambda v: torch.exp(-y * (X @ v)).sum(), w
    )
    found = landscape.exponential_hessian(*(kind(a.numpy()) for a in (w, X, y)))
    np.testing.assert_allclose(np.asarray(found), expected.numpy(), rtol=1e-12)


def test_a_separating_direction_separates_at_every_scale():
    rng = np.random.default_rng(7)
    X, hidden = rng.standard_normal((40, 6)), rng.standard_normal(6)
    y = np.sign(X @ hidden)
    for scale in (1e-200, 1.0, 1e200):
        w = landscape.separating_direction(scale * X, y)
        assert np.linalg.norm(w) == pytest.approx(1)
        assert (y * (X @ w) > 0).all()


def test_moving_along_a_rescaling_direction_leaves_the_function_to_first_order():
    layers, X, f = small_network()
    arrays = [w.numpy() for w in layers]
    directions = landscape.rescaling_directions(arrays)
    assert directions.shape == (9, 15 + 20 + 4)
    assert np.linalg.matrix_rank(directions) == 9
    step, ones = 1e-5, np.ones(len(X))
    for direction in directions:
        parts = np.split(step * direction, [15, 35])
        moved = [w + part.reshape(w.shape) for w, part in zip(arrays, parts)]
        change = landscape.margins(moved, X.numpy(), ones) - f.numpy()
        assert np.abs(change).max() < 1e-8


# Noise.


def test_example_gradients_are_those_of_one_backward_pass_each():
    network = bnlib.networks.mlp(
        (4, 5, 3), batch_norm=True, generator=torch.Generator(), dtype=torch.float64
    ).eval()
    network[0].bias.requires_grad_(False)
    x, y = randn(6, 4), torch.tensor([0, 1, 2, 2, 1, 0])
    found = landscape.example_gradients(network, cross_entropy, x, y)
    free = [p for p in network.parameters() if p.requires_grad]
    for row, example, target in zip(found, x, y):
        loss = cross_entropy(network(example[None]), target[None])
        each = torch.autograd.grad(loss, free)
        expected = torch.cat([g.flatten() for g in each])
        np.testing.assert_allclose(row, expected.numpy(), rtol=1e-11, atol=1e-14)
    assert all(p.grad is None for p in network.parameters())


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_participation_counts_equal_directions(scale):
    basis, _ = np.linalg.qr(np.random.default_rng(8).standard_normal((7, 7)))
    covariance = scale * (basis[:, :3] @ basis[:, :3].T)
    assert landscape.participation(covariance) == pytest.approx(3, rel=1e-12)
