"""Masked inputs: the statistics of what is kept, and zeros everywhere else."""

import numpy as np
import pytest
import torch
from common import buffers, parameters, randn
from hypothesis import given, settings, strategies as st
from kernels import EVERY, normal
from refusals import refused
from torch.autograd import gradcheck, gradgradcheck

from bnlib.functional import batch_norm

NAN = float("nan")


def masked(x, mask, *vectors, backend="auto", activation=None):
    """Return output, gradients and running statistics of a training step."""
    mean, var = torch.zeros(x.shape[1]), torch.ones(x.shape[1])
    leaves = [t.detach().clone().requires_grad_() for t in (x, *vectors)]
    y = batch_norm(
        leaves[0],
        mean,
        var,
        *leaves[1:],
        training=True,
        mask=mask,
        backend=backend,
        activation=activation,
    )
    upstream = normal(*x.shape, seed=5).to(x.dtype)
    return y.detach(), *torch.autograd.grad(y, leaves, upstream), mean, var


def lengths(*counts, longest):
    return torch.arange(longest) < torch.tensor(counts)[:, None]


@EVERY
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("shape", [(12, 3), (4, 3, 9), (2, 3, 4, 5)], ids=str)
def test_the_kept_positions_are_normalised_as_a_batch_of_their_own(
    shape, activation, backend
):
    x, (weight, bias) = normal(*shape), parameters(3, (True, True))
    mask = torch.rand(shape[0], *shape[2:], generator=torch.manual_seed(0)) < 0.6
    y, dx, dweight, dbias, mean, var = masked(
        x, mask, weight, bias, backend=backend, activation=activation
    )
    rows = x.movedim(1, -1)[mask].requires_grad_()
    alone_mean, alone_var = torch.zeros(3), torch.ones(3)
    leaves = [t.detach().requires_grad_() for t in (weight, bias)]
    alone = torch.nn.functional.batch_norm(
        rows.double(), alone_mean.double(), alone_var.double(), *leaves, training=True
    )
    alone = alone.relu() if activation else alone
    upstream = normal(*shape, seed=5).movedim(1, -1)[mask].double()
    grads = torch.autograd.grad(alone, (rows, *leaves), upstream)
    found = y.movedim(1, -1)[mask], dx.movedim(1, -1)[mask], dweight, dbias
    for one, other in zip(found, (alone, *grads)):
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-5, atol=1e-5)
    for grid in (y, dx):
        assert (grid.movedim(1, -1)[~mask] == 0).all()
    kept = x.movedim(1, -1)[mask].double()
    torch.testing.assert_close(mean.double(), 0.1 * kept.mean(0), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(
        var.double(), 0.9 + 0.1 * kept.var(0), rtol=1e-4, atol=1e-6
    )


@EVERY
@pytest.mark.parametrize("padding", [NAN, float("inf"), 0.0, 1e30])
def test_what_the_padding_holds_and_how_much_there_is_changes_nothing(padding, backend):
    counts = (5, 2, 7)
    results = []
    for longest, filler in ((7, 0.0), (7, padding), (20, padding)):
        mask = lengths(*counts, longest=longest)
        x = torch.full((3, 4, longest), filler)
        x[..., :7] = torch.where(mask[:, None, :7], normal(3, 4, 7), x[..., :7])
        mean, var = torch.zeros(4), torch.ones(4)
        x.requires_grad_()
        y = batch_norm(x, mean, var, training=True, mask=mask, backend=backend)
        (dx,) = torch.autograd.grad((y**3).sum(), x)
        assert (y.movedim(1, -1)[~mask] == 0).all()
        assert (dx.movedim(1, -1)[~mask] == 0).all()
        results.append((y[..., :7], dx[..., :7], mean, var))
    for other in results[1:]:
        for one, two in zip(results[0], other):
            assert torch.equal(one, two)


@EVERY
def test_a_full_mask_is_no_mask(backend):
    x = normal(5, 3, 4)
    full = torch.ones(5, 4, dtype=torch.bool)
    plain = batch_norm(x, None, None, training=True, backend=backend)
    found = batch_norm(x, None, None, training=True, mask=full, backend=backend)
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-6)


@EVERY
def test_in_eval_the_mask_only_zeroes(backend):
    x, (mean, var) = normal(4, 3, 5), buffers(3, dtype=torch.float32)
    mask = lengths(5, 0, 1, 3, longest=5)
    y = batch_norm(x, mean, var, mask=mask, backend=backend)
    plain = batch_norm(x, mean, var, backend=backend) * mask[:, None]
    torch.testing.assert_close(y, plain, rtol=1e-6, atol=1e-6)


@EVERY
def test_masked_gradients_and_second_derivatives_pass_torchs_check(backend):
    mask = lengths(3, 1, 2, longest=3)
    x, (weight, bias) = randn(3, 2, 3).requires_grad_(), parameters(2, (True, True))

    def function(x, weight, bias):
        return batch_norm(
            x,
            None,
            None,
            weight,
            bias,
            True,
            eps=1e-2,
            mask=mask,
            backend=backend,
            activation="relu",
        )

    assert gradcheck(function, (x, weight, bias))
    assert gradgradcheck(function, (x, weight, bias))


def test_a_mask_that_keeps_nothing_gives_zeros_and_leaves_the_buffers():
    x = torch.full((2, 3, 4), NAN, requires_grad=True)
    mean, var = torch.zeros(3), torch.ones(3)
    weight = torch.ones(3, requires_grad=True)
    nothing = torch.zeros(2, 4, dtype=torch.bool)
    for training in (True, False):
        y = batch_norm(x, mean, var, weight, training=training, mask=nothing)
        assert (y == 0).all()
        grads = torch.autograd.grad(y.sum(), (x, weight))
        assert all((grad == 0).all() for grad in grads)
    assert (mean == 0).all()
    assert (var == 1).all()


def test_a_channels_last_input_keeps_its_layout():
    x = normal(2, 3, 4, 5).to(memory_format=torch.channels_last)
    mask = torch.rand(2, 4, 5, generator=torch.manual_seed(0)) < 0.5
    y = batch_norm(x, None, None, training=True, mask=mask)
    assert y.is_contiguous(memory_format=torch.channels_last)


BAD = {
    "kind": ([[True]], TypeError, ("mask", "list", "torch tensor")),
    "NumPy": (np.ones((4, 5), bool), TypeError, ("mask", "ndarray", "torch tensor")),
    "dtype": (
        torch.ones(4, 5),
        TypeError,
        ("mask", "float32", "torch.bool"),
    ),
    "integers": (
        torch.ones(4, 5, dtype=torch.uint8),
        TypeError,
        ("mask", "uint8", "torch.bool"),
    ),
    "channels": (
        torch.ones(4, 3, 5).bool(),
        ValueError,
        ("mask", "(4, 3, 5), input (4, 3, 5)", "(4, 5)"),
    ),
    "transposed": (
        torch.ones(5, 4).bool(),
        ValueError,
        ("mask", "(5, 4), input (4, 3, 5)", "(4, 5)"),
    ),
    "short": (
        torch.ones(4).bool(),
        ValueError,
        ("mask", "(4,), input (4, 3, 5)", "(4, 5)"),
    ),
    "device": (
        torch.ones(4, 5, device="meta").bool(),
        ValueError,
        ("input", "cpu, mask meta", "one device"),
    ),
    "one kept": (
        lengths(1, 0, 0, 0, longest=5),
        ValueError,
        ("mask", "one position, (4, 3, 5)"),
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_mask_is_named_and_nothing_changes(bad):
    mask, raised, says = BAD[bad]
    mean, var = torch.zeros(3), torch.ones(3)
    with refused(raised, *says):
        batch_norm(normal(4, 3, 5), mean, var, training=True, mask=mask)
    assert (mean == 0).all()
    assert (var == 1).all()


def test_one_kept_position_is_enough_for_eval():
    mask = lengths(1, 0, 0, 0, longest=5)
    y = batch_norm(normal(4, 3, 5), *buffers(3), mask=mask)
    assert (y[0, :, 0] != 0).all()


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    channels=st.integers(1, 5),
    seed=st.integers(0, 2**31),
)
def test_any_lengths_give_what_the_joined_sequences_give(counts, channels, seed):
    if sum(counts) < 2:
        return
    mask = lengths(*counts, longest=6)
    x = normal(len(counts), channels, 6, mean=100.0, seed=seed)
    y = batch_norm(
        x.where(mask[:, None], torch.nan), None, None, None, None, True, mask=mask
    )
    joined = x.movedim(1, -1)[mask].double()
    centred = joined - joined.mean(0)
    expected = centred / (centred.square().mean(0) + 1e-5).sqrt()
    found = y.movedim(1, -1)[mask]
    assert (found - expected).abs().max() <= 1e-6
