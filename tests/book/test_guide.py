"""The guide tells the truth: its steps alone are enough to add each kind of thing.

Each trial makes only what `chapters/how-to.md` names in a copy of the tree, and runs
the tests that would fail if a place were forgotten.
"""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bnlib
from bnlib import data, folding, functional, nn, transform
from bnlib.data._sets import SOURCES
from tools.files import own_files

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "chapters/how-to.md").read_text(encoding="utf-8")


class Copy:
    """A copy of the tree, in which files are written and changed and tests run."""

    def __init__(self, folder):
        self.folder = folder
        for path in own_files(ROOT):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def put(self, name, before, text):
        """Insert a text into a file, in front of another that is there."""
        path = self.folder / name
        content = path.read_text(encoding="utf-8")
        assert before in content, f"{name} has no {before!r}"
        path.write_text(content.replace(before, text + before, 1), encoding="utf-8")

    def script(self, code):
        return self._python("-c", code)

    def run(self, *command):
        return self._python("-m", *command)

    def _python(self, *command):
        variables = {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
        return done.stdout

    def passes(self, *tests):
        said = self.run("pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
        assert re.search(r"\d+ passed", said), said


@pytest.fixture
def copy(tmp_path, monkeypatch):
    monkeypatch.setenv("BNLIB_CACHE", str(tmp_path / "cache"))
    return Copy(tmp_path / "tree")


@pytest.mark.parametrize(
    "kind",
    ["claim", "experiment", "chapter", "problem set", "data set", "layer", "backend"],
)
def test_the_guide_has_a_paragraph_for_each_kind_of_thing(kind):
    assert f"**{kind}**" in GUIDE


CHAPTER = """# Another norm

**Builds on** chapters 02 and 03, and on [variances](background-variance).
About 25 minutes to read.
"""


@pytest.mark.slow
def test_a_new_chapter(copy):
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": CHAPTER}
    page = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    copy.write("chapters/16-another-norm.ipynb", json.dumps(page))
    copy.put(
        "_toc.yml",
        "  - caption: Course and reference",
        "      - file: chapters/16-another-norm\n",
    )
    copy.put(
        "intro.ipynb",
        r'"    \"weight-normalization\": ',
        r'"    \"another-norm\": \"Why?\",\n",' + "\n",
    )
    copy.put(
        "intro.ipynb",
        r'"sketches[\"practice\"] = ',
        r'"sketches[\"another-norm\"] = line(t, t)\n",' + "\n",
    )
    copy.script("import nbformat; nbformat.read('intro.ipynb', as_version=4)")
    copy.passes("tests/book/test_notebooks.py", "-k", "landing_page")
    copy.passes("tests/book/test_course_pages.py")


EXPERIMENT = '''"""A trial."""

import numpy as np

from bnlib.experiments._registry import experiment


@experiment(
    id="trial",
    title="A draw",
    chapter="01-covariate-shift",
    source="ioffe2015",
    sweep={"seed": "seeds"},
    live={"seeds": [0], "draws": 2},
    paper={"seeds": [0, 1], "draws": 3},
)
def trial(context, draws):
    """Draw numbers, and add them."""
    rng = np.random.default_rng(context.seed_sequence)
    return {"sum": round(rng.random(draws).sum(), 4)}
'''


@pytest.mark.slow
def test_a_new_experiment_with_its_record(copy):
    copy.write("bnlib/experiments/trial.py", EXPERIMENT)
    copy.run("bnlib.experiments", "run", "trial", "--scale", "paper")
    page = copy.folder / "chapters/reproductions.ipynb"
    content = json.loads(page.read_text(encoding="utf-8"))
    row = 'rows.append(Row(paper, "a draw", ["trial"]))\n'
    for cell in content["cells"]:
        if '"ioffe2015"' in "".join(cell["source"]):
            cell["source"] = "".join(cell["source"]) + "\n" + row
    section = {"id": "a", "metadata": {}}
    label = "(record-trial)=\n### A draw\n\n*In print*: nothing."
    drawn = 'if record := recorded("trial"):\n    fig, ax = plt.subplots()\n'
    text = section | {"cell_type": "markdown", "source": label}
    cell = section | {"cell_type": "code", "id": "b", "source": drawn}
    content["cells"] += [text, cell | {"outputs": [], "execution_count": None}]
    copy.write("chapters/reproductions.ipynb", json.dumps(content))
    copy.passes(
        "tests/book/test_reproductions.py",
        "tests/experiments/test_records.py",
        "-k",
        "trial or (reproductions and not drawn and not built) or known",
    )


@pytest.mark.slow
def test_a_new_data_set(copy):
    entry = '    "lines": _shipped("wine", "A. Author. Lines. 2026"),\n'
    copy.put("bnlib/data/_sets.py", '    "a9a": _fetched(', entry)
    row = "    lines           178     13          lengths; three kinds\n"
    copy.put("bnlib/data/__init__.py", "    a9a    ", row)
    copy.run("bnlib.data", "fetch", "lines")
    copy.passes(
        *("tests/data/test_data_command.py", "tests/data/test_data_download.py"),
        *("tests/book/test_guide.py", "-k", "command or available or tables"),
    )


LAYER = '''"""A trial."""

import torch


class Centre(torch.nn.Module):
    """Subtract the mean over the batch.

    Examples
    --------
    >>> import torch
    >>> Centre()(torch.tensor([[1.0], [3.0]])).flatten()
    tensor([-1.,  1.])

    References
    ----------
    Chapter 02, "The transform".
    """

    def forward(self, x):
        """Return x without its mean."""
        return x - x.mean(dim=0)
'''


@pytest.mark.slow
def test_a_new_layer(copy):
    copy.write("bnlib/nn/_centre.py", LAYER)
    exported = "from bnlib.nn._centre import Centre\n"
    copy.put("bnlib/nn/__init__.py", "from bnlib.nn._convert import", exported)
    copy.put("bnlib/nn/__init__.py", '    "SyncBatchNorm",\n', '    "Centre",\n')
    copy.passes(
        *("tests/book/test_package.py", "tests/book/test_style.py"),
        *("tests/book/test_rooms.py", "-k", "not ruff and (nn or rooms or package)"),
    )


@pytest.mark.slow
def test_a_new_backend(copy):
    shutil.copyfile(
        copy.folder / "bnlib/kernels/_readable.py",
        copy.folder / "bnlib/kernels/_trial.py",
    )
    copy.put("bnlib/kernels/__init__.py", '"triton")\n', '"trial", ')
    copy.passes("tests/layers/test_backends.py")


STORE_CONSTANTS = """
import nbformat
from grading import sets
notebook = sets.load_source("{0}", "book")
nbformat.write(notebook, sets.SOURCE / "{0}/{0}.ipynb")
"""


@pytest.mark.slow
def test_a_new_problem_set(copy):
    old, new = "1-transform", "7-trial"
    for path in (copy.folder / f"assignments/source/{old}").iterdir():
        text = path.read_text(encoding="utf-8")
        text = text.replace("Problem set 1:", "Problem set 7:").replace(old, new)
        copy.write(f"assignments/source/{new}/{path.name.replace(old, new)}", text)
    copy.script(STORE_CONSTANTS.format(new))
    copy.run("grading", "check", new)
    copy.passes(
        *("tests/book/test_assignments_page.py", "tests/book/test_course_pages.py"),
        *("tests/course/test_course_sets.py", "-k", "not course_sets or trial"),
    )


# What stands in several places, as the guide says.


def test_the_rows_of_the_data_tables_are_the_sets_there_are():
    described = re.findall(r"^(\w+)  +\d", inspect.getdoc(data.load), re.MULTILINE)
    assert described == list(data.NAMES)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("| name | download |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| ([\w, ]+?) \|", table, re.MULTILINE)
    downloaded = [name for name, source in SOURCES.items() if source.routes]
    assert [name for row in listed for name in row.split(", ")] == downloaded


def test_a_default_of_eps_or_momentum_is_the_same_everywhere():
    rooms = (transform, folding, functional, nn, bnlib.shift, bnlib.conformance)
    found = {}
    for room in rooms:
        for name in getattr(room, "__all__", dir(room)):
            thing = getattr(room, name)
            if callable(thing) and getattr(thing, "__module__", "").startswith("bnlib"):
                for argument, given in inspect.signature(thing).parameters.items():
                    if argument in ("eps", "momentum"):
                        found.setdefault(argument, {})[name] = given.default
    defaults = {
        argument: set(given.values()) - {inspect.Parameter.empty}
        for argument, given in found.items()
    }
    assert defaults == {"eps": {1e-5}, "momentum": {0.1}}, found
