"""Keep a notebook's run for as long as nothing that it depends on changes.

A kept run lies in ``_build/runs/NOTEBOOK/`` and records what it depends on: the code
cells, all files of the repository that it read (the modules of bnlib, records, data,
other notebooks), and the versions of Python and of all installed packages. The newest
few runs stay, so that going back to an earlier state of the repository runs nothing.
A run is written whole and at its end: an interrupted one leaves no file.
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

#: How many runs of a notebook are kept: those that were used last.
KEPT = 5


@functools.cache
def environment():
    """Return a hash of the versions of Python and of all installed packages."""
    # Not all of sys.path: setuptools, once imported, adds packages of its own there.
    places = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    installed = importlib.metadata.distributions(path=places)
    versions = {f"{each.name}=={each.version}" for each in installed}
    backend = os.environ.get("BNLIB_BACKEND", "")
    return _hash([sys.version, backend, *sorted(versions)])


def _hash(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _cells(notebook):
    """Return a hash of a notebook's code cells, their tags and its kernel."""
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
    """Return a notebook's kept run if nothing that it depends on has changed.

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
    """Return a notebook as its page shows it, or None if no run of it is kept."""
    if not code_cells(notebook):
        return notebook
    kept = find(root, path, notebook)
    return kept[0] if kept else None


def is_current(root, run):
    """Return True if all that a run has read is unchanged."""
    return all(reads.digest(root / name) == was for name, was in run["read"].items())


def _with_outputs(notebook, outputs):
    notebook = nbformat.from_dict(notebook)
    for number, (cell, given) in enumerate(zip(code_cells(notebook), outputs)):
        cell.outputs = nbformat.from_dict(given)
        cell.execution_count = number + 1
    return notebook
