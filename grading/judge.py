"""The judge: runs a set's tests on functions that live in a student's process.

It reads a job as JSON from its standard input and writes each result at once, as a line
of JSON: if it ends early, no result that was written is lost.
"""

import copy
import ctypes
import json
import os
import re
import resource
import signal
import sys

import numpy as np

from bnlib.course import handed_over
from grading.keys import generator
from grading.worker import Limits, Student, Unanswered, end_children

_HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.DOTALL)
_DATA = (np.ndarray, list, dict, set)


def main():
    """Judge a job's submissions, one after the other."""
    job = json.load(sys.stdin)
    say = _reporter()
    limits = Limits(**job["limits"])
    _protect(limits.memory)
    base = {"__name__": "__main__"}
    for name, source in job["locked"]:
        exec(_compiled(source, name), base)
    student = Student(
        limits,
        job["folder"],
        job["functions"],
        job["owner"],
        started=lambda number: say(started=number),
    )
    base |= {name: _proxy(student, name) for name in job["functions"]}
    base["instances"] = lambda name: generator(job["key"], job["set"], name)
    base["handed_over"] = lambda state, most: _to_another(student, state, most)
    try:
        say(ready=student.open())
        for number, cells in enumerate(job["submissions"]):
            student.load(cells)
            for name, source in job["tests"]:
                message = judged(base, name, source, student)
                say(submission=number, test=name, message=message)
            say(submission=number, remarks=student.remarks)
    finally:
        student.stop()
        end_children()


def judged(base, name, source, student):
    """Run one test cell in a fresh namespace; return why it failed, or None.

    A call that took too long, or ended its process, is tried again before it costs
    anything: another process may have had the machine.
    """
    code = _compiled(source, name)
    for last in (False, True):
        own = {
            key: copy.deepcopy(value) if isinstance(value, _DATA) else value
            for key, value in base.items()
        }
        try:
            exec(code, own)
        except Unanswered as reason:
            if reason.again and not last:
                continue
            if reason.again:
                student.failed(reason)
            hidden = _is_hidden(reason, name, source)
            return f"{reason.reason if hidden else reason}."[:1000]
        except Exception as error:
            return _told(error, _is_hidden(error, name, source), student)[:1000]
        return None


def _told(error, hidden, student):
    """Return a failed test's message; it says nothing of hidden inputs."""
    kind, by = type(error).__name__, getattr(error, "raised_by", None)
    if by:
        return f"{by} raised {kind}" if hidden else f"{kind}: {error}"
    if isinstance(error, AssertionError):
        return str(error) or "an assertion does not hold"
    if isinstance(error, MemoryError):
        error = "it needs more memory than is allowed"
    if student.last:
        return f"the test cannot use what {student.last}: {kind}: {error}"
    return f"{kind}: {error}"


def _is_hidden(error, name, source):
    """Return True if the failing line of the test cell is a hidden one."""
    lines = set()
    for found in _HIDDEN.finditer(source):
        first = source.count("\n", 0, found.start()) + 1
        lines.update(range(first, first + found[0].count("\n") + 1))
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == name:
            return trace.tb_lineno in lines
        trace = trace.tb_next
    return False


def _to_another(student, state, most):
    """Return a state as data, and end the process that it comes from."""
    handed = handed_over(state, most)
    student.stop()
    return handed


def _compiled(source, name):
    return compile(source, name, "exec", dont_inherit=True)


def _proxy(student, name):
    def function(*positional, **named):
        return student.call(name, positional, named)

    function.__name__ = name
    return function


def _reporter():
    """Return a function that writes results; whatever a cell prints is thrown away."""
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)

    def say(**fields):
        told.write(json.dumps(fields) + "\n")
        told.flush()

    return say


def _protect(memory):
    """Limit this process; hide its memory and files from the user's other processes."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        parent_death, dumpable, subreaper = 1, 4, 36
        control = ctypes.CDLL(None).prctl
        control(parent_death, signal.SIGKILL)
        control(dumpable, 0)
        # Processes that a student's process leaves behind become the judge's children.
        control(subreaper, 1)


if __name__ == "__main__":
    main()
