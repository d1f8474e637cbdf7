"""Ioffe and Szegedy's experiments: each does what its title says."""

import numpy as np
import pytest
import torch
from torch import nn

from bnlib import data, experiments
from bnlib.experiments import _training
from bnlib.networks import feed_forward

SHORT = {"arms": ["batch_norm"], "seeds": [0]}


def run(id, **changed):
    return experiments.run(id, device="cpu", **changed)


needs_mnist = pytest.mark.skipif(
    "mnist" not in data.available(), reason="mnist is not on this machine"
)


@needs_mnist
def test_a_look_at_mnist_comes_at_each_checkpoint_and_at_the_end():
    record = run("ioffe-mnist", steps=30, looks=4)
    assert record.array("accuracy").shape == (2, 1, 1, 1, 4)
    low, middle, high = np.moveaxis(record.array("percentiles"), -1, 0)
    assert (low < middle).all()
    assert (middle < high).all()
    assert record.results[0]["steps"][0] == 0
    assert record.results[0]["steps"][-1] == 30
    np.testing.assert_array_equal(
        record.array("final_accuracy"), record.array("accuracy")[..., -1]
    )


@needs_mnist
def test_every_learning_rate_starts_from_the_same_network():
    record = run("ioffe-mnist", steps=20, looks=2, learning_rates=[0.1, 1.0])
    first, last = np.moveaxis(record.array("percentiles"), -2, 0)
    np.testing.assert_array_equal(first[:, 0], first[:, 1])
    assert not np.allclose(last[:, 0], last[:, 1])


def test_a_rate_that_is_too_large_is_recorded_as_diverged():
    record = run("ioffe-starts", arms=["plain"], factors=[4.0], learning_rates=[1.0])
    assert record.array("diverged").all()
    assert record.array("accuracy").max() < 0.2


def test_a_network_with_batch_norm_learns_from_any_of_these_starts():
    record = run("ioffe-starts", **SHORT, learning_rates=[0.1, 1.0])
    assert record.array("accuracy").max(axis=2).min() > 0.8
    assert not record.array("diverged").any()


def test_dropout_trains_and_leaves_torchs_generator_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    record = run("ioffe-dropout", **SHORT, steps=60)
    assert torch.equal(torch.get_rng_state(), before)
    assert record.array("accuracy").min() > 0.7
    torch.manual_seed(6)
    repeated = run("ioffe-dropout", **SHORT, steps=60)
    assert repeated.results == record.results


def test_dropout_changes_the_training_and_only_if_it_is_there():
    none, half = run("ioffe-dropout", **SHORT, steps=60).array("accuracy")[0, :, 0, 0]
    assert none != half


def test_minibatches_pass_over_all_rows_before_any_comes_again():
    batches = list(_training.minibatches(10, 3, 7, torch.Generator()))
    assert [len(rows) for rows in batches] == [3] * 7
    for epoch in (batches[:3], batches[3:6]):
        assert len(set(torch.cat(epoch).tolist())) == 9
    assert not torch.equal(torch.cat(batches[:3]), torch.cat(batches[3:6]))


def line(slope):
    """A classifier of one number into two classes, with a given slope."""
    network = nn.Linear(1, 2)
    with torch.no_grad():
        network.weight[:] = torch.tensor([[slope], [0.0]])
        network.bias.zero_()
    return network


def test_training_takes_every_step_and_hands_some_to_a_look():
    x, y = torch.arange(6.0)[:, None], torch.arange(6) % 2
    one, other, seen = line(1.0), line(1.0), []

    def look(step, x, y, take):
        seen.append((step, len(x), take()))
        return True

    options = {"rate": 0.1, "batch_size": 2, "steps": 5}
    orders = [torch.Generator().manual_seed(3) for _ in range(2)]
    assert _training.train(one, x, y, order=orders[0], **options)
    assert _training.train(
        other, x, y, order=orders[1], at=(1, 4), look=look, **options
    )
    assert [(step, rows) for step, rows, _ in seen] == [(1, 2), (4, 2)]
    assert torch.equal(one.weight, other.weight)
    assert not torch.equal(one.weight, line(1.0).weight)


def test_training_ends_after_a_loss_that_is_not_finite_or_where_a_look_says_so():
    x, y, steps = torch.full((4, 1), 1e38), torch.zeros(4).long(), []

    def look(step, x, y, take):
        steps.append(step)
        return step < 2

    options = {"rate": 0.1, "batch_size": 2, "steps": 9, "order": torch.Generator()}
    assert not _training.train(line(-1e38), x, y, **options)
    every = {"at": range(9), "look": look}
    assert not _training.train(line(1.0), x, y, **options, **every)
    assert steps == [0, 1, 2]


def test_a_step_of_descent_is_that_of_torchs_sgd():
    x, y = torch.randn(8, 3, generator=torch.Generator()), torch.arange(8) % 2
    one, other = (
        feed_forward((3, 4, 2), scale=lambda n: 1, generator=torch.Generator())
        for _ in range(2)
    )
    loss = _training.descend(one, x, y, 0.3)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.3)
    value = nn.functional.cross_entropy(other(x), y)
    value.backward()
    optimizer.step()
    assert loss == pytest.approx(value.item())
    for p, q in zip(one.parameters(), other.parameters()):
        torch.testing.assert_close(p, q)


@pytest.mark.parametrize("count", [2, 5, 40])
def test_checkpoints_run_from_the_start_to_the_end(count):
    at = _training.checkpoints(100, count)
    assert at[0] == 0
    assert at[-1] == 100
    assert at == sorted(set(at))
    assert len(at) <= count


@pytest.mark.parametrize(
    ("value", "kept"),
    [(1.23456, 1.235), (np.nan, None), (-np.inf, None), (123456, 123500.0)],
)
def test_numbers_are_kept_to_four_digits_and_only_if_finite(value, kept):
    assert _training.rounded(value) == kept
