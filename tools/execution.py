"""Run notebooks in fresh kernels, two at a time, and keep their outputs."""

import asyncio
import os
import re
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import (
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)

from tools import reads, runs
from tools.cells import KERNEL, cell_name, code_cells, runs_alone

#: Notebooks that run at one time: each takes a core, and memory.
AT_ONCE = 2
SECONDS_PER_CELL = 120
#: Colours of a terminal.
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class NotebookError(Exception):
    """A cell failed, or wrote what the book does not accept.

    Attributes
    ----------
    notebook : NotebookNode
        The notebook, with its outputs up to the failure.
    """

    def __init__(self, message, notebook):
        super().__init__(message)
        self.notebook = notebook


def run(root, paths):
    """Yield each notebook with its outputs; run those that have no kept run.

    Parameters
    ----------
    root : Path
        The folder of the book.
    paths : list of Path
        Notebooks in it.

    Yields
    ------
    (Path, NotebookNode or NotebookError, bool)
        The path, the notebook with the outputs of a run, and whether it ran just
        now, in the order in which the runs end. Notebooks that measure times come
        last, each alone.
    """
    together, alone = [], []
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        if not code_cells(notebook):
            yield path, notebook, False
        elif kept := runs.find(root, path, notebook):
            yield path, kept[0], False
        else:
            (alone if runs_alone(notebook) else together).append((path, notebook))
    for missing, workers in ((together, AT_ONCE), (alone, 1)):
        yield from _run_missing(root, missing, workers)


def _run_missing(root, missing, workers):
    if not missing:
        return
    # Matplotlib builds its font cache here, since it reports that on stderr, and a
    # cell must not write there.
    import matplotlib.font_manager  # noqa: F401

    # The kernels share the cores: with more threads they would wait for each other.
    threads = max(1, (os.cpu_count() or 1) // workers)
    clients = []
    with ThreadPoolExecutor(workers) as pool:
        tasks = {
            pool.submit(_attempt, root, *each, threads, clients): each[0]
            for each in missing
        }
        try:
            for task in as_completed(tasks):
                yield tasks[task], task.result(), True
        except BaseException:
            # Otherwise an interrupted build would wait for the notebooks to end.
            pool.shutdown(wait=False, cancel_futures=True)
            for client in clients:
                _kill(client)
            raise


def _kill(client):
    process = getattr(getattr(client.km, "provisioner", None), "process", None)
    if process is not None:
        process.kill()


def _attempt(root, path, notebook, threads, clients):
    name = path.relative_to(root)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "reads")
        log.touch()
        environment = reads.environment(root, log)
        environment.setdefault("OMP_NUM_THREADS", str(threads))
        # The pages choose between SVG and PNG (tools/figures.py).
        environment["BNLIB_FIGURES"] = "both"
        start = time.perf_counter()
        try:
            _execute(notebook, name, path, environment, clients)
        except NotebookError as error:
            return error
        except Exception as error:  # no such kernel, or it did not start
            message = f"{name} could not be run\n{type(error).__name__}: {error}"
            return NotebookError(message, notebook)
        seconds = time.perf_counter() - start
        runs.keep(root, path, notebook, reads.read_below(log), seconds)
    print(f"  {name}: {seconds:.1f} s", flush=True)
    return notebook


def _execute(notebook, name, path, environment, clients):
    """Run a notebook in place, in a fresh kernel and in its own folder."""
    begun = []
    client = NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        kernel_name=notebook.metadata.get("kernelspec", KERNEL)["name"],
        coalesce_streams=True,
        record_timing=False,
        on_cell_execute=lambda cell, cell_index: begun.append(cell_index),
        resources={"metadata": {"path": str(path.parent)}},
    )
    clients.append(client)
    try:
        # client.execute would leave its event loop open.
        asyncio.run(client.async_execute(env=environment, stderr=subprocess.DEVNULL))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        number = sum(c.cell_type == "code" for c in notebook.cells[: begun[-1]])
        cell = cell_name(name, number, notebook.cells[begun[-1]])
        reason = ANSI.sub("", str(error)).rstrip()
        raise NotebookError(f"{cell} failed\n{reason}", notebook) from error
    for number, cell in enumerate(code_cells(notebook)):
        for output in cell.outputs:
            if output.get("name") == "stderr":
                cell = cell_name(name, number, cell)
                raise NotebookError(f"{cell} wrote to stderr\n{output.text}", notebook)
