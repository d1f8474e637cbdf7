"""Recalibration on bad input: a clear error, and the model as it was."""

import pytest
import torch
from common import assert_unchanged, snapshot
from refusals import refused
from torch import nn

import bnlib.nn
from bnlib.recalibration import recalibrate

METHODS = pytest.mark.parametrize("method", ["sequential", "one_pass"])


def two_layers(last=None):
    return nn.Sequential(
        nn.BatchNorm1d(3), nn.ReLU(), nn.BatchNorm1d(3), *([last] if last else [])
    )


def good(count=2):
    return [torch.randn(4, 3) for _ in range(count)]


def assert_refused(model, batches, error, says, **options):
    """Check the error, and that the model is as it was, down to hooks and modes."""
    modules = list(model.modules())
    modes = [module.training for module in modules]
    buffers = [id(buffer) for buffer in model.buffers()]
    before = snapshot(model)
    with refused(error, *says):
        recalibrate(model, batches, **options)
    assert_unchanged(model, before)
    assert [module.training for module in modules] == modes
    assert [id(buffer) for buffer in model.buffers()] == buffers
    assert not any(module._forward_pre_hooks for module in modules)
    for module in modules:
        assert getattr(module, "track_running_stats", True)


BAD_BATCHES = {
    "none": ([], ValueError, ("batches", "empty", "at least one batch")),
    "empty batch": (
        [*good(1), torch.ones(0, 3)],
        ValueError,
        ("", "batch 1 gives layer '0' empty input shape (0, 3)"),
    ),
    "nan": (
        [*good(1), torch.full((2, 3), float("nan"))],
        ValueError,
        ("", "batch 1 gives layer '0' input no finite mean"),
    ),
    "infinity": (
        [torch.full((2, 3), float("inf"))],
        ValueError,
        ("", "batch 0 '0' finite"),
    ),
    "integers": (
        [torch.ones(4, 3, dtype=torch.int64)],
        TypeError,
        ("x", "int64", "real floating dtype"),
    ),
    "channels": ([*good(1), torch.ones(4, 2)], RuntimeError, ("", "2 3")),
    "axes": ([torch.ones(3)], ValueError, ("input", "1D")),
    "no input": ([()], ValueError, ("batch 0", "empty tuple")),
    "no tensor": (["text"], AttributeError, ("str",)),
    "tensor": (
        torch.ones(2, 4, 3),
        TypeError,
        ("batches", "Tensor", "iterable of batches"),
    ),
    "array": (
        torch.ones(2, 4, 3).numpy(),
        TypeError,
        ("batches", "ndarray", "iterable of batches"),
    ),
    "number": (3, TypeError, ("batches", "int", "iterable of batches")),
    "nothing": (None, TypeError, ("batches", "NoneType", "iterable of batches")),
    "text": ("text", TypeError, ("batches", "str", "iterable of batches")),
    "mapping": (
        {"x": torch.ones(4, 3)},
        TypeError,
        ("batches", "dict", "iterable of batches"),
    ),
    "data set": (
        torch.utils.data.TensorDataset(torch.ones(4, 3)),
        TypeError,
        ("batches", "TensorDataset", "iterable of batches, DataLoader"),
    ),
}


@METHODS
@pytest.mark.parametrize("bad", BAD_BATCHES)
def test_bad_batches_are_named_and_nothing_changes(bad, method):
    batches, error, says = BAD_BATCHES[bad]
    assert_refused(two_layers(), batches, error, says, method=method)


def test_an_input_that_overflows_behind_names_its_layer():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3), nn.BatchNorm1d(3))
    net[1].weight.data.fill_(3e38)
    assert_refused(net, good(), ValueError, ("layer '2'", "batch 0", "finite mean"))


def test_a_layer_that_is_the_model_is_named_by_its_class():
    net = nn.BatchNorm1d(3)
    assert_refused(
        net, [torch.ones(0, 3)], ValueError, ("layer 'BatchNorm1d'", "batch 0 (0, 3)")
    )


@METHODS
def test_statistics_that_do_not_fit_the_buffers_name_their_layer(method):
    net = bnlib.nn.BatchNorm1d(3).half()
    net = nn.Sequential(nn.Identity(), net)
    batches = [1000 * torch.randn(40, 3)]
    says = ("layer '1'", "statistics do not fit", "float16")
    assert_refused(net, batches, ValueError, says, method=method)


@pytest.mark.parametrize(
    "one_shot", [iter, lambda batches: map(torch.relu, batches)], ids=["iter", "map"]
)
def test_a_one_shot_iterator_is_refused_for_several_layers(one_shot):
    given = type(one_shot(good())).__name__
    says = ("batches", f"{given} once, 2 layers", "list or a DataLoader")
    assert_refused(two_layers(), one_shot(good()), ValueError, says)


def test_an_iterable_that_runs_dry_is_found_out():
    class Dry:
        def __init__(self):
            self.batches = iter(good(3))

        def __iter__(self):
            return self.batches

    says = (
        "batches",
        "3 in the first pass, 0 in pass 2",
        "list or a DataLoader",
    )
    assert_refused(two_layers(), Dry(), ValueError, says)


def test_one_value_per_feature_is_refused_in_one_pass_only():
    batches = [torch.randn(4, 3), torch.randn(1, 3)]
    says = (
        "layer '0'",
        "batch 1 (1, 3), one value per feature",
        "larger batches, method sequential",
    )
    assert_refused(two_layers(), batches, ValueError, says, method="one_pass")
    recalibrate(two_layers(), batches)


class Turning(nn.Module):
    """Runs its two layers in an order that depends on the batch."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.BatchNorm1d(3), nn.BatchNorm1d(3)

    def forward(self, x):
        first, second = (self.a, self.b) if x[0, 0] > 0 else (self.b, self.a)
        return second(first(x))


def test_layers_of_no_fixed_order_are_refused_in_sequence_only():
    batches = [torch.rand(4, 3), -torch.rand(4, 3)]
    says = ("layers a b", "another order", "method one_pass")
    assert_refused(Turning(), batches, ValueError, says)
    recalibrate(Turning(), batches, method="one_pass")


class Stumbles(nn.Module):
    """Raises after a number of calls, as an interrupted run would."""

    def __init__(self, error, after):
        super().__init__()
        self.error, self.left = error, after

    def forward(self, x):
        self.left -= 1
        if self.left < 0:
            raise self.error("stumbled")
        return x


@METHODS
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("after", [0, 1])
def test_an_error_in_the_middle_leaves_the_model_as_it_was(after, error, method):
    net = two_layers(Stumbles(error, after))
    assert_refused(net, good(), error, ("stumbled",), method=method)


def test_an_error_after_the_first_layer_was_set_leaves_it_as_it_was():
    net = two_layers(Stumbles(RuntimeError, 3))
    assert_refused(net, good(), RuntimeError, ("stumbled",))


def test_an_error_of_the_iterable_leaves_the_model_as_it_was():
    class Broken:
        def __iter__(self):
            yield from good()
            raise OSError("no such file")

    assert_refused(two_layers(), Broken(), OSError, ("no such file",))


@pytest.mark.parametrize("method", ["onepass", "", None, 1, ["one_pass"]], ids=str)
def test_an_unknown_method_lists_the_known_ones(method):
    says = ("method", repr(method), "one of sequential, one_pass")
    assert_refused(two_layers(), good(), ValueError, says, method=method)


@pytest.mark.parametrize("model", [None, "net", torch.ones(3), nn.BatchNorm1d])
def test_what_is_no_module_is_named(model):
    with refused(TypeError, "model", type(model), "torch.nn.Module"):
        recalibrate(model, good())


@METHODS
@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(3, 3), nn.ReLU()),
        nn.InstanceNorm1d(3, track_running_stats=True),
        nn.LayerNorm(3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_without_batch_norm_is_refused(model, method):
    says = ("model", f"{type(model).__name__}, no BatchNorm, running statistics")
    assert_refused(model, good(), ValueError, says, method=method)


@pytest.mark.parametrize("lost", ["running_mean", "running_var"])
def test_a_model_whose_only_layer_lost_its_statistics_is_refused(lost):
    net = nn.BatchNorm1d(3)
    setattr(net, lost, None)
    with refused(ValueError, "model", "BatchNorm1d, no BatchNorm, running statistics"):
        recalibrate(net, good())


@METHODS
def test_a_model_that_runs_none_of_its_layers_is_refused(method):
    net = nn.ReLU()
    net.unused = nn.BatchNorm1d(3)
    says = ("model", "none BatchNorm layers eval")
    assert_refused(net, good(), ValueError, says, method=method)


@pytest.mark.parametrize("lazy", [nn.LazyBatchNorm1d, lambda: nn.LazyLinear(3)])
def test_a_lazy_model_is_refused_and_stays_lazy(lazy):
    net = nn.Sequential(lazy(), nn.BatchNorm1d(3))
    with refused(ValueError, "model", "lazy modules", "run a batch"):
        recalibrate(net, good())
    assert net[0].has_uninitialized_params()


def test_buffers_that_cannot_be_written_are_refused_first():
    with torch.inference_mode():
        net = two_layers()
    with refused(RuntimeError, "inference tensor"):
        recalibrate(net, [None])
