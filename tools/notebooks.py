"""Run every notebook in a fresh kernel and store its text outputs.

``python -m tools.notebooks [PATH ...]`` leaves notebooks that are the same, byte
for byte, after a second run: no images, no timings, nothing of this machine.
"""

import argparse
import itertools
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import (
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)

from tools.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_METADATA = {"mystnb", "tags"}
IMAGES = {"image/jpeg", "image/png", "image/svg+xml"}
SECONDS_PER_CELL = 120
SANITIZE = ROOT / "tests/nbval_sanitize.cfg"


class NotebookError(Exception):
    """A cell failed, or wrote what the book does not accept."""


def notebook_paths(root=ROOT):
    """Return the book's notebooks in reading order."""
    return [root / "intro.ipynb", *sorted((root / "chapters").glob("*.ipynb"))]


def is_generated(notebook):
    """Say whether a notebook's outputs are judged by its asserts alone."""
    return bool(notebook.metadata.get("bnlib", {}).get("generated", False))


def runs_alone(notebook):
    """Say whether a notebook measures times, which others at work would lengthen."""
    return bool(notebook.metadata.get("bnlib", {}).get("alone", False))


def code_cells(notebook):
    """Return the code cells, in order: the test suite numbers them from 0."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def cell_name(path, number, cell):
    """Name a code cell as the test suite does, with its first line."""
    return f"{path}::Cell {number} ({cell.source.partition(chr(10))[0]})"


def execute(notebook, path):
    """Run a notebook in place, in a fresh kernel and in its own folder."""
    begun = []
    client = NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        kernel_name=KERNEL["name"],
        coalesce_streams=True,
        # Among a cell's metadata, they would make it another one for the build's cache.
        record_timing=False,
        on_cell_execute=lambda cell, cell_index: begun.append(cell_index),
        resources={"metadata": {"path": str(path.parent)}},
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        number = sum(c.cell_type == "code" for c in notebook.cells[: begun[-1]])
        name = cell_name(path, number, notebook.cells[begun[-1]])
        raise NotebookError(f"{name} failed\n{error}") from error
    for number, cell in enumerate(code_cells(notebook)):
        for output in cell.outputs:
            if output.get("name") == "stderr":
                name = cell_name(path, number, cell)
                raise NotebookError(f"{name} wrote to stderr\n{output.text}")


def normalise(notebook):
    """Drop, in place, all that is not the author's or not the same every time."""
    generated = is_generated(notebook)
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for own in ("bnlib", "description"):
        if own in notebook.metadata:
            metadata[own] = notebook.metadata[own]
    notebook.metadata = nbformat.from_dict(metadata)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    taken = set()
    for position, cell in enumerate(notebook.cells):
        cell.metadata = nbformat.from_dict(
            {key: cell.metadata[key] for key in cell.metadata if key in CELL_METADATA}
        )
        if cell.get("id") is None or cell.id in taken:
            free = (f"cell-{n}" for n in itertools.count(position))
            cell.id = next(name for name in free if name not in taken)
        taken.add(cell.id)
        if cell.cell_type == "code":
            _normalise_outputs(cell, generated)
    return notebook


def _normalise_outputs(cell, generated):
    unchecked = "nbval-ignore-output" in cell.metadata.get("tags", [])
    if generated or unchecked:
        cell.outputs = []
    if generated:
        cell.execution_count = None
    for output in cell.outputs:
        if "data" in output:
            # The text that stands for a figure, <Figure size ...>, stays.
            for kind in IMAGES & set(output.data):
                del output.data[kind]
            output.metadata = nbformat.from_dict({})


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
    """Return a text with what may differ masked, as the test suite masks it."""
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
        One text a cell: where it is, what is stored and what came out.
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


def serialise(notebook):
    """Return a notebook's text as it is stored."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def refresh(path):
    """Run, normalise and store one notebook; say whether its text changed.

    A notebook with a cell that fails raises NotebookError and stays as it was.
    """
    before = path.read_bytes()
    notebook = nbformat.read(path, as_version=4)
    execute(notebook, path)
    after = serialise(normalise(notebook)).encode("utf-8")
    if after == before:
        return False
    write_whole(path, after)
    return True


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks")
    parser.add_argument("paths", nargs="*", type=Path, help="all, when none is named")
    paths = parser.parse_args(arguments).paths or notebook_paths()
    for path in paths:
        start = time.perf_counter()
        try:
            changed = refresh(path.resolve())
        except (NotebookError, FileNotFoundError) as error:
            sys.exit(str(error))
        state = "changed" if changed else "the same"
        print(f"{path}: {state}, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
