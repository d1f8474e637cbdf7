"""The experiments on gradient explosion: each does what its title says."""

import numpy as np
import pytest
import torch

from bnlib import experiments
from bnlib.experiments import yang
from bnlib.meanfield import growth_factor

SMALL = {"depths": [3], "batch_sizes": [32], "steps": 40, "width": 32}


def trained(**options):
    return experiments.run("yang-trainability", device="cpu", **(SMALL | options))


def test_growth_of_a_unit_is_near_the_theory():
    record = experiments.run(
        "yang-growth",
        device="cpu",
        activations=["tanh"],
        batch_sizes=[16],
        width=128,
        depth=12,
    )
    mean = record.array("factor").mean()
    assert mean == pytest.approx(growth_factor("tanh", 16), rel=0.06)


def test_residual_growth_starts_at_one_layer_and_rises():
    record = experiments.run(
        "yang-residual", device="cpu", batch_sizes=[16], width=64, doublings=4
    )
    logs = record.array("log_growth")
    assert logs.shape == (1, 3, 5)
    assert (np.diff(logs, axis=-1) > 0).all()


def test_gradients_before_the_first_step_do_not_depend_on_the_learning_rate():
    record = experiments.run(
        "yang-first-steps",
        device="cpu",
        learning_rates=[0.1, 1.0],
        seeds=[0],
        width=32,
        depth=6,
        steps=2,
    )
    gradients, lengths = record.array("gradients"), record.array("lengths")
    assert gradients.shape == lengths.shape == (2, 1, 3, 5)
    np.testing.assert_array_equal(gradients[0, :, 0], gradients[1, :, 0])
    # Weights in front of batch norm only get longer.
    assert (np.diff(lengths, axis=2) >= 0).all()


@pytest.mark.parametrize("arm", ["relu", "near_linear", "residual"])
def test_shallow_stacks_learn(arm):
    record = trained(arms=[arm], learning_rates=[0.3])
    assert record.array("accuracies").max() > 0.6


def test_networks_side_by_side_do_not_disturb_each_other():
    alone = trained(learning_rates=[0.1])
    beside = trained(learning_rates=[0.1, 1e30])
    assert not beside.results[0]["diverged"][0]
    np.testing.assert_allclose(
        beside.array("accuracies")[..., 0], alone.array("accuracies")[..., 0], atol=0.02
    )


def test_a_network_that_diverges_is_flagged():
    record = trained(learning_rates=[0.1, 1e38], steps=10)
    assert record.results[0]["diverged"] == [False, True]


def test_only_the_residual_arm_keeps_its_input():
    generator = torch.Generator().manual_seed(0)
    first, last = torch.randn(1, 4, 3, generator=generator), torch.eye(3)[None]
    x = torch.randn(6, 4, generator=generator)
    quiet = [first, torch.zeros(1, 3, 3), last]
    passed = yang._scores("residual", quiet, x)
    direct = yang._scores("residual", [first, last], x)
    torch.testing.assert_close(passed, direct)
    assert not yang._scores("relu", quiet, x).any()
