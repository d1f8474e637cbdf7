"""The command line of the experiments."""

import re
import sys

import pytest
from experiment_toys import Toy

from bnlib import experiments
from bnlib.experiments import __main__ as command_line, _confirm, _records

LOAD = experiments.load_record


@pytest.fixture
def toy(monkeypatch, tmp_path):
    return Toy(monkeypatch, tmp_path)


def test_list_shows_every_experiment_and_the_date_of_its_record(toy, capsys):
    assert command_line.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "chapter", "recorded", "title"]
    by_id = {line.split()[0]: line for line in lines[1:]}
    date = experiments.load_record("digits-learning-rate").date[:10]
    assert date in by_id["digits-learning-rate"]
    assert " no " in by_id["toy"]


def test_list_tells_a_record_of_older_code_and_one_that_was_confirmed(
    toy, capsys, monkeypatch
):
    monkeypatch.setattr(command_line, "load_record", lambda id: LOAD("toy", toy.folder))
    date = toy.run().date[:10]
    monkeypatch.setattr(_records, "source_hash", lambda experiment: "another")
    monkeypatch.setattr(_confirm, "source_hash", lambda experiment: "another")

    def listed():
        command_line.main(["list"])
        return capsys.readouterr().out

    assert f" {date}, older code " in listed()
    confirm = ["confirm", "toy", "--units", "2", "--folder", str(toy.folder)]
    assert command_line.main(confirm) == 0
    standing = f"confirmed on 2 of 6 units, {date}"
    assert capsys.readouterr().out == f"toy: {standing}\n"
    assert f" {date}, {standing} " in listed()
    monkeypatch.setattr(_records, "source_hash", lambda experiment: "a third")
    assert f" {date}, older code " in listed()


def test_confirm_without_an_id_takes_every_record_of_older_code(
    toy, capsys, monkeypatch
):
    toy.run()
    command = ["confirm", "--units", "1", "--folder", str(toy.folder)]
    assert command_line.main(command) == 0
    assert capsys.readouterr().out == ""
    for module in (_records, _confirm):
        monkeypatch.setattr(module, "source_hash", lambda experiment: "another")
    assert command_line.main(command) == 0
    assert capsys.readouterr().out.startswith("toy: confirmed on 1 of 6 units")


def test_confirm_goes_on_after_a_record_that_cannot_be_confirmed(toy, capsys):
    toy.run()
    folder = ["--units", "1", "--folder", str(toy.folder)]
    assert command_line.main(["confirm", "nope", "toy", *folder]) == 2
    captured = capsys.readouterr()
    assert captured.out == "toy: of the present code\n"
    assert "nope" in captured.err


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
        (["confirm", "nope"], "no experiment 'nope'"),
        (["confirm", "toy"], "no record 'toy'"),
        (["confirm", "kernel-speed"], "make it anew: python -m"),
        (["confirm", "toy", "--folder", "records", "--units", "7"], "6 units, not 7"),
        (["confirm", "toy", "--folder", "records", "--units", "0"], "6 units, not 0"),
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


def test_a_missing_package_ends_in_one_line_that_says_what_to_install(
    toy, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert command_line.main(["run", "toy"]) == 2
    captured = capsys.readouterr()
    assert "proved-and-run[data]" in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_run_shows_no_progress_bar_where_stderr_is_no_terminal(toy, capsys):
    command_line.main(["run", "toy"])
    assert capsys.readouterr().err == ""
