"""Santurkar et al.'s experiments: each does what its title says."""

import copy

import numpy as np
import pytest
import torch
from common import generator
from torch import nn

from bnlib import data, experiments
from bnlib.experiments import _watch, santurkar, santurkar_images
from bnlib.shift import gradient_shift, with_noise


def run(id, **changed):
    return experiments.run(id, device="cpu", **changed)


def test_the_first_look_at_the_deep_linear_network_is_before_any_step():
    record = run("santurkar-dln", learning_rates=[1e-3, 1e-2], steps=2, looks=3)
    losses = record.array("loss")
    assert losses.shape == (2, 2, 1, 3)
    np.testing.assert_array_equal(losses[:, 0, :, 0], losses[:, 1, :, 0])
    assert record.results[0]["steps"] == [0, 1, 2]


def test_a_diverging_arm_is_flagged_and_the_others_go_on():
    record = run("santurkar-dln", learning_rates=[1e-3, 1e-1], steps=20, looks=4)
    diverged = record.array("diverged")[..., 0]
    np.testing.assert_array_equal(diverged, [[0, 1], [0, 0]])
    losses = record.array("loss")[0, :, 0]
    assert np.isfinite(losses[0]).all()
    assert np.isnan(losses[1, -1])


def test_batch_norm_stands_between_the_linear_layers_only():
    network = santurkar.linear_network(3, 4, True, generator())
    kinds = [type(layer).__name__ for layer in network]
    assert kinds == ["Linear", "BatchNorm1d", "Linear", "BatchNorm1d", "Linear"]
    plain = santurkar.linear_network(3, 4, False, generator())
    assert len(plain) == 3
    assert torch.equal(plain[2].weight, network[4].weight)


SHORT = {"steps": 8, "looks": 2, "hidden_layers": 2}


def test_noise_moves_distributions_more_than_training_does():
    record = run("santurkar-noise", **SHORT)
    plain, normed, noisy = record.array("moved")[:, 0, 0, -1]
    assert normed < plain < noisy


def test_the_arms_of_the_noise_experiment_begin_with_the_same_batch():
    record = run("santurkar-noise", arms=["batch_norm", "noisy"], **SHORT)
    one, other = record.array("loss")[:, 0, 0, 0]
    assert one != other
    assert abs(one - other) < 0.5


def test_every_norm_trains():
    record = run("santurkar-norms", learning_rates=[0.3], steps=60, looks=2)
    assert record.array("final_accuracy").min() > 0.6
    assert not record.array("diverged").any()


def test_a_watched_run_that_diverges_keeps_its_looks_and_ends():
    record = run("santurkar-norms", arms=["plain"], learning_rates=[1e4], looks=4)
    row = record.results[0]
    assert row["diverged"]
    assert row["loss"][0] is not None
    assert row["loss"][-1] is None
    lengths = {len(v) for v in row.values() if isinstance(v, list)}
    assert lengths == {len(row["steps"])}


def mixed():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def test_the_same_look_repeats_its_noise():
    network = with_noise(mixed(), generator())
    x, y = torch.randn(9, 3, generator=generator()), torch.arange(9) % 2
    loss = _watch.loss_on(x, y, seed=3)
    assert loss(network).item() == loss(network).item()
    assert loss(network).item() != _watch.loss_on(x, y, seed=4)(network).item()
    assert np.isfinite(gradient_shift(network, loss, 0.1).distances).all()


def test_the_inputs_of_the_activations_are_seen_and_nothing_else_changes():
    network = mixed()
    before = copy.deepcopy(network.state_dict())
    x = torch.randn(9, 3, generator=generator())
    (seen,) = _watch.unit_inputs(network, x)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
    np.testing.assert_allclose(seen, network[:2](x).detach().numpy(), rtol=1e-6)


def test_positions_of_an_image_count_as_values():
    network = santurkar_images.convolutional([2], True, generator())
    first, second = _watch.unit_inputs(network, torch.randn(3, 3, 8, 8))
    assert first.shape == second.shape == (3 * 8 * 8, 2)


def test_a_unit_that_never_fires_does_not_count_as_moved():
    before = [np.array([[0.0, 1.0], [2.0, 1.0]])]
    after = [np.array([[1.0, 1.0], [3.0, 1.0]])]
    assert _watch.relative_distances(before, after) == pytest.approx(1.0)


def test_the_convolutional_network_halves_the_image_with_each_pair():
    network = santurkar_images.convolutional([2, 3], False, generator())
    kinds = [type(layer).__name__ for layer in network]
    assert kinds.count("Conv2d") == 4
    assert kinds.count("MaxPool2d") == 2
    assert network(torch.ones(2, 3, 8, 8)).shape == (2, 10)


@pytest.mark.skipif(
    "cifar10_subset" not in data.available(), reason="no CIFAR-10 on this machine"
)
def test_the_convolutional_arms_run():
    record = run("santurkar-noise-conv", channels=[2], steps=2, looks=2, batch_size=16)
    assert record.array("loss").shape == (3, 1, 1, 2)
    assert np.isfinite(record.array("moved")).all()
