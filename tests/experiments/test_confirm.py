"""Confirming a record: units computed again agree to the last digit, or it stays."""

import dataclasses
import json
import os
from pathlib import Path

import pytest
from experiment_toys import Toy
from refusals import refused

from bnlib import experiments
from bnlib.experiments import _confirm, _records, _registry
from bnlib.experiments._confirm import confirm, spread_out


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """The toy with a record, made by other code than the present one."""
    toy = Toy(monkeypatch, tmp_path)
    toy.run()
    for module in (_confirm, _records):
        monkeypatch.setattr(module, "source_hash", lambda experiment: "present")
    toy.computed.clear()
    return toy


def change_row(toy, row, **values):
    path = toy.folder / "toy.json"
    content = json.loads(path.read_text())
    content["results"][row] |= values
    path.write_text(json.dumps(content))
    return path.read_text()


def test_a_confirmed_record_says_by_what_on_which_units_and_where(toy):
    before = experiments.load_record("toy", toy.folder)
    confirm("toy", 3, device="cpu", folder=toy.folder)
    record = experiments.load_record("toy", toy.folder)
    said = record.confirmed
    assert dataclasses.replace(record, confirmed=None) == before
    assert said["source"] == "present" != record.source
    assert (said["units"], said["of"], len(toy.computed)) == ([0, 1, 3], 6, 3)
    assert said["versions"] == record.versions
    assert said["device"] == record.device
    assert said["left_out"] == []


def test_a_record_stands_as_confirmed_until_the_code_changes_again(toy, monkeypatch):
    assert experiments.load_record("toy", toy.folder).standing == "older code"
    confirm("toy", 6, folder=toy.folder)
    record = experiments.load_record("toy", toy.folder)
    day = record.confirmed["date"][:10]
    assert record.standing == f"confirmed on 6 of 6 units, {day}"
    monkeypatch.setattr(_records, "source_hash", lambda experiment: "a third")
    assert record.standing == "older code"
    monkeypatch.setattr(_records, "source_hash", lambda experiment: record.source)
    assert record.standing == "of the present code"


def test_a_run_makes_a_record_that_nothing_has_confirmed(toy):
    confirm("toy", 2, folder=toy.folder)
    toy.run(force=True)
    assert experiments.load_record("toy", toy.folder).confirmed is None


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"value": 0.5}, ("value", 0.5, "largest")),
        ({"tuple": [1, 2.5]}, ("tuple[1]", 2.5, "2 0.5")),
        ({"tuple": [1]}, ("tuple", "[1]", [1, 2])),
        ({"more": None}, ("row", "'more' None")),
    ],
)
def test_a_value_that_differs_is_told_with_its_unit_and_nothing_is_written(
    toy, values, says
):
    text = change_row(toy, 3, **values)
    with refused(ValueError, *says) as caught:
        confirm("toy", 6, folder=toy.folder)
    assert "{'arm': 'b', 'size': 0.5, 'seed': 0}" in str(caught.value)
    assert (toy.folder / "toy.json").read_text() == text


def test_a_last_digit_that_differs_is_refused(toy):
    value = experiments.load_record("toy", toy.folder).results[0]["value"]
    change_row(toy, 0, value=value * (1 + 2**-52))
    with refused(ValueError, "", "1 values differ"):
        confirm("toy", 1, folder=toy.folder)


def test_measured_times_are_left_out_and_that_is_said(toy, monkeypatch):
    change_row(toy, 0, value=7.0)
    entry = dataclasses.replace(experiments.get("toy"), timed=("value",))
    monkeypatch.setitem(_registry._EXPERIMENTS, "toy", entry)
    record = confirm("toy", 1, folder=toy.folder)
    assert record.confirmed["left_out"] == ["value"]
    assert record.results[0]["value"] == 7.0


def test_an_experiment_about_time_is_to_be_made_anew(toy, monkeypatch):
    entry = dataclasses.replace(experiments.get("toy"), timed=True)
    monkeypatch.setitem(_registry._EXPERIMENTS, "toy", entry)
    with refused(ValueError, "toy", "", "run toy --scale paper --device cpu --force"):
        confirm("toy", 1, folder=toy.folder)
    assert toy.computed == []


def test_other_data_or_parameters_than_recorded_are_refused(toy, monkeypatch):
    entry = experiments.get("toy")
    for change, says in (
        ({"data": ("digits",)}, ("digits", "other data")),
        ({"paper": entry.paper | {"more": 1}}, ("parameters", "record")),
    ):
        monkeypatch.setitem(
            _registry._EXPERIMENTS, "toy", dataclasses.replace(entry, **change)
        )
        with refused(ValueError, *says):
            confirm("toy", 1, folder=toy.folder)
    assert toy.computed == []


def test_a_record_that_another_wrote_meanwhile_is_left(toy):
    toy.before = lambda begun: change_row(toy, 5, value=7.0)
    with refused(ValueError, "record toy", "changed meanwhile"):
        confirm("toy", 1, folder=toy.folder)
    assert experiments.load_record("toy", toy.folder).confirmed is None


def test_a_write_that_fails_leaves_the_record_as_it_was(toy, monkeypatch):
    def full(source, target):
        raise OSError("disk full")

    before = (toy.folder / "toy.json").read_text()
    monkeypatch.setattr(os, "replace", full)
    with refused(OSError, "disk full"):
        confirm("toy", 1, folder=toy.folder)
    assert [Path(path).name for path in toy.folder.iterdir()] == ["toy.json"]
    assert (toy.folder / "toy.json").read_text() == before


@pytest.mark.parametrize(("count", "total"), [(1, 1), (6, 6), (12, 190), (8, 480)])
def test_units_are_spread_over_the_sweep_and_the_same_each_time(count, total):
    rows = spread_out(count, total)
    assert rows == sorted(set(rows)) == spread_out(count, total)
    assert len(rows) == count
    gaps = [b - a for a, b in zip(rows, [*rows[1:], total])]
    assert max(gaps) <= 2.7 * total / count


def test_units_fall_on_every_value_of_a_short_axis():
    # 190 units: 2 arms, 19 rates, 5 seeds.
    rows = spread_out(24, 190)
    assert {row // 95 for row in rows} == {0, 1}
    assert {row % 5 for row in rows} == set(range(5))
