"""The bench runs, says what it measured, and when it cannot be trusted.

No test checks how long anything takes.
"""

import dataclasses

import pytest

from bnlib import experiments
from tools import bench, bench_gdnp, bench_kernels, bench_triton

SMALL = {
    "kernel-errors": {"inputs": ["mean 1e4", "float16, deviation 200"]},
    "kernel-speed": {
        "cases": ["32x64"],
        "backends": ["pytorch", "triton", "c", "auto"],
    },
    "kernel-speed-gpu": {
        "cases": ["32x64x56x56"],
        "dtypes": ["float32"],
        "backends": ["pytorch", "torch"],
        "megabytes": 0.01,
    },
}


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Let the bench measure a little of everything, on the CPU alone."""
    monkeypatch.setenv("BNLIB_CACHE", str(tmp_path / "cache"))
    run = experiments.run

    def smaller(id, scale, *, device, **parameters):
        return run(id, scale, device="cpu", **parameters | SMALL[id])

    monkeypatch.setattr(bench.experiments, "run", smaller)
    monkeypatch.setattr(bench_gdnp, "report", lambda rounds: print("GDNP", rounds))
    monkeypatch.setattr(bench_triton, "report", lambda: ["a kernel is wrong"])
    return tmp_path / "bench"


def test_it_prints_tables_and_goals_and_writes_records_and_a_figure(small, capsys):
    bench.main(["--rounds", "2", "--folder", str(small)])
    said = capsys.readouterr().out
    assert said.startswith("GDNP 2\n")
    assert "mean 1e4, channels_last" in said
    assert said.count("32x64") == 2
    assert "anywhere, forward" in said
    assert "a kernel is wrong" in said
    files = sorted(path.name for path in small.iterdir())
    assert files == ["kernel-errors.json", "kernel-speed.json", "kernel-speed.png"]
    assert experiments.load_record("kernel-speed", small).parameters["rounds"] == 2
    assert (small / "kernel-speed.png").stat().st_size > 5000


def test_on_a_gpu_values_are_checked_first_and_gdnp_is_left_out(small, capsys):
    bench.main(["--rounds", "2", "--folder", str(small), "--device", "cuda"])
    said = capsys.readouterr().out
    assert "GDNP" not in said
    assert said.index("Errors of y") < said.index("Speed-up over torch")
    record = experiments.load_record("kernel-speed-gpu", small)
    assert record.results[0]["error"][0] < 1e-5


def test_a_record_of_before_is_replaced(small, capsys):
    for _ in range(2):
        bench.main(["--rounds", "2", "--folder", str(small), "--device", "cuda"])
    assert len(list(small.glob("*.json"))) == 2


def row(**changed):
    given = {
        "case": "32x64x56x56",
        "dtype": "float32",
        "activation": "none",
        "megabytes": 25.0,
        "copy_ms": 5.0,
        "copy_spread": 0.01,
        "pytorch_spread": 0.01,
        "compile_seconds": 4.2,
        "forward_ms": [9.0, 4.5, None],
        "both_ms": [30.0, 20.0, None],
        "forward_speedup": [1.0, 2.0, None],
        "both_speedup": [1.0, 1.5, None],
    }
    return given | changed


def record(id, *rows, **parameters):
    """A record of an experiment with rows that no machine has measured."""
    whole = experiments.get(id).parameters("paper") | parameters
    fields = [field.name for field in dataclasses.fields(experiments.Record)]
    empty = dict.fromkeys(fields) | {"versions": {"torch": "2"}, "title": "Times"}
    return experiments.Record(**empty | {"parameters": whole, "results": list(rows)})


THREE = {"backends": ["pytorch", "c", "auto"], "activations": ["none"]}


def test_a_row_tells_bandwidth_times_speedups_and_the_time_to_compile():
    line = bench_kernels.speed_table(record("kernel-speed", row(), **THREE))[-1]
    words = ["32x64x56x56", "10", "GB/s", "9", "30", "2.00", "/", "1.50", "-"]
    assert line.split() == [*words, "compiled", "in", "4", "s"]


@pytest.mark.parametrize("what", ["copy_spread", "pytorch_spread"])
@pytest.mark.parametrize(("spread", "noisy"), [(0.19, False), (0.21, True)])
def test_a_row_is_noisy_if_the_copies_or_torchs_times_scatter(what, spread, noisy):
    found = record("kernel-speed", row(**{what: spread}), **THREE)
    assert bench_kernels.speed_table(found)[-1].endswith("noisy") is noisy


def test_noisy_rows_are_counted(small, capsys, monkeypatch):
    monkeypatch.setattr(bench_kernels, "NOISY", 0.0)
    bench.main(["--rounds", "2", "--folder", str(small), "--device", "cuda"])
    assert "2 of 2 rows were noisy" in capsys.readouterr().out


def error_row(**changed):
    given = {"input": "mean 1e4", "layout": "rows", "units": None, "dx_units": None}
    return given | {"error": [1e-3, 1e-7], "dx_error": [1e-4, 3e-7]} | changed


def test_goals_are_met_or_missed_by_the_worst_that_was_measured():
    worse = row(case="4096x512", forward_speedup=[1.0, 1.5, None])
    speed = record("kernel-speed", row(), worse, **THREE)
    errors = record("kernel-errors", error_row(), backends=["pytorch", "c"])
    found = {line[:40].strip(): line for line in bench_kernels.goals(speed, errors)[1:]}
    noisy = dataclasses.replace(speed, results=[worse | {"pytorch_spread": 0.3}])
    assert bench_kernels.goals(noisy, errors)[1].endswith("MISSED, in a noisy row")
    # Nothing was measured with ReLU, with few channels, by auto, in half precision.
    assert list(found) == [
        "forward, six large shapes",
        "with backward, six large shapes",
        "worst error",
    ]
    assert found["forward, six large shapes"].split()[-4:] == [
        *("1.5", "asked", "1.6", "MISSED")
    ]
    assert found["with backward, six large shapes"].endswith("met")
    assert found["worst error"].split()[-4:] == ["3e-07", "asked", "2e-07", "MISSED"]


def test_errors_in_half_precision_are_told_in_units():
    half = error_row(units=[1.5, 0.5], dx_units=[2.0, 0.5])
    found = record("kernel-errors", half, backends=["pytorch", "c"])
    line = bench_kernels.error_table(found)[-1]
    assert line.split()[-3:] == ["5.0e-01", "/", "5.0e-01"]


@pytest.mark.parametrize("options", [["--rounds", "1"], ["--rounds", "ten"]])
def test_a_number_that_it_cannot_use_is_named(options, capsys):
    with pytest.raises(SystemExit) as stopped:
        bench.main(options)
    assert stopped.value.code == 2
    assert f"argument {options[0]}: " in capsys.readouterr().err


def test_a_device_that_is_not_there_is_named(capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        bench.main(["--device", "cuda:99", "--folder", str(tmp_path)])
    assert stopped.value.code == 2
    assert "no device 'cuda:99' on this machine" in capsys.readouterr().err
