"""Grading within limits: time, processes, files, and what a student's process sees."""

import os
import time

import course_toy
import pytest
from course_toy import SHORT, SOURCE, TESTS, body, graded
from refusals import refused

from grading import grade, sets
from grading.check import with_cells
from grading.worker import Limits


def test_the_time_of_the_whole_submission_is_limited():
    start = time.monotonic()
    limits = Limits(call=60.0, cell=60.0, total=3.0)
    notebook = with_cells(SOURCE, {"moved": body("time.sleep(60)")})
    cells = sets.runnable(notebook)
    [found] = grade.grade(sets.work_of(SOURCE), [cells], "key", "toy", limits)
    assert time.monotonic() - start < 15
    whole = "the submission took longer than 3 s."
    assert found.messages["moved-values"] == whole
    assert found.messages["total-values"] == whole


def test_a_notebook_full_of_endless_loops_comes_to_an_end():
    start = time.monotonic()
    extra = [(f"{n}", "import time; time.sleep(60)") for n in range(100)]
    found = graded(limits=Limits(cell=0.5, total=5.0), extra=extra)
    assert time.monotonic() - start < 20
    assert found.messages["moved-values"] == "the submission took longer than 5 s."


def test_a_slow_function_costs_its_tests_and_is_not_called_for_ever():
    source = course_toy.notebook()
    for number in (1, 2):
        cell = course_toy.cell("test", f"again-{number}", "moved(np.ones(2))", 1)
        source.cells.insert(4, cell)
    notebook = with_cells(source, {"moved": body("time.sleep(60)")})
    cells = sets.runnable(notebook)
    limits = Limits(call=0.7)
    start = time.monotonic()
    [found] = grade.grade(sets.work_of(source), [cells], "key", "toy", limits)
    assert time.monotonic() - start < 15
    slow, late = "moved took longer than 0.7 s", "moved was too slow in two tests"
    assert found.messages["again-2"] == found.messages["again-1"] == f"{slow}."
    assert found.messages["moved-hidden"] == f"{late} and is not called again."
    assert found.remarks == [slow]


def test_a_call_that_ends_its_process_is_tried_again_and_remarked():
    found = graded(body("os._exit(0)"))
    assert found.messages["moved-values"] == "the process ended while moved ran."
    assert found.remarks == ["the process ended while moved ran"]


def test_what_a_busy_machine_spoils_once_costs_nothing(monkeypatch):
    """The test's own code stops the first process that is asked."""
    source = course_toy.notebook()
    source.cells[4].source = (
        "import os, signal\nfrom pathlib import Path\n"
        "own, note = os.getpid(), Path('tried')\n"
        "if not note.exists():\n"
        "    note.touch()\n"
        "    for stat in Path('/proc').glob('[0-9]*/stat'):\n"
        "        told = stat.read_text().rpartition(')')[2].split()\n"
        "        if told[1] == str(own):\n"
        "            os.kill(int(stat.parent.name), signal.SIGSTOP)\n"
        "assert (moved(np.ones(2)) == 1 + SHIFT).all()"
    )
    found = graded(source=source)
    assert found.messages["moved-values"] is None
    assert found.remarks == []


def test_no_process_can_be_left_behind():
    for way in ("os.fork()", "os.posix_spawn('/bin/true', ['true'], {})"):
        found = graded(body(f"try:\n    {way}\nexcept PermissionError:\n    pass"))
        assert found.messages["moved-values"].startswith("moved: found NoneType"), way


DIES = "import os\nos.kill(os.getpid(), 9)"


def test_a_judge_that_ends_early_twice_is_no_grade():
    source = course_toy.notebook()
    source.cells[4].source = DIES
    found = graded(source=source)
    assert found.fault == "the grading process ended early"
    ended = f"Not graded: {found.fault}."
    assert found.messages == dict.fromkeys(TESTS, ended)


def test_a_judge_that_ends_early_once_is_asked_again(tmp_path):
    source, note = course_toy.notebook(), str(tmp_path / "tried")
    source.cells[4].source = (
        f"import os\nif not os.path.exists({note!r}):\n"
        f"    open({note!r}, 'w')\n    os.kill(os.getpid(), 9)\n"
        "assert (moved(np.ones(2)) == 1 + SHIFT).all()"
    )
    found = graded(source=source)
    assert found.fault is None
    assert found.messages == dict.fromkeys(TESTS)


def test_what_the_tests_make_of_an_answer_is_limited_in_memory():
    source = course_toy.notebook()
    source.cells[4].source = "np.ones(2**30) * moved(np.ones(2))[0]"
    message = graded(source=source).messages["moved-values"]
    assert "needs more memory than is allowed" in message


def test_a_set_whose_own_cells_fail_is_no_student_s_fault():
    source = course_toy.notebook()
    source.cells[2].source = "import no_such_module"
    with refused(RuntimeError, "cannot start", "ModuleNotFoundError no_such_module"):
        graded(source=source)


def test_a_machine_where_no_process_starts_is_no_student_s_fault():
    # As for a user who may not run this Python.
    limits = Limits(start=0.001)
    with refused(RuntimeError, "students process", "not start"):
        graded(limits=limits)


@pytest.mark.parametrize(
    ("user", "says"),
    [("no such user", ("user", "'no such user'")), ("root", ("only root", "run"))],
)
def test_students_code_runs_as_nobody_whom_one_may_not_choose(monkeypatch, user, says):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with refused(ValueError, *says):
        grade.grade(sets.work_of(SOURCE), [], "key", "toy", SHORT, user=user)


SEEN = """
import json, os, sys
raise ValueError(json.dumps([dict(os.environ), sys.argv, sorted(globals())])[PART:])
"""


def test_a_student_s_process_is_handed_neither_key_nor_tests(monkeypatch):
    monkeypatch.setenv("BNLIB_COURSE_KEY", "hush-hush")
    parts = [
        graded(SEEN.replace("PART", str(part)), key="hush-hush").remarks[0]
        for part in range(0, 900, 280)
    ]
    text = "".join(parts)
    assert "MPLBACKEND" in text
    assert "hush" not in text
    assert "hidden" not in text
    assert "Steps in memory" not in text


@pytest.mark.skipif(os.name != "posix", reason="limits of Unix")
def test_grading_the_same_work_twice_gives_the_same_messages():
    moved = "def moved(x):\n    return x * SHIFT"
    assert graded(moved).messages == graded(moved).messages
    assert graded(moved).messages != graded(moved, key="other").messages


def test_what_a_student_s_process_leaves_is_not_where_the_judge_looks():
    """Libraries read settings and caches from their folder at home."""
    source = course_toy.notebook()
    source.cells[4].source = (
        "import os\nmoved(np.ones(2))\n"
        "assert not os.path.exists('matplotlibrc'), 'beside me'\n"
        "assert not os.path.exists(os.path.expanduser('~/matplotlibrc')), 'at home'"
    )
    moved = "def moved(x):\n    open('matplotlibrc', 'w').write('backend: x')"
    assert graded(moved, source=source).messages["moved-values"] is None


def test_the_folder_of_a_submission_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    graded("import os\nos.mkdir('a')\nopen('a/b', 'w').write('x')\nos.chmod('a', 0)")
    assert list(tmp_path.iterdir()) == []


def test_files_are_limited_in_size():
    moved = body("open('big', 'wb').write(bytes(2**25))\nreturn x + SHIFT")
    message = graded(moved).messages["moved-values"]
    assert message.startswith(
        ("OSError: [Errno 27] File too large", "the process ended")
    )


def test_assertions_hold_whatever_the_environment_says(monkeypatch):
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    moved = "def moved(x):\n    return np.zeros(3) if len(x) == 2 else x + SHIFT"
    assert graded(moved).messages["moved-hidden"] == "one value each"


def test_without_the_limits_of_unix_nothing_is_run(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with refused(RuntimeError, "limits", "", "Unix"):
        graded()
