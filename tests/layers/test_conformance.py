"""The cases that a BatchNorm must get right: bnlib does, and a broken one does not."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from common import assert_same, parameters, randn, torchs
from kernels import EVERY
from refusals import refused

import bnlib
from bnlib import conformance
from bnlib.conformance import _cases, _usage

NUMBERS = [case.number for case in conformance.all_cases()]
#: Cases of what a backend computes.
OF_BACKENDS = {1, 2, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 22, 28, 29, 33}
#: Cases of functions that stand beside the layers, and of more than one process.
BESIDE = {3, 5, 19, 21, 22, 23, 25, 26, 27, 32}


@pytest.mark.parametrize("number", NUMBERS)
def test_bnlib_gets_it_right(number):
    assert conformance.run(number) == ("right", "")


@EVERY
@pytest.mark.parametrize("number", sorted(OF_BACKENDS))
def test_every_backend_gets_it_right(number, backend, monkeypatch):
    monkeypatch.setenv("BNLIB_BACKEND", backend)
    digits_lost = backend == "torch" and number in (9, 10)
    verdict = "otherwise" if digits_lost else "right"
    assert conformance.run(number).verdict == verdict


@pytest.mark.parametrize("number", NUMBERS)
def test_a_case_judges_torch_without_an_exception(number):
    outcome = conformance.run(number, library="torch")
    assert outcome.verdict in ("right", "otherwise", "not offered")
    assert bool(outcome.detail) is (outcome.verdict != "right")


def test_torch_is_not_compared_with_itself():
    assert conformance.run(32, "torch") == ("not offered", "it is the reference")


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [(9, 3), (4, 3, 5), (2, 3, 4, 4)], ids=str)
def test_the_reference_is_what_autograd_finds_of_torchs_function(shape, relu):
    leaves = randn(*shape).requires_grad_(), *parameters(3, (True, True))
    dy = randn(*shape, seed=1)
    x, weight, bias = leaves
    y = torchs(x, None, None, weight, bias, training=True, eps=1e-3)
    y = y.relu() if relu else y
    expected = y, *torch.autograd.grad(y, leaves, dy)
    found = conformance.reference(x, dy, weight, bias, eps=1e-3, relu=relu)
    assert_same(found, expected, 1e-11)


class Broken(torch.nn.BatchNorm1d):
    """A layer that takes anything, and answers with noise."""

    def __init__(self, num_features, *arguments, dtype=None, **options):
        super().__init__(max(num_features, 1), dtype=dtype)

    def forward(self, input):
        if isinstance(input, torch.Tensor) and input.is_floating_point():
            self.running_mean += 1
            self.running_var += 1
            self.num_batches_tracked += 1
            loose = input.sum() * 0 + self.weight.sum() * 0 + self.bias.sum() * 0
            noise = torch.randn(input.shape, dtype=input.dtype, device=input.device)
            return noise + loose.nan_to_num()
        return input


def broken_function(input, mean, var, weight=None, bias=None, **options):
    noise = torch.randn(input.shape, dtype=input.dtype)
    for given in (input, weight, bias):
        if given is not None:
            noise = noise + (given.detach() * given).nan_to_num().sum()
    return noise


@pytest.mark.parametrize("number", sorted(set(NUMBERS) - BESIDE))
def test_a_case_rejects_a_broken_layer(monkeypatch, number):
    names = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
    library = SimpleNamespace(
        name="broken",
        nn=SimpleNamespace(**dict.fromkeys(names, Broken)),
        batch_norm=broken_function,
    )
    monkeypatch.setitem(_cases._LIBRARIES, "torch", library)
    assert conformance.run(number, library="torch").verdict == "otherwise"


@pytest.mark.parametrize(
    ("number", "place", "name", "broken"),
    [
        (5, bnlib, "recalibrate", lambda model, batches: model),
        (25, bnlib, "recalibrate", lambda model, batches: model),
        (19, bnlib.nn, "freeze", lambda model, **flags: model),
        (
            23,
            bnlib.nn,
            "accumulate",
            lambda model, loss, batches: loss(model, batches[0]).backward(),
        ),
        (24, bnlib, "fold", lambda layer, norm: layer),
        (27, bnlib.nn, "weight_norm", torch.nn.utils.parametrizations.weight_norm),
    ],
)
def test_a_case_rejects_a_broken_function(monkeypatch, number, place, name, broken):
    assert conformance.run(number).verdict == "right"
    monkeypatch.setattr(place, name, broken)
    assert conformance.run(number).verdict == "otherwise"


def test_running_a_case_leaves_the_random_numbers_alone():
    torch.manual_seed(0)
    expected = torch.randn(2)
    torch.manual_seed(0)
    conformance.run(9)
    assert torch.equal(torch.randn(2), expected)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0,), ("number", 0, "one from 1 to 33")),
        ((1, "jax"), ("library", "'jax'", "'bnlib' or 'torch'")),
    ],
)
def test_bad_arguments_are_named(arguments, says):
    with refused(ValueError, *says):
        conformance.run(*arguments)


def test_processes_that_hang_are_ended_and_are_the_wrong_answer(monkeypatch):
    started, start = [], subprocess.Popen

    def hang(command, **options):
        command = [sys.executable, "-c", "import time; time.sleep(60)"]
        started.append(start(command, **options))
        return started[-1]

    monkeypatch.setattr(_usage, "_SECONDS", 0.5)
    monkeypatch.setattr(subprocess, "Popen", hang)
    assert conformance.run(21) == ("otherwise", "no end within 0.5 seconds")
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_several_gpus_are_no_reason_to_warn(two_gpus):
    assert conformance.run(28).verdict == "right"
    assert two_gpus == [0, 1]
