"""Folding: one layer gives what the layer and its BatchNorm gave."""

import copy

import numpy as np
import pytest
import torch
from common import assert_unchanged, snapshot
from torch import nn

import bnlib
import bnlib.nn
from bnlib.folding import fold

PAIRS = {
    "Linear": "BatchNorm1d",
    "Conv1d": "BatchNorm1d",
    "Conv2d": "BatchNorm2d",
    "Conv3d": "BatchNorm3d",
    "ConvTranspose1d": "BatchNorm1d",
    "ConvTranspose2d": "BatchNorm2d",
    "ConvTranspose3d": "BatchNorm3d",
}
EVERY_KIND = pytest.mark.parametrize("name", PAIRS)
# Of seven kinds: 210 in all.
LAYERS_OF_A_KIND = 30


def chance(rng, share=0.5):
    return bool(rng.random() < share)


def random_options(name, rng):
    """Return a convolution's options beside channels and groups."""
    axes = int(name[-2])
    options = {
        "kernel_size": tuple(rng.integers(1, 4, axes).tolist()),
        "dilation": tuple(rng.integers(1, 3, axes).tolist()),
        "stride": tuple(rng.integers(1, 3, axes).tolist()),
        "padding": tuple(rng.integers(0, 3, axes).tolist()),
    }
    if name.startswith("ConvTranspose"):
        most = np.maximum(options["stride"], options["dilation"])
        options["output_padding"] = tuple(rng.integers(0, most).tolist())
        return options
    if chance(rng, 0.3):
        padding = str(rng.choice(["same", "valid"]))
        options |= {"padding": padding, "stride": 1, "kernel_size": 3}
    modes = ["zeros", "reflect", "replicate", "circular"]
    return options | {"padding_mode": str(rng.choice(modes))}


def random_layer(name, rng):
    """Return a layer of the kind, an input for it and its number of outputs."""
    torch.manual_seed(int(rng.integers(2**31)))
    groups = 1 if name == "Linear" else int(rng.integers(1, 4))
    sizes = [groups * int(rng.integers(1, 4)) for _ in range(2)]
    bias = chance(rng)
    if name == "Linear":
        layer = nn.Linear(*sizes, bias=bias, dtype=torch.float64)
        return layer, torch.randn(5, sizes[0], dtype=torch.float64), sizes[1]
    options = random_options(name, rng) | {"groups": groups, "bias": bias}
    layer = getattr(nn, name)(*sizes, **options, dtype=torch.float64)
    spatial = rng.integers(7, 9, int(name[-2])).tolist()
    return layer, torch.randn(2, sizes[0], *spatial, dtype=torch.float64), sizes[1]


def random_norm(name, channels, rng, package=nn, **options):
    """Return a BatchNorm in eval mode with random statistics; gammas of any sign."""
    options = {"eps": float(rng.choice([1e-5, 1e-3, 0.1]))} | options
    bn = getattr(package, name)(channels, dtype=torch.float64, **options).eval()
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    with torch.no_grad():
        bn.running_mean.normal_(0, 3, generator=generator)
        bn.running_var.uniform_(0.1, 4, generator=generator)
        for parameter in bn.parameters():
            parameter.normal_(generator=generator)
        if bn.weight is not None and chance(rng):
            bn.weight[0] = 0
    return bn


def small_pair(name="Conv2d", seed=0):
    rng = np.random.default_rng([seed, len(name)])
    layer, x, channels = random_layer(name, rng)
    return layer, random_norm(PAIRS[name], channels, rng), x


def assert_folded(fused, layer, bn, x):
    expected = bn(layer(x))
    scale = max(1.0, float(expected.detach().abs().max()))
    torch.testing.assert_close(fused(x), expected, rtol=0, atol=1e-12 * scale)


# Exactness.


@EVERY_KIND
def test_one_layer_gives_what_the_two_gave(name):
    for seed in range(LAYERS_OF_A_KIND):
        rng = np.random.default_rng([seed, *name.encode()])
        layer, x, channels = random_layer(name, rng)
        package = bnlib.nn if chance(rng) else nn
        options = {"affine": chance(rng, 0.8)}
        bn = random_norm(PAIRS[name], channels, rng, package, **options)
        fused = fold(layer, bn)
        assert type(fused) is type(layer)
        assert_folded(fused, layer, bn, x)


@pytest.mark.parametrize("gamma", [-2.0, 0.0])
@EVERY_KIND
def test_a_negative_or_zero_gamma_folds_as_any_other(name, gamma):
    layer, bn, x = small_pair(name)
    with torch.no_grad():
        bn.weight.fill_(gamma)
    assert_folded(fold(layer, bn), layer, bn, x)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_each_group_of_a_transposed_convolution_gets_its_own_channels(groups):
    layer = nn.ConvTranspose1d(6, 12, 3, groups=groups, dtype=torch.float64)
    bn = nn.BatchNorm1d(12, eps=0.0, dtype=torch.float64).eval()
    bn.running_var.copy_(torch.arange(1, 13) ** -2.0)
    one_by_one = [
        layer(torch.ones(1, 6, 4, dtype=torch.float64))[:, c] for c in range(12)
    ]
    found = fold(layer, bn)(torch.ones(1, 6, 4, dtype=torch.float64))
    for c in range(12):
        torch.testing.assert_close(found[:, c], one_by_one[c] * (c + 1))


def test_a_norm_with_a_weight_alone_folds():
    try:
        bn = nn.BatchNorm1d(3, bias=False).eval()
    except TypeError:
        pytest.skip("this torch has no bias argument")
    with torch.no_grad():
        bn.weight.copy_(torch.tensor([2.0, -1.0, 0.0]))
    layer, x = nn.Linear(4, 3), torch.randn(5, 4)
    torch.testing.assert_close(fold(layer, bn)(x), bn(layer(x)))


def test_a_sync_batch_norm_folds_after_any_layer():
    for name in PAIRS:
        layer, bn, x = small_pair(name)
        synced = nn.SyncBatchNorm.convert_sync_batchnorm(bn)
        assert isinstance(synced, nn.SyncBatchNorm)
        assert_folded(fold(layer, synced), layer, bn, x)


def test_a_norm_that_no_longer_tracks_still_uses_its_buffers_and_folds():
    layer, bn, x = small_pair()
    bn.track_running_stats = False
    assert_folded(fold(layer, bn), layer, bn, x)


def test_a_linear_before_a_sequence_acts_on_another_axis_and_is_not_folded_right():
    layer, bn = nn.Linear(3, 3), nn.BatchNorm1d(3).eval()
    bn.running_mean.copy_(torch.tensor([0.0, 1.0, 2.0]))
    x = torch.randn(2, 3, 3)
    assert not torch.allclose(fold(layer, bn)(x), bn(layer(x)), atol=0.1)


# What the new layer is.


@EVERY_KIND
def test_the_donors_stay_as_they_are_and_share_nothing(name):
    layer, bn, _ = small_pair(name)
    before = snapshot(layer), snapshot(bn)
    fused = fold(layer, bn)
    with torch.no_grad():
        for parameter in fused.parameters():
            parameter.fill_(7)
    assert_unchanged(layer, before[0])
    assert_unchanged(bn, before[1])
    assert layer.weight.grad is None


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_new_layer_has_the_dtype_and_mode_of_the_old(dtype, training):
    layer = nn.Conv2d(3, 4, 3, bias=False, dtype=dtype).train(training)
    fused = fold(layer, nn.BatchNorm2d(4).eval())
    assert (fused.weight.dtype, fused.bias.dtype) == (dtype, dtype)
    assert fused.training is training
    assert repr(fused) == "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))"


def test_float32_layers_are_folded_in_float64_and_rounded_once():
    rng = np.random.default_rng(0)
    layer, bn = nn.Linear(50, 40), random_norm("BatchNorm1d", 40, rng).float()
    exact = fold(copy.deepcopy(layer).double(), copy.deepcopy(bn).double())
    fused = fold(layer, bn)
    assert torch.equal(fused.weight, exact.weight.float())
    assert torch.equal(fused.bias, exact.bias.float())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("trained", [True, False])
def test_parameters_need_gradients_where_the_old_ones_did(trained, bias):
    layer = nn.Linear(3, 4, bias=bias).requires_grad_(trained)
    fused = fold(layer, nn.BatchNorm1d(4).eval())
    assert [p.requires_grad for p in fused.parameters()] == [trained, trained]
    assert all(p.is_leaf for p in fused.parameters())


def test_a_frozen_bias_stays_frozen():
    layer = nn.Linear(3, 4)
    layer.bias.requires_grad_(False)
    fused = fold(layer, nn.BatchNorm1d(4).eval())
    assert (fused.weight.requires_grad, fused.bias.requires_grad) == (True, False)


def test_a_subclass_with_the_same_arithmetic_folds_into_its_own_kind():
    class Named(nn.Linear):
        pass

    layer = Named(3, 4)
    fused = fold(layer, nn.BatchNorm1d(4).eval())
    assert type(fused) is Named


def test_the_folded_layer_can_be_saved_and_loaded_and_folded_again():
    layer, bn, x = small_pair("ConvTranspose2d")
    fused = fold(layer, bn)
    twin = copy.deepcopy(fused)
    twin.load_state_dict(fused.state_dict())
    assert torch.equal(twin(x), fused(x))
    assert_folded(fold(fused, bn), fused, bn, x)


def test_folding_is_exported():
    assert bnlib.fold is fold
