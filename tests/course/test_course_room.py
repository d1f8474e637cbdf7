"""The room of a student's process: what its code tries to reach, and cannot."""

import platform
import subprocess
import sys
import sysconfig

import course_toy
import numpy as np
import pytest
from course_toy import GOOD, SHORT, SOURCE, graded

from bnlib.course import handed_over, number
from grading import grade, room, sets
from grading.check import with_cells
from grading.worker import Limits

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="processes are locked in on Linux",
)

SITE = sysconfig.get_path("purelib")
CALL = """
import ctypes, os
calls = ctypes.CDLL(None, use_errno=True)
def call(*given):
    found = calls.syscall(*given)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
"""
NO_TORCH = "ModuleNotFoundError: torch is not there in grading"
REFUSED = ("PermissionError: [Errno 13]", "PermissionError: [Errno 1]")

# What a student's cell tries, and how the remark on it begins. If a test fails, its
# attempt has succeeded, so none of them does harm: signal 0, for example, does none.
ATTEMPTS = {
    "import": ("import torch", NO_TORCH),
    "importlib": ("import importlib\nimportlib.import_module('torch')", NO_TORCH),
    "a longer path": (f"import sys\nsys.path.append({SITE!r})\nimport torch", NO_TORCH),
    "a link to it": (
        f"import os, sys\nos.symlink({SITE!r}, 'here')\nsys.path.append('here')\n"
        "import torch",
        NO_TORCH,
    ),
    "a loader": (
        "from importlib.machinery import SourceFileLoader\n"
        f"SourceFileLoader('torch', '{SITE}/torch/__init__.py').load_module()",
        REFUSED,
    ),
    "its library": (
        f"import ctypes\nctypes.CDLL('{SITE}/torch/lib/libtorch.so')",
        "OSError: ",
    ),
    "SciPy": ("import scipy.optimize", "ModuleNotFoundError: scipy is not there"),
    "all of bnlib": ("import bnlib\nbnlib.fold", "AttributeError: bnlib.fold is not"),
    "a file of the teacher's": ("open(SECRET).read()", REFUSED),
    "a hard link to it": ("import os\nos.link(SECRET, 'mine')", "OSError: [Errno 18]"),
    "to change it": ("open(SECRET, 'w')", REFUSED),
    "to remove it": ("import os\nos.remove(SECRET)", REFUSED),
    "a file beside it": ("open(SECRET + '2', 'w')", REFUSED),
    "the list of a folder": ("import os\nos.listdir(os.path.dirname(SECRET))", REFUSED),
    "its parent's variables": (
        "import os\nopen(f'/proc/{os.getppid()}/environ').read()",
        REFUSED,
    ),
    "the root of its own": ("open('/proc/self/root' + SECRET)", REFUSED),
    "a child": ("import os\nos.fork()", REFUSED),
    "a child by clone": (f"{CALL}call(CLONE, 17, 0, 0, 0, 0)", REFUSED),
    "a child by clone3": (f"{CALL}call(435, None, 0)", "OSError: [Errno 38]"),
    "a program": ("import os\nos.execv('/bin/true', ['true'])", REFUSED),
    "a shell": ("import subprocess\nsubprocess.run('true', shell=True)", REFUSED),
    "to signal the judge": ("import os\nos.kill(os.getppid(), 0)", REFUSED),
    "to signal all": ("import os\nos.kill(-1, 0)", REFUSED),
    "to limit the judge": (
        "import os, resource as r\nr.prlimit(os.getppid(), r.RLIMIT_CPU)",
        REFUSED,
    ),
    "a trace of the judge": (
        f"{CALL}call(PTRACE, 16, os.getppid(), 0, 0)",
        REFUSED,
    ),
    "the network": ("import socket\nsocket.socket()", REFUSED),
    "a name server": (
        "import urllib.request\nurllib.request.urlopen('http://localhost')",
        "OSError: URLError",
    ),
    "memory that outlives it": (f"{CALL}call(SHMGET, 0, 4096, 0o1600)", REFUSED),
    "a key that outlives it": (
        f"{CALL}call(ADD_KEY, b'user', b'x', b'y', 1, -4)",
        REFUSED,
    ),
    "another ring": (f"{CALL}call(425, 8, None)", REFUSED),
    "more memory": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "ValueError: not allowed to raise maximum limit",
    ),
    # This attempt comes last, since it spoils the process that all of them share.
    "no importers": (
        f"import sys\nsys.path.append({SITE!r})\nsys.meta_path.pop()\nimport torch",
        "ModuleNotFoundError: No module named 'torch'",
    ),
}
NUMBERS = {
    "x86_64": {"CLONE": 56, "PTRACE": 101, "SHMGET": 29, "ADD_KEY": 248},
    "aarch64": {"CLONE": 220, "PTRACE": 117, "SHMGET": 194, "ADD_KEY": 217},
}


@pytest.fixture(scope="module")
def remarks(tmp_path_factory):
    """Run every attempt in a submission of its own; return the remarks."""
    secret = tmp_path_factory.mktemp("teacher") / "key.txt"
    secret.write_text("hush")
    numbers = NUMBERS[platform.machine()] | {"SECRET": repr(str(secret))}
    cells = []
    for attempt, _ in ATTEMPTS.values():
        for name, value in numbers.items():
            attempt = attempt.replace(name, str(value))
        notebook = with_cells(SOURCE, {"moved": f"{GOOD}\n{attempt}"})
        cells.append(sets.runnable(notebook))
    found = grade.grade(sets.work_of(SOURCE), cells, "key", "toy", SHORT)
    assert secret.read_text() == "hush"
    assert [p.name for p in secret.parent.iterdir()] == ["key.txt"]
    assert all(grading.unlocked == [] for grading in found)
    assert all(set(grading.messages.values()) == {None} for grading in found)
    return dict(zip(ATTEMPTS, (grading.remarks for grading in found)))


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_attempt_to_leave_the_room_fails_and_is_remarked(remarks, attempt):
    [remark] = remarks[attempt]
    wanted = ATTEMPTS[attempt][1]
    wanted = (wanted,) if isinstance(wanted, str) else wanted
    assert remark.startswith(tuple(f"cell moved failed: {w}" for w in wanted))


WORKS = """
import collections, ctypes, decimal, fractions, functools, hashlib, math, os
import random, sqlite3, statistics, threading, time, unittest
import matplotlib.pyplot as plt
import numpy.fft, numpy.linalg, numpy.polynomial, numpy.random, numpy.testing
from bnlib.course import expect

thread = threading.Thread(target=time.sleep, args=(0.01,))
thread.start()
thread.join()
with open("notes", "w") as file:
    file.write("mine")
os.rename("notes", "more")
os.mkdir("folder")
assert open("more").read() == "mine"
fig, ax = plt.subplots()
ax.plot([1, 2])
fig.savefig("figure.png")
"""


def test_what_a_student_needs_is_there():
    found = graded(f"{GOOD}\n{WORKS}", limits=Limits())
    assert found.remarks == []
    assert found.messages["moved-values"] is None


def test_what_cannot_be_locked_is_said(monkeypatch):
    monkeypatch.setattr(room.platform, "machine", lambda: "s390x")
    assert room._filter_calls(None) is False


def test_without_landlock_imports_are_refused_all_the_same():
    """It runs in a process of its own, since the guard of imports stays for good."""
    code = (
        "import sys, types; from grading import room\n"
        "import numpy, os; sys.path.insert(0, os.path.dirname(numpy.__path__[0]))\n"
        "os.listdir = lambda path: ['numpy']\n"
        "room._guard_imports()\n"
        "import fractions, numpy.fft\n"
        "try:\n    import torch\nexcept ImportError as error: print(error)\n"
        "def other(*given): pass\n"
        "try:\n    other.__code__ = other.__code__\n"
        "except TypeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "torch is not there in grading: NumPy alone",
        "functions cannot be changed in grading",
    ], done.stderr


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("{'mean': 1.0, 'count': 3}", None),
        ("10**4000", "the state has 1661 bytes, at most 64 are handed over"),
        ("'x' * 99", "the state has 99 bytes"),
        ("{'x' * 99: 1}", "the state has 115 bytes"),
        ("[()] * 99", "the state has 800 bytes"),
        ("np.zeros((9,) * 8 + (0,))", "the state has 80 bytes"),
        ("np.zeros(99, bool)", "the state has 107 bytes"),
        ("b'bytes'", "total returned what is no plain data"),
        ("np.array(['text'])", "total returned what is no plain data"),
        ("object()", "total returned what is no plain data"),
    ],
    ids=str,
)
def test_a_state_is_bounded_whatever_it_is_made_of(state, message):
    source = course_toy.notebook()
    source.cells[4].source = "handed_over(total(np.ones(1)), 64)"
    changed = with_cells(
        source, {"total": f"def total(x):\n    return {state}", "moved": GOOD}
    )
    cells = sets.runnable(changed)
    [found] = grade.grade(sets.work_of(source), [cells], "key", "toy", SHORT)
    told = found.messages["moved-values"]
    assert told is None if message is None else told.startswith(message), told


@pytest.mark.parametrize(
    "found",
    [[2.0], (), "2", None, 1j, {}, float("nan"), 10**400],
    ids=lambda value: str(value)[:9],
)
def test_what_is_no_number_is_refused_where_one_is_asked_for(found):
    with pytest.raises(AssertionError, match="slope: "):
        number("slope", found)


def test_an_array_is_no_number_and_a_scalar_is_one():
    with pytest.raises(AssertionError, match=r"found ndarray of shape \(600, 1, 1\)"):
        number("slope", np.full((600, 1, 1), 16.0))
    for one in (2, 2.0, np.float32(2), np.array(2.0), np.int64(2)):
        assert number("slope", one) == 2.0


def test_a_state_of_other_kinds_is_refused_in_a_notebook_too():
    for state in ({1: 2.0}, {"a"}, b"x", object()):
        with pytest.raises(AssertionError):
            handed_over(state, 100)


def test_a_hidden_input_does_not_come_back_in_a_message():
    source = course_toy.notebook()
    answer = (
        "def moved(x):\n    if x.any():\n        raise ValueError(str(x.tolist()))\n"
    )
    found = graded(f"{answer}    return x + SHIFT", source=source)
    assert found.messages["moved-values"].startswith("ValueError: [")
    assert found.messages["moved-hidden"] == "moved raised ValueError"
