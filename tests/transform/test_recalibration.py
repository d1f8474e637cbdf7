"""Recalibration: every layer gets the statistics of the whole set."""

import copy

import numpy as np
import pytest
import torch
from common import assert_unchanged, randn, snapshot
from torch import nn
from torch.optim import swa_utils

import bnlib
import bnlib.nn
from bnlib.recalibration import recalibrate

METHODS = pytest.mark.parametrize("method", ["sequential", "one_pass"])
PACKAGES = pytest.mark.parametrize("package", [nn, bnlib.nn], ids=["torch", "bnlib"])


def three_layers(package=nn, dtype=torch.float64, seed=0):
    """Return a net with three stacked BatchNorms, its statistics stale."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(5, 7),
        package.BatchNorm1d(7),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(7, 6),
        package.BatchNorm1d(6),
        nn.Tanh(),
        nn.Linear(6, 4),
        package.BatchNorm1d(4),
    )
    with torch.no_grad():
        for layer in (net[1], net[5], net[8]):
            layer.weight.normal_()
            layer.bias.normal_()
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    return net.to(dtype)


def split(x, sizes=(16, 9, 14, 1)):
    """Return batches of unequal size, the last of one row."""
    return list(x.split(list(sizes)))


def numpys_whole_pass(net, x):
    """Return (mean, var) of each BatchNorm of `three_layers`, by NumPy alone."""
    h, found = x.numpy().astype(np.float64), []
    for module in net:
        values = [p.detach().double().numpy() for p in module.parameters()]
        if isinstance(module, nn.Linear):
            h = h @ values[0].T + values[1]
        elif isinstance(module, nn.BatchNorm1d):
            found.append((h.mean(axis=0), h.var(axis=0)))
            h = (h - h.mean(axis=0)) / np.sqrt(h.var(axis=0) + module.eps)
            h = h * values[0] + values[1]
        elif not isinstance(module, nn.Dropout):
            h = np.maximum(h, 0) if isinstance(module, nn.ReLU) else np.tanh(h)
    return found


def norms(net):
    return [m for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


def miss(net, expected):
    """Return each BatchNorm's largest miss from the expected mean and variance."""
    return [
        max(
            float(np.abs(layer.running_mean.double().numpy() - mean).max()),
            float(np.abs(layer.running_var.double().numpy() - var).max()),
        )
        for layer, (mean, var) in zip(norms(net), expected, strict=True)
    ]


# Exactness.


@PACKAGES
def test_sequential_gives_the_whole_sets_statistics_and_one_pass_does_not(package):
    x = randn(40, 5) * 3 + 1
    net = three_layers(package)
    expected = numpys_whole_pass(net, x)
    assert min(miss(net, expected)) > 0.1
    assert max(miss(recalibrate(net, split(x)), expected)) < 1e-12
    first, *behind = miss(recalibrate(net, x.split(4), method="one_pass"), expected)
    assert first < 1e-12
    assert 0.01 < min(behind) <= max(behind) < 1


@METHODS
def test_both_methods_agree_on_one_batch_and_leave_nothing_stale(method):
    x = randn(40, 5)
    net = recalibrate(three_layers(), [x], method=method)
    assert max(miss(net, numpys_whole_pass(net, x))) < 1e-12


def test_eval_then_gives_what_training_gives_on_the_whole_set_as_one_batch():
    x = randn(40, 5)
    net = three_layers()
    whole = copy.deepcopy(net).train()
    whole[3].eval()
    recalibrate(net, split(x))
    torch.testing.assert_close(net.eval()(x), whole(x), rtol=0, atol=1e-12)


def test_the_variance_divides_by_the_number_of_values():
    net = nn.Sequential(nn.BatchNorm1d(1))
    recalibrate(net, [torch.tensor([[1.0], [2.0]]), torch.tensor([[6.0]])])
    assert net[0].running_mean.item() == pytest.approx(3)
    assert net[0].running_var.item() == pytest.approx(14 / 3)


def test_the_split_and_the_order_of_the_examples_do_not_matter():
    x = randn(40, 5)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, torch.arange(40)),
        batch_size=7,
        shuffle=True,
        generator=torch.Generator().manual_seed(0),
    )
    net = recalibrate(three_layers(), loader)
    assert max(miss(net, numpys_whole_pass(net, x))) < 1e-12


def test_doing_it_again_changes_nothing():
    net = recalibrate(three_layers(), split(randn(40, 5)))
    before = snapshot(net)
    assert_unchanged(recalibrate(net, split(randn(40, 5))), before)


def test_float32_nets_are_measured_in_float64():
    x = randn(4000, 5, dtype=torch.float32) * 1e-2 + 1e3
    net = nn.Sequential(nn.BatchNorm1d(5))
    recalibrate(net, split(x, (3000, 999, 1)))
    np.testing.assert_allclose(
        net[0].running_var, x.double().numpy().var(axis=0), rtol=1e-6
    )
    assert net[0].running_var.dtype == torch.float32


def test_images_volumes_and_layers_that_sync_are_measured_over_all_positions():
    x = randn(9, 3, 4, 4, 4)
    for layer, inputs in [
        (nn.BatchNorm2d(3), x[..., 0]),
        (nn.BatchNorm3d(3), x),
        (nn.SyncBatchNorm(3), x),
    ]:
        net = recalibrate(nn.Sequential(layer.double()), split(inputs, (5, 3, 1)))
        axes = tuple(axis for axis in range(inputs.ndim) if axis != 1)
        expected = (inputs.mean(axes).numpy(), inputs.var(axes, correction=0).numpy())
        assert max(miss(net, [expected])) < 1e-12


class Backwards(nn.Module):
    """Its layers run in the opposite order to that of their registration."""

    def __init__(self):
        super().__init__()
        self.last = nn.BatchNorm1d(3, dtype=torch.float64)
        self.first = nn.BatchNorm1d(3, dtype=torch.float64)

    def forward(self, x):
        return self.last(self.first(x) ** 2)


def test_layers_are_taken_in_the_order_in_which_they_run():
    x = randn(40, 3) * 5
    net = recalibrate(Backwards(), split(x))
    h = ((x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()) ** 2
    assert (
        max(
            miss(
                net,
                [
                    (h.mean(0).numpy(), h.var(0, correction=0).numpy()),
                    (x.mean(0).numpy(), x.var(0, correction=0).numpy()),
                ],
            )
        )
        < 1e-12
    )


class Routed(nn.Module):
    """Runs one of two layers, as the batch says, and a third behind either."""

    def __init__(self):
        super().__init__()
        self.one, self.other, self.last = (
            nn.BatchNorm1d(2, dtype=torch.float64) for _ in range(3)
        )

    def forward(self, x):
        route = self.one if x[0, 0] > 0 else self.other
        return self.last(route(x) ** 3)


def test_a_layer_waits_for_every_layer_that_some_batch_runs_before_it():
    positive, negative = randn(12, 2).abs() + 0.1, -randn(7, 2, seed=1).abs() - 0.1
    batches = [positive[:5], negative, positive[5:]]
    net = recalibrate(Routed(), batches)
    inner = []
    for x in (positive, negative):
        x_hat = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
        inner.append(x_hat**3)
    expected = [
        (h.mean(0).numpy(), h.var(0, correction=0).numpy())
        for h in (positive, negative, torch.cat(inner))
    ]
    assert max(miss(net, expected)) < 1e-12


def test_statistics_that_were_nan_do_no_harm():
    x = randn(40, 5)
    net = three_layers()
    for layer in norms(net):
        layer.running_mean.fill_(float("nan"))
        layer.running_var.fill_(-1)
    recalibrate(net, split(x))
    assert max(miss(net, numpys_whole_pass(net, x))) < 1e-12


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(3, dtype=torch.float64)

    def forward(self, pair):
        return self.bn(pair[:, 0]) - self.bn(input=pair[:, 1])


@METHODS
def test_a_layer_that_runs_twice_gets_the_statistics_of_all_its_inputs(method):
    x = randn(10, 2, 3) + torch.tensor([[[0.0], [4.0]]], dtype=torch.float64)
    net = recalibrate(Siamese(), split(x, (7, 3)), method=method)
    together = x.reshape(20, 3).numpy()
    assert max(miss(net, [(together.mean(axis=0), together.var(axis=0))])) < 1e-12
    assert net.bn.num_batches_tracked == 4


# What changes, and what does not.


@METHODS
def test_it_works_in_place_and_sets_the_counter(method):
    net = three_layers()
    batches = split(randn(40, 5), (20, 20))
    assert recalibrate(net, batches, method=method) is net
    assert [layer.num_batches_tracked.item() for layer in norms(net)] == [2, 2, 2]


@METHODS
def test_nothing_but_the_statistics_changes(method):
    net = three_layers().train()
    net[0].eval()
    net[5].eval()
    net[1].momentum = None
    net.append(nn.Unflatten(1, (2, 2)))
    net.append(nn.InstanceNorm1d(2, track_running_stats=True, dtype=torch.float64))
    modes = [module.training for module in net.modules()]
    buffers = [id(buffer) for buffer in net.buffers()]
    before = snapshot(net)
    recalibrate(net, [randn(20, 5), randn(20, 5)], method=method)
    assert [module.training for module in net.modules()] == modes
    assert [id(buffer) for buffer in net.buffers()] == buffers
    assert (net[1].momentum, net[5].momentum) == (None, 0.1)
    assert all(layer.track_running_stats for layer in norms(net))
    assert not any(module._forward_pre_hooks for module in net.modules())
    assert torch.is_grad_enabled()
    for name, value in snapshot(net).items():
        if name.split(".")[0] in "158" and not name.endswith(("weight", "bias")):
            assert not torch.equal(value, before[name])
        else:
            assert torch.equal(value, before[name])
    assert all(parameter.grad is None for parameter in net.parameters())


@METHODS
def test_random_numbers_are_neither_drawn_nor_seen(method):
    net, x = three_layers(), randn(40, 5)
    before = torch.get_rng_state()
    one = snapshot(recalibrate(net, [x], method=method))
    assert torch.equal(torch.get_rng_state(), before)
    assert_unchanged(recalibrate(net, [x], method=method), one)


def test_a_layer_that_eval_mode_does_not_run_is_left_alone():
    net = nn.Sequential(nn.BatchNorm1d(3))
    net[0].auxiliary = nn.BatchNorm1d(3)
    before = snapshot(net[0].auxiliary)
    recalibrate(net, [torch.randn(4, 3), torch.randn(4, 3)])
    assert_unchanged(net[0].auxiliary, before)
    assert net[0].num_batches_tracked == 2


@METHODS
def test_a_layer_without_running_statistics_is_left_alone(method):
    net = nn.Sequential(
        nn.BatchNorm1d(3, track_running_stats=False), nn.BatchNorm1d(3)
    ).double()
    batches = split(randn(10, 3), (4, 6))
    recalibrate(net, batches, method=method)
    assert net[0].running_mean is None
    np.testing.assert_allclose(net[1].running_mean, 0, atol=1e-12)
    inner = torch.cat(
        [nn.functional.batch_norm(b, None, None, training=True) for b in batches]
    )
    torch.testing.assert_close(net[1].running_var, inner.var(0, correction=0))


def test_what_a_batch_may_be():
    x = randn(6, 5)
    expected = snapshot(recalibrate(three_layers(), [x]))
    for batches in ([(x, 1)], [[x]], ((x,),), [(x, None, "name")]):
        assert_unchanged(recalibrate(three_layers(), batches), expected)


def test_one_layer_or_one_pass_takes_a_generator():
    x = randn(40, 5)
    net = nn.Sequential(nn.BatchNorm1d(5, dtype=torch.float64))
    recalibrate(net, (batch for batch in split(x)))
    np.testing.assert_allclose(net[0].running_mean, x.mean(0), atol=1e-14)
    one = recalibrate(three_layers(), iter([x, x + 1]), method="one_pass")
    other = recalibrate(three_layers(), [x, x + 1], method="one_pass")
    assert_unchanged(one, snapshot(other))


# Averaged weights.


def trained(seed, batches):
    """Return a small net after a few steps of SGD."""
    net = three_layers(seed=seed)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    for batch in batches * 3:
        optimiser.zero_grad()
        (net(batch).pow(2).mean() - batch.mean()).abs().backward()
        optimiser.step()
    return net


@pytest.mark.parametrize("average", ["SWA", "EMA"])
def test_averaged_weights_have_stale_statistics_until_recalibrated(average):
    x = randn(40, 5) * 2 + 1
    batches = split(x, (20, 20))
    donors = [trained(seed, batches) for seed in (1, 2)]
    before = [snapshot(donor) for donor in donors]
    function = swa_utils.get_ema_multi_avg_fn(0.5) if average == "EMA" else None
    averaged = swa_utils.AveragedModel(donors[0], multi_avg_fn=function)
    for donor in donors:
        averaged.update_parameters(donor)
    expected = numpys_whole_pass(averaged.module, x)
    assert min(miss(averaged.module, expected)) > 0.05
    assert recalibrate(averaged, split(x)) is averaged
    assert max(miss(averaged.module, expected)) < 1e-12
    for donor, state in zip(donors, before):
        assert_unchanged(donor, state)
