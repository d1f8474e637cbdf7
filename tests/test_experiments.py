"""bnlib.experiments: runs that resume, records that can be trusted."""

import doctest
import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from bnlib import data, experiments
from bnlib.experiments import __main__ as command_line
from bnlib.experiments import _files, _machine, _records, _registry, _runner

UNITS = 6
TOY = {
    "id": "toy",
    "title": "A draw for each size and seed",
    "chapter": "02-transform",
    "source": "ioffe2015",
    "sweep": {"arm": "arms", "size": "sizes", "seed": "seeds"},
    "paired": ("arm",),
    "threads": 1,
    "live": {"arms": ["a", "b"], "sizes": [0.5], "seeds": [0], "steps": 1},
    "paper": {"arms": ["a", "b"], "sizes": [0.5], "seeds": [0, 1, 2], "steps": 2},
}


class Toy:
    """Runs the toy experiment in a folder of its own; lists the units computed.

    `before` is called with the number of units begun, and may stop the run.
    """

    def __init__(self, folder):
        self.folder = folder / "records"
        self.cache = folder / "cache"
        self.computed = []
        self.before = lambda begun: None

    def run(self, **options):
        self.computed.clear()
        options = {"device": "cpu", "folder": self.folder} | options
        return experiments.run("toy", "paper", **options)

    def partials(self):
        return sorted(self.cache.rglob("*.jsonl"))

    def stop_in_the_middle(self):
        """Three of six units are done when the run is interrupted."""
        self.before = self.interrupt_at_the_fourth
        with pytest.raises(KeyboardInterrupt) as caught:
            self.run()
        self.before = lambda begun: None
        return caught.value

    @staticmethod
    def interrupt_at_the_fourth(begun):
        if begun == 4:
            raise KeyboardInterrupt


@pytest.fixture
def toy(monkeypatch, tmp_path):
    monkeypatch.setenv("BNLIB_CACHE", str(tmp_path / "cache"))
    experiments.all_experiments()
    monkeypatch.setattr(_registry, "_EXPERIMENTS", dict(_registry._EXPERIMENTS))

    toy = Toy(tmp_path)

    @experiments.experiment(**TOY)
    def draw(context, arm, size, steps):
        toy.before(len(toy.computed) + 1)
        toy.computed.append((arm, size, steps))
        draws = np.random.default_rng(context.seed_sequence).random(steps)
        return {"value": size * draws.sum(), "tuple": (1, 2)}

    return toy


# Interrupted runs


def test_a_resumed_run_computes_the_missing_units_alone(toy):
    toy.stop_in_the_middle()
    assert not toy.folder.exists()
    toy.run()
    assert len(toy.computed) == UNITS - 3


def test_a_resumed_run_gives_the_record_of_an_uninterrupted_one(toy, tmp_path):
    toy.stop_in_the_middle()
    resumed = toy.run()
    whole = toy.run(folder=tmp_path / "other")
    assert len(toy.computed) == UNITS
    assert resumed.results == whole.results


def test_seconds_and_memory_cover_every_part_of_a_resumed_run(toy):
    toy.stop_in_the_middle()
    (partial,) = toy.partials()
    header, *lines = partial.read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    for entry in entries:
        entry["seconds"] = 100.0
        entry["peak_memory"]["mib"] = 1e6
    stored = [header, *map(json.dumps, entries)]
    partial.write_text("\n".join(stored) + "\n")
    record = toy.run()
    assert 300 <= record.seconds < 310
    assert record.peak_memory["mib"] == 1e6


def test_an_interrupt_says_how_much_is_kept_and_how_to_go_on(toy):
    (note,) = toy.stop_in_the_middle().__notes__
    assert "3 of 6 units are kept" in note
    assert "run the same again" in note


def test_a_half_written_last_line_is_dropped(toy):
    toy.stop_in_the_middle()
    (partial,) = toy.partials()
    partial.write_bytes(partial.read_bytes()[:-20])
    toy.run()
    assert len(toy.computed) == UNITS - 2


def test_a_last_line_without_its_line_end_is_not_trusted(toy):
    toy.stop_in_the_middle()
    (partial,) = toy.partials()
    # Cut from 12.5 to 12., the line would still be JSON.
    partial.write_bytes(partial.read_bytes()[:-1])
    toy.run()
    assert len(toy.computed) == UNITS - 2


def test_what_follows_a_broken_line_is_computed_again(toy):
    toy.stop_in_the_middle()
    (partial,) = toy.partials()
    lines = partial.read_text().splitlines()
    lines[2] = "\0" * 30
    partial.write_text("\n".join(lines) + "\n")
    toy.run()
    assert len(toy.computed) == UNITS - 1


@pytest.mark.parametrize(
    "options", [{"steps": 3}, {"sizes": [0.25]}, {"seeds": [3, 4, 5]}]
)
def test_units_of_other_parameters_are_not_used(toy, options):
    toy.stop_in_the_middle()
    toy.run(**options)
    assert len(toy.computed) == UNITS


def test_units_of_other_source_code_are_not_used(toy, monkeypatch, tmp_path):
    source = tmp_path / "package" / "module.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    monkeypatch.setattr(_runner, "PACKAGE", source.parent)
    toy.stop_in_the_middle()
    source.write_text("x = 2\n")
    toy.run()
    assert len(toy.computed) == UNITS


def test_units_of_other_library_versions_are_not_used(toy, monkeypatch):
    toy.stop_in_the_middle()
    monkeypatch.setattr(_runner, "versions", lambda: {"torch": "0.1"})
    toy.run()
    assert len(toy.computed) == UNITS


def test_a_partial_file_under_anothers_name_is_not_used(toy):
    toy.stop_in_the_middle()
    (partial,) = toy.partials()
    header, *lines = partial.read_text().splitlines()
    other = json.loads(header) | {"device": "another"}
    partial.write_text("\n".join([_files.canonical(other), *lines]) + "\n")
    toy.run()
    assert len(toy.computed) == UNITS


def test_a_finished_run_leaves_no_partial_file(toy):
    toy.run()
    assert toy.partials() == []


def test_unfinished_runs_are_kept_in_the_build_folder_by_default(monkeypatch):
    monkeypatch.delenv("BNLIB_CACHE", raising=False)
    assert _files.cache_folder() == Path("_build/experiments")


TOY_SCRIPT = """
import os, signal, sys
import numpy as np
from bnlib.experiments import experiment
from bnlib.experiments.__main__ import main

# A shell that starts tests in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

@experiment(**{toy})
def draw(context, arm, size, steps):
    with open("computed", "a") as log:
        log.write("unit\\n")
    if os.environ.get("STOP") and len(open("computed").readlines()) == 4:
        os.kill(os.getpid(), getattr(signal, os.environ["STOP"]))
    draws = np.random.default_rng(context.seed_sequence).random(steps)
    return {{"value": size * draws.sum(), "tuple": (1, 2)}}

sys.exit(main(sys.argv[1:]))
"""


def run_toy_process(folder, stop=""):
    """The toy on the command line, in a process of its own, all files in `folder`."""
    script = folder / "toy.py"
    script.write_text(TOY_SCRIPT.format(toy=TOY))
    command = ["run", "toy", "--scale=paper", "--device=cpu", "--folder=records"]
    environment = os.environ | {"STOP": stop, "BNLIB_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, str(script), *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_killed_process_leaves_no_record_and_is_resumed(toy, tmp_path):
    killed = run_toy_process(tmp_path, stop="SIGKILL")
    assert killed.returncode == -signal.SIGKILL
    assert not toy.folder.exists()
    toy.run()
    assert len(toy.computed) == UNITS - 3
    assert len(experiments.load_record("toy", toy.folder).results) == UNITS


def test_control_c_exits_with_130_and_says_how_to_go_on(tmp_path):
    stopped = run_toy_process(tmp_path, stop="SIGINT")
    assert stopped.returncode == 130
    assert "interrupted\n3 of 6 units are kept in" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert not (tmp_path / "records").exists()


def test_a_second_process_at_the_same_run_is_refused(toy, tmp_path):
    second = []

    def start_a_second_one(begun):
        if begun == 3:
            second.append(run_toy_process(tmp_path))

    toy.before = start_a_second_one
    toy.run()
    assert second[0].returncode == 2
    assert "another process is at this run" in second[0].stderr
    assert not (tmp_path / "computed").exists()
    assert len(toy.computed) == UNITS


# Records


def test_a_record_is_not_overwritten_and_nothing_is_computed(toy):
    toy.run()
    before = (toy.folder / "toy.json").read_bytes()
    with pytest.raises(FileExistsError, match="--force"):
        toy.run()
    assert toy.computed == []
    assert (toy.folder / "toy.json").read_bytes() == before


def test_force_replaces_a_record(toy):
    toy.run()
    toy.run(force=True, seeds=[7])
    assert experiments.load_record("toy", toy.folder).seeds == [7]


def test_a_record_that_appears_during_the_run_is_not_overwritten(toy):
    def another_finishes(begun):
        toy.folder.mkdir(exist_ok=True)
        (toy.folder / "toy.json").write_text("another's")

    toy.before = another_finishes
    with pytest.raises(FileExistsError):
        toy.run()
    assert (toy.folder / "toy.json").read_text() == "another's"
    assert len(toy.partials()) == 1


def test_a_write_that_fails_leaves_the_old_record_and_the_units(toy, monkeypatch):
    toy.run()
    before = (toy.folder / "toy.json").read_bytes()
    replace = os.replace

    def disk_full(source, target):
        if Path(target).name == "toy.json":
            raise OSError("disk full")
        replace(source, target)

    monkeypatch.setattr(os, "replace", disk_full)
    with pytest.raises(OSError, match="disk full"):
        toy.run(force=True, seeds=[9])
    assert [path.name for path in toy.folder.iterdir()] == ["toy.json"]
    assert (toy.folder / "toy.json").read_bytes() == before
    monkeypatch.setattr(os, "replace", replace)
    toy.run(force=True, seeds=[9])
    assert toy.computed == []


def test_a_folder_that_is_a_file_is_refused_before_any_work(toy, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file is no folder"):
        toy.run(folder=tmp_path / "file")
    assert toy.computed == []


def test_a_live_run_writes_nothing(toy, tmp_path):
    record = experiments.run("toy", device="cpu")
    assert record.scale == "live"
    assert len(record.results) == 2
    assert list(tmp_path.iterdir()) == []


def test_changed_paper_parameters_do_not_become_the_shipped_record(
    toy, tmp_path, monkeypatch
):
    monkeypatch.setattr(_runner, "RECORDS", tmp_path / "shipped")
    experiments.run("toy", "paper", seeds=[0])
    assert not (tmp_path / "shipped").exists()
    experiments.run("toy", "paper", seeds=[0, 1, 2])
    assert [path.name for path in (tmp_path / "shipped").iterdir()] == ["toy.json"]


def test_what_is_loaded_is_what_the_run_returned(toy):
    assert toy.run() == experiments.load_record("toy", toy.folder)


def test_a_record_says_how_it_came_about(toy):
    record = toy.run()
    assert record.parameters == TOY["paper"]
    assert record.axes == ["arms", "sizes", "seeds"]
    assert record.seeds == [0, 1, 2]
    assert record.versions["torch"] == torch.__version__
    assert set(record.versions) == {
        *("python", "numpy", "torch", "scipy", "scikit-learn", "bnlib")
    }
    assert "thread" in record.device
    assert record.peak_memory["mib"] > 50
    assert record.command == (
        "python -m bnlib.experiments run toy --scale paper --device cpu"
    )


def test_the_command_of_a_run_with_changed_parameters_repeats_them(toy, monkeypatch):
    record = toy.run(seeds=[4], arms=["b"])
    *python, code = shlex.split(record.command)
    assert python == ["python", "-c"]
    calls = []
    monkeypatch.setattr(experiments, "run", lambda *a, **k: calls.append((a, k)))
    exec(code, {})
    changed = {"device": "cpu", "arms": ["b"], "seeds": [4]}
    assert calls == [(("toy", "paper"), changed)]


def test_a_record_is_sorted_json_with_a_line_for_each_row(toy):
    toy.run()
    text = (toy.folder / "toy.json").read_text()
    content = json.loads(text)
    assert list(content) == sorted(content)
    rows = [line for line in text.splitlines() if '"arm":' in line]
    assert [json.loads(row.rstrip(",")) for row in rows] == content["results"]


def test_array_has_an_axis_for_each_swept_parameter(toy):
    record = toy.run(sizes=[0.5, 1.0])
    values = record.array("value")
    assert values.shape == (2, 2, 3)
    for row in record.results:
        place = (
            ["a", "b"].index(row["arm"]),
            [0.5, 1.0].index(row["size"]),
            row["seed"],
        )
        assert values[place] == row["value"]
    with pytest.raises(ValueError, match="no result 'loss'; rows have"):
        record.array("loss")


def test_a_missing_record_is_named_with_those_there_are_and_the_command(toy):
    with pytest.raises(FileNotFoundError) as caught:
        experiments.load_record("toy")
    message = str(caught.value)
    assert "no record 'toy'" in message
    assert "digits-learning-rate" in message
    assert "python -m bnlib.experiments run toy --scale paper" in message


def test_a_record_of_no_experiment_is_named_with_the_experiments_there_are():
    with pytest.raises(FileNotFoundError, match="there are digits-learning-rate"):
        experiments.load_record("../records/digits-learning-rate")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "format None, bnlib reads 1"),
        ('{"format": 2}', "format 2, bnlib reads 1"),
        ('{"format": 1, "id": "toy"}', "no whole record: missing .* axes"),
    ],
)
def test_a_file_that_is_no_record_is_refused(tmp_path, text, message):
    (tmp_path / "toy.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        experiments.load_record("toy", tmp_path)


# What a run takes


def test_an_unknown_experiment_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="'nope'; there are digits-learning-rate"):
        experiments.run("nope")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rate": 1}, TypeError, "no parameter 'rate'; it takes arms, sizes, seeds"),
        ({"scale": "big"}, ValueError, "live or paper, not 'big'"),
        ({"seeds": 3}, TypeError, "seeds takes a list of int.* not 3"),
        ({"seeds": []}, TypeError, "not empty"),
        ({"seeds": [0.5]}, TypeError, "seeds takes int.* not 0.5"),
        ({"seeds": [True]}, TypeError, "seeds takes int.* not True"),
        ({"seeds": [1, 1]}, ValueError, "seeds holds a value twice"),
        ({"sizes": [float("nan")]}, TypeError, "sizes takes float.* not nan"),
        ({"arms": ["c"]}, ValueError, "arms are among a, b, not 'c'"),
        ({"steps": "2"}, TypeError, "steps takes int.* not '2'"),
        ({"device": "tpu"}, ValueError, "no device 'tpu'.* there are auto, cpu"),
        ({"device": "cuda:99"}, ValueError, "no device 'cuda:99'"),
    ],
)
def test_bad_input_is_refused_before_any_work(toy, options, error, message):
    with pytest.raises(error, match=message):
        experiments.run("toy", **{"scale": "live"} | options)
    assert toy.computed == []


def test_numpy_values_are_taken_as_plain_ones(toy):
    record = experiments.run(
        "toy", sizes=np.array([1, 2]), seeds=range(2), steps=np.int64(3), arms=("b",)
    )
    text = '{"arms": ["b"], "sizes": [1.0, 2.0], "seeds": [0, 1], "steps": 3}'
    assert json.dumps(record.parameters) == text


@pytest.mark.parametrize("cuda", [0, 2])
def test_auto_takes_cuda_where_there_is_one(monkeypatch, cuda):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    expected = torch.device("cuda", 0) if cuda else torch.device("cpu")
    assert _machine.choose_device("auto") == expected


@pytest.mark.parametrize(
    "result", [{"x": float("nan")}, {"x": np.float32(1)}, 3, {"arm": "a"}]
)
def test_a_result_that_a_record_cannot_hold_is_refused(monkeypatch, toy, result):
    monkeypatch.setattr(_registry, "_EXPERIMENTS", {})

    @experiments.experiment(**TOY)
    def returns(context, arm, size, steps):
        return result

    with pytest.raises(ValueError, match=r"toy at .* returned"):
        experiments.run("toy")


def test_an_error_in_a_unit_names_the_unit(toy):
    def fail(begun):
        if begun == 2:
            raise ZeroDivisionError

    toy.before = fail
    with pytest.raises(ZeroDivisionError) as caught:
        experiments.run("toy")
    assert caught.value.__notes__ == ["in toy at {'arm': 'b', 'size': 0.5, 'seed': 0}"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "an experiment 'toy' already"),
        ({"id": "x", "sweep": {"arm": "arms"}}, "does not sweep seed"),
        ({"id": "x", "live": {"arms": ["a"]}}, "other parameters in live"),
        ({"id": "x", "sweep": {"seed": "seeds", "size": "sizes"}}, "is given arms"),
    ],
)
def test_a_wrong_registration_is_refused(toy, change, message):
    with pytest.raises(ValueError, match=message):

        @experiments.experiment(**TOY | change)
        def unit(context, arm, size, steps):
            pass


# Randomness


def test_units_draw_from_streams_of_their_own_shared_along_paired_arguments(toy):
    values = toy.run(sizes=[1.0, 2.0]).array("value") / np.array([1, 2])[:, None]
    np.testing.assert_array_equal(values[0], values[1])
    assert len(np.unique(values[0].round(12))) == values[0].size


def test_results_do_not_depend_on_global_random_state():
    def results(seed):
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        short = {"learning_rates": [0.1], "seeds": [3], "epochs": 2}
        return experiments.run("digits-learning-rate", device="cpu", **short).results

    assert results(1) == results(2)


def test_torch_has_the_threads_of_the_experiment_for_the_run_alone(toy):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        record = experiments.run("toy", device="cpu")
        assert record.device.endswith(", 1 thread")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


# The command line


def test_list_shows_every_experiment_and_the_date_of_its_record(toy, capsys):
    assert command_line.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "chapter", "recorded", "title"]
    by_id = {line.split()[0]: line for line in lines[1:]}
    date = experiments.load_record("digits-learning-rate").date[:10]
    assert date in by_id["digits-learning-rate"]
    assert " no " in by_id["toy"]


def test_run_prints_the_mean_and_the_range_over_the_seeds(toy, capsys):
    command = ["run", "toy", "--scale", "paper", "--folder", str(toy.folder)]
    assert command_line.main(command) == 0
    out = capsys.readouterr().out
    values = experiments.load_record("toy", toy.folder).array("value")[0, 0]
    expected = f"{values.mean():.3g} [{values.min():.3g}, {values.max():.3g}]"
    assert "mean over 3 seeds" in out
    assert out.splitlines()[3].split("  ")[0] == "arm"
    assert re.search(rf"^a +0.5 +{re.escape(expected)}$", out, re.MULTILINE)
    assert f"wrote {toy.folder}/toy.json" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nope"], "no experiment 'nope'"),
        (["run", "toy", "--device", "tpu"], "no device 'tpu'"),
        (["run", "toy", "--scale", "paper", "--folder", "records"], "--force"),
        (["run", "toy", "--scale", "paper", "--folder", "file"], "no folder"),
    ],
)
def test_what_cannot_be_run_exits_with_2_and_one_line(
    toy, tmp_path, monkeypatch, capsys, words, message
):
    toy.run()
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    assert command_line.main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_run_shows_no_progress_bar_where_stderr_is_no_terminal(toy, capsys):
    command_line.main(["run", "toy"])
    assert capsys.readouterr().err == ""


# What is committed

RECORDED = sorted(path.stem for path in _records.RECORDS.glob("*.json"))


def test_every_committed_record_is_of_an_experiment():
    known = [entry.id for entry in experiments.all_experiments()]
    assert RECORDED
    assert set(RECORDED) <= set(known)


@pytest.mark.parametrize("id", RECORDED)
def test_a_committed_record_has_the_parameters_of_its_experiment_today(id):
    record = experiments.load_record(id)
    assert record.id == id
    assert record.scale == "paper"
    assert record.parameters == experiments.get(id).parameters("paper")
    units = experiments.get(id).units(record.parameters)
    assert [{k: row[k] for k in unit} for row, unit in zip(record.results, units)] == (
        units
    )


@pytest.mark.parametrize("id", RECORDED)
def test_a_committed_record_is_of_the_data_there_are_today(id):
    record = experiments.load_record(id)
    assert set(record.data) == set(experiments.get(id).data)
    for name, checksum in record.data.items():
        assert data.checksum(data.load(name)) == checksum


@pytest.mark.parametrize("id", RECORDED)
def test_a_committed_record_tells_no_path_of_the_machine(id):
    text = (_records.RECORDS / f"{id}.json").read_text()
    assert '"/' not in text
    assert " /" not in text
    assert ":\\" not in text


def test_recorded_units_are_found_again():
    record = experiments.load_record("digits-learning-rate")
    # Small steps: far apart for other seeds, close together for other rounding.
    one = {"learning_rates": [record.parameters["learning_rates"][2]], "seeds": [2]}
    again = experiments.run("digits-learning-rate", "paper", device="cpu", **one)
    recorded = record.array("accuracy")[:, 2, 2]
    # On another machine two of the 450 images may tip over.
    np.testing.assert_allclose(again.array("accuracy")[:, 0, 0], recorded, atol=0.005)


MODULES = [
    "bnlib.experiments",
    *(
        f"bnlib.experiments.{path.stem}"
        for path in sorted(Path(experiments.__file__).parent.glob("*.py"))
        if path.stem != "__init__"
    ),
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
