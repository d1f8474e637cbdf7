"""Making a course: what is written, for whom, and what an interruption leaves."""

import hashlib
import json
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import course_toy
import nbformat
import pytest
from nbgrader.apps import NbGraderAPI
from refusals import refused
from traitlets.config import Config

from bnlib._files import write_whole
from grading import __main__, check, configure, make, sets, variant_of
from grading.keys import read_key

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    course_toy.write_set(tmp_path / "sets")
    course_toy.write_set(tmp_path / "sets", "other")
    monkeypatch.setattr(sets, "SOURCE", tmp_path / "sets")
    monkeypatch.delenv("BNLIB_COURSE_KEY", raising=False)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def run(*arguments):
    return __main__.main([str(argument) for argument in arguments])


def texts(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells]


def test_students_get_neither_solutions_nor_hidden_tests(out):
    assert run("make", "toy", "--key", "spring", "--out", out) == 0
    text = "\n".join(texts(out / "student/toy.ipynb"))
    assert "SOLUTION" not in text
    assert "HIDDEN" not in text
    assert "Steps in memory" not in text
    assert "return x + SHIFT" not in text
    assert "is added" not in text
    assert 'moved(np.zeros(2)).shape == (2,), "one value each"' in text
    assert text.count("raise NotImplementedError()") == 2
    assert text.count("YOUR ANSWER HERE") == 1


def test_solutions_have_no_hidden_tests(out):
    run("make", "toy", "--out", out)
    text = "\n".join(texts(out / "solution/toy.ipynb"))
    assert "return x + SHIFT" in text
    assert "is added." in text
    assert "Steps in memory" not in text


@pytest.mark.parametrize("folder", ["student", "solution", "course/source/toy"])
def test_the_key_s_values_stand_in_the_task_and_the_text(out, folder):
    run("make", "toy", "--key", "spring", "--out", out)
    values = variant_of("toy", "spring")
    found = texts(out / folder / "toy.ipynb")
    assert found[:2] == [
        f"# Moving by {values['SHIFT']}, {values['words']}",
        f"SHIFT = {values['SHIFT']!r}",
    ]


def test_a_token_without_a_value_is_named():
    notebook = course_toy.notebook()
    with refused(ValueError, "SHIFT", "", "variant"):
        sets.render(notebook, {"words": ""})


def test_what_students_get_is_what_nbgrader_releases(out):
    run("make", "toy", "--key", "spring", "--out", out)
    config = Config()
    config.CourseDirectory.root = str(out / "course")
    configure(config)
    assert NbGraderAPI(config=config).generate_assignment("toy")["success"]
    released = out / "course/release/toy/toy.ipynb"
    assert released.read_bytes() == (out / "student/toy.ipynb").read_bytes()


def test_every_set_is_made_where_none_is_named(out):
    run("make", "--out", out)
    assert [p.name for p in sorted(out.glob("*.zip"))] == ["other.zip", "toy.zip"]


def test_the_zip_holds_the_student_version_alone(out):
    run("make", "toy", "--out", out)
    with zipfile.ZipFile(out / "toy.zip") as archive:
        assert archive.namelist() == ["toy/toy.ipynb"]
        student = archive.read("toy/toy.ipynb")
    assert student == (out / "student/toy.ipynb").read_bytes()


def test_a_key_gives_the_same_bytes_each_time(tmp_path):
    for number in (1, 2):
        run("make", "--key", "spring", "--out", tmp_path / f"{number}")
    one, two = ((tmp_path / f"{n}/SHA256SUMS").read_text() for n in (1, 2))
    assert one == two
    run("make", "--key", "autumn", "--out", tmp_path / "3")
    assert (tmp_path / "3/SHA256SUMS").read_text() != one


def test_the_sums_are_those_of_the_files(out):
    run("make", "--out", out)
    lines = (out / "SHA256SUMS").read_text().splitlines()
    sums = dict(reversed(line.split("  ")) for line in lines)
    assert sorted(sums) == [
        "other.zip",
        "student/other.ipynb",
        "student/toy.ipynb",
        "toy.zip",
    ]
    for name, digest in sums.items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest


def test_an_interrupted_run_leaves_no_sums_to_trust(out, monkeypatch):
    run("make", "--out", out)

    def interrupted(path, content):
        if path.suffix == ".zip":
            raise KeyboardInterrupt
        write_whole(path, content)

    monkeypatch.setattr(make, "write_whole", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("make", "--out", out)
    assert not (out / "SHA256SUMS").exists()


def test_only_its_owner_can_read_the_key_and_the_course(out):
    run("make", "toy", "--key", "spring", "--out", out)
    assert stat.S_IMODE((out / "course").stat().st_mode) == 0o700
    key = out / "course/course_key.txt"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text() == "spring\n"


def test_nothing_but_the_rendered_notebook_goes_into_the_course(out):
    run("make", "toy", "--key", "spring", "--out", out)
    files = [str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()]
    assert sorted(files) == [
        "SHA256SUMS",
        "course/course.json",
        "course/course_key.txt",
        "course/nbgrader_config.py",
        "course/source/toy/toy.ipynb",
        "solution/toy.ipynb",
        "student/toy.ipynb",
        "toy.zip",
    ]
    released = (out / "student/toy.ipynb", out / "toy.zip", out / "SHA256SUMS")
    assert not any(b"spring" in path.read_bytes() for path in released)


def test_a_course_folder_keeps_its_key_and_the_teacher_s_settings(out, capsys):
    run("make", "toy", "--key", "spring", "--out", out)
    config = out / "course/nbgrader_config.py"
    config.write_text("# mine\n")
    assert run("make", "toy", "--key", "spring", "--out", out) == 0
    assert config.read_text() == "# mine\n"


def contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["toy", "--key", "autumn"], ["course_key.txt", "another key"]),
        (["toy"], ["course_key.txt", "the public key, 'book'"]),
        (["toy", "--key", ""], ["--key is empty", "a course key is a line of text"]),
        (["--key", "spring"], ["sets is toy;", "has other, toy"]),
        (["other", "--key", "spring"], ["sets is toy;", "has other"]),
        (
            ["toy", "--key", "spring", "--course", "b"],
            ["course is 'batch-normalization'", "has 'b'"],
        ),
    ],
    ids=str,
)
def test_another_key_or_set_or_name_in_a_folder_that_holds_a_course_changes_no_file(
    out, capsys, arguments, named
):
    run("make", "toy", "--key", "spring", "--out", out)
    before = contents(out)
    assert run("make", *arguments, "--out", out) == 2
    said = capsys.readouterr().err
    assert all(words in said for words in named), said
    assert contents(out) == before


def test_a_key_that_was_typed_empty_is_refused(out, capsys, monkeypatch):
    monkeypatch.setenv("BNLIB_COURSE_KEY", "")
    assert run("make", "toy", "--out", out) == 2
    assert "BNLIB_COURSE_KEY is empty" in capsys.readouterr().err
    assert not out.exists()


def test_a_course_without_a_key_is_refused(out, capsys):
    assert run("make", "toy", "--out", out, "--course", "bn-2027") == 2
    assert "the course 'bn-2027' needs a key" in capsys.readouterr().err
    assert not out.exists()


def test_another_version_leaves_a_course_as_it_is(out, capsys, monkeypatch):
    run("make", "toy", "--key", "spring", "--out", out)
    before, old = contents(out), make.version()
    monkeypatch.setattr(make, "version", lambda: "99.0")
    assert run("make", "toy", "--key", "spring", "--out", out) == 2
    assert f"version is '{old}'; this command has '99.0'" in capsys.readouterr().err
    assert contents(out) == before


@pytest.mark.parametrize(
    "name", ["course/source/toy/toy.ipynb", "student/toy.ipynb", "toy.zip"]
)
def test_a_file_of_a_course_that_was_changed_stays(out, capsys, name):
    run("make", "toy", "--key", "spring", "--out", out)
    (out / name).write_text("mended by the teacher")
    before = contents(out)
    assert run("make", "toy", "--key", "spring", "--out", out) == 2
    assert f"{out / name} is not as this command would write it" in (
        capsys.readouterr().err
    )
    assert contents(out) == before
    (out / name).unlink()
    assert run("make", "toy", "--key", "spring", "--out", out) == 0
    assert (out / name).stat().st_size > 100


def test_a_course_whose_making_was_interrupted_is_made_to_its_end(out, monkeypatch):
    def interrupted(folder, *given):
        really(folder, *given)
        raise KeyboardInterrupt

    really = make._open_course
    monkeypatch.setattr(make, "_open_course", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("make", "toy", "--key", "spring", "--out", out)
    monkeypatch.setattr(make, "_open_course", really)
    assert run("make", "toy", "--key", "spring", "--out", out) == 0
    assert (out / "SHA256SUMS").exists()


def test_the_key_may_come_from_the_environment(out, monkeypatch):
    monkeypatch.setenv("BNLIB_COURSE_KEY", "spring")
    run("make", "toy", "--out", out)
    assert read_key(out / "course") == "spring"


def test_the_course_has_the_name_that_was_given(out):
    run("make", "toy", "--key", "k", "--out", out, "--course", "deep-nets")
    config = (out / "course/nbgrader_config.py").read_text()
    assert "course_id = 'deep-nets'" in config


def test_the_public_key_makes_no_course_and_says_so(out, capsys):
    run("make", "toy", "--out", out)
    assert not (out / "course").exists()
    assert "its solutions are on the web" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["make", "none"], "no none.ipynb of a set 'none' in"),
        (["make", "--key", "k"], "needs --out FOLDER"),
        (["make", "--key", " ", "--out", "OUT"], "a course key is a line of text"),
        (["check", "none"], "no wrong.py of a set 'none' in"),
    ],
)
def test_what_is_not_taken_is_named_before_anything_is_written(
    out, capsys, arguments, message
):
    assert run(*[out if a == "OUT" else a for a in arguments]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_check_prints_what_each_version_loses(capsys):
    assert run("check", "toy", "--key", "book") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[-1] for line in lines[:3]] == ["7", "0", "3"]
    assert all(line[0] == "ok" for line in lines[:-1])


def test_check_finds_a_wrong_answer_that_loses_too_little(capsys, monkeypatch):
    wrong = {"none": {"cells": {"moved": course_toy.MOVED}, "lost": {"moved-values"}}}
    monkeypatch.setattr(sets, "load_wrong", lambda name: wrong)
    assert run("check", "toy", "--key", "book") == 1
    assert "wanted {'moved-values': 2}" in capsys.readouterr().out


def test_check_finds_a_test_that_an_answer_without_knowledge_passes(monkeypatch):
    notebook = course_toy.notebook()
    notebook.cells[4].source = "assert (moved(np.ones(3)) >= 0).all()"
    notebook.cells[
        5
    ].source = "x = np.ones(3)\ny = moved(x)\nexpect('y', y, x + SHIFT, 0, '')"
    path = sets.SOURCE / "toy/toy.ipynb"
    nbformat.write(notebook, path)
    earned = {
        title: list(won) for title, won in check.earned_by_cheating("toy").items()
    }
    assert earned == {
        "zeros like the first array": ["moved-values"],
        "not-a-number like the first array": [],
        "the first argument": ["moved-values"],
        "an empty array": ["moved-values"],
        "nothing": [],
        "arguments erased, then solved": ["moved-values", "moved-hidden"],
    }


def test_a_wrong_answer_to_no_cell_is_an_error():
    with refused(ValueError, "solution cell", "'moved-values'"):
        check.with_cells(course_toy.notebook(), {"moved-values": ""})


def test_make_assignments_is_the_command(out):
    made = subprocess.run(
        ["make", "-n", "assignments", "KEY=a 'b' $$c", f"OUT={out}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout
    assert f'-m grading make --out "{out}"' in made
    assert "a 'b'" not in made


@pytest.mark.parametrize(
    ("given", "wanted"), [(["KEY="], True), (["KEY=a"], True), ([], False)], ids=str
)
def test_make_assignments_hands_on_a_key_that_was_given_even_an_empty_one(
    given, wanted, monkeypatch
):
    monkeypatch.delenv("KEY", raising=False)
    rules = subprocess.run(
        ["make", "-pn", "assignments", *given], cwd=ROOT, capture_output=True, text=True
    ).stdout
    assert ("assignments: BNLIB_COURSE_KEY" in rules) == wanted


def test_the_command_line_is_there():
    command = [sys.executable, "-m", "grading", "--help"]
    assert subprocess.run(command, capture_output=True).returncode == 0
