"""What running a notebook gave, kept as long as nothing that it depends on changes.

A kept run lies in ``_build/runs/NOTEBOOK/`` and says under what it was made: the
code cells, all that was read of the repository (the modules of bnlib, records, data,
other notebooks) and the versions of Python and of all that is installed. Runs of
other states of the repository stay beside it, the newest few, so that going back to
one runs nothing. Each is written whole and last: an interrupted one leaves none.
"""

import functools
import hashlib
import importlib.metadata
import json
import os
import sys
import sysconfig
from contextlib import suppress

import nbformat

from tools import reads
from tools.cells import KERNEL, code_cells
from tools.files import write_whole

#: The runs of one notebook that are kept, the last used ones.
KEPT = 5


@functools.cache
def environment():
    """Give a hash of the versions of Python and of all that is installed."""
    # Not on sys.path: setuptools, once imported, adds packages of its own there.
    places = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    installed = importlib.metadata.distributions(path=places)
    versions = {f"{each.name}=={each.version}" for each in installed}
    backend = os.environ.get("BNLIB_BACKEND", "")
    return _hash([sys.version, backend, *sorted(versions)])


def _hash(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _cells(notebook):
    """Give a hash of what a kernel gets of a notebook."""
    kernel = notebook.metadata.get("kernelspec", KERNEL)["name"]
    cells = [(cell.source, cell.metadata.get("tags")) for cell in code_cells(notebook)]
    return _hash([kernel, cells])


def _folder(root, path):
    return root / "_build/runs" / path.relative_to(root).with_suffix("")


def keep(root, path, notebook, read, seconds):
    """Keep a run.

    Parameters
    ----------
    root, path : Path
        The folder of the book, and the notebook in it.
    notebook : NotebookNode
        With the outputs of the run.
    read : dict of str
        What it read, with digests: `tools.reads.read_below`.
    seconds : float
        How long it took.
    """
    folder = _folder(root, path)
    folder.mkdir(parents=True, exist_ok=True)
    run = {
        "environment": environment(),
        "read": read,
        "seconds": seconds,
        "outputs": [cell.outputs for cell in code_cells(notebook)],
    }
    name = f"{_cells(notebook)[:16]}-{_hash([read, environment()])[:16]}.json"
    write_whole(folder / name, json.dumps(run))
    for old in _by_use(folder)[KEPT:]:
        old.unlink(missing_ok=True)


def _by_use(folder):
    return sorted(folder.glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)


def find(root, path, notebook):
    """Return the kept run that running a notebook now would repeat.

    Parameters
    ----------
    root, path : Path
        The folder of the book, and the notebook in it.
    notebook : NotebookNode
        What the file holds.

    Returns
    -------
    (NotebookNode, float) or None
        The notebook with the run's outputs, and the seconds that it took.
    """
    cells = _cells(notebook)[:16]
    for file in _by_use(_folder(root, path)):
        run = None
        if file.name.startswith(cells):
            with suppress(json.JSONDecodeError):
                run = json.loads(file.read_text(encoding="utf-8"))
        if run and run["environment"] == environment() and is_current(root, run):
            os.utime(file)
            return _with_outputs(notebook, run["outputs"]), run["seconds"]
    return None


def with_outputs(root, path, notebook):
    """Return a notebook as its page shows it; None where no run of it is kept."""
    if not code_cells(notebook):
        return notebook
    kept = find(root, path, notebook)
    return kept[0] if kept else None


def is_current(root, run):
    """Say whether all that a run has read is as it was then."""
    return all(reads.digest(root / name) == was for name, was in run["read"].items())


def _with_outputs(notebook, outputs):
    notebook = nbformat.from_dict(notebook)
    for number, (cell, given) in enumerate(zip(code_cells(notebook), outputs)):
        cell.outputs = nbformat.from_dict(given)
        cell.execution_count = number + 1
    return notebook
