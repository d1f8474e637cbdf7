"""Proof of a set: the scores of the untouched version, the solution, wrong answers."""

import ast
import copy

from grading import sets
from grading.grade import grade
from grading.sets import is_test, mark

KEYS = (sets.DEFAULT_KEY, "first other key", "second other key")

#: Answers that know nothing: code of the value to return, with all arguments in a list.
LAZY = {
    "zeros like the first array": "np.zeros_like(arrays[0]) if arrays else 0.0",
    "not-a-number like the first array": "np.full_like(arrays[0], np.nan)"
    " if arrays else float('nan')",
    "the first argument": "given[0] if given else 1.0",
    "an empty array": "np.zeros(0)",
    "nothing": "None",
}
_ERASER = """
def _erasing(function):
    def erased(*given, **named):
        values, found = [*given, *named.values()], 0
        for value in values:
            if isinstance(value, (tuple, list)):
                values += value
            elif type(value).__name__ == "ndarray" and value.flags.writeable:
                value[...] = 0
                found += 1
        if not found:
            raise LookupError("nothing to erase")
        return function(*given, **named)
    return erased
"""


def points_of(notebook):
    """Return the points of a source's test cells by name."""
    return {
        mark(cell)["grade_id"]: mark(cell)["points"]
        for cell in notebook.cells
        if is_test(cell)
    }


def with_cells(notebook, sources):
    """Return a copy of a notebook with other sources in some of its cells."""
    notebook = copy.deepcopy(notebook)
    cells = {mark(c).get("grade_id"): c for c in notebook.cells}
    for name, source in sources.items():
        if name not in cells or not mark(cells[name]).get("solution"):
            raise ValueError(f"wrong.py: there is no solution cell {name!r}")
        cells[name].source = source
    return notebook


def check(name, keys=KEYS, wrong_keys=None):
    """Grade a set's versions under several keys.

    Parameters
    ----------
    name : str
        A set.
    keys : sequence of str
    wrong_keys : sequence of str, optional
        The keys under which the wrong answers are graded; all of `keys` if not given.

    Yields
    ------
    key, version : str
    lost : dict
        Points lost by test cell.
    wanted : dict
        Points that should be lost.
    grading : Grading
    """
    wrong = sets.load_wrong(name)
    for key in keys:
        source = sets.load_source(name, key)
        untouched, _ = sets.student_version(source)
        versions = {
            "untouched": (untouched, points_of(source)),
            "solution": (source, {}),
        }
        given = wrong if wrong_keys is None or key in wrong_keys else {}
        for title, answer in given.items():
            notebook = with_cells(source, answer["cells"])
            points = points_of(source)
            versions[title] = notebook, {test: points[test] for test in answer["lost"]}
        notebooks = [notebook for notebook, _ in versions.values()]
        found = _graded(source, notebooks, key, name)
        for (title, (_, wanted)), (lost, grading) in zip(versions.items(), found):
            yield key, title, lost, wanted, grading


def earned_by_cheating(name, key=sets.DEFAULT_KEY):
    """Return the points that answers without knowledge earn, by cheat and test.

    The last cheat fills its arguments with zeros and then solves. It earns points in a
    test that compares the result with the changed arguments.
    """
    source = sets.load_source(name, key)
    solutions = {
        mark(cell)["grade_id"]: cell.source
        for cell in source.cells
        if cell.cell_type == "code" and mark(cell).get("solution")
    }
    cheats = {
        title: {cell: _lazy(text, answer) for cell, text in solutions.items()}
        for title, answer in LAZY.items()
    }
    cheats["arguments erased, then solved"] = {
        cell: text
        + _ERASER
        + "".join(f"{f} = _erasing({f})\n" for f in _functions(text))
        for cell, text in solutions.items()
    }
    notebooks = [with_cells(source, cells) for cells in cheats.values()]
    points = points_of(source)
    return {
        title: {test: p for test, p in points.items() if test not in lost}
        for title, (lost, _) in zip(cheats, _graded(source, notebooks, key, name))
    }


def _functions(source):
    tree = ast.parse(source)
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def _lazy(source, answer):
    lines = ["import numpy as np"]
    for name in _functions(source):
        lines += [
            f"def {name}(*given, **named):",
            "    given = [*given, *named.values()]",
            "    arrays = [value for value in given if isinstance(value, np.ndarray)]",
            f"    return {answer}",
        ]
    return "\n".join(lines)


def _graded(source, notebooks, key, name):
    """Return (points lost by test, Grading) of each notebook."""
    points = points_of(source)
    cells = [sets.runnable(notebook) for notebook in notebooks]
    found = grade(sets.work_of(source), cells, key, name)
    return [
        ({t: p for t, p in points.items() if grading.messages[t]}, grading)
        for grading in found
    ]
