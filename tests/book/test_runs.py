"""A notebook runs again only if something that it depends on has changed."""

import os
import signal
import subprocess
import sys
import time

import pytest
from small_book import Notebooks

from tools import execution, runs
from tools.cells import ROOT

FIND = "import sys; sys.path.insert(0, '..')\n"
LOADS = f"{FIND}import toy.landscape as landscape\nprint(landscape.DEPTH)"
READS = """from pathlib import Path
print(sorted(path.name for path in Path("../records").glob("*.json")))
print(Path("../records/one.json").read_text(), Path("extra.txt").exists())
try:
    print(open("extra.txt").read())
except FileNotFoundError:
    print("none")"""
STARTS = """import subprocess, sys
print(subprocess.check_output([sys.executable, "../child.py"], text=True))"""


@pytest.fixture(scope="module")
def ran_once(tmp_path_factory):
    """Three notebooks that have run: one loads, one reads, one starts a process."""
    book = Notebooks(tmp_path_factory.mktemp("ran").resolve())
    book.write("toy/__init__.py", "")
    book.write("toy/landscape.py", "DEPTH = 1\n")
    book.write("toy/grader.py", "MARKS = 1\n")
    book.write("records/one.json", "{}")
    book.write("child.py", "from toy import grader; print(grader.MARKS)")
    book.write_notebook("chapters/loads.ipynb", "# Loads", LOADS)
    book.write_notebook("chapters/reads.ipynb", "# Reads", READS)
    book.write_notebook("chapters/starts.ipynb", "# Starts", STARTS)
    assert book.run() == {"loads", "reads", "starts"}
    return book


@pytest.fixture
def book(ran_once, tmp_path):
    return ran_once.copy(tmp_path.resolve() / "book")


def test_what_was_run_is_not_run_again_in_a_copy_either(book):
    book.write("toy/other.py", "A module that no notebook loads.")
    book.write("records/.one.json.part", "Not a record.")
    book.write("README.md", "A file that no notebook reads.")
    book.write_notebook("chapters/loads.ipynb", "# Other words", LOADS)
    assert book.run() == set()
    assert book.printed("loads") == "1\n"


@pytest.mark.parametrize(
    ("name", "text", "reruns"),
    [
        ("toy/landscape.py", "DEPTH = 2\n", "loads"),
        ("toy/grader.py", "MARKS = 2\n", "starts"),
        ("records/one.json", '{"version": 2}', "reads"),
        ("records/two.json", "{}", "reads"),
        ("chapters/extra.txt", "now there", "reads"),
    ],
)
def test_a_change_runs_what_depends_on_it_and_no_other(book, name, text, reruns):
    old = book.root / name
    before = old.read_text() if old.exists() else None
    book.write(name, text)
    assert book.needs_run() == {reruns}
    # Going back runs nothing: the run of that state is still kept.
    old.unlink()
    if before is not None:
        book.write(name, before)
    assert book.needs_run() == set()


def test_other_cells_are_another_run_and_the_earlier_is_kept(book):
    book.write_notebook("chapters/loads.ipynb", "# Loads", f"{LOADS}\nprint(3)")
    assert book.run() == {"loads"}
    assert book.printed("loads") == "1\n3\n"
    book.write_notebook("chapters/loads.ipynb", "# Loads", LOADS)
    assert book.run() == set()
    assert book.printed("loads") == "1\n"


def test_another_version_of_a_package_runs_all(book, monkeypatch):
    monkeypatch.setattr(runs, "environment", lambda: "another")
    assert book.needs_run() == {"loads", "reads", "starts"}


def test_a_module_that_changes_while_it_is_used_counts_as_it_was_loaded(book):
    code = f"{LOADS}\nopen('../toy/landscape.py', 'w').write('DEPTH = 2')"
    book.write_notebook("chapters/loads.ipynb", "# Loads", code)
    assert book.run() == {"loads"}
    assert book.needs_run() == {"loads"}
    book.write("toy/landscape.py", "DEPTH = 1\n")
    assert book.needs_run() == set()


def test_only_the_last_used_runs_of_a_notebook_are_kept(book, monkeypatch):
    monkeypatch.setattr(runs, "KEPT", 2)
    notebook = book.read("loads")
    for depth in range(4):
        read = {"toy/landscape.py": str(depth)}
        runs.keep(book.root, book.path("loads"), notebook, read, 1.0)
    assert len(list((book.root / "_build/runs/chapters/loads").iterdir())) == 2


def test_a_kept_run_that_is_no_whole_file_is_run_again(book):
    [kept] = (book.root / "_build/runs/chapters/loads").iterdir()
    kept.write_text(kept.read_text()[:-9])
    assert book.needs_run() == {"loads"}


SLEEP = "import time\nopen('begun', 'w').close()\ntime.sleep(60)\nopen('end', 'w')"
RUN = """from pathlib import Path
from tools import execution
root = Path(".").resolve()
list(execution.run(root, [root / "chapters/sleeps.ipynb"]))"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_from_outside_leaves_nothing(tmp_path, end):
    book = Notebooks(tmp_path.resolve())
    book.write_notebook("chapters/sleeps.ipynb", "# Sleeps", SLEEP)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUN]
    with subprocess.Popen(
        command, cwd=book.root, env=environment, stderr=subprocess.DEVNULL
    ) as process:
        limit = time.monotonic() + 60
        while not (book.root / "chapters/begun").exists():
            assert time.monotonic() < limit
            time.sleep(0.05)
        process.send_signal(end)
    assert book.needs_run() == {"sleeps"}
    assert not list(book.root.rglob("*.json"))
    assert not (book.root / "chapters/end").exists()


MEET = """from pathlib import Path
import time
Path("{own}").touch()
end = time.monotonic() + 20
while not Path("{other}").exists():
    assert time.monotonic() < end, "{other} did not run meanwhile"
    time.sleep(0.01)"""


def test_two_run_at_a_time_and_one_that_measures_alone_after_them(tmp_path, capsys):
    book = Notebooks(tmp_path.resolve())
    book.write_notebook("chapters/first.ipynb", "# Alone", "x = 1", alone=True)
    for own, other in (("one", "two"), ("two", "one")):
        code = MEET.format(own=own, other=other)
        book.write_notebook(f"chapters/{own}.ipynb", "# Page", code)
    assert book.run() == {"first", "one", "two"}
    said = [line.split(":")[0].strip() for line in capsys.readouterr().out.split("\n")]
    assert sorted(said[:2]) == ["chapters/one.ipynb", "chapters/two.ipynb"]
    assert said[2:] == ["chapters/first.ipynb", ""]


def test_who_stops_asking_waits_for_no_notebook(tmp_path):
    book = Notebooks(tmp_path.resolve())
    book.write_notebook("chapters/one.ipynb", "# Page", "x = 1")
    book.write_notebook("chapters/sleeps.ipynb", "# Page", SLEEP)
    for path, _, _ in execution.run(book.root, book.paths()):
        assert path.stem == "one"
        break
    assert not (book.root / "chapters/end").exists()
    assert book.needs_run() == {"sleeps"}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 / 0", "failed\n"),
        ("import os\nos._exit(1)", "failed\n"),
        ("import sys\nprint('careful', file=sys.stderr)", "wrote to stderr\ncareful"),
    ],
)
def test_a_cell_that_fails_or_warns_is_named_and_not_kept(tmp_path, source, says):
    book = Notebooks(tmp_path.resolve())
    book.write_notebook("chapters/page.ipynb", "# Page", f"# a cell\n{source}")
    [(_, error, ran)] = execution.run(book.root, book.paths())
    assert ran
    assert f"chapters/page.ipynb::Cell 0 (# a cell) {says}" in str(error)
    assert book.needs_run() == {"page"}


def test_a_cell_that_never_ends_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "SECONDS_PER_CELL", 1)
    book = Notebooks(tmp_path.resolve())
    book.write_notebook("chapters/page.ipynb", "# Page", "while True: pass")
    [(_, error, _)] = execution.run(book.root, book.paths())
    assert "chapters/page.ipynb::Cell 0 (while True: pass) failed" in str(error)


def test_a_kernel_that_is_not_there_is_said_of_the_notebook(tmp_path):
    book = Notebooks(tmp_path.resolve())
    book.write_notebook("chapters/page.ipynb", "# Page", "x = 1", kernel="fortran")
    [(_, error, _)] = execution.run(book.root, book.paths())
    assert str(error).startswith("chapters/page.ipynb could not be run\nNoSuchKernel")
