"""The problem sets: one source, its variants by course key, and its versions."""

import ast
import copy
import importlib.util
import re
import sys
from pathlib import Path

from grading.keys import checked_key, generator

SOURCE = Path(__file__).resolve().parents[1] / "assignments/source"
DEFAULT_KEY = "book"


def set_names():
    """Return the names of the sets, in order."""
    return sorted(p.parent.name for p in SOURCE.glob("*/variant.py"))


def _set_file(name, file):
    path = SOURCE / name / file
    if name not in set_names() or not path.is_file():
        raise ValueError(
            f"no {file} of a set {name!r} in {SOURCE}; there are "
            f"{', '.join(set_names()) or 'no sets: they come with the repository'}"
        )
    return path


def _module(path):
    """Run one of a set's Python files without leaving a cache beside it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def load_variant(name, key):
    """Return the values that a key gives a set."""
    module = _module(_set_file(name, "variant.py"))
    return module.variant(generator(checked_key(key), name))


def load_wrong(name):
    """Return a set's typical wrong answers."""
    return _module(_set_file(name, "wrong.py")).WRONG


def load_source(name, key):
    """Return a set's source notebook, rendered for a key."""
    import nbformat

    notebook = nbformat.read(_set_file(name, f"{name}.ipynb"), as_version=4)
    return render(notebook, load_variant(name, key))


def mark(cell):
    """Return a cell's nbgrader metadata, or an empty dictionary."""
    return cell.metadata.get("nbgrader", {})


def is_test(cell):
    """Return True if a cell's points come from running it."""
    return cell.cell_type == "code" and bool(mark(cell).get("grade"))


def is_figure(cell):
    """Return True if a cell draws; such a cell is left out in grading."""
    return "figure" in cell.metadata.get("tags", [])


def render(notebook, values):
    """Return a copy of a source notebook with a variant's values put in."""
    notebook = copy.deepcopy(notebook)
    literal = "\n".join(f"{k} = {v!r}" for k, v in values.items() if k.isupper())
    for cell in notebook.cells:
        if "task" in cell.metadata.get("tags", []):
            cell.source = literal
        elif cell.cell_type == "markdown":
            cell.source = re.sub(
                r"\{\{(\w+)\}\}", lambda found: _value(values, found), cell.source
            )
    return notebook


def _value(values, found):
    if found[1] not in values:
        raise ValueError(f"{found[0]} is not a value of variant(rng): {list(values)}")
    return str(values[found[1]])


def student_version(notebook):
    """Return the students' notebook, and nbgrader's checksums of its cells.

    Returns
    -------
    student : NotebookNode
    checksums : dict
        By grade_id, as nbgrader's gradebook keeps them, hidden tests included.
    """
    from nbgrader import preprocessors as steps

    notebook = copy.deepcopy(notebook)
    resources = {}
    for step in (
        steps.LockCells,
        steps.ClearSolutions,
        steps.ClearOutput,
        steps.CheckCellMetadata,
        steps.ComputeChecksums,
    ):
        notebook, resources = step().preprocess(notebook, resources)
    sums = {
        mark(cell)["grade_id"]: mark(cell)["checksum"]
        for cell in notebook.cells
        if "checksum" in mark(cell)
    }
    for step in (
        steps.ClearHiddenTests,
        steps.ClearMarkScheme,
        steps.ComputeChecksums,
        steps.CheckCellMetadata,
    ):
        notebook, resources = step().preprocess(notebook, resources)
    return notebook, sums


def solution_version(notebook):
    """Return the notebook with all solutions, without hidden tests, for students."""
    from nbgrader import preprocessors as steps

    notebook, resources = copy.deepcopy(notebook), {}
    for step in (steps.LockCells, steps.ClearOutput, steps.ClearHiddenTests):
        notebook, resources = step().preprocess(notebook, resources)
    return notebook


def functions_of(notebook):
    """Return the functions of a source's solution cells, with their cells, by name."""
    return {
        node.name: mark(cell)["grade_id"]
        for cell in notebook.cells
        if cell.cell_type == "code" and mark(cell).get("solution")
        for node in ast.parse(cell.source).body
        if isinstance(node, ast.FunctionDef)
    }


def work_of(notebook):
    """Return a source's own cells as :func:`grading.grade.grade` takes them."""
    code = [c for c in notebook.cells if c.cell_type == "code" and not is_figure(c)]
    return {
        "locked": [
            (mark(c)["grade_id"], c.source)
            for c in code
            if mark(c).get("locked") and not is_test(c)
        ],
        "tests": [(mark(c)["grade_id"], c.source) for c in code if is_test(c)],
        "functions": functions_of(notebook),
    }


def runnable(notebook):
    """Return the cells that a student's process runs, names and sources in order."""
    cells = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and not is_test(cell) and not is_figure(cell):
            name = mark(cell).get("grade_id") or f"{number + 1}"
            cells.append((name, cell.source))
    return cells
