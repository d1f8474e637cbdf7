"""The modules: drop-in for torch's, and strict about what they are given."""

import copy
import io
import pickle

import pytest
import torch
from common import assert_unchanged, pair, randn, snapshot

import bnlib.nn

KINDS = {
    "BatchNorm1d": (6, 3),
    "BatchNorm1d, lengths": (4, 3, 5),
    "BatchNorm2d": (2, 3, 4, 5),
    "BatchNorm3d": (2, 3, 2, 3, 2),
}
BOTH = pytest.mark.parametrize("kind", KINDS)
MOMENTA = pytest.mark.parametrize("momentum", [0.1, 0.9, 0.0, 1.0, None])


def assert_same_state(ours, theirs, allowed=1e-12):
    one, other = ours.state_dict(), theirs.state_dict()
    assert list(one) == list(other)
    for name in one:
        assert one[name].dtype == other[name].dtype
        torch.testing.assert_close(one[name], other[name], rtol=allowed, atol=allowed)


# Against torch's modules, over several steps of training.


@MOMENTA
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@BOTH
def test_training_then_eval_follows_torchs_module(kind, affine, momentum):
    modules = pair(kind, momentum=momentum, affine=affine)
    optimisers = [
        torch.optim.SGD(module.parameters(), lr=0.1) if affine else None
        for module in modules
    ]
    for step in range(5):
        if step == 4:
            [module.eval() for module in modules]
        outputs, inputs = [], []
        for module, optimiser in zip(modules, optimisers):
            x = (randn(*KINDS[kind], seed=step) * 2 + step).requires_grad_()
            y = module(x)
            (y**3).sum().backward()
            if optimiser:
                optimiser.step()
                optimiser.zero_grad()
            outputs.append(y)
            inputs.append(x.grad)
        for one, other in (outputs, inputs):
            scale = float(other.detach().abs().max())
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12 * scale)
        assert_same_state(*modules)


@BOTH
def test_the_gradients_of_the_parameters_agree_with_torchs(kind):
    modules = pair(kind)
    for module in modules:
        (module(randn(*KINDS[kind])) ** 3).sum().backward()
    for one, other in zip(*(module.parameters() for module in modules), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-12, atol=1e-11)


OPTIONS = [
    {},
    {"eps": 1e-3},
    {"momentum": None},
    {"affine": False},
    {"track_running_stats": False},
    {"affine": False, "track_running_stats": False},
    {"dtype": torch.float64},
    {"device": "meta"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"])
def test_constructor_repr_and_state_dict_are_torchs(name, options):
    ours = getattr(bnlib.nn, name)(7, **options)
    theirs = getattr(torch.nn, name)(7, **options)
    assert repr(ours) == repr(theirs)
    assert isinstance(ours, type(theirs))
    assert vars(ours).keys() == vars(theirs).keys()
    one, other = ours.state_dict(), theirs.state_dict()
    assert list(one) == list(other)
    for key in one:
        assert (one[key].dtype, one[key].device) == (
            other[key].dtype,
            other[key].device,
        )


def test_the_constructors_positional_arguments_are_torchs():
    arguments = (4, 0.5, 0.2, False, False, None, torch.float64)
    ours, theirs = bnlib.nn.BatchNorm2d(*arguments), torch.nn.BatchNorm2d(*arguments)
    assert repr(ours) == repr(theirs)


def test_bias_can_be_left_out_where_torch_allows_it():
    try:
        theirs = torch.nn.BatchNorm1d(3, bias=False)
    except TypeError:
        pytest.skip("this torch has no bias argument")
    ours = bnlib.nn.BatchNorm1d(3, bias=False)
    assert ours.bias is None
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = randn(4, 3, dtype=torch.float32)
    torch.testing.assert_close(ours(x), theirs(x))


# State dicts and copies.


@BOTH
def test_state_dicts_load_strictly_both_ways(kind):
    ours, theirs = pair(kind)
    for step in range(3):
        ours(randn(*KINDS[kind], seed=step))
    theirs.load_state_dict(ours.state_dict(), strict=True)
    assert_same_state(ours, theirs, allowed=0)
    fresh = getattr(bnlib.nn, kind.split(",")[0])(3, dtype=torch.float64)
    fresh.load_state_dict(theirs.state_dict(), strict=True)
    x = randn(*KINDS[kind], seed=9)
    assert torch.equal(fresh.eval()(x), ours.eval()(x))


def test_an_old_state_dict_without_the_counter_loads_as_in_torch():
    state = torch.nn.BatchNorm1d(3).state_dict()
    del state["num_batches_tracked"]
    del state._metadata
    ours = bnlib.nn.BatchNorm1d(3)
    ours.load_state_dict(state)
    assert ours.num_batches_tracked == 0


def saved(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module)), saved],
    ids=["deepcopy", "pickle", "torch.save"],
)
@BOTH
def test_a_copy_is_equal_and_goes_on_by_itself(kind, duplicate):
    ours, _ = pair(kind, momentum=None)
    ours(randn(*KINDS[kind]))
    before = snapshot(ours)
    twin = duplicate(ours)
    assert type(twin) is type(ours)
    assert repr(twin) == repr(ours)
    assert_unchanged(twin, before)
    twin(randn(*KINDS[kind], seed=1))
    assert_unchanged(ours, before)
    assert twin.num_batches_tracked == 2


def test_a_saved_state_dict_loads_with_weights_only():
    ours, theirs = pair("BatchNorm2d")
    file = io.BytesIO()
    torch.save(ours.state_dict(), file)
    file.seek(0)
    theirs.load_state_dict(torch.load(file, weights_only=True))
    assert_same_state(ours, theirs, allowed=0)


# The four states of (training, tracking), and tracking flipped afterwards.


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("flip", [False, True], ids=["as made", "flipped"])
@pytest.mark.parametrize("tracking", [True, False], ids=["tracking", "not tracking"])
@MOMENTA
def test_every_state_does_what_torch_does(momentum, tracking, flip, training):
    modules = pair("BatchNorm1d", momentum=momentum, track_running_stats=tracking)
    outputs = []
    for module in modules:
        module(randn(6, 3, seed=1) + 2)
        module.track_running_stats = tracking is not flip
        module.train(training)
        outputs.append([module(randn(6, 3, seed=step)) for step in (2, 3)])
    for one, other in zip(*outputs):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert_same_state(*modules)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("tracking", [True, False], ids=["tracking", "not tracking"])
def test_the_table_of_states_is_true(training, tracking):
    ours = bnlib.nn.BatchNorm1d(
        3, track_running_stats=tracking, affine=False, dtype=torch.float64
    ).train(training)
    x = randn(6, 3) * 3 + 5
    before = snapshot(ours)
    y = ours(x)
    batch = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
    expected = x / (1 + 1e-5) ** 0.5 if tracking and not training else batch
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
    if training and tracking:
        assert ours.num_batches_tracked == 1
        torch.testing.assert_close(ours.running_mean, 0.1 * x.mean(0))
    else:
        assert_unchanged(ours, before)


def test_buffers_stay_out_of_the_graph():
    ours, _ = pair("BatchNorm1d")
    for step in range(2):
        ours(randn(4, 3, seed=step).requires_grad_())
    assert not any(buffer.requires_grad for buffer in ours.buffers())


def test_a_changed_momentum_is_used_from_then_on():
    ours, theirs = pair("BatchNorm1d")
    for module in (ours, theirs):
        module(randn(4, 3))
        module.momentum = None
        module(randn(4, 3, seed=1))
    assert_same_state(ours, theirs)


# Dtypes and empty batches.


@pytest.mark.parametrize("inside", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
def test_an_input_of_another_dtype_gives_an_output_of_that_dtype(
    inside, training, affine
):
    ours = bnlib.nn.BatchNorm1d(3, affine=affine).train(training)
    x = randn(6, 3).to(inside).requires_grad_()
    y = ours(x)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype) == (inside, inside)
    assert all(value.dtype == torch.float32 for value in [*ours.parameters()])
    assert ours.running_var.dtype == torch.float32


def test_a_module_made_half_works_in_half():
    ours = bnlib.nn.BatchNorm1d(3).half()
    y = ours((200 * randn(4096, 3)).half())
    assert y.dtype == ours.running_mean.dtype == torch.float16
    assert torch.isfinite(ours.running_var).all()


def test_under_autocast_it_takes_what_the_layer_before_gives():
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), bnlib.nn.BatchNorm1d(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net(randn(5, 4, dtype=torch.float32))
    y.float().sum().backward()
    assert y.dtype == torch.bfloat16
    assert net[1].weight.grad.dtype == net[1].running_var.dtype == torch.float32


EMPTY = [
    ("BatchNorm1d", (0, 3)),
    ("BatchNorm1d", (0, 3, 9)),
    ("BatchNorm1d", (2, 3, 0)),
]
EMPTY += [("BatchNorm2d", (0, 3, 4, 4)), ("BatchNorm3d", (0, 3, 1, 2, 2))]


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize(("kind", "shape"), EMPTY, ids=str)
def test_an_empty_batch_gives_an_empty_output_and_changes_nothing(
    kind, shape, momentum
):
    ours, _ = pair(kind, momentum=momentum)
    before = snapshot(ours)
    for training in (True, False):
        x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        y = ours.train(training)(x)
        assert y.shape == shape
        y.sum().backward()
        assert (ours.weight.grad == 0).all()
    assert_unchanged(ours, before)


# As a part of other nets.


def test_it_is_one_of_torchs_modules_to_torchs_own_tools():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), bnlib.nn.BatchNorm1d(3)).eval()
    fused = torch.nn.utils.fusion.fuse_linear_bn_eval(net[0], net[1])
    x = randn(4, 3, dtype=torch.float32)
    torch.testing.assert_close(fused(x), net(x))
    synced = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert isinstance(synced[1], torch.nn.SyncBatchNorm)


def test_functional_call_leaves_the_module_alone():
    ours, theirs = pair("BatchNorm1d")
    before = snapshot(ours)
    state = snapshot(theirs)
    torch.func.functional_call(ours, state, (randn(4, 3),))
    assert_unchanged(ours, before)
    assert state["num_batches_tracked"] == 1


def test_channels_last_stays_channels_last():
    ours, theirs = pair("BatchNorm2d")
    x = randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for module in (ours, theirs):
        assert module(x).is_contiguous(memory_format=torch.channels_last)


def test_a_net_trains_with_it():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 8),
        bnlib.nn.BatchNorm1d(8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 1),
    )
    x = randn(64, 4, dtype=torch.float32)
    target = (x[:, :1] * x[:, 1:2]).sign()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.2)
    losses = []
    for _ in range(60):
        loss = ((net(x) - target) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
