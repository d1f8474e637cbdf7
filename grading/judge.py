"""The judge: runs a set's tests on functions that live in a student's process.

It reads a job as JSON from its standard input and tells each result as a line of
JSON, at once: its own end loses nothing that was told.
"""

import copy
import ctypes
import json
import os
import resource
import signal
import sys

import numpy as np

from grading.keys import generator
from grading.worker import Limits, Student, Unanswered, end_children

#: Locked and test cells may load torch, whose libraries are large.
MEMORY = 12 * 2**30
_DATA = (np.ndarray, list, dict, set)


def main():
    """Judge a job's submissions, one after the other."""
    job = json.load(sys.stdin)
    say = _reporter()
    _protect()
    base = {"__name__": "__main__"}
    for name, source in job["locked"]:
        exec(_compiled(source, name), base)
    student = Student(
        Limits(**job["limits"]),
        job["folder"],
        job["owner"],
        started=lambda number: say(started=number),
    )
    base |= {name: _proxy(student, name) for name in job["functions"]}
    base["instances"] = lambda name: generator(job["key"], job["set"], name)
    try:
        student.open()
        say(ready=True)
        for number, cells in enumerate(job["submissions"]):
            student.load(cells)
            for name, source in job["tests"]:
                message = judged(base, name, source)
                say(submission=number, test=name, message=message)
            say(submission=number, remarks=student.remarks)
    finally:
        student.stop()
        end_children()


def judged(base, name, source):
    """Run one test cell in names of its own; return why it failed, or None."""
    own = {
        key: copy.deepcopy(value) if isinstance(value, _DATA) else value
        for key, value in base.items()
    }
    try:
        exec(_compiled(source, name), own)
    except Unanswered as reason:
        return f"{reason}."[:1000]
    except Exception as error:
        text = str(error) or "an assertion does not hold"
        kind = type(error).__name__
        return (text if kind == "AssertionError" else f"{kind}: {text}")[:1000]
    return None


def _compiled(source, name):
    return compile(source, name, "exec", dont_inherit=True)


def _proxy(student, name):
    def function(*positional, **named):
        return student.call(name, positional, named)

    function.__name__ = name
    return function


def _reporter():
    """Return what tells results; whatever a cell prints goes nowhere."""
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)

    def say(**fields):
        told.write(json.dumps(fields) + "\n")
        told.flush()

    return say


def _protect():
    """Limit this process, and hide its memory and files from others of the user."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        parent_death, dumpable, subreaper = 1, 4, 36
        control = ctypes.CDLL(None).prctl
        control(parent_death, signal.SIGKILL)
        control(dumpable, 0)
        # What a student's process leaves behind becomes the judge's to end.
        control(subreaper, 1)


if __name__ == "__main__":
    main()
