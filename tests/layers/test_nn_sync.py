"""Batch norm over several processes is that of one process with the joined batch."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import sync_worker
import torch
from refusals import refused
from torch import distributed

import bnlib
from bnlib.nn import BatchNorm2d, SyncBatchNorm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (distributed.is_available() and distributed.is_gloo_available()),
        reason="this torch has no gloo",
    ),
]
WORKER = Path(sync_worker.__file__)
ALLOWED = 1e-12


def outcomes(folder, world, job):
    """Run the processes; return each one's exit code and what it printed."""
    processes = [
        subprocess.Popen(
            [sys.executable, WORKER, folder, str(rank), str(world), job],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        said = [process.communicate(timeout=90)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()
    return [(process.returncode, text) for process, text in zip(processes, said)]


@pytest.fixture(scope="module", params=[2, 4])
def shared(request, tmp_path_factory):
    """The number of processes, and what each of them computed."""
    world, folder = request.param, tmp_path_factory.mktemp("shared")
    ended = outcomes(folder, world, "compute")
    assert [code for code, _ in ended] == [0] * world, ended
    return world, [torch.load(folder / f"{rank}.pt") for rank in range(world)]


def close(ours, theirs):
    scale = max(1.0, theirs.abs().max().item()) if theirs.numel() else 1.0
    torch.testing.assert_close(ours, theirs, rtol=0, atol=ALLOWED * scale)


def joined(parts, name):
    return torch.cat([part[name] for part in parts])


def one_process(rows, options, **extra):
    """The same on one process, with the layer that shares nothing."""
    options = dict(sync_worker.OPTIONS[options])
    reference = BatchNorm2d(sync_worker.CHANNELS, dtype=torch.float64, **options)
    like = sync_worker.layer_of(options)
    reference.load_state_dict(like.state_dict())
    return sync_worker.run(reference, *sync_worker.data(rows), **extra)


@pytest.mark.parametrize("case", dict.fromkeys(sync_worker.cases(4)), ids=str)
def test_forward_statistics_and_gradients_are_those_of_the_joined_batch(shared, case):
    world, results = shared
    parts = [result[case] for result in results]
    rows = sync_worker.SHARDS[case[0]][:world]
    whole = one_process(rows, case[1])
    close(joined(parts, "y"), whole["y"])
    close(joined(parts, "dx"), whole["dx"])
    for place, gradient in enumerate(whole["sums"]):
        close(sum(part["sums"][place] for part in parts), gradient)
    for part in parts:
        for ours, theirs in zip(part["state"], whole["state"], strict=True):
            close(ours, theirs)


def test_with_a_mask_padding_counts_nowhere(shared):
    world, results = shared
    rows = sync_worker.SHARDS["unequal"][:world]
    kept = torch.arange(sum(rows)) % 2 == 0
    parts = [result["mask"] for result in results]
    x, dy = (part[kept] for part in sync_worker.data(rows))
    layer = BatchNorm2d(sync_worker.CHANNELS, dtype=torch.float64)
    layer.load_state_dict(sync_worker.layer_of({}).state_dict())
    whole = sync_worker.run(layer, x, dy)
    for name in ("y", "dx"):
        close(joined(parts, name)[kept], whole[name])
        assert not joined(parts, name)[~kept].any()
    close(parts[0]["state"][1], whole["state"][1])


def test_eval_mode_needs_no_other_process(shared):
    world, results = shared
    rows = sync_worker.SHARDS["unequal"][:world]
    x, _ = sync_worker.data(rows)
    expected = sync_worker.layer_of({}).eval()(x).detach()
    close(torch.cat([result["eval"] for result in results]), expected)


def test_no_values_at_all_change_nothing(shared):
    for result in shared[1]:
        assert result["all empty"] == (torch.Size([0, 3, 4, 5]), 0)


def test_one_value_in_all_is_the_same_error_on_every_process(shared):
    for result in shared[1]:
        message, tracked = result["one value"]
        assert "together have one value per feature" in message
        assert tracked == 0


def test_a_process_that_dies_is_an_error_on_the_others_and_no_hang(tmp_path):
    began = time.monotonic()
    (code, said), (dead, _) = outcomes(tmp_path, 2, "die")
    assert (dead, code) == (7, 1)
    assert "DistError" in said or "RuntimeError" in said, said
    assert time.monotonic() - began < 60


def test_without_a_group_it_is_an_ordinary_layer():
    x = torch.randn(6, 3, 4, 5, dtype=torch.float64)
    ours = sync_worker.layer_of({})
    theirs = BatchNorm2d(3, dtype=torch.float64)
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=0)


def test_constructor_repr_and_state_dict_are_torchs():
    arguments = (3, 1e-3, 0.2, True, True, None, torch.device("cpu"), torch.float64)
    ours, theirs = SyncBatchNorm(*arguments), torch.nn.SyncBatchNorm(*arguments)
    assert repr(ours) == repr(theirs)
    assert isinstance(ours, torch.nn.SyncBatchNorm)
    ours.load_state_dict(theirs.state_dict())
    assert ours.weight.dtype == torch.float64


def test_folding_and_recalibration_know_it():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), SyncBatchNorm(3)).double()
    x = torch.randn(20, 2, dtype=torch.float64)
    bnlib.recalibrate(model, [x])
    model.eval()
    torch.testing.assert_close(bnlib.fold(*model)(x), model(x))


@pytest.mark.parametrize("mask", [[True, False], (1, 0), "all"], ids=str)
def test_a_mask_that_is_no_tensor_is_named(mask):
    with refused(TypeError, "mask", type(mask), "torch tensor"):
        SyncBatchNorm(3)(torch.ones(2, 3), mask=mask)
