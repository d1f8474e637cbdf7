"""Name a notebook's code cells, read their outputs and compare them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
IMAGES = {"image/jpeg", "image/png", "image/svg+xml"}
SANITIZE = ROOT / "tests/nbval_sanitize.cfg"


def notebook_paths(root=ROOT):
    """Return the book's notebooks in reading order."""
    return [root / "intro.ipynb", *sorted((root / "chapters").glob("*.ipynb"))]


def is_generated(notebook):
    """Return True if a notebook's outputs are checked by its asserts alone."""
    return bool(notebook.metadata.get("bnlib", {}).get("generated", False))


def runs_alone(notebook):
    """Return True if a notebook measures times, and so must run alone."""
    return bool(notebook.metadata.get("bnlib", {}).get("alone", False))


def code_cells(notebook):
    """Return the code cells, in order: the test suite numbers them from 0."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def cell_name(path, number, cell):
    """Name a code cell as the test suite does, with its first line."""
    return f"{path}::Cell {number} ({cell.source.partition(chr(10))[0]})"


def output_text(cell):
    """Return all the text that a cell printed or showed."""
    text = ""
    for output in cell.outputs:
        # A kernel may cut one print into several outputs, anywhere in a line.
        text += output.get("text", "")
        data = output.get("data", {})
        for kind in sorted(set(data) - IMAGES):
            text += f"{data[kind]}\n"
    return text


def masked(text):
    """Return a text in which all that may differ is masked, as in the test suite."""
    rules = SANITIZE.read_text(encoding="utf-8")
    for regex, replace in re.findall(r"^regex: (.*)\nreplace: (.*)$", rules, re.M):
        text = re.sub(regex, replace, text)
    return text


def stale_outputs(name, stored, executed):
    """List the cells whose stored output is not the one that a run gave.

    Parameters
    ----------
    name : str
        What to call the notebook.
    stored, executed : NotebookNode
        The notebook with its stored outputs, and with those of the run.

    Returns
    -------
    list of str
        One text for each cell: where it is, what is stored and what came out.
    """
    found = []
    if is_generated(stored):
        return found
    pairs = zip(code_cells(stored), code_cells(executed), strict=True)
    for number, (old_cell, new_cell) in enumerate(pairs):
        old, now = (masked(output_text(cell)) for cell in (old_cell, new_cell))
        checked = "nbval-ignore-output" not in old_cell.metadata.get("tags", [])
        if checked and old.strip() != now.strip():
            cell = cell_name(name, number, old_cell)
            found.append(f"{cell}: stored\n{old.rstrip()}\nbut now\n{now.rstrip()}")
    return found
