"""Converting layers between torch's and bnlib's, and freezing them."""

import copy
import pickle

import pytest
import torch
from refusals import refused
from torch import nn
from torch.nn.utils import parametrize

import bnlib
from bnlib.nn import BatchNorm1d, BatchNorm2d, SyncBatchNorm, convert, freeze


class Block(nn.Module):
    """A residual block, as ResNets have it."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.skip = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x):
        inner = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(inner + self.skip(x))


def resnet():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        stem = [nn.Conv2d(1, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
        blocks = [Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2)]
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
        return nn.Sequential(*stem, *blocks, *head)


def losses(model, steps=50):
    digits = bnlib.data.load("digits")
    x = torch.from_numpy(digits.x_train / 16).float().reshape(-1, 1, 8, 8)
    y = torch.from_numpy(digits.y_train)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator, found = torch.Generator().manual_seed(0), []
    for _ in range(steps):
        rows = torch.randperm(len(x), generator=generator)[:64]
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found)


def norms(model):
    kinds = nn.modules.batchnorm._BatchNorm
    return [module for module in model.modules() if isinstance(module, kinds)]


def test_a_converted_resnet_trains_as_torchs_does_and_converts_back():
    theirs = resnet()
    ours = convert(copy.deepcopy(theirs))
    assert all(type(layer) is BatchNorm2d for layer in norms(ours))
    curves = losses(ours), losses(theirs)
    torch.testing.assert_close(*curves, rtol=0, atol=1e-5)
    assert curves[0][-1] < curves[0][0] / 2
    state = copy.deepcopy(ours.state_dict())
    back = convert(ours, to="torch")
    assert all(type(layer) is nn.BatchNorm2d for layer in norms(back))
    assert repr(back) == repr(theirs)
    theirs.load_state_dict(back.state_dict(), strict=True)
    for name, value in back.state_dict().items():
        assert torch.equal(value, state[name])


def test_layers_stay_the_same_objects_with_all_that_hangs_on_them():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.SyncBatchNorm(3)).eval()
    layer, parameter = model[0], model[0].weight
    layer.bias.requires_grad_(False)
    calls = []
    layer.register_forward_hook(lambda *_: calls.append(1))
    assert convert(model) is model
    assert model[0] is layer
    assert layer.weight is parameter
    assert type(layer) is BatchNorm1d
    assert type(model[1]) is SyncBatchNorm
    assert not layer.training
    assert not layer.bias.requires_grad
    model(torch.ones(2, 3))
    assert calls == [1]


def test_a_layer_by_itself_is_converted():
    layer = nn.BatchNorm2d(3)
    assert type(convert(layer)) is BatchNorm2d
    assert type(convert(layer, to="torch")) is nn.BatchNorm2d


def test_other_kinds_stay_as_they_are():
    class Own(nn.BatchNorm1d):
        pass

    model = nn.Sequential(Own(3), nn.LazyBatchNorm1d(), nn.InstanceNorm1d(3))
    kinds = [type(layer) for layer in model]
    assert [type(layer) for layer in convert(model)] == kinds


def test_torch_gets_no_layer_that_it_cannot_have():
    model = nn.Sequential(BatchNorm1d(3), BatchNorm1d(3, activation="relu"))
    with refused(
        ValueError,
        "layer '1'",
        "activation = 'relu'",
        "activation, layer",
    ):
        convert(model, to="torch")
    assert type(model[0]) is BatchNorm1d
    model = freeze(nn.Sequential(BatchNorm1d(3)))
    with refused(ValueError, "layer '0'", "frozen statistics"):
        convert(model, to="torch")


def test_bad_arguments_are_named():
    with refused(TypeError, "model", "list", "torch.nn.Module"):
        convert([nn.BatchNorm1d(3)])
    with refused(ValueError, "to", "'keras'", "'bnlib' or 'torch'"):
        convert(nn.BatchNorm1d(3), to="keras")


MODES = {
    (True, True): "all",
    (True, False): "statistics",
    (False, True): "affine",
    (False, False): None,
}


@pytest.mark.parametrize(("flags", "name"), MODES.items(), ids=str)
def test_what_is_frozen_stays_and_what_is_not_moves(flags, name):
    statistics, affine = flags
    layer = BatchNorm1d(3)
    layer(torch.randn(50, 3) * 2 + 5)
    freeze(layer, statistics, affine)
    assert layer.frozen == name
    model = nn.Sequential(layer, nn.Linear(3, 1))
    before = copy.deepcopy(layer.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    for mode in (True, False, True):
        model.train(mode)
        if mode:
            model(torch.randn(20, 3)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert layer.frozen == name
    moved = {
        key
        for key, old in before.items()
        if not torch.equal(old, layer.state_dict()[key])
    }
    expected = (
        set() if statistics else {"running_mean", "running_var", "num_batches_tracked"}
    )
    assert moved == expected | (set() if affine else {"weight", "bias"})


def test_frozen_statistics_normalise_in_training_as_in_evaluation():
    layer = BatchNorm2d(3)
    layer(torch.randn(10, 3, 4, 4) * 2 + 5)
    freeze(layer, affine=False)
    x = torch.randn(5, 3, 4, 4)
    torch.testing.assert_close(layer.train()(x), layer.eval()(x), rtol=0, atol=0)
    assert layer.train()(x[:1, :, :1, :1]).shape == (1, 3, 1, 1)


def test_thawing_brings_back_a_fresh_layers_behaviour():
    layer, fresh = BatchNorm1d(3), BatchNorm1d(3)
    freeze(layer)
    freeze(layer, statistics=False, affine=False)
    x = torch.randn(8, 3)
    torch.testing.assert_close(layer(x), fresh(x), rtol=0, atol=0)
    assert repr(layer) == repr(fresh)
    assert all(parameter.requires_grad for parameter in layer.parameters())


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_is_frozen_too(copied):
    layer = copied(freeze(BatchNorm1d(3, activation="relu")))
    assert layer.frozen == "all"
    assert "activation='relu', frozen='all'" in repr(layer)


def test_freezing_clears_the_gradients_that_were_there():
    layer = BatchNorm1d(2)
    layer(torch.randn(4, 2)).square().sum().backward()
    assert freeze(layer).weight.grad is None


def test_a_layer_without_parameters_counts_as_all_frozen():
    layer = BatchNorm1d(2, affine=False)
    assert layer.frozen is None
    assert freeze(layer).frozen == "all"


def test_recalibration_leaves_frozen_statistics_alone():
    model = nn.Sequential(BatchNorm1d(2), BatchNorm1d(2))
    freeze(model[0])
    bnlib.recalibrate(model, [torch.randn(30, 2) + 3])
    assert not model[0].running_mean.any()
    assert model[1].running_mean.any()


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        (nn.Linear(2, 2), {}, ("model Linear", "no BatchNorm layer")),
        (nn.Sequential(nn.BatchNorm1d(2)), {}, ("layer '0'", "torch BatchNorm1d")),
        (
            BatchNorm1d(2, track_running_stats=False),
            {},
            ("layer 'BatchNorm1d'", "no running statistics"),
        ),
    ],
    ids=str,
)
def test_what_cannot_be_frozen_is_named(model, options, says):
    with refused(ValueError, *says):
        freeze(model, **options)


def test_a_refused_freeze_changes_nothing():
    model = nn.Sequential(BatchNorm1d(2), BatchNorm1d(2, track_running_stats=False))
    with refused(ValueError, "layer '1'", "no running statistics"):
        freeze(model)
    assert model[0].frozen is None


def test_flags_are_bools():
    with refused(TypeError, "affine", "'no'", "True or False"):
        freeze(BatchNorm1d(2), affine="no")


class Positive(nn.Module):
    def forward(self, raw):
        return raw.exp()


def test_a_parametrised_weight_is_frozen_and_thawed_too():
    layer = BatchNorm1d(2)
    parametrize.register_parametrization(layer, "weight", Positive())
    raw = layer.parametrizations.weight.original
    assert freeze(layer).frozen == "all"
    assert not raw.requires_grad
    assert freeze(layer, statistics=False, affine=False).frozen is None
    assert raw.requires_grad


def test_the_repr_shows_frozen_parameters_too():
    layer = freeze(BatchNorm1d(2), statistics=False)
    assert repr(layer).endswith("frozen='affine')")


def test_a_state_dict_does_not_keep_what_is_frozen():
    fresh = BatchNorm1d(2)
    fresh.load_state_dict(freeze(BatchNorm1d(2)).state_dict())
    assert fresh.frozen is None
