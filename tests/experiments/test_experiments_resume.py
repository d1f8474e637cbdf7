"""Runs that are interrupted and go on: what is kept, and when it is trusted."""

import json
import signal

import pytest
from experiment_toys import UNITS, Toy, run_in_a_process

from bnlib import experiments
from bnlib.experiments import _files, _runner


@pytest.fixture
def toy(monkeypatch, tmp_path):
    return Toy(monkeypatch, tmp_path)


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


def test_units_of_other_source_code_are_not_used(toy, monkeypatch):
    toy.stop_in_the_middle()
    monkeypatch.setattr(_runner, "source_hash", lambda experiment: "another")
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


def test_a_paper_run_of_other_parameters_is_resumed_though_it_writes_no_record(toy):
    toy.stop_in_the_middle(folder=None, sizes=[0.25])
    toy.run(folder=None, sizes=[0.25])
    assert len(toy.computed) == UNITS - 3
    assert toy.partials() == []


def test_a_killed_process_leaves_no_record_and_is_resumed(toy, tmp_path):
    killed = run_in_a_process(tmp_path, stop="SIGKILL")
    assert killed.returncode == -signal.SIGKILL
    assert not toy.folder.exists()
    toy.run()
    assert len(toy.computed) == UNITS - 3
    assert len(experiments.load_record("toy", toy.folder).results) == UNITS


def test_control_c_exits_with_130_and_says_how_to_go_on(tmp_path):
    stopped = run_in_a_process(tmp_path, stop="SIGINT")
    assert stopped.returncode == 130
    assert "interrupted\n3 of 6 units are kept in" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert not (tmp_path / "records").exists()


def test_a_second_process_at_the_same_run_is_refused(toy, tmp_path):
    second = []

    def start_a_second_one(begun):
        if begun == 3:
            second.append(run_in_a_process(tmp_path))

    toy.before = start_a_second_one
    toy.run()
    assert second[0].returncode == 2
    assert "another process is at this run" in second[0].stderr
    assert not (tmp_path / "computed").exists()
    assert len(toy.computed) == UNITS
