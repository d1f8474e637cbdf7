"""python -m bnlib.data: what it prints and how it ends."""

import subprocess
import sys

import data_server
import pytest
from data_server import PATH, TABLE

from bnlib import data
from bnlib.data import __main__ as command_line, _sets


@pytest.fixture(autouse=True)
def nothing_here(tmp_path, monkeypatch):
    monkeypatch.setenv("BNLIB_CACHE", str(tmp_path))
    monkeypatch.delenv("BNLIB_DATA", raising=False)


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """The small table in the cache, as the data set power_plant."""
    monkeypatch.setitem(_sets.SOURCES, "power_plant", data_server.stand_in([]))
    path = tmp_path / "data" / PATH
    path.parent.mkdir(parents=True)
    path.write_bytes(TABLE)
    return path


def test_list_shows_every_data_set_and_where_it_is(plant, tmp_path, capsys):
    assert command_line.main(["list"]) == 0
    lines = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    assert list(lines) == list(data.NAMES)
    assert lines["digits"] == "ships with scikit-learn"
    assert lines["power_plant"] == f"in {plant.parent}"
    assert lines["mnist"] == f"not here; fetch puts it below {tmp_path / 'data'}"


def test_fetch_checks_each_set_and_says_where_it_is(plant, capsys):
    assert command_line.main(["fetch", "iris", "power_plant"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "iris: 112 + 38 examples, ships with scikit-learn",
        f"power_plant: 6 + 2 examples, in {plant.parent}",
    ]


def test_an_unknown_name_is_refused_before_anything_is_fetched(plant, capsys):
    plant.write_bytes(b"broken")
    assert command_line.main(["fetch", "power_plant", "cats"]) == 2
    said = capsys.readouterr()
    assert said.err == f"no data set 'cats'; there are {', '.join(data.NAMES)}\n"
    assert said.out == ""


def test_a_broken_file_ends_in_one_line_that_names_it(plant, capsys):
    plant.write_bytes(b"broken")
    assert command_line.main(["fetch", "power_plant"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{plant} is not the power-plant.txt of power_plant")
    assert said.count("\n") == 1


def test_a_file_that_cannot_be_had_ends_in_one_line(plant, capsys):
    plant.unlink()
    assert command_line.main(["fetch", "power_plant"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("power_plant needs power-plant.txt")
    assert said.count("\n") == 1


def test_a_missing_package_ends_in_one_line_that_says_what_to_install(
    monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert command_line.main(["fetch", "iris"]) == 1
    said = capsys.readouterr().err
    assert "proved-and-run[data]" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["fetch"], ["get", "iris"]])
def test_anything_else_is_told_how_it_is_used(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m bnlib.data" in capsys.readouterr().err


def test_the_module_runs_as_a_command():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "bnlib.data", "fetch", "iris", "wine"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        "iris",
        "wine",
    ]
