"""A small problem set for the tests of grading: its cells, and how one grades it."""

import copy
import json

import nbformat

from grading import grade, sets
from grading.check import with_cells
from grading.worker import Limits

VARIANT = """
def variant(rng):
    return {"SHIFT": float(rng.integers(1, 9)), "words": f"by {rng.integers(9)}"}
"""
WRONG = """
WRONG = {
    "adds one": {
        "cells": {"moved": "def moved(x):\\n    return x + 1 + SHIFT"},
        "lost": {"moved-values", "moved-hidden"},
    },
}
"""
MOVED = '''def moved(x):
    """Add SHIFT to x (m,)."""
    ### BEGIN SOLUTION
    return x + SHIFT
    ### END SOLUTION'''
TOTAL = """def total(x):
    ### BEGIN SOLUTION
    if x.size == 0:
        raise ValueError("nothing to add")
    return float(x.sum())
    ### END SOLUTION"""
MOVED_VALUES = """rng = instances("moved-values")
x = rng.normal(size=4)
wanted = x + SHIFT
expect("moved", moved(x.copy()), wanted, 1e-12, "Look at SHIFT.")"""
MOVED_HIDDEN = """rng = instances("moved-hidden")
assert moved(np.zeros(2)).shape == (2,), "one value each"
### BEGIN HIDDEN TESTS
x = np.arange(6.0)[::2]
before = x.copy()
y = moved(x)
assert (x == before).all(), "moved changes its input"
expect("moved", y, before + SHIFT, 1e-12, "Steps in memory do not matter.")
### END HIDDEN TESTS"""
TOTAL_VALUES = """x = instances("total").normal(size=5)
wanted = sum(x.tolist())
expect("total", total(x), wanted, 1e-12, "Add them all.")
try:
    total(x[:0])
except ValueError:
    pass
else:
    raise AssertionError("nothing to add is an error")"""


def cell(kind, name, source, points=None, **extra):
    """Return a cell with nbgrader's marks."""
    code = kind != "answer"
    make = nbformat.v4.new_code_cell if code else nbformat.v4.new_markdown_cell
    solution = kind in ("solution", "answer")
    marks = {
        "schema_version": 3,
        "grade_id": name,
        "grade": points is not None,
        "solution": solution,
        "locked": not solution,
        "task": False,
    }
    if points is not None:
        marks["points"] = points
    made = make(source, metadata={"nbgrader": marks, **extra})
    made.id = f"{kind}-{name}"
    return made


def notebook():
    """Return the source of the set, with its solutions and hidden tests."""
    text = nbformat.v4.new_markdown_cell("# Moving by {{SHIFT}}, {{words}}")
    text.id = "text-00"
    setup = "import numpy as np\n\nfrom bnlib.course import expect, instances"
    return nbformat.v4.new_notebook(
        cells=[
            text,
            cell("task", "task", "SHIFT = 1.0", tags=["task"]),
            cell("locked", "setup", setup),
            cell("solution", "moved", MOVED),
            cell("test", "moved-values", MOVED_VALUES, 2),
            cell("test", "moved-hidden", MOVED_HIDDEN, 1),
            cell("figure", "drawing", "raise RuntimeError(moved)", tags=["figure"]),
            cell("solution", "total", TOTAL),
            cell("test", "total-values", TOTAL_VALUES, 4),
            cell("answer", "why", "Because {{SHIFT}} is added.", 3),
        ],
        metadata={
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            }
        },
    )


def write_set(folder, name="toy"):
    """Write the set's three files into a folder of sets."""
    place = folder / name
    place.mkdir(parents=True)
    (place / "variant.py").write_text(VARIANT)
    (place / "wrong.py").write_text(WRONG)
    nbformat.write(notebook(), place / f"{name}.ipynb")


def with_sources(base, **sources):
    """Return a submission as its author saves it: some cells have other sources."""
    made = json.loads(json.dumps(copy.deepcopy(base)))
    for one in made["cells"]:
        name = one["metadata"].get("nbgrader", {}).get("grade_id", "")
        if name.replace("-", "_") in sources:
            one["source"] = sources[name.replace("-", "_")]
    return made


SHORT = Limits(memory=2**29, call=1.5, cell=2.0)
SOURCE = sets.render(notebook(), {"SHIFT": 3.0, "words": ""})
GOOD = "def moved(x):\n    return x + SHIFT\n"
TESTS = ["moved-values", "moved-hidden", "total-values"]


def graded(moved=GOOD, limits=SHORT, source=SOURCE, key="key", extra=()):
    """Grade the toy with one cell changed; ``total`` is always right."""
    changed = with_cells(source, {"moved": moved})
    cells = [*sets.runnable(changed), *extra]
    [found] = grade.grade(sets.work_of(source), [cells], key, "toy", limits)
    assert list(found.messages) == TESTS
    return found


def body(code):
    """Return the function ``moved`` with a body."""
    lines = "".join(f"    {line}\n" for line in code.strip().split("\n"))
    return f"import os, signal, sys, time\n\ndef moved(x):\n{lines}"
