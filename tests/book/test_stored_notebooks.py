"""Notebooks: how the tool stores them, and how a new run is compared with that."""

import re
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from refusals import refused

from tools import notebooks

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
        path = tmp_path / "small.ipynb"
        nbformat.write(new_notebook(cells=cells, metadata=metadata), path)
        return path

    return write


def outputs(path, cell=0):
    return nbformat.read(path, as_version=4).cells[cell].outputs


def test_a_second_run_gives_the_same_bytes(stored):
    path = stored("print(1)\nprint(2)", FIGURE_CELL, "fig.dpi")
    assert notebooks.refresh(path)
    first = path.read_bytes()
    assert not notebooks.refresh(path)
    assert path.read_bytes() == first
    assert first.endswith(b"}\n")


def test_a_figure_keeps_its_text_and_loses_its_image(stored):
    path = stored(FIGURE_CELL)
    notebooks.refresh(path)
    assert outputs(path)[0].data == {"text/plain": "<Figure size 640x480 with 1 Axes>"}
    assert outputs(path)[0].metadata == {}


def test_a_cell_runs_in_the_folder_of_its_notebook(stored):
    path = stored("import os\nprint(os.getcwd())")
    notebooks.refresh(path)
    assert outputs(path)[0].text == f"{path.parent}\n"


@pytest.mark.parametrize(
    "how", [{"generated": True}, {"tags": ["nbval-ignore-output"]}]
)
def test_outputs_that_no_test_compares_are_not_stored(stored, how):
    path = stored("print(1)", **how)
    notebooks.refresh(path)
    assert not outputs(path)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import sys\nprint(1, file=sys.stderr)", "stderr"),
    ],
)
def test_a_failing_cell_is_named_and_leaves_the_file_as_it_was(stored, source, says):
    path = stored("x = 1", f"# a cell\n{source}")
    before = path.read_bytes()
    with pytest.raises(SystemExit) as stopped:
        notebooks.main([str(path)])
    assert f"{path}::Cell 1 (# a cell)" in str(stopped.value)
    assert says in str(stopped.value)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["small.ipynb"]


def test_a_cell_that_never_ends_is_named(stored, monkeypatch):
    monkeypatch.setattr(notebooks, "SECONDS_PER_CELL", 1)
    with refused(notebooks.NotebookError, "Cell 1 import time", "failed"):
        notebooks.refresh(stored("x = 1", "import time\ntime.sleep(30)"))


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
    "holds: error 3e-15, allowed 1e-11": "fails",
    "holds: error unknown, allowed 1e-12": "fails",
    "holds: error 3e-15": "fails",
}


def failing_cells(path):
    """Run nbval on one notebook as `make test` does; return the cells it names."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval",
        "--color=no",
        "-p",
        "no:xdist",
    ]
    command += [
        "--nbval-sanitize-with",
        str(notebooks.SANITIZE),
        f"--rootdir={path.parent}",
    ]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", str(path)],
        capture_output=True,
        text=True,
        cwd=path.parent,
    )
    cells = re.findall(r"^FAILED small\.ipynb::Cell (\d+)", done.stdout, re.MULTILINE)
    assert done.returncode == bool(cells), done.stdout
    return [int(cell) for cell in cells]


def test_of_a_verdict_line_only_the_error_may_change(stored):
    path = stored(*(f"print('{n} {VERDICT}')" for n in range(len(CHANGES))))
    notebooks.refresh(path)
    text = path.read_text()
    for number, line in enumerate(CHANGES):
        text = text.replace(f'"{number} {VERDICT}\\n"', f'"{number} {line}\\n"')
    path.write_text(text)
    wanted = [n for n, how in enumerate(CHANGES.values()) if how == "fails"]
    assert failing_cells(path) == wanted


def test_a_marked_time_may_change_and_a_stale_output_is_named(stored):
    path = stored("print('seconds: 1.25')", "print('1.25 s')", FIGURE_CELL, "1 + 1")
    notebooks.refresh(path)
    assert failing_cells(path) == []
    text = path.read_text().replace("seconds: 1.25\\n", "seconds: 0.3\\n")
    path.write_text(text.replace('"1.25 s\\n"', '"0.3 s\\n"').replace('"2"', '"3"'))
    assert failing_cells(path) == [1, 3]
