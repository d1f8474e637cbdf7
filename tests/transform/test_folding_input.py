"""What cannot be folded is refused, and named with what can."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import bnlib.nn
from bnlib.folding import fold


class Doubled(nn.Linear):
    def forward(self, input):
        return 2 * super().forward(input)


class Standardised(nn.Conv2d):
    def _conv_forward(self, input, weight, bias):
        return super()._conv_forward(input, weight - weight.mean(), bias)


@pytest.mark.parametrize(
    "layer",
    [
        nn.ReLU(),
        nn.Embedding(3, 4),
        nn.MultiheadAttention(4, 2),
        nn.Bilinear(3, 3, 4),
        nn.Sequential(nn.Linear(3, 4)),
        nn.BatchNorm2d(4),
        Doubled(3, 4),
        Standardised(3, 4, 3),
        None,
        torch.ones(4, 3),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_what_cannot_be_folded_is_named_with_what_can(layer):
    name = type(layer).__name__
    says = rf"layer is a .*\.{name}, which cannot .*Linear, Conv1d, .*ConvTranspose3d"
    with pytest.raises(TypeError, match=says):
        fold(layer, nn.BatchNorm2d(4).eval())


@pytest.mark.parametrize(
    "bn",
    [
        nn.BatchNorm1d(4),
        bnlib.nn.BatchNorm3d(4),
        nn.LazyBatchNorm2d(),
        nn.InstanceNorm2d(4, track_running_stats=True),
        nn.GroupNorm(2, 4),
        nn.LayerNorm(4),
        nn.Identity(),
        None,
    ],
    ids=lambda bn: type(bn).__name__,
)
def test_what_is_not_the_batch_norm_of_the_layers_output_is_named(bn):
    bn = bn.eval() if bn is not None else None
    says = rf"bn is a .*\.{type(bn).__name__}: after a Conv2d give a BatchNorm2d"
    with pytest.raises(TypeError, match=says):
        fold(nn.Conv2d(3, 4, 3), bn)


def test_a_norm_with_another_forward_is_refused():
    class Clipped(nn.BatchNorm1d):
        def forward(self, input):
            return super().forward(input).clamp(-1, 1)

    with pytest.raises(
        TypeError, match=r"bn is a .*Clipped: .* forward not overridden"
    ):
        fold(nn.Linear(3, 4), Clipped(4).eval())


@pytest.mark.parametrize("package", [nn, bnlib.nn], ids=["torch", "bnlib"])
def test_training_mode_is_refused_and_the_cure_named(package):
    with pytest.raises(ValueError, match=r"training mode.* call bn\.eval\(\)"):
        fold(nn.Linear(3, 4), package.BatchNorm1d(4))


def test_a_norm_without_running_statistics_is_refused():
    bn = nn.BatchNorm1d(4, track_running_stats=False).eval()
    with pytest.raises(ValueError, match="bn has no running statistics"):
        fold(nn.Linear(3, 4), bn)


@pytest.mark.parametrize("lost", ["running_mean", "running_var"])
def test_a_norm_that_lost_one_of_its_statistics_is_refused(lost):
    bn = nn.BatchNorm1d(4).eval()
    setattr(bn, lost, None)
    with pytest.raises(ValueError, match="bn has no running statistics"):
        fold(nn.Linear(3, 4), bn)


@pytest.mark.parametrize(
    ("layer", "bn"),
    [
        (nn.Linear(99, 4), nn.BatchNorm1d(99)),
        (nn.Conv2d(99, 4, 1), nn.BatchNorm2d(99)),
        (nn.ConvTranspose1d(99, 4, 1), nn.BatchNorm1d(99)),
        (nn.ConvTranspose3d(2, 4, 1, groups=2), bnlib.nn.BatchNorm3d(99)),
    ],
    ids=lambda module: type(module).__name__,
)
def test_channels_that_do_not_fit_are_counted(layer, bn):
    says = r"layer has 4 output channels but bn normalises 99: .*num_features=4"
    with pytest.raises(ValueError, match=says):
        fold(layer, bn.eval())


def test_a_lazy_layer_is_refused():
    with pytest.raises(ValueError, match="layer is lazy: run a batch"):
        fold(nn.LazyLinear(4), nn.BatchNorm1d(4).eval())


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        (nn.utils.parametrizations.weight_norm, r"parametrizations\.weight"),
        (lambda m: prune.l1_unstructured(m, "weight", 2), "weight_orig"),
        (lambda m: prune.l1_unstructured(m, "bias", 2), "bias_orig"),
    ],
    ids=["weight norm", "pruned weight", "pruned bias"],
)
def test_parameters_in_another_form_are_refused(change, parameter):
    layer, bn = nn.Linear(3, 4), nn.BatchNorm1d(4).eval()
    change(layer)
    with pytest.raises(ValueError, match=rf"layer makes its .* {parameter}"):
        fold(layer, bn)


def test_a_pruned_norm_is_refused():
    bn = nn.BatchNorm1d(4).eval()
    prune.l1_unstructured(bn, "weight", 2)
    with pytest.raises(ValueError, match="bn makes its parameters from weight_orig"):
        fold(nn.Linear(3, 4), bn)


def test_pruning_made_permanent_folds():
    layer, bn = nn.Linear(3, 4), nn.BatchNorm1d(4).eval()
    prune.l1_unstructured(layer, "weight", 2)
    prune.remove(layer, "weight")
    x = torch.randn(2, 3)
    torch.testing.assert_close(fold(layer, bn)(x), bn(layer(x)))


@pytest.mark.parametrize("which", ["layer", "bn"])
@pytest.mark.parametrize(
    "register", [nn.Module.register_forward_hook, nn.Module.register_forward_pre_hook]
)
def test_forward_hooks_are_refused(register, which):
    modules = {"layer": nn.Linear(3, 4), "bn": nn.BatchNorm1d(4).eval()}
    register(modules[which], lambda *_: None)
    with pytest.raises(ValueError, match=f"{which} has forward hooks"):
        fold(**modules)


def test_complex_layers_and_other_devices_are_refused():
    bn = nn.BatchNorm1d(4).eval()
    with pytest.raises(TypeError, match="complex64"):
        fold(nn.Linear(3, 4, dtype=torch.complex64), bn)
    with pytest.raises(ValueError, match="put both on one device"):
        fold(nn.Linear(3, 4, device="meta"), bn)


def test_a_weight_that_would_overflow_is_refused():
    bn = nn.BatchNorm1d(4, eps=1e-12).eval()
    bn.running_var.fill_(0)
    layer = nn.Linear(3, 4, dtype=torch.float16)
    with pytest.raises(ValueError, match=r"weight reaches .* not fit torch.float16"):
        fold(layer, bn)
