"""Grading within limits: time, processes, files, and what a student's process sees."""

import os
import time
from pathlib import Path

import course_toy
import pytest
from course_toy import GOOD, SHORT, SOURCE, TESTS, body, graded
from refusals import refused

from grading import grade, sets
from grading.check import with_cells
from grading.worker import Limits


def test_the_time_of_the_whole_submission_is_limited():
    start = time.monotonic()
    limits = Limits(call=60.0, cell=60.0, total=3.0)
    notebook = with_cells(SOURCE, {"moved": body("while True: pass")})
    cells = sets.runnable(notebook)
    [found] = grade.grade(sets.work_of(SOURCE), [cells], "key", "toy", limits)
    assert time.monotonic() - start < 15
    whole = "the submission took longer than 3 s."
    assert found.messages["moved-values"] == whole
    assert found.messages["total-values"] == whole


def test_a_notebook_full_of_endless_loops_comes_to_an_end():
    start = time.monotonic()
    extra = [(f"{n}", "while True: pass") for n in range(100)]
    found = graded(limits=Limits(cell=0.5, total=5.0), extra=extra)
    assert time.monotonic() - start < 20
    assert found.messages["moved-values"] == "the submission took longer than 5 s."


def test_a_slow_function_is_called_twice_and_no_more(tmp_path):
    source = course_toy.notebook()
    source.cells[4].source = "moved(np.ones(2))"
    source.cells.insert(5, course_toy.cell("test", "again", "moved(np.ones(2))", 1))
    calls = tmp_path / "calls"
    moved = f"import time\ndef moved(x):\n    open({str(calls)!r}, 'a').write('x')\n"
    notebook = with_cells(source, {"moved": moved + "    time.sleep(60)"})
    cells = sets.runnable(notebook)
    limits = Limits(call=1.0)
    [found] = grade.grade(sets.work_of(source), [cells], "key", "toy", limits)
    assert calls.read_text() == "xx"
    late = "moved was too slow twice and is not called again."
    assert found.messages["moved-hidden"] == late


def gone(pid, seconds=5.0):
    """Say whether a process ends by itself within some seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            told = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return True
        if told.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


LEAVES = """
import os, sys, time
def moved(x):
    if os.fork() == 0:
        {}
        own = str(os.getpid())
        open(own, "w").write(own)
        os.rename(own, {!r})
        time.sleep(600)
        os._exit(0)
    while not os.path.exists({!r}): time.sleep(0.01)
    return x + SHIFT
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("way", ["pass", "os.setsid()", "os.setsid(); os.fork()"])
def test_processes_that_are_left_behind_are_ended(tmp_path, way):
    note = str(tmp_path / "pid")
    found = graded(LEAVES.format(way, note, note))
    assert found.messages["total-values"] is None
    assert gone(int(Path(note).read_text()))


def test_the_death_of_the_judge_is_no_grade_and_leaves_nothing(tmp_path):
    notes = tmp_path / "parent", tmp_path / "child"
    moved = body(
        "child = os.fork()\n"
        f"note = {str(notes[0])!r} if child else {str(notes[1])!r}\n"
        "open(note, 'w').write(str(os.getpid()))\n"
        "if child: time.sleep(0.5); os.kill(os.getppid(), 9)\n"
        "time.sleep(600)"
    )
    found = graded(moved)
    ended = "Not graded: the grading process ended early."
    assert found.messages == dict.fromkeys(TESTS, ended)
    assert all(gone(int(note.read_text())) for note in notes)


def test_results_before_the_death_of_the_judge_count():
    source = course_toy.notebook()
    source.cells[4:4] = [source.cells.pop(8)]
    source.cells[4:4] = [source.cells.pop(8)]
    notebook = with_cells(source, {"moved": body("os.kill(os.getppid(), 9)")})
    cells = sets.runnable(notebook)
    [found] = grade.grade(sets.work_of(source), [cells], "key", "toy", SHORT)
    assert found.messages["total-values"] is None
    assert found.messages["moved-values"].startswith("Not graded")


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
found = dict(os.environ), sys.argv, os.listdir("/proc/self/fd"), os.listdir(".")
parent = open(f"/proc/{os.getppid()}/cmdline").read()
open(NOTE, "w").write(json.dumps([*found, parent, sorted(globals())]))
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_a_student_s_process_is_handed_neither_key_nor_tests(tmp_path, monkeypatch):
    monkeypatch.setenv("BNLIB_COURSE_KEY", "hush-hush")
    note = tmp_path / "seen"
    seen = SEEN.replace("NOTE", repr(str(note)))
    graded(f"{seen}\n{GOOD}", key="hush-hush")
    text = note.read_text()
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
