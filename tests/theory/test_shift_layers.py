"""Noise after BN, and norms other than the root mean square."""

import copy
import math

import numpy as np
import pytest
import torch
from common import generator, randn
from refusals import refused
from torch import nn

from bnlib.networks import mlp
from bnlib.shift import BatchNoise, LpBatchNorm, with_noise


def test_noise_has_the_published_law():
    noise = BatchNoise(generator())
    zeros = torch.zeros(400, 2000, dtype=torch.float64)
    shifts = noise(zeros)  # of 0: the shift m alone
    units = shifts.mean(dim=0)
    assert shifts.abs().max() < 0.6
    assert -0.51 < units.min() < -0.49
    assert 0.49 < units.max() < 0.51
    within = shifts - units
    assert 0.1 < within.abs().max() < 0.115  # the mean of 400 is not quite mu
    assert within.var().item() == pytest.approx(0.2**2 / 12, rel=0.02)
    noise.generator.manual_seed(0)
    scales = noise(torch.ones_like(zeros)) - shifts
    assert scales.mean(dim=0).min() == pytest.approx(1, abs=0.03)
    assert scales.mean(dim=0).max() == pytest.approx(1.25, abs=0.03)
    assert (scales - scales.mean(dim=0)).std().item() == pytest.approx(0.1, rel=0.02)


def test_every_call_draws_anew():
    noise = BatchNoise(generator())
    x = randn(8, 3)
    assert not torch.equal(noise(x), noise(x))


def test_positions_of_a_channel_share_their_noise():
    noise = BatchNoise(generator())
    y = noise(torch.ones(2, 3, 4, 5))
    assert torch.equal(y, y[:, :, :1, :1].expand_as(y))
    assert y[:, :, 0, 0].unique().numel() == 6


def test_evaluation_is_without_noise():
    x = randn(4, 2)
    assert torch.equal(BatchNoise(generator()).eval()(x), x)


def plain():
    return mlp((3, 4, 5, 2), batch_norm=True, generator=generator())


def test_noise_follows_each_batch_norm_and_the_original_is_untouched():
    net = plain()
    noisy = with_noise(net, generator())
    kinds = [type(m).__name__ for m in noisy.modules() if not list(m.children())]
    assert kinds == [
        *("Linear", "BatchNorm1d", "BatchNoise", "ReLU"),
        *("Linear", "BatchNorm1d", "BatchNoise", "ReLU", "Linear"),
    ]
    assert not any(isinstance(m, BatchNoise) for m in net.modules())
    x = torch.randn(6, 3, generator=generator(1))
    assert torch.equal(net.eval()(x), noisy.eval()(x))
    assert not torch.allclose(net.train()(x), noisy.train()(x))


def test_a_batch_norm_alone_gets_noise_too():
    assert isinstance(with_noise(nn.BatchNorm1d(3), generator())[1], BatchNoise)


def test_nested_networks_get_noise():
    net = nn.Sequential(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)))
    noisy = with_noise(net, generator())
    assert isinstance(noisy[0][1][1], BatchNoise)


def test_a_copy_repeats_the_noise():
    noisy = with_noise(plain(), generator())
    x = torch.randn(6, 3, generator=generator(1))
    assert torch.equal(copy.deepcopy(noisy)(x), noisy(x))


@pytest.mark.parametrize(
    ("network", "error", "says"),
    [
        (nn.Linear(2, 2), ValueError, ("network", "no batch normalization layer")),
        ("network", TypeError, ("network", "str", "torch.nn.Module")),
    ],
)
def test_a_network_without_batch_norm_cannot_get_noise(network, error, says):
    with refused(error, *says):
        with_noise(network, generator())


def test_noise_needs_a_generator_and_units():
    with refused(TypeError, "generator", 3, "torch.Generator"):
        BatchNoise(3)
    with refused(ValueError, "x", (4,), "(N, C, *spatial)"):
        BatchNoise(generator())(torch.ones(4))


# Other norms.

SHAPES = [(9, 3), (4, 3, 5), (2, 3, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_l2_norm_is_batch_norm(shape):
    x = 3 + 2 * randn(*shape)
    kind = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d)[len(shape) - 2]
    ours, theirs = LpBatchNorm(3, 2).double(), kind(3).double()
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("p", [1, 2, math.inf])
@pytest.mark.parametrize("shape", SHAPES)
def test_outputs_have_mean_zero_and_average_norm_one(p, shape):
    y = LpBatchNorm(3, p, eps=0.0).double()(5 + randn(*shape))
    values = np.abs(y.detach().movedim(1, -1).reshape(-1, 3).numpy())
    norm = values.max(axis=0) if p == math.inf else (values**p).mean(axis=0)
    np.testing.assert_allclose(norm, 1)
    np.testing.assert_allclose(
        y.detach().movedim(1, -1).reshape(-1, 3).mean(dim=0), 0, atol=1e-12
    )


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_its_gradients_are_those_of_finite_differences(p):
    layer = LpBatchNorm(3, p).double()
    x = randn(7, 3).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x,))


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_a_unit_that_never_changes_has_a_finite_gradient(p):
    x = torch.ones(5, 1, requires_grad=True)
    LpBatchNorm(1, p)(x).square().sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_evaluation_uses_running_averages(p):
    layer = LpBatchNorm(3, p, eps=0.0, momentum=1.0).double()
    x = 5 + randn(8, 3)
    y = layer(x)
    torch.testing.assert_close(layer.eval()(x), y)
    torch.testing.assert_close(layer(x[:1]), y[:1])


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((0, 2), ValueError, ("num_features", 0, "integer of at least 1")),
        ((3, 3), ValueError, ("p", 3, "1, 2 or inf")),
        ((3, "inf"), ValueError, ("p", "'inf'", "1, 2 or inf")),
        ((3, 2, -1.0), ValueError, ("eps", -1.0, "finite, at least 0")),
        ((3, 2, 1e-5, 2.0), ValueError, ("momentum", 2.0, "finite number in [0, 1]")),
    ],
)
def test_a_norm_that_does_not_exist_is_named(arguments, error, says):
    with refused(error, *says):
        LpBatchNorm(*arguments)


@pytest.mark.parametrize(
    ("shape", "taken"),
    [((3,), "(N, C, *spatial)"), ((4, 2), 3), ((1, 3), "larger batch")],
)
def test_an_input_that_cannot_be_normalised_is_named(shape, taken):
    layer = LpBatchNorm(3, 1)
    with refused(ValueError, "x", shape, taken):
        layer(torch.ones(shape))
    assert (layer.running_mean == 0).all()
