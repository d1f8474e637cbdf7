"""Behaviours of inference that users of BatchNorm have tripped over, end to end."""

import pytest
import torch
from common import randn
from torch import nn

import bnlib
import bnlib.nn
from bnlib.statistics import batch_statistics, merge

PACKAGES = pytest.mark.parametrize("package", [nn, bnlib.nn], ids=["torch", "bnlib"])


@PACKAGES
def test_nine_steps_at_decay_99_lag_and_recalibration_is_exact(package):
    x = randn(200, 4) * 3 + 10
    momentum = bnlib.statistics.convert_momentum(0.99, source="keras")
    layer = package.BatchNorm1d(4, momentum=momentum, dtype=torch.float64)
    for _ in range(9):
        layer(x)
    lag = 0.99**9
    torch.testing.assert_close(layer.running_mean, (1 - lag) * x.mean(0))
    expected = lag + (1 - lag) * x.var(0, correction=1)
    torch.testing.assert_close(layer.running_var, expected)
    assert layer.eval()(x).mean(0).min() > 2

    bnlib.recalibrate(layer, x.split(64))
    assert layer(x).mean(0).abs().max() < 1e-13
    torch.testing.assert_close(layer.running_mean, x.mean(0), rtol=1e-13, atol=0)
    by_n = x.var(0, correction=0)
    torch.testing.assert_close(layer.running_var, by_n, rtol=1e-13, atol=0)


def test_four_micro_batches_are_not_one_batch_but_their_merged_statistics_are():
    x = randn(64, 3) * 2 + 1
    weight, bias = randn(2, 3, seed=1)
    whole, _ = bnlib.batch_norm_forward(x, weight, bias)
    parts = x.split(16)
    apart = torch.cat([bnlib.batch_norm_forward(p, weight, bias)[0] for p in parts])
    assert (apart - whole).abs().max() > 0.1

    of_each = [batch_statistics(part) for part in parts]
    means, variances = (torch.stack([s[i] for s in of_each]) for i in (0, 1))
    merged = merge(means, variances, [s.count for s in of_each])
    together = torch.cat(
        [
            bnlib.batch_norm_inference(p, merged.mean, merged.var, weight, bias)
            for p in parts
        ]
    )
    torch.testing.assert_close(together, whole, rtol=0, atol=1e-13)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_an_upstream_of_ones_tells_nothing_in_training_alone(training):
    layer = bnlib.nn.BatchNorm1d(3, dtype=torch.float64).train(training)
    x = randn(6, 3).requires_grad_()
    layer(x).sum().backward()
    expected = torch.full_like(x, 0 if training else (1 + 1e-5) ** -0.5)
    torch.testing.assert_close(x.grad, expected, rtol=0, atol=1e-14)
