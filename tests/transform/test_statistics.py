"""Batch, merged and running statistics: against the joined data and torch."""

import copy
import pickle

import numpy as np
import pytest
import torch
from common import KINDS
from hypothesis import given, settings, strategies as st
from refusals import refused

import bnlib
from bnlib import RunningStatistics
from bnlib.statistics import (
    averaging_share,
    batch_statistics,
    convert_momentum,
    merge,
    running_update,
)


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


# Statistics of one batch.


@KINDS
@pytest.mark.parametrize("shape", [(1, 3), (6, 3), (2, 3, 4, 5)], ids=str)
def test_batch_statistics_are_numpys_mean_and_population_variance(shape, kind):
    x = random(*shape) * 2 + 3
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    mean, var, count = batch_statistics(kind(x))
    np.testing.assert_allclose(mean, x.mean(axis=axes), rtol=1e-13)
    np.testing.assert_allclose(var, x.var(axis=axes), rtol=1e-13, atol=1e-30)
    assert count == x.size // 3


def test_batch_statistics_take_axes():
    x = random(4, 3, 5)
    mean, var, count = batch_statistics(x, axes=(1, -1))
    np.testing.assert_allclose(mean, x.mean(axis=(1, 2)))
    np.testing.assert_allclose(var, x.var(axis=(1, 2)))
    assert count == 15


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_batch_statistics_come_in_float64(dtype):
    x = (random(50, 2) + 1000).astype(dtype)
    mean, var, _ = batch_statistics(x)
    assert mean.dtype == var.dtype == np.float64
    np.testing.assert_allclose(var, x.astype(np.float64).var(axis=0), rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 3), (2, 3, 0)], ids=str)
def test_an_empty_batch_has_no_statistics(shape):
    with refused(ValueError, "x", f"{shape} empty"):
        batch_statistics(np.zeros(shape))


# Merging.


@KINDS
def test_merged_statistics_are_those_of_the_joined_batches(kind):
    sizes = [1, 2, 7, 40]
    parts = [random(m, 3, 2, seed=m) * m + m for m in sizes]
    of_each = [batch_statistics(part) for part in parts]
    means, variances = (kind(np.stack([s[i] for s in of_each])) for i in (0, 1))
    counts = [s.count for s in of_each]
    whole = np.concatenate(parts)
    for given_counts in (counts, tuple(counts), kind(counts), np.array(counts, float)):
        merged = merge(means, variances, given_counts)
        np.testing.assert_allclose(merged.mean, whole.mean(axis=(0, 2)), rtol=1e-13)
        np.testing.assert_allclose(merged.var, whole.var(axis=(0, 2)), rtol=1e-13)
        assert merged.count == 100
        assert type(merged.mean) is type(means)


def test_merging_once_or_twice_is_the_same():
    parts = [batch_statistics(random(m, 2, seed=m)) for m in (3, 4, 5)]

    def joined(*statistics):
        means, variances, counts = zip(*statistics)
        return merge(np.stack(means), np.stack(variances), counts)

    at_once, nested = joined(*parts), joined(joined(*parts[:2]), parts[2])
    for one, other in zip(at_once, nested):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_a_batch_of_no_values_is_left_out_whatever_its_mean():
    means, variances = (
        np.array([[1.0], [np.nan], [3.0]]),
        np.array([[0], [np.nan], [0]]),
    )
    mean, var, count = merge(means, variances.astype(float), [1, 0, 1])
    assert (mean.tolist(), var.tolist(), count) == ([2.0], [1.0], 2)


def test_far_means_lose_nothing_in_merging():
    parts = [random(m, 1, seed=m) + 1e9 for m in (10, 30)]
    of_each = [batch_statistics(part) for part in parts]
    merged = merge(*(np.stack([s[i] for s in of_each]) for i in (0, 1)), [10, 30])
    exact = np.concatenate(parts) - 1e9
    np.testing.assert_allclose(merged.var, exact.var(axis=0), rtol=1e-7)


def test_equal_means_add_nothing_between():
    for mean in (0.1, 3.7, 1e8):
        merged = merge(np.full((3, 1), mean), np.zeros((3, 1)), [3, 7, 1])
        assert (merged.mean.tolist(), merged.var.tolist()) == ([mean], [0.0])


def test_counts_need_not_be_whole_nor_small():
    means, variances = np.array([0.0, 1.0]), np.zeros(2)
    mean, var, count = merge(means, variances, [0.5, 1.5])
    assert (float(mean), float(var), count) == (0.75, 0.1875, 2)
    assert merge(means, variances, [2**60, 1]).count == 2**60 + 1


def test_one_spoilt_feature_leaves_the_others_alone():
    means, variances = random(3, 4), random(3, 4) ** 2
    clean = merge(means, variances, [1, 2, 3])
    means[1, 2] = np.inf
    spoilt = merge(means, variances, [1, 2, 3])
    keep = [0, 1, 3]
    assert not np.isfinite(spoilt.var[2])
    np.testing.assert_array_equal(spoilt.mean[keep], clean.mean[keep])
    np.testing.assert_array_equal(spoilt.var[keep], clean.var[keep])


@pytest.mark.parametrize(
    ("counts", "given"),
    [
        ([0, 0], [0, 0]),
        ([-1, 2], -1),
        ([np.nan, 2], "nan"),
        ([np.inf, 1], "inf"),
        ([1], 1),
        ([1, 1, 1], 3),
        ([], 0),
    ],
    ids=str,
)
def test_counts_that_do_not_fit_are_named(counts, given):
    with refused(ValueError, "counts", given):
        merge(np.zeros((2, 1)), np.ones((2, 1)), counts)


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        (None, (None, "list or array of numbers")),
        (2, (2, "list or array of numbers")),
        ("12", ("'12'", "list or array of numbers")),
        ([1j, 1], ("1j", "number")),
        ([[1], [1]], ("[1]", "number")),
        ([None, 1], (None, "number")),
    ],
    ids=str,
)
def test_counts_that_are_no_numbers_are_named(counts, says):
    with refused(TypeError, "counts", *says):
        merge(np.zeros((2, 1)), np.ones((2, 1)), counts)


def test_means_and_variances_that_do_not_fit_are_named():
    with refused(
        ValueError, "means", "(2, 1) variances (2, 2) 2", "(k, ...), (k, ...) and k"
    ):
        merge(np.zeros((2, 1)), np.ones((2, 2)), [1, 1])
    with refused(ValueError, "means", "() () 1", "(k, ...), (k, ...) and k"):
        merge(np.array(0.0), np.array(1.0), [1])
    with refused(TypeError, "means", "list", "NumPy array, torch tensor"):
        merge([[0.0]], np.ones((1, 1)), [1])
    with refused(
        TypeError, "means", "NumPy array, variances torch tensor", "one library"
    ):
        merge(np.zeros((2, 1)), torch.ones(2, 1), [1, 1])
    with refused(TypeError, "means", "MaskedArray", "NumPy array, torch tensor"):
        merge(np.ma.array([[0.0]]), np.ones((1, 1)), [1])
    with refused(ValueError, "variances", "values below 0"):
        merge(np.zeros((2, 1)), np.full((2, 1), -1.0), [1, 1])


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any),
    scale=st.floats(1e-3, 1e6),
    seed=st.integers(0, 2**31),
)
def test_merging_any_split_gives_the_whole(sizes, scale, seed):
    rng = np.random.default_rng(seed)
    whole = rng.standard_normal((sum(sizes), 2)) * scale + rng.uniform(-scale, scale)
    parts = np.split(whole, np.cumsum(sizes)[:-1])
    means = np.stack([p.mean(axis=0) if len(p) else np.full(2, np.nan) for p in parts])
    variances = np.stack([p.var(axis=0) if len(p) else np.zeros(2) for p in parts])
    mean, var, count = merge(means, variances, sizes)
    np.testing.assert_allclose(mean, whole.mean(axis=0), rtol=1e-9, atol=1e-12 * scale)
    np.testing.assert_allclose(var, whole.var(axis=0), rtol=1e-9, atol=1e-12 * scale**2)
    assert count == sum(sizes)


# Running statistics.


@KINDS
@pytest.mark.parametrize("momentum", [0.1, 0.9, 0.0, 1.0, None])
def test_running_statistics_follow_torchs_layer(momentum, kind):
    layer = torch.nn.BatchNorm1d(3, momentum=momentum, dtype=torch.float64)
    running = RunningStatistics(3, momentum)
    for step, shape in enumerate([(4, 3), (2, 3, 5), (7, 3), (2, 3)]):
        batch = random(*shape, seed=step) * 3 + step
        layer(torch.from_numpy(batch))
        running.update(kind(batch))
        np.testing.assert_allclose(running.mean, layer.running_mean, rtol=1e-12)
        np.testing.assert_allclose(running.var, layer.running_var, rtol=1e-12)
        assert running.num_batches == step + 1


def test_no_momentum_over_four_equal_batches_is_the_pooled_mean():
    batches = random(4, 6, 2)
    running = RunningStatistics(2, momentum=None)
    for batch in batches:
        running.update(batch)
    np.testing.assert_allclose(running.mean, batches.mean(axis=(0, 1)), rtol=1e-13)
    unbiased = batches.var(axis=1, ddof=1).mean(axis=0)
    np.testing.assert_allclose(running.var, unbiased, rtol=1e-13)


def test_the_variance_tracked_on_batches_of_two_tends_to_the_populations():
    running = RunningStatistics(1, momentum=None)
    for pair in np.random.default_rng(0).standard_normal((4000, 2, 1)):
        running.update(pair)
    assert abs(running.var.item() - 1) < 0.1


def test_the_start_fades_as_a_power_of_one_less_momentum():
    running = RunningStatistics(1, momentum=0.01)
    for _ in range(9):
        running.update(np.array([[4.0], [6.0]]))
    assert running.mean.item() == pytest.approx(5 * (1 - 0.99**9), rel=1e-12)
    assert running.var.item() == pytest.approx(0.99**9 + 2 * (1 - 0.99**9), rel=1e-12)


def test_running_statistics_start_as_torchs_do():
    running = RunningStatistics(2)
    assert (running.mean.tolist(), running.var.tolist()) == ([0.0, 0.0], [1.0, 1.0])
    assert (running.num_batches, running.momentum) == (0, 0.1)
    assert repr(running) == "RunningStatistics(2, momentum=0.1) after 0 batches"


def test_statistics_of_float32_batches_are_kept_in_float64():
    running = RunningStatistics(2, momentum=1.0)
    batch = (random(99, 2) + 1e6).astype(np.float32)
    running.update(batch)
    assert running.var.dtype == np.float64
    np.testing.assert_allclose(running.var, batch.astype(float).var(axis=0, ddof=1))


def test_what_was_handed_out_does_not_change_with_the_next_batch():
    running = RunningStatistics(1)
    batch = np.array([[1.0], [3.0]])
    running.update(batch)
    mean, var = running.mean, running.var
    before = mean.copy(), var.copy()
    running.update(batch + 5)
    assert (mean == before[0]).all()
    assert (var == before[1]).all()
    assert batch.tolist() == [[1.0], [3.0]]


def test_a_batch_that_needs_a_gradient_leaves_no_graph_behind():
    running = RunningStatistics(2)
    for _ in range(2):
        running.update(torch.randn(4, 2, requires_grad=True))
    assert not running.mean.requires_grad
    assert not running.var.requires_grad


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_a_copy_goes_on_by_itself(duplicate):
    running = RunningStatistics(2, momentum=None)
    running.update(random(3, 2))
    twin = duplicate(running)
    assert twin.mean.tolist() == running.mean.tolist()
    twin.update(random(3, 2, seed=1))
    assert (running.num_batches, twin.num_batches) == (1, 2)
    assert twin.mean.tolist() != running.mean.tolist()


@pytest.mark.parametrize(
    ("batch", "error", "says"),
    [
        (
            np.ones((1, 3)),
            ValueError,
            ("x", "(1, 3), one value per feature", "larger batch"),
        ),
        (np.ones((0, 3)), ValueError, ("x", "an empty batch")),
        (np.ones((2, 3, 0)), ValueError, ("x", "an empty batch")),
        (np.ones((4, 2)), ValueError, ("x", "(4, 2) 2 features on axis 1", "3")),
        (np.ones(3), ValueError, ("x", (3,), "(m, C) or (N, C, *spatial)")),
        (np.ones((4, 3), int), TypeError, ("x", "int64", "real floating dtype")),
        (
            torch.ones(4, 3),
            TypeError,
            ("x", "torch tensor, mean NumPy array", "one library"),
        ),
        ([[1.0, 2, 3]], TypeError, ("x", "list", "NumPy array, torch tensor")),
        (None, TypeError, ("x", "NoneType", "NumPy array, torch tensor")),
        (
            np.ma.array(np.ones((4, 3))),
            TypeError,
            ("x", "MaskedArray", "NumPy array, torch tensor"),
        ),
    ],
    ids=str,
)
def test_a_bad_batch_changes_nothing(batch, error, says):
    running = RunningStatistics(3)
    running.update(random(5, 3))
    before = running.mean.copy(), running.var.copy()
    with refused(error, *says):
        running.update(batch)
    assert (running.mean == before[0]).all()
    assert (running.var == before[1]).all()
    assert running.num_batches == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bad_value_spoils_its_own_feature_alone(value):
    clean, spoilt = RunningStatistics(2), RunningStatistics(2)
    batch = random(5, 2)
    clean.update(batch)
    batch[3, 1] = value
    spoilt.update(batch)
    assert spoilt.mean[0] == clean.mean[0]
    assert spoilt.var[0] == clean.var[0]
    assert not np.isfinite(spoilt.var[1])


@pytest.mark.parametrize("num_features", [0, -1, 2.0, "2", None, True])
def test_a_number_of_features_that_is_no_count_is_named(num_features):
    with refused(
        (TypeError, ValueError), "num_features", repr(num_features), "integer"
    ):
        RunningStatistics(num_features)


@pytest.mark.parametrize("momentum", [1.5, -0.1, np.nan, np.inf])
def test_a_momentum_out_of_range_is_named(momentum):
    with refused(ValueError, "momentum", momentum, "finite, [0, 1]"):
        RunningStatistics(2, momentum)
    with refused(ValueError, "value", momentum, "finite, [0, 1]"):
        convert_momentum(momentum)


def test_a_momentum_set_to_nonsense_later_is_named_and_changes_nothing():
    running = RunningStatistics(3)
    running.momentum = 1.5
    with refused(ValueError, "momentum", 1.5, "finite number in [0, 1]"):
        running.update(random(5, 3))
    assert (running.mean.tolist(), running.num_batches) == ([0.0] * 3, 0)


def test_the_first_batch_of_an_average_counts_whole():
    assert [averaging_share(None, n) for n in range(3)] == [1, 1 / 2, 1 / 3]
    assert averaging_share(0.25, 7) == 0.25


def test_the_update_takes_the_unbiased_variance():
    batch = batch_statistics(np.array([[0.0], [2.0], [4.0]]))
    mean, var = running_update(np.array([10.0]), np.array([1.0]), batch, 0.25)
    assert (mean.tolist(), var.tolist()) == ([8.0], [1.75])


# Conventions.


FRAMEWORKS = ["torch", "keras", "tensorflow", "flax", "onnx", "paddle", "mxnet"]


@pytest.mark.parametrize("source", FRAMEWORKS)
@pytest.mark.parametrize("target", FRAMEWORKS)
def test_momentum_there_and_back_is_the_same(source, target):
    there = convert_momentum(0.75, source, target)
    assert there == (0.75 if (source == "torch") is (target == "torch") else 0.25)
    assert convert_momentum(there, target, source) == 0.75


def test_a_converted_momentum_gives_the_other_frameworks_update():
    decay, old = 0.99, np.array([2.0])
    batch = batch_statistics(np.array([[5.0], [9.0]]))
    share = convert_momentum(decay, source="keras", target="torch")
    mean, _ = running_update(old, old, batch, share)
    assert mean.item() == pytest.approx(decay * 2 + (1 - decay) * 7, rel=1e-12)


def test_an_unknown_framework_is_named():
    with refused(
        ValueError,
        "source",
        "'caffe'",
        "one of torch, keras, tensorflow, flax",
    ):
        convert_momentum(0.9, "caffe")
    with refused(
        ValueError,
        "source",
        "['keras']",
        "one of torch, keras, tensorflow, flax",
    ):
        convert_momentum(0.9, ["keras"])
    with refused(
        ValueError,
        "target",
        None,
        "one of torch, keras, tensorflow, flax",
    ):
        convert_momentum(0.9, target=None)
    with refused(TypeError, "value", "'0.9'", "number"):
        convert_momentum("0.9")


def test_running_statistics_are_exported():
    assert bnlib.RunningStatistics is RunningStatistics
