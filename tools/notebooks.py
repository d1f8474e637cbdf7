"""Store the text outputs of the notebooks: ``python -m tools.notebooks [PATH ...]``.

What is stored is the same, byte for byte, after another run: no images, no timings,
nothing of this machine. A notebook whose run is kept is not run again.
"""

import argparse
import itertools
import sys
import time
from pathlib import Path

import nbformat

from tools import execution
from tools.cells import IMAGES, KERNEL, ROOT, is_generated, notebook_paths
from tools.files import write_whole
from tools.sentences import one_a_line

CELL_METADATA = {"mystnb", "tags"}


def normalise(notebook):
    """Drop what the author did not write, and put each sentence on a line, in place."""
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
        if cell.cell_type == "markdown":
            cell.source = one_a_line(cell.source)
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


def serialise(notebook):
    """Return a notebook's text as it is stored."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def refresh(root, paths):
    """Run, normalise and store notebooks.

    Parameters
    ----------
    root : Path
        The folder of the book.
    paths : list of Path
        Notebooks in it.

    Yields
    ------
    (Path, bool)
        Each notebook and whether its text changed.

    Raises
    ------
    NotebookError
        If a cell fails; the file of that notebook stays as it was.
    """
    for path, ran, _ in execution.run(root, paths):
        if isinstance(ran, execution.NotebookError):
            raise ran
        after = serialise(normalise(ran)).encode("utf-8")
        changed = after != path.read_bytes()
        if changed:
            write_whole(path, after)
        yield path, changed


def main(arguments=None, root=ROOT):
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks")
    parser.add_argument("paths", nargs="*", type=Path, help="all, when none is named")
    given = parser.parse_args(arguments).paths
    paths = [path.resolve() for path in given] or notebook_paths(root)
    start = time.perf_counter()
    try:
        for path, changed in refresh(root, paths):
            print(f"{path.relative_to(root)}: {'changed' if changed else 'the same'}")
    except (execution.NotebookError, FileNotFoundError) as error:
        sys.exit(str(error))
    print(f"after {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
