"""What cannot be folded is refused, and named with what can."""

import pytest
import torch
from refusals import refused
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
    says = ("layer", type(layer), "Linear, Conv1d, Conv2d, ConvTranspose3d")
    with refused(TypeError, *says):
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
    says = ("bn", type(bn), "after a Conv2d, BatchNorm2d")
    with refused(TypeError, *says):
        fold(nn.Conv2d(3, 4, 3), bn)


def test_a_norm_with_another_forward_is_refused():
    class Clipped(nn.BatchNorm1d):
        def forward(self, input):
            return super().forward(input).clamp(-1, 1)

    with refused(TypeError, "bn", "Clipped", "forward not overridden"):
        fold(nn.Linear(3, 4), Clipped(4).eval())


@pytest.mark.parametrize("package", [nn, bnlib.nn], ids=["torch", "bnlib"])
def test_training_mode_is_refused_and_the_cure_named(package):
    with refused(ValueError, "bn", "training mode", "bn.eval() first"):
        fold(nn.Linear(3, 4), package.BatchNorm1d(4))


def test_a_norm_without_running_statistics_is_refused():
    bn = nn.BatchNorm1d(4, track_running_stats=False).eval()
    with refused(ValueError, "bn", "no running statistics"):
        fold(nn.Linear(3, 4), bn)


@pytest.mark.parametrize("lost", ["running_mean", "running_var"])
def test_a_norm_that_lost_one_of_its_statistics_is_refused(lost):
    bn = nn.BatchNorm1d(4).eval()
    setattr(bn, lost, None)
    with refused(ValueError, "bn", "no running statistics"):
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
    says = ("layer bn", "4 channels, 99", "num_features=4")
    with refused(ValueError, *says):
        fold(layer, bn.eval())


def test_a_lazy_layer_is_refused():
    with refused(ValueError, "layer", "lazy", "run a batch"):
        fold(nn.LazyLinear(4), nn.BatchNorm1d(4).eval())


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        (nn.utils.parametrizations.weight_norm, "parametrizations.weight.original0"),
        (lambda m: prune.l1_unstructured(m, "weight", 2), "weight_orig"),
        (lambda m: prune.l1_unstructured(m, "bias", 2), "bias_orig"),
    ],
    ids=["weight norm", "pruned weight", "pruned bias"],
)
def test_parameters_in_another_form_are_refused(change, parameter):
    layer, bn = nn.Linear(3, 4), nn.BatchNorm1d(4).eval()
    change(layer)
    with refused(ValueError, "layer", parameter, "remove pruning, parametrization"):
        fold(layer, bn)


def test_a_pruned_norm_is_refused():
    bn = nn.BatchNorm1d(4).eval()
    prune.l1_unstructured(bn, "weight", 2)
    with refused(ValueError, "bn", "weight_orig", "remove pruning, parametrization"):
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
    with refused(ValueError, which, "forward hooks", "remove"):
        fold(**modules)


def test_complex_layers_and_other_devices_are_refused():
    bn = nn.BatchNorm1d(4).eval()
    with refused(TypeError, "weight", "complex64", "real floating dtype"):
        fold(nn.Linear(3, 4, dtype=torch.complex64), bn)
    with refused(ValueError, "weight", "meta, mean cpu", "one device"):
        fold(nn.Linear(3, 4, device="meta"), bn)


def test_a_weight_that_would_overflow_is_refused():
    bn = nn.BatchNorm1d(4, eps=1e-12).eval()
    bn.running_var.fill_(0)
    layer = nn.Linear(3, 4, dtype=torch.float16)
    with refused(ValueError, "weight", "not fit float16", "wider dtype"):
        fold(layer, bn)
