"""Notebooks: how the tool stores them, and how a new run is compared with that."""

import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools import notebooks
from tools.cells import ROOT, SANITIZE

FIGURE_CELL = """import matplotlib.pyplot as plt
from matplotlib_inline.backend_inline import set_matplotlib_formats

set_matplotlib_formats("retina")
fig, ax = plt.subplots()"""


@pytest.fixture
def stored(tmp_path):
    """Return a function that writes a notebook of code cells and names its file."""

    def write(*sources, tags=(), generated=False):
        cells = [new_code_cell(source) for source in sources]
        cells[-1].metadata.tags = list(tags)
        metadata = {"bnlib": {"generated": True}} if generated else {}
        path = tmp_path.resolve() / "small.ipynb"
        nbformat.write(new_notebook(cells=cells, metadata=metadata), path)
        return path

    return write


def refresh(path):
    """Store what a run gives; return whether the text changed."""
    [(_, changed)] = notebooks.refresh(path.parent, [path])
    return changed


def outputs(path, cell=0):
    return nbformat.read(path, as_version=4).cells[cell].outputs


def test_a_second_run_gives_the_same_bytes_of_text_without_images(stored):
    path = stored("import os\nprint(os.getcwd())\nprint(2)", FIGURE_CELL, "fig.dpi")
    assert refresh(path)
    first = path.read_bytes()
    shutil.rmtree(path.parent / "_build")
    assert not refresh(path)
    assert path.read_bytes() == first
    assert first.endswith(b"}\n")
    assert outputs(path, 0)[0].text == f"{path.parent}\n2\n"
    figure = {"text/plain": "<Figure size 640x480 with 1 Axes>"}
    assert outputs(path, 1)[0].data == figure
    assert outputs(path, 1)[0].metadata == {}


def test_what_was_run_is_stored_without_another_run(stored, monkeypatch):
    path = stored("print(1)")
    assert refresh(path)
    text = path.read_text()
    path.write_text(text.replace("1\\n", "2\\n"))
    monkeypatch.setattr(
        notebooks.execution, "_run_missing", lambda _, missing, __: missing
    )
    assert refresh(path)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "how", [{"generated": True}, {"tags": ["nbval-ignore-output"]}]
)
def test_outputs_that_no_test_compares_are_not_stored(stored, how):
    path = stored("print(1)", **how)
    refresh(path)
    assert not outputs(path)


def test_a_failing_cell_is_named_and_leaves_the_file_as_it_was(stored):
    path = stored("x = 1", "# a cell\n1 / 0")
    before = path.read_bytes()
    with pytest.raises(SystemExit) as stopped:
        notebooks.main([str(path)], root=path.parent)
    assert "small.ipynb::Cell 1 (# a cell)" in str(stopped.value)
    assert "ZeroDivisionError" in str(stopped.value)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["small.ipynb"]


def test_only_what_the_author_wrote_is_kept_of_the_metadata():
    notebook = new_notebook(cells=[new_code_cell("x", id="kept"), new_code_cell("y")])
    notebook.metadata = {"language_info": {"version": "3.11.7"}, "colab": {}}
    notebook.cells[0].metadata = {
        "tags": ["hide-input"],
        "execution": {"begin": "12:00"},
    }
    notebook.cells[1].id = "kept"
    kept = notebooks.normalise(nbformat.from_dict(notebook))
    assert kept.metadata == {
        "kernelspec": notebooks.KERNEL,
        "language_info": {"name": "python"},
    }
    assert kept.cells[0].metadata == {"tags": ["hide-input"]}
    assert [cell.id for cell in kept.cells] == ["kept", "cell-1"]


# How nbval compares what is stored with a new run.


VERDICT = "holds: error 3e-15, allowed 1e-12"
CHANGES = {
    VERDICT: "passes",
    "holds: error 8e-16, allowed 1e-12": "passes",
    "holds: error 0, allowed 1e-12": "passes",
    "fails: error 3e-15, allowed 1e-12": "fails",
    "holds: error 3e-15, allowed 1e-11": "passes",
    "holds: error 3e-15, allowed much": "fails",
    "holds: error unknown, allowed 1e-12": "fails",
    "holds: error 3e-15": "fails",
}


def failing_cells(path, *how):
    """Let nbval judge one notebook, as `make test` does; return the cells it names."""
    command = [sys.executable, "-m", "pytest", "--color=no", "-p", "nbval.plugin"]
    command += ["-p", "nbval_runs", "--nbval-sanitize-with", str(SANITIZE)]
    command += [f"--rootdir={path.parent}", "-p", "no:cacheprovider", *how, str(path)]
    paths = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
    alone = {"PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=path.parent, env=os.environ | alone
    )
    cells = re.findall(
        r"^(?:FAILED|ERROR) small\.ipynb::Cell (\d+)", done.stdout, re.MULTILINE
    )
    assert done.returncode == bool(cells), done.stdout
    return [int(cell) for cell in cells]


# The kept run, and a run by nbval itself, are judged alike.
@pytest.mark.parametrize("how", [(), ("--nbval",)], ids=["kept", "run"])
def test_an_error_and_a_marked_time_may_change_and_nothing_else(stored, how):
    verdicts = [f"print('{n} {VERDICT}')" for n in range(len(CHANGES))]
    path = stored(
        *verdicts, "print('seconds: 1.25')", "print('1.25 s')", FIGURE_CELL, "1 + 1"
    )
    refresh(path)
    text = path.read_text().replace("seconds: 1.25\\n", "seconds: 0.3\\n")
    text = text.replace('"1.25 s\\n"', '"0.3 s\\n"').replace('"2"', '"3"')
    for number, line in enumerate(CHANGES):
        text = text.replace(f'"{number} {VERDICT}\\n"', f'"{number} {line}\\n"')
    path.write_text(text)
    wanted = [n for n, verdict in enumerate(CHANGES.values()) if verdict == "fails"]
    last = len(CHANGES)
    assert failing_cells(path, *how) == [*wanted, last + 1, last + 3]


def test_a_cell_that_is_asked_for_alone_is_judged_by_its_own_run(stored):
    path = stored("print(1)", "print(2)")
    refresh(path)
    path.write_text(path.read_text().replace("1\\n", "3\\n"))
    assert failing_cells(path, "-k", "Cell and 1") == []


def test_a_notebook_that_was_edited_since_has_no_kept_run(stored):
    path = stored("print(1)", "print(2)")
    refresh(path)
    path.write_text(path.read_text().replace("print(1)", "print(1 + 0)"))
    assert failing_cells(path) == [0, 1]
