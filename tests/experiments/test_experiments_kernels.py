"""The experiments on the backends check values first, and time them in turn."""

import numpy as np
import pytest
import torch
from common import randn
from refusals import refused

from bnlib import experiments
from bnlib.conformance import definition
from bnlib.experiments import kernels as measured
from bnlib.experiments._backends import relative, units
from bnlib.experiments.kernels import interleaved

TINY = {"cases": ["32x64"], "rounds": 2}


def speed(**changed):
    return experiments.run("kernel-speed", device="cpu", **TINY | changed).results


@pytest.mark.parametrize("relu", [False, True])
def test_all_implementations_compute_the_same(relu):
    made = measured.implementations(
        ["pytorch", "plain", "readable", "torch", "auto"], relu
    )
    x, (weight, bias) = randn(8, 3, 4), randn(2, 3, seed=2)
    expected = definition(x, weight, bias, relu=relu)
    for function in made.values():
        torch.testing.assert_close(
            function(x, weight, bias), expected, atol=1e-9, rtol=0
        )


def test_functions_are_called_in_turn_there_and_back_and_differentiated():
    called = []

    def function(name, factor):
        def times(x):
            called.append(name)
            return factor * x

        return times

    x = torch.ones(2**18, requires_grad=True)
    functions = {"one": function("one", 2.0), "two": function("two", 3.0)}
    times = interleaved(functions, (x,), torch.ones(2**18), 3)
    assert called == ["one", "two", "two", "one"] * 2
    assert {name: each.shape for name, each in times.items()} == dict.fromkeys(
        ("copy", "one", "two"), (3, 2)
    )
    for name in functions:
        forward, both = times[name].T
        assert (forward > 0).all()
        assert (forward < both).all()
    assert x.grad is None


def test_a_small_tensor_is_normalised_many_times_for_one_time():
    called = []
    x = torch.ones(2**15, requires_grad=True)
    interleaved({"id": lambda x: called.append(1) or 1 * x}, (x,), torch.ones(2**15), 2)
    assert len(called) == 8 * 3


def test_a_row_has_a_value_for_each_backend_and_none_where_one_refuses():
    backends = ["torch", "triton", "pytorch"]
    for row in speed(backends=backends, activations=["none", "relu"]):
        for name in ("forward_ms", "both_ms", "forward_speedup", "both_speedup"):
            guarded, triton, torchs = row[name]
            assert triton is None
            assert min(guarded, torchs) > 0
        assert row["forward_speedup"][2] == row["both_speedup"][2] == 1
        assert row["error"][1] is row["dx_error"][1] is row["compile_seconds"] is None
        assert max(row["error"][::2] + row["dx_error"][::2]) < 1e-6
        assert row["megabytes"] == 32 * 64 * 4 / 1e6
        assert row["copy_ms"] > 0
        assert min(row["copy_spread"], row["pytorch_spread"]) >= 0


def test_its_numbers_are_an_array_over_the_sweep_and_the_backends():
    record = experiments.run("kernel-speed", device="cpu", **TINY)
    assert record.array("both_ms").shape == (1, 1, 1, 1, 3)


def test_half_precision_is_drawn_and_checked():
    small = {"activations": ["none"], "backends": ["pytorch"], "megabytes": 1.0}
    record = experiments.run(
        "kernel-speed-gpu", device="cpu", dtypes=["bfloat16"], rounds=2, **small
    )
    (row,) = record.results
    assert row["megabytes"] == pytest.approx(1, rel=0.3)
    assert 1e-4 < row["error"][0] < 1e-2


def test_without_a_compiler_what_is_compiled_is_left_out(monkeypatch):
    def fails(function, **options):
        def call(*arguments):
            raise RuntimeError("no compiler")

        return call

    monkeypatch.setattr(torch, "compile", fails)
    (row,) = speed(backends=["pytorch", "compiled"])
    assert row["forward_ms"][1] is row["compile_seconds"] is None


def test_another_backend_that_fails_is_not_hidden(monkeypatch):
    def fails(*arguments, **options):
        raise RuntimeError("broken")

    monkeypatch.setattr(measured, "usable", lambda functions, x: {"c": fails})
    with refused(RuntimeError, "broken"):
        speed(backends=["pytorch", "c"])


@pytest.mark.parametrize(
    ("backends", "named"),
    [(["pytorch", "fast"], "pytorch, fast"), (["torch"], "torch")],
)
@pytest.mark.parametrize("id", ["kernel-speed", "kernel-errors"])
def test_backends_are_torch_and_known_ones(id, backends, named):
    with refused(ValueError, "backends", named, "pytorch"):
        experiments.run(id, device="cpu", backends=backends)


def test_errors_on_hard_inputs_tell_the_exact_backend_from_torchs():
    record = experiments.run(
        "kernel-errors", device="cpu", backends=["pytorch", "readable", "triton"]
    )
    for row in record.results:
        theirs, ours, triton = row["error"]
        assert triton is None
        if row["units"]:
            assert max(row["units"][1], row["dx_units"][1]) <= 0.51
        else:
            assert max(ours, row["dx_error"][1]) < 2e-7
            if row["input"] == "mean 1e4" and row["layout"] == "rows":
                assert theirs > 1e-4


def test_an_error_is_over_the_largest_value_and_nan_is_a_large_one():
    exact = torch.tensor([4.0, -8.0], dtype=torch.float64)
    assert relative(torch.tensor([4.0, -7.0]), exact) == 0.125
    assert relative(torch.tensor([4.0, torch.nan]), exact) == 1e300


def test_units_are_those_of_each_value_but_for_the_smallest():
    # bfloat16 has 8 binary digits, so the unit of 1 is 2^-7. Values near 0 take the
    # unit of 1/64 of the largest value, 64.
    exact = torch.tensor([64.0, 1.0, 0.0], dtype=torch.float64)
    one_up = torch.tensor([64.0, 1 + 2**-7, 0.0], dtype=torch.bfloat16)
    assert units(one_up, exact) == 1
    assert units(torch.tensor([64.5, 1, 0], dtype=torch.bfloat16), exact) == 1
    assert units(torch.tensor([64, 1, 2**-7], dtype=torch.bfloat16), exact) == 1


def test_a_case_names_a_shape_and_a_size_changes_the_examples():
    assert measured.shape_of("256x3x32x32 channels_last") == (256, 3, 32, 32)
    shape = measured.shape_of("256x3x32x32", megabytes=500.0, itemsize=2)
    assert shape[1:] == (3, 32, 32)
    assert 500e6 <= 2 * np.prod(shape) < 501e6


def test_a_speedup_is_the_median_of_torchs_time_over_the_backends():
    times = {
        "copy": np.full((3, 2), 0.25),
        "pytorch": np.array([[2.0, 6.0], [2.0, 6.0], [9.0, 99.0]]),
        "c": np.array([[1.0, 2.0], [1.0, 2.0], [4.0, 11.0]]),
    }
    row = measured._timed(["c", "triton", "pytorch"], times)
    assert row["copy_ms"] == 250
    assert row["forward_ms"] == [1000, None, 2000]
    assert row["both_ms"] == [2000, None, 6000]
    assert row["forward_speedup"] == [2, None, 1]
    assert row["both_speedup"] == [3, None, 1]
    assert (row["copy_spread"], row["pytorch_spread"]) == (0, 7.75)
