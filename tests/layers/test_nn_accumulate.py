"""Gradients accumulated over micro-batches are those of the whole batch."""

import copy

import pytest
import torch
from refusals import refused
from torch import distributed, nn
from torch.utils.checkpoint import checkpoint

from bnlib.nn import BatchNorm1d, BatchNorm2d, SyncBatchNorm, accumulate, freeze


def mlp():
    layers = [nn.Linear(5, 7), BatchNorm1d(7, activation="relu"), nn.Linear(7, 6)]
    layers += [nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 4), BatchNorm1d(4)]
    return seeded(nn.Sequential(*layers, nn.Linear(4, 2)))


def convolutional():
    layers = [nn.Conv2d(5, 4, 3, padding=1), BatchNorm2d(4, momentum=None), nn.ReLU()]
    layers += [nn.Conv2d(4, 3, 3), nn.BatchNorm2d(3, affine=False)]
    return seeded(nn.Sequential(*layers, nn.Flatten(), nn.Linear(12, 2)))


def seeded(model):
    generator = torch.Generator().manual_seed(0)
    model = model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    return model


def inputs(model):
    generator = torch.Generator().manual_seed(1)
    shape = (20, 5, 4, 4) if isinstance(model[0], nn.Conv2d) else (20, 5)
    return torch.randn(shape, generator=generator, dtype=torch.float64) + 3


def loss(model, x):
    return (model(x) ** 3).sum()


def assert_same(ours, theirs):
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if b.grad is None:
            assert a.grad is None, name
            continue
        scale = max(1.0, b.grad.abs().max().item())
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-11 * scale)
    for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sizes", [[20], [5] * 4, [1, 12, 0, 7], [1] * 20], ids=str)
@pytest.mark.parametrize("make", [mlp, convolutional])
def test_gradients_and_running_statistics_are_those_of_one_batch(make, sizes):
    ours, theirs = make(), make()
    x = inputs(ours)
    whole = loss(theirs, x)
    whole.backward()
    total = accumulate(ours, loss, x.split(sizes))
    torch.testing.assert_close(total, whole.detach(), rtol=1e-13, atol=0)
    assert not total.requires_grad
    assert_same(ours, theirs)


def test_the_plain_way_is_another_computation():
    """The exact way is needed: a layer normalises each micro-batch by itself."""
    ours, theirs = mlp(), mlp()
    x = inputs(ours)
    loss(theirs, x).backward()
    for part in x.split(5):
        loss(ours, part).backward()
    with pytest.raises(AssertionError):
        assert_same(ours, theirs)


def test_it_adds_to_the_gradients_that_are_there():
    ours, theirs = mlp(), mlp()
    x = inputs(ours)
    for _ in range(2):
        accumulate(ours, loss, x.split(5))
        loss(theirs, x).backward()
    assert_same(ours, theirs)


def test_frozen_layers_and_evaluation_mode_keep_their_statistics():
    ours, theirs = mlp(), mlp()
    for model in (ours, theirs):
        freeze(model[1])
        model[3].eval()
    x = inputs(ours)
    loss(theirs, x).backward()
    accumulate(ours, loss, x.split(5))
    assert_same(ours, theirs)


def test_a_model_without_batch_norm_is_accumulated_as_ever():
    ours = seeded(nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 1)))
    theirs = copy.deepcopy(ours)
    x = inputs(ours)
    loss(theirs, x).backward()
    accumulate(ours, loss, x.split(7))
    assert_same(ours, theirs)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv1d(2, 3, 1), BatchNorm1d(3)
        self.last = nn.Conv1d(3, 1, 1)

    def forward(self, batch):
        x, mask = batch
        return self.last(self.norm(self.first(x), mask=mask)) * mask[:, None]


def test_masks_are_respected():
    ours = seeded(Masked())
    theirs = copy.deepcopy(ours)
    x = torch.randn(6, 2, 5, dtype=torch.float64)
    mask = torch.rand(6, 5) < 0.6
    loss(theirs, (x, mask)).backward()
    accumulate(ours, loss, list(zip(x.split(2), mask.split(2))))
    assert_same(ours, theirs)


def test_dropout_repeats_its_draws_in_every_pass_and_not_between_micro_batches():
    seen = []

    class Watch(nn.Module):
        def forward(self, x):
            seen.append(x.detach().clone())
            return x

    model = nn.Sequential(nn.Dropout(0.5), Watch(), BatchNorm1d(4), nn.Linear(4, 1))
    torch.manual_seed(0)
    accumulate(model, loss, [torch.ones(8, 4)] * 2)
    even, odd = seen[::2], seen[1::2]
    assert len(even) > 2
    assert all(torch.equal(each, even[0]) for each in even)
    assert not torch.equal(even[0], odd[0])
    accumulate(model, loss, [torch.ones(8, 4)] * 2)
    assert not torch.equal(seen[-2], even[0])


def recurrent():
    norm = BatchNorm1d(5)
    return nn.Sequential(norm, norm)


@pytest.mark.parametrize(
    ("model", "batches", "error", "says"),
    [
        ([], [torch.ones(2, 5)], TypeError, ("model", "list", "torch.nn.Module")),
        (
            BatchNorm1d(5),
            torch.ones(2, 5),
            TypeError,
            ("batches", "Tensor", "list or tuple"),
        ),
        (
            BatchNorm1d(5),
            [],
            ValueError,
            ("batches", "empty", "at least one"),
        ),
        (
            BatchNorm1d(5),
            [torch.ones(1, 5)],
            ValueError,
            ("layer 'BatchNorm1d'", "1 values per feature"),
        ),
        (
            BatchNorm1d(5),
            [torch.ones(2, 4)],
            ValueError,
            ("input", "(2, 4), 4 features, axis 1", 5),
        ),
        (recurrent(), [torch.ones(2, 5)] * 2, ValueError, ("layer '0'", "runs twice")),
    ],
    ids=str,
)
def test_bad_arguments_are_named_and_change_nothing(model, batches, error, says):
    before = copy.deepcopy(model.state_dict()) if isinstance(model, nn.Module) else None
    with refused(error, *says):
        accumulate(model, loss, batches)
    if before is not None:
        assert all(p.grad is None for p in model.parameters())
        assert str(model.state_dict()) == str(before)
        assert "forward" not in model.__dict__


def test_a_loss_that_is_no_scalar_is_named():
    with refused(ValueError, "loss", "[4, 5]", "scalar tensor"):
        accumulate(BatchNorm1d(5), lambda model, x: model(x), [torch.randn(4, 5)])


def test_another_order_from_batch_to_batch_is_named():
    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = BatchNorm1d(2), BatchNorm1d(2)

        def forward(self, x):
            pair = (self.a, self.b) if len(x) == 2 else (self.b, self.a)
            return pair[1](pair[0](x))

    with refused(ValueError, "layers 'a' 'b'", "another order"):
        accumulate(Either(), loss, [torch.randn(2, 2), torch.randn(3, 2)])


def test_checkpointed_layers_are_recomputed_and_do_not_count_as_run_twice():
    class Checkpointed(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    ours, theirs = mlp(), mlp()
    x = inputs(ours)
    loss(theirs, x).backward()
    accumulate(Checkpointed(ours), loss, x.split(5))
    assert_same(ours, theirs)


def never(model, x):
    raise AssertionError("a pass was made")


@pytest.mark.parametrize("kind", [SyncBatchNorm, nn.SyncBatchNorm])
def test_statistics_shared_with_other_processes_are_refused_before_any_pass(
    monkeypatch, kind
):
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda group=None: 2)
    model = nn.Sequential(nn.Linear(5, 3), kind(3))
    with refused(ValueError, "layer '1'", "SyncBatchNorm shares"):
        accumulate(model, never, [torch.randn(4, 5)])


@pytest.mark.parametrize("kind", [BatchNorm1d, nn.BatchNorm1d])
def test_a_momentum_out_of_range_is_named_before_any_pass(kind):
    layer = kind(5)
    layer.momentum = 2.0
    with refused(ValueError, "momentum", 2.0, "finite number in [0, 1]"):
        accumulate(layer, never, [torch.randn(4, 5)])


def test_several_gpus_are_no_reason_to_warn(two_gpus):
    accumulate(BatchNorm1d(5), loss, [torch.randn(4, 5)])
    assert two_gpus == [0, 1]
