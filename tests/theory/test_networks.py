"""The small networks: what is built, how it is trained, how it is measured."""

import copy

import numpy as np
import pytest
import torch
from common import assert_unchanged, generator, snapshot
from refusals import refused
from torch import nn

import bnlib
from bnlib.networks import accuracy, feed_forward, mlp, train_classifier, watch


def clouds(n=96):
    """Two classes, told apart by the sign of the first coordinate."""
    x = torch.randn(n, 3, generator=generator(7))
    return x, (x[:, 0] > 0).long()


SETTINGS = {"learning_rate": 0.1, "epochs": 12, "batch_size": 16}


def test_batch_norm_stands_between_every_hidden_layer_and_its_relu():
    names = [
        type(layer).__name__
        for layer in mlp((4, 5, 6, 2), batch_norm=True, generator=generator())
    ]
    assert names == ["Linear", "BatchNorm1d", "ReLU"] * 2 + ["Linear"]
    plain = mlp((4, 5, 6, 2), batch_norm=False, generator=generator())
    assert [type(layer).__name__ for layer in plain] == ["Linear", "ReLU"] * 2 + [
        "Linear"
    ]
    assert isinstance(
        mlp((4, 5, 2), batch_norm=True, generator=generator())[1], bnlib.nn.BatchNorm1d
    )


def test_both_arms_start_from_the_same_weights():
    arms = [
        mlp((4, 5, 6, 2), batch_norm=b, generator=generator(3)) for b in (True, False)
    ]
    linears = [
        [m.weight for m in arm if isinstance(m, torch.nn.Linear)] for arm in arms
    ]
    for with_bn, without in zip(*linears, strict=True):
        torch.testing.assert_close(with_bn, without, rtol=0, atol=0)


def test_weights_have_he_variance_and_biases_are_zero():
    layer = mlp((400, 300, 2), batch_norm=False, generator=generator())[0]
    assert layer.weight.var().item() == pytest.approx(2 / 400, rel=0.02)
    assert not layer.bias.any()


def test_weights_have_the_asked_deviation_whatever_the_norm():
    options = {"activation": nn.Tanh, "scale": lambda inputs: 3 / inputs}
    plain, normed = (
        feed_forward((300, 400, 5), norm=norm, generator=generator(), **options)
        for norm in (None, nn.BatchNorm1d)
    )
    assert plain[0].weight.std().item() == pytest.approx(0.01, rel=0.02)
    assert torch.equal(plain[0].weight, normed[0].weight)
    assert torch.equal(plain[-1].weight, normed[-1].weight)


def test_a_norm_an_activation_and_dropout_follow_every_hidden_layer():
    network = feed_forward(
        (3, 4, 5, 2),
        norm=nn.LayerNorm,
        generator=generator(),
        activation=nn.Tanh,
        dropout=0.5,
    )
    assert [type(layer).__name__ for layer in network] == [
        *("Linear", "LayerNorm", "Tanh", "Dropout"),
        *("Linear", "LayerNorm", "Tanh", "Dropout", "Linear"),
    ]
    assert [layer.normalized_shape for layer in network[1::4]] == [(4,), (5,)]


def test_an_impossible_share_of_dropout_is_named():
    with refused(ValueError, "dropout", 1.5, "[0, 1]"):
        feed_forward((3, 2), generator=generator(), dropout=1.5)


def test_training_separates_two_classes_and_repeats_itself():
    x, y = clouds()
    start = mlp((3, 16, 2), batch_norm=True, generator=generator())
    runs = [copy.deepcopy(start) for _ in range(2)]
    for run in runs:
        assert train_classifier(run, x, y, **SETTINGS, generator=generator(1))
    assert accuracy(runs[0], x, y) > 0.9 > accuracy(start, x, y)
    for one, other in zip(*(run.parameters() for run in runs), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_divergence_is_reported():
    x, y = clouds()
    network = mlp((3, 16, 2), batch_norm=False, generator=generator())
    settings = SETTINGS | {"learning_rate": 1e30}
    assert not train_classifier(network, x, y, **settings, generator=generator(1))


def test_accuracy_counts_in_eval_mode_and_restores_the_mode():
    x, y = clouds()
    network = mlp((3, 4, 2), batch_norm=True, generator=generator())
    before = snapshot(network)
    network.train()
    expected = (
        (copy.deepcopy(network).eval()(x).argmax(dim=1) == y).float().mean().item()
    )
    assert accuracy(network, x, y) == pytest.approx(expected)
    assert network.training
    assert_unchanged(network, before)


@pytest.mark.parametrize(
    ("widths", "says"),
    [
        ((3,), ("widths", (3,), "inputs, outputs")),
        ((3, 0), ("width", 0, "integer of at least 1")),
        ((3, 2.5), ("width", 2.5, "integer")),
    ],
)
def test_impossible_widths_are_named(widths, says):
    with refused((TypeError, ValueError), *says):
        mlp(widths, batch_norm=True, generator=generator())


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": -1.0},
        {"learning_rate": 0.0},
        {"epochs": 0},
        {"batch_size": 0},
        {"batch_size": 1000},
    ],
)
def test_impossible_settings_are_named_before_training(wrong):
    x, y = clouds()
    network = mlp((3, 4, 2), batch_norm=True, generator=generator())
    before = snapshot(network)
    ((name, given),) = wrong.items()
    with refused(ValueError, name, given):
        train_classifier(network, x, y, **(SETTINGS | wrong), generator=generator())
    assert_unchanged(network, before)


def test_a_frozen_layer_stays_frozen_when_accuracy_returns_or_raises():
    x, y = clouds()
    network = mlp((3, 4, 2), batch_norm=True, generator=generator()).train()
    network[1].eval()
    accuracy(network, x, y)
    assert [module.training for module in network] == [True, False, True, True]
    with pytest.raises(RuntimeError):
        accuracy(network, x[:, :2], y)
    assert [module.training for module in network] == [True, False, True, True]


def test_building_a_network_leaves_torchs_own_generator_alone():
    before = torch.get_rng_state()
    mlp((3, 4, 2), batch_norm=True, generator=generator())
    assert torch.equal(torch.get_rng_state(), before)


def watched_toy(rate=0.5, width=3):
    network = torch.nn.Sequential(
        torch.nn.Linear(2, width),
        torch.nn.BatchNorm1d(width),
        torch.nn.Linear(width, 1),
    )
    x = torch.randn(16, 2, generator=torch.Generator().manual_seed(0))

    def step():
        loss = network(x).square().mean()
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        with torch.no_grad():
            for weight, gradient in zip(network.parameters(), gradients):
                weight -= rate * gradient
        return loss

    return network, x, step


def test_a_watch_measures_what_passes_through_each_layer():
    network, x, step = watched_toy()
    before, h = network[0].weight.detach().clone(), network[0](x).detach()
    y = network(x).detach()
    seen = watch(network, step, steps=1)
    assert seen.layers == ("0", "2")
    assert seen.loss[0] == pytest.approx(y.square().mean().item())
    roots = [v.square().mean().sqrt().item() for v in (h, y)]
    assert seen.activation[0] == pytest.approx(roots, rel=1e-5)
    # The loss is a mean of 16 squares, so its derivative by an output is y / 8.
    assert seen.gradient[0, 1] == pytest.approx(roots[1] / 8, rel=1e-5)
    moved = (network[0].weight.detach() - before).norm() / before.norm()
    assert seen.update[0, 0] == pytest.approx(moved.item(), rel=1e-5)


def test_a_watch_leaves_no_hook_behind_even_if_a_step_fails():
    network, _, _ = watched_toy()
    with pytest.raises(ZeroDivisionError):
        watch(network, lambda: 1 / 0)
    assert not any(m._forward_hooks for m in network.modules())


def test_a_layer_that_a_step_does_not_reach_is_nan():
    network, x, _ = watched_toy()
    seen = watch(network, lambda: network[0](x).detach().sum(), steps=2)
    assert np.isfinite(seen.activation[:, 0]).all()
    assert np.isnan(seen.activation[:, 1]).all()
    assert np.isnan(seen.gradient[:, 1]).all()
    assert (seen.update == 0).all()


def test_a_network_without_weights_is_not_watched():
    with refused(ValueError, "two or more axes"):
        watch(torch.nn.ReLU(), lambda: 0.0)
    with refused(ValueError, "steps", "0"):
        watch(watched_toy()[0], lambda: 0.0, steps=0)
