"""Records: whole, never lost, and the committed ones are of today's experiments."""

import dataclasses
import json
import os
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from experiment_toys import TOY, Toy
from refusals import refused

from bnlib import data, experiments
from bnlib.experiments import _records, _runner

NAN = np.nan


@pytest.fixture
def toy(monkeypatch, tmp_path):
    return Toy(monkeypatch, tmp_path)


def test_a_record_is_not_overwritten_and_nothing_is_computed(toy):
    toy.run()
    before = (toy.folder / "toy.json").read_bytes()
    with refused(FileExistsError, "toy.json", "paper scale", "--force"):
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
    with refused(OSError, "disk full"):
        toy.run(force=True, seeds=[9])
    assert [path.name for path in toy.folder.iterdir()] == ["toy.json"]
    assert (toy.folder / "toy.json").read_bytes() == before
    monkeypatch.setattr(os, "replace", replace)
    toy.run(force=True, seeds=[9])
    assert toy.computed == []


def test_a_folder_that_is_a_file_is_refused_before_any_work(toy, tmp_path):
    (tmp_path / "file").write_text("")
    with refused(NotADirectoryError, str(tmp_path / "file"), "no folder"):
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


def test_a_live_run_with_the_papers_values_does_not_become_the_shipped_record(
    toy, tmp_path, monkeypatch
):
    monkeypatch.setattr(_runner, "RECORDS", tmp_path / "shipped")
    experiments.run("toy", "live", **TOY["paper"])
    assert not (tmp_path / "shipped").exists()


def test_a_record_names_the_code_that_the_run_began_with(toy, monkeypatch):
    code = ["before"]
    monkeypatch.setattr(_runner, "source_hash", lambda experiment: code[0])
    toy.before = lambda begun: code.__setitem__(0, "after")
    assert toy.run().source == "before"
    assert toy.run(force=True).source == "after"


def test_what_is_loaded_is_what_the_run_returned(toy):
    assert toy.run() == experiments.load_record("toy", toy.folder)


def test_a_record_says_how_it_came_about(toy):
    record = toy.run()
    assert record.parameters == TOY["paper"]
    assert record.axes == ["arms", "sizes", "seeds"]
    assert record.seeds == [0, 1, 2]
    # The registry's build for CUDA calls itself 2.13.0+cu130 and is filed as 2.13.0.
    release = torch.__version__.partition("+")[0]
    assert record.versions["torch"].partition("+")[0] == release
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
    with refused(
        ValueError, "result 'loss'", "row 0, arms a, sizes 0.5, seeds 0", "arm value"
    ):
        record.array("loss")


def returning(toy, results):
    """The record of a toy whose units return these values of `curve`."""
    record = toy.run(seeds=[0], sizes=[0.5])
    rows = [row | {"curve": value} for row, value in zip(record.results, results)]
    return dataclasses.replace(record, results=rows)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([1, 2.5], [1, 2.5]),
        ([True, None], [1, NAN]),
        ([[1, 2, None], [4, 5, 6]], [[1, 2, NAN], [4, 5, 6]]),
        ([None, [4, 5]], [[NAN, NAN], [4, 5]]),
        ([[[1, 2]], [[3, None]]], [[[1, 2]], [[3, NAN]]]),
        ([None, None], [NAN, NAN]),
    ],
)
def test_array_holds_curves_and_nan_for_what_is_missing(toy, results, expected):
    array = returning(toy, results).array("curve")
    expected = np.array(expected)
    assert array.dtype == np.float64
    assert array.shape == (2, 1, 1, *expected.shape[1:])
    np.testing.assert_array_equal(array.reshape(expected.shape), expected)


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (
            [[1, 2], [3]],
            ("curve", "(1,) row 1, arms b, sizes 0.5, seeds 0", "(2,)"),
        ),
        ([1.0, [3]], ("curve", "(1,) row 1, arms b, sizes 0.5, seeds 0", "()")),
        (
            [[1], [[2], [3, 4]]],
            ("curve", "row 1, arms b, sizes 0.5, seeds 0: [[2], [3, 4]]"),
        ),
        (
            ["high", 1],
            ("curve", "row 0, arms a, sizes 0.5, seeds 0: 'high'", "number"),
        ),
    ],
)
def test_array_names_the_row_that_does_not_fit(toy, results, message):
    with refused(ValueError, *message):
        returning(toy, results).array("curve")


def test_array_names_the_row_that_lacks_the_result(toy):
    record = toy.run()
    del record.results[4]["value"]
    with refused(ValueError, "result 'value'", "row 4, arms b, sizes 0.5, seeds 1"):
        record.array("value")


def test_a_missing_record_is_named_with_those_there_are_and_the_command(toy):
    with pytest.raises(FileNotFoundError) as caught:
        experiments.load_record("toy")
    message = str(caught.value)
    assert "no record 'toy'" in message
    assert "digits-learning-rate" in message
    assert "python -m bnlib.experiments run toy --scale paper" in message


def test_a_record_of_no_experiment_is_named_with_the_experiments_there_are():
    with refused(
        FileNotFoundError,
        "experiment",
        "'../records/digits-learning-rate'",
        "digits-learning-rate",
    ):
        experiments.load_record("../records/digits-learning-rate")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ("toy.json", "not JSON")),
        ("[]", ("toy.json format", None, 3)),
        ('{"format": 2}', ("toy.json format", 2, 3)),
        ('{"format": 4}', ("toy.json format", 4, 3)),
        ('{"format": 3, "id": "toy"}', ("toy.json", "no whole record", "axes")),
    ],
)
def test_a_file_that_is_no_record_is_refused(tmp_path, text, message):
    (tmp_path / "toy.json").write_text(text)
    with refused(ValueError, *message):
        experiments.load_record("toy", tmp_path)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"colour": "red"}, ("unknown", "colour")),
        ({"confirmed": {"source": "", "colour": "red"}}, ("confirmed", "colour")),
        ({"confirmed": "yes"}, ("confirmed", "'yes'")),
        ({"format": 4}, ("format", 4)),
    ],
)
def test_a_record_of_unknown_fields_or_format_is_refused_by_name(toy, changed, says):
    toy.run()
    path = toy.folder / "toy.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with refused(ValueError, *says) as caught:
        experiments.load_record("toy", toy.folder)
    assert str(path) in str(caught.value)


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
    there = data.available()
    for name in set(record.data) & set(there):
        assert data.checksum(data.load(name)) == record.data[name]
    if missing := set(record.data) - set(there):
        pytest.skip(f"not on this machine: {', '.join(sorted(missing))}")


@pytest.mark.parametrize("id", RECORDED)
def test_a_committed_record_tells_no_path_of_the_machine(id):
    text = (_records.RECORDS / f"{id}.json").read_text()
    assert '"/' not in text
    assert " /" not in text
    assert ":\\" not in text


def test_recorded_units_are_found_again(monkeypatch, tmp_path):
    monkeypatch.setenv("BNLIB_CACHE", str(tmp_path))
    record = experiments.load_record("digits-learning-rate")
    # Small steps: far apart for other seeds, close together for other rounding.
    one = {"learning_rates": [record.parameters["learning_rates"][2]], "seeds": [2]}
    again = experiments.run("digits-learning-rate", "paper", device="cpu", **one)
    recorded = record.array("accuracy")[:, 2, 2]
    # On another machine two of the 450 images may tip over.
    np.testing.assert_allclose(again.array("accuracy")[:, 0, 0], recorded, atol=0.005)


@pytest.mark.parametrize(
    ("folder", "error", "says"),
    [
        ("", ValueError, ("folder", "empty")),
        ("/proc/none/records", OSError, ("proc/none/records", "no record")),
    ],
)
def test_a_folder_that_cannot_hold_the_record_is_named(folder, error, says):
    with refused(error, *says):
        _records.check_target("any", folder, force=False)
