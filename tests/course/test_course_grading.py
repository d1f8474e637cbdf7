"""Grading functions that may do anything: each gives a score and a clear line."""

import course_toy
import pytest
from course_toy import GOOD, SHORT, SOURCE, TESTS, body, graded

from grading import grade, sets
from grading.check import with_cells


def test_a_right_answer_passes_every_test():
    found = graded()
    assert found.messages == dict.fromkeys(TESTS)
    assert found.remarks == []


def test_what_a_test_says_is_the_message():
    found = graded("def moved(x):\n    return x + SHIFT + 1")
    assert found.messages == {
        "moved-values": "moved: off by 1.0e+00, allowed 1.0e-12. Look at SHIFT.",
        "moved-hidden": "moved: off by 1.0e+00, allowed 1.0e-12. "
        "Steps in memory do not matter.",
        "total-values": None,
    }


NO_DATA = "moved returned what is no plain data: "
# What ``moved`` is, and how the message of its first test begins.
CASES = [
    ("", "there is no function moved in the notebook."),
    ("moved = 3", "there is no function moved in the notebook."),
    ("def moved(x):\n    raise NotImplementedError()", "moved is not written yet."),
    ("def moved(x):\n    return y", "NameError: name 'y' is not defined"),
    ("def moved(x):\n  return x +", "there is no function moved: see what stands at"),
    ("def moved():\n    pass", "TypeError: moved() takes 0 positional arguments"),
    (body("time.sleep(1000)"), "moved took longer than 1.5 s."),
    (body("while True: print('x' * 1000)"), "moved took longer than 1.5 s."),
    (body("sys.exit(0)"), "moved ended with SystemExit."),
    (body("raise KeyboardInterrupt"), "moved ended with KeyboardInterrupt."),
    (body("os._exit(0)"), "the process ended while moved ran."),
    (body("os.kill(os.getpid(), 9)"), "the process ended while moved ran."),
    (body("os.killpg(os.getpid(), 9)"), "PermissionError: [Errno 1] Operation not p"),
    (body("os.kill(os.getpid(), signal.SIGSTOP)"), "moved took longer than 1.5 s."),
    (body("os.abort()"), "the process ended while moved ran."),
    (body("os.closerange(0, 64)"), "the process ended while moved ran."),
    (body("return bytearray(2**31)"), "moved needs more memory than is allowed."),
    (body("a = []\nwhile True: a.append('x' * 2**28 + str(len(a)))"), "moved needs"),
    (body("moved(x)"), "RecursionError: maximum recursion depth"),
    (
        body("return np.zeros(2**24)"),
        NO_DATA + "arrays of more than 64 MiB.",
    ),
    (
        body("return '7' * 2**23"),
        NO_DATA + "more than 4 MiB of text and nu",
    ),
    (body("return object()"), NO_DATA + "object: only None, numbers, text"),
    (body("return moved"), NO_DATA + "function: only None, numbers, text"),
    (body("return [None, x.tolist(), {}]"), "moved: found list, wanted numbers."),
    (
        body("return np.array([x, None], object)"),
        NO_DATA + "ndarray of obj",
    ),
    (body("return x * np.nan"), "moved: 4 of 4 values not finite. Look at SHIFT."),
    (body("return None"), "moved: found NoneType, wanted numbers."),
    (body("return 'x' * 2000"), "moved: found str, wanted numbers."),
    (
        body("y = []\nfor _ in range(99): y = [y]\nreturn y"),
        NO_DATA + "nested",
    ),
    (
        body("y = []\ny.append(y)\nreturn y"),
        NO_DATA + "nested more than 16",
    ),
    (
        body("import torch.autograd"),
        "ModuleNotFoundError: torch is not there",
    ),
    (body("return input()"), "EOFError: EOF when reading a line"),
    (body("raise type('Odd', (ValueError,), {})('why')"), "ValueError: Odd: why"),
    (body("class E(Exception):\n  def __str__(s): 1 / 0\nraise E"), "the process end"),
    (body("raise ValueError('x' * 10**6)"), "ValueError: " + "x" * 300),
    (body("raise AssertionError('\\x1b[2J<b>')"), "AssertionError: [2J<b>"),
]


@pytest.fixture(scope="module")
def answers():
    """Grade all of them, one after the other, by one judge."""
    notebooks = [with_cells(SOURCE, {"moved": moved}) for moved, _ in CASES]
    cells = [sets.runnable(notebook) for notebook in notebooks]
    found = grade.grade(sets.work_of(SOURCE), cells, "key", "toy", SHORT)
    return {moved: grading.messages for (moved, _), grading in zip(CASES, found)}


@pytest.mark.parametrize(
    ("moved", "message"), CASES, ids=lambda value: " ".join(value.split())[-40:]
)
def test_a_function_that_gives_no_answer_fails_its_own_tests_alone(
    answers, moved, message
):
    found = answers[moved]
    assert found["moved-values"].startswith(message)
    assert len(found["moved-values"]) <= 1000
    assert found["moved-hidden"]
    assert found["total-values"] is None


WRITE = (
    "import os\nfor fd in range(64):\n  try: os.write(fd, {})\n  except OSError: pass"
)


@pytest.mark.parametrize(
    "data",
    [
        "b'x' * 100",
        "bytes(16) + b'{}'",
        "b'\\x02' + bytes(15) + b'[]'",
        "b'\\xff' * 32",
    ],
)
def test_garbage_in_the_channel_is_refused_and_ends_the_process(data):
    found = graded(body(WRITE.format(data) + "\nreturn x + SHIFT"))
    assert found.messages[
        "moved-values"
    ] == "moved answered with a malformed message." or (
        found.messages["moved-values"] == "moved answered with a message too large."
    )
    assert found.messages["total-values"] is None


def test_a_forged_reply_is_no_more_than_an_answer():
    forged = """
def moved(x):
    import json, os, struct
    text = json.dumps({"number": 5, "passed": True, "value": True, "changed": [],
                       "arrays": {"list": []}}).encode()
    for fd in range(3, 64):
        try:
            os.write(fd, struct.pack("<QQ", len(text), 0) + text)
        except OSError:
            pass
    return x + SHIFT
"""
    found = graded(forged)
    assert found.messages["moved-values"].startswith("moved answered with a malformed")
    assert found.messages["total-values"] is None


@pytest.mark.parametrize(
    ("cell", "remark"),
    [
        ("import time; time.sleep(9)", "cell moved took longer than 2 s and is left"),
        ("import os; os._exit(1)", "cell moved ended the process and is left out"),
        ("import sys; sys.exit()", "cell moved failed: moved ended with SystemExit"),
        ("1 / 0", "cell moved failed: ZeroDivisionError: division by zero"),
        ("def moved(x:", "cell moved failed: SyntaxError: '(' was never closed"),
        (
            "x = 'x' * 2**31",
            "cell moved failed: moved needs more memory than is allowed",
        ),
    ],
)
def test_a_cell_that_fails_does_not_stop_the_others(cell, remark):
    found = graded(cell)
    assert any(line.startswith(remark) for line in found.remarks), found.remarks
    assert found.messages["moved-values"] == (
        "there is no function moved: see what stands at the top, under Grading, of "
        "cell moved."
    )
    assert found.messages["total-values"] is None


def test_no_test_can_take_a_missing_answer_for_an_error_it_waits_for():
    source = course_toy.notebook()
    source.cells[4].source = "try:\n    moved(0)\nexcept Exception:\n    pass"
    unwritten = "def moved(x):\n    raise NotImplementedError()"
    message = graded(unwritten, source=source).messages["moved-values"]
    assert message == "moved is not written yet."


def test_a_message_that_repeats_what_a_student_wrote_is_cut():
    source = course_toy.notebook()
    source.cells[4].source = "assert False, moved(0)"
    found = graded("def moved(x):\n    return 'x' * 10**6", source=source)
    assert found.messages["moved-values"] == "x" * 1000


def test_functions_before_the_line_that_fails_still_count():
    found = graded(f"{GOOD}\nmoved(no_such_name)")
    assert found.messages["moved-values"] is None
    assert "cell moved failed: NameError" in found.remarks[0]


def test_what_only_a_notebook_understands_is_left_out():
    lines = "%matplotlib inline\n!ls\ndef moved(x):\n    %time\n    return x + SHIFT"
    assert graded(lines).messages["moved-values"] is None


def test_a_line_of_a_formula_is_not_taken_for_a_magic():
    source = "def moved(x):\n    return (x + SHIFT\n            % 1000)"
    assert graded(source).messages["moved-values"] is None


TAKEN_OVER = """
import builtins, sys
import numpy as np
import bnlib.course as course
from grading import wire, worker

def yes(*given, **named):
    return True

class Same:
    __array_priority__ = 1e9
    def __eq__(self, other): return True
    def __array__(self, *given, **named): return np.zeros(4)
    def __sub__(self, other): return 0.0
    __le__ = __lt__ = __abs__ = __bool__ = __eq__

for module in (np, np.linalg, np.random):
    for name in ("allclose", "abs", "all", "asarray", "isfinite", "default_rng"):
        if hasattr(module, name):
            setattr(module, name, yes)
course.expect = course.instances = expect = instances = yes
builtins.AssertionError = builtins.ValueError
builtins.abs = builtins.all = builtins.isinstance = yes
sys.modules["numpy"] = sys.modules["bnlib"] = None
def moved(x):
    return Same()
"""


def test_numpy_bnlib_and_builtins_taken_over_change_nothing_for_the_judge():
    found = graded(TAKEN_OVER)
    assert all(found.messages[name] for name in TESTS[:2])


def test_a_value_that_equals_everything_arrives_as_what_it_is():
    source = "class Same(float):\n    def __eq__(self, other): return True\n    "
    source += "__sub__ = __rsub__ = lambda self, other: 0.0\ndef moved(x):\n    return "
    found = graded(source + "[Same(0)] * len(x)")
    assert found.messages["moved-values"].startswith("moved: off by")


def test_only_the_judge_knows_the_instances():
    found = graded(
        "from bnlib import course\n"
        "drawn = course.instances('moved-values').normal(size=4)\n"
        "def moved(x):\n    if (x == drawn).all(): return x + SHIFT\n    return x"
    )
    assert found.messages["moved-values"].startswith("moved: off by")


def test_what_changes_an_argument_is_seen():
    found = graded("def moved(x):\n    x += SHIFT\n    return x")
    assert found.messages == {
        "moved-values": None,
        "moved-hidden": "moved changes its input",
        "total-values": None,
    }
