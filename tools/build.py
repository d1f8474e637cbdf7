"""Build the site: ``python -m tools.build``, which ``make book`` runs.

Two things are remembered beside the site. The key of the execution cache says
under which code the notebooks were run: Jupyter Book's cache looks at a
notebook's cells alone, and would keep the outputs of a package that has changed
since. The stamp says from which sources the whole site was built; it is written
last, so that a failed or interrupted build is never taken for a good one.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from sphinx_external_toc.parsing import parse_toc_yaml

from tools import notebooks, site
from tools.files import own_files, write_whole

ROOT = Path(__file__).resolve().parents[1]
#: Notebooks that run at one time: each takes a core, and memory.
AT_ONCE = 2
#: The sources of the problem sets.
SETS = "assignments/source"
#: What decides the pages, beside what the notebooks' cells print.
PAGES = (
    *("_config.yml", "_toc.yml", "references.bib", "intro.ipynb"),
    *("_ext", "_static", "chapters", "grading", SETS),
)
STALE = (
    "(If you changed the code: make notebooks. If not, this machine computes "
    "otherwise; the site is built all the same, and make serve shows it.)"
)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
EXECUTED = re.compile(r"(?P<page>.+): Executed notebook in (?P<seconds>[\d.]+) seconds")
PROBLEM = re.compile(
    r"^(?:.*\.\.\. )?"
    r"(?:(?P<path>[^:]+):(?:(?P<line>\d+):|docstring of (?P<name>[^:]+):\S*|:)? )?"
    r"(?:WARNING|ERROR|CRITICAL|SEVERE): (?P<what>.+)"
)
CRASH = re.compile(r"[\w.]+(?:Error|Exception)\b")
FAILED_CELL = re.compile(r"^-{18,}\n(.*?)\n-{18,}$", re.DOTALL | re.MULTILINE)


def digest(root, names):
    """Give one hash for the names and contents of files and folders."""
    total = hashlib.sha256()
    for name in names:
        for path in own_files(root / name):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{path.relative_to(root)} {content}\n".encode())
    return total.hexdigest()


def fingerprint(root):
    """Say from what a site would be built now.

    Returns
    -------
    dict
        ``code``: a hash of the package with its records, of Python's version and
        of the versions of all that is installed. ``pages``: a hash of the
        notebooks, pages, problem sets, configuration, extensions and static files.
    """
    # Not on sys.path: setuptools, once imported, adds packages of its own there.
    places = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    installed = importlib.metadata.distributions(path=places)
    versions = {f"{each.name}=={each.version}" for each in installed}
    environment = "\n".join([sys.version, *sorted(versions)]).encode()
    return {
        "code": digest(root, ["bnlib"]) + hashlib.sha256(environment).hexdigest(),
        "pages": digest(root, PAGES),
    }


def is_current(root=ROOT):
    """Whether the site was built, wholly and well, from the sources of now."""
    try:
        stamp = json.loads((root / "_build/site.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    return stamp == fingerprint(root) and (root / "_build/html/index.html").is_file()


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def clear_stale(folder, code):
    """Remove what an earlier build left and this one must not use.

    Every page is read anew, since Sphinx repeats no warning about a page that it
    keeps and drops no page that has gone. Outputs are kept under unchanged code.
    """
    folder.mkdir(exist_ok=True)
    for name in ("site.json", "html", ".doctrees", "jupyter_execute"):
        remove(folder / name)
    key = folder / "outputs.key"
    if not key.is_file() or key.read_text() != code:
        remove(key)
        remove(folder / ".jupyter_cache")
        write_whole(key, code)


def forget_generated(root):
    """Drop the kept outputs of generated pages: they read the other pages too."""
    cache = get_cache(root / "_build/.jupyter_cache")
    for name in parse_toc_yaml(root / "_toc.yml"):
        path = root / f"{name}.ipynb"
        if not path.is_file():
            continue
        notebook = nbformat.read(path, as_version=4)
        if notebooks.is_generated(notebook):
            with suppress(KeyError):  # it was not run yet
                cache.remove_cache(cache.match_cache_notebook(notebook).pk)


def offer_problem_sets(root, folder):
    """Write the student versions of the problem sets, under the public key.

    Parameters
    ----------
    root : Path
        The folder of the book; one without problem sets offers none.
    folder : Path
        Where the site keeps them: zips, notebooks and their checksums.

    Returns
    -------
    list of str
        What is wrong with them; empty when all of them could be written.
    """
    if not (root / SETS).is_dir():
        return []
    if importlib.util.find_spec("nbgrader") is None:
        return [
            "nbgrader, which makes the problem sets, is not installed: "
            'pip install -c constraints.txt -e ".[course]"'
        ]
    from grading import make, sets

    for name in sets.set_names():
        try:
            make.make([name], sets.DEFAULT_KEY, folder)
        except Exception as error:  # whatever a set's own code raises
            reason = str(error).partition("\n")[0]
            return [f"{SETS}/{name}: {type(error).__name__}: {reason}"]
    # The repository has the solutions; the site does not hand them out.
    remove(folder / "solution")
    return []


def run_notebooks(root):
    """Run the notebooks that the execution cache does not hold, two at a time.

    Jupyter Book would run one after another. Those that measure times follow, each
    alone. One that fails, or warns, is left to Jupyter Book, which says where.
    """
    # Matplotlib says on stderr that it builds its font cache: not in a cell.
    import matplotlib.font_manager  # noqa: F401

    cache = get_cache(root / "_build/.jupyter_cache")
    together, alone = [], []
    for name in parse_toc_yaml(root / "_toc.yml"):
        path = root / f"{name}.ipynb"
        if not path.is_file():
            continue
        notebook = nbformat.read(path, as_version=4)
        if not notebooks.code_cells(notebook):
            continue
        try:
            cache.match_cache_notebook(notebook)
        except KeyError:
            (alone if notebooks.runs_alone(notebook) else together).append(path)
    for paths, workers in ((together, AT_ONCE), (alone, 1)):
        for path, (notebook, seconds) in executed(paths, workers):
            data = {"execution_seconds": seconds}
            bundle = CacheBundleIn(notebook, str(path), data=data)
            cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
            print(f"  {path.relative_to(root)}: {seconds:.1f} s", flush=True)


def executed(paths, workers):
    """Yield what ran without an error, as it ends: path, notebook and seconds."""
    if not paths:
        return
    # A worker to a core: threads would wait for each other.
    threads = max(1, (os.cpu_count() or 1) // workers)
    with ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), start_worker, (threads,)
    ) as pool:
        tasks = {pool.submit(execute, path): path for path in paths}
        try:
            for task in as_completed(tasks):
                if task.exception() is None:
                    yield tasks[task], task.result()
        except BaseException:
            # Else an interrupted build would wait for the notebooks to end.
            for worker in multiprocessing.active_children():
                worker.kill()
            raise


def start_worker(threads):
    """Prepare a process that runs notebooks: its kernels' settings and silence."""
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stderr.fileno())


def execute(path):
    """Return an executed notebook and its seconds."""
    notebook = nbformat.read(path, as_version=4)
    start = time.perf_counter()
    notebooks.execute(notebook, path)
    return notebook, time.perf_counter() - start


def run_jupyter_book(root, log):
    """Run Jupyter Book strictly; give its exit code and the lines it printed."""
    command = Path(sys.executable).with_name("jupyter-book")
    lines = []
    with (
        log.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            [command, "build", "-W", "--keep-going", root],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        try:
            for line in process.stdout:
                lines.append(ANSI.sub("", line.rstrip()))
                print(lines[-1], file=file, flush=True)
                if match := EXECUTED.match(lines[-1]):
                    page = Path(match["page"]).relative_to(root)
                    print(f"  {page}: {float(match['seconds']):.1f} s", flush=True)
        except KeyboardInterrupt:
            # Or it would go on, beside the next build in the same folder.
            process.terminate()
            process.wait()
            raise
    return process.returncode, lines


def explain(root, line):
    """Turn a line of Sphinx's into one that says where; None for other lines."""
    match = PROBLEM.match(line)
    if not match or "exception traceback saved in" in line:
        return None
    what = match["what"].replace(f"{root}/", "")
    if not match["path"]:
        return what
    path = source_of(root, Path(match["path"]))
    where = str(path.relative_to(root) if path.is_relative_to(root) else path)
    if match["name"]:
        where = f"the docstring of {match['name']}"
    if match["line"]:
        # myst-nb counts 10000 lines a cell.
        cell, number = divmod(int(match["line"]), 10000)
        where += f", cell {cell}" if cell else ""
        where += f", line {number}"
    if what.startswith("Executing notebook failed"):
        return f"{where}, {failed_cell(root, path)}"
    if what.startswith("stderr was found"):
        return f"{where}: {what}{error_stream(root, path)}"
    return f"{where}: {what}"


def source_of(root, path):
    """Give the page's file: some extensions put .rst where .ipynb or .md was."""
    stem = root / path.parent / path.name.partition(".")[0]
    for source in (path, stem.with_suffix(".ipynb"), stem.with_suffix(".md")):
        if source.is_file():
            return source
    return path


def failed_cell(root, notebook):
    """Name the cell that failed, with the last lines of its traceback."""
    docname = notebook.relative_to(root).with_suffix("")
    report = root / "_build/html/reports" / f"{docname}.err.log"
    if not report.is_file():
        return "it could not be run"
    text = ANSI.sub("", report.read_text(encoding="utf-8")).strip()
    tail = "\n    ".join(text.splitlines()[-12:])
    match = FAILED_CELL.search(text)
    sources = [cell.source.strip() for cell in nbformat.read(notebook, 4).cells]
    if not match or match[1].strip() not in sources:
        return f"one of its cells failed:\n    {tail}"
    return f"cell {sources.index(match[1].strip()) + 1} failed:\n    {tail}"


def error_stream(root, notebook):
    """Give the last lines that a notebook's cells wrote to stderr."""
    try:
        executed = with_outputs(root, nbformat.read(notebook, 4))
    except KeyError:
        return ""
    text = "".join(
        output.text
        for cell in notebooks.code_cells(executed)
        for output in cell.outputs
        if output.get("name") == "stderr"
    )
    return "".join(f"\n    {line}" for line in text.splitlines()[-6:])


def problems_of_build(root, code, lines):
    """List what Jupyter Book found wrong; empty when it found nothing."""
    problems = {}
    for i, line in enumerate(lines):
        if problem := explain(root, line):
            if problem.endswith(":") and "" in lines[i:]:
                # A traceback follows, up to an empty line.
                problem += f"\n    {lines[lines.index('', i) - 1]}"
            problems[problem] = None
    if code and not problems:
        # A crash; the last exception is Jupyter Book's own and says nothing.
        crash = [line for line in lines if CRASH.match(line)][:-1] or lines[-15:]
        tail = "\n    ".join(crash)
        return [f"jupyter-book ended with exit code {code}:\n    {tail}"]
    return list(problems)


def unreadable_notebooks(root):
    """List the notebooks that are none, as after a merge gone wrong."""
    problems = []
    for name in parse_toc_yaml(root / "_toc.yml"):
        path = root / f"{name}.ipynb"
        try:
            if path.is_file():
                nbformat.read(path, as_version=4)
        except (nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
            reason = str(error).partition("\n")[0][:200]
            problems.append(f"{name}.ipynb is no notebook: {reason}")
    return problems


def with_outputs(root, notebook):
    """Give a notebook with the outputs that its page shows.

    They are in the execution cache, whether this build ran the notebook or not.
    What myst-nb writes to jupyter_execute has them only where it ran: for a
    notebook that it finds in the cache, it writes the stored outputs there.

    Raises KeyError where no run of these cells is in the cache.
    """
    cache = get_cache(root / "_build/.jupyter_cache")
    return cache.merge_match_into_notebook(notebook)[1]


def stale_outputs(root):
    """List the cells whose stored outputs are not those that the site shows."""
    pages = [root / f"{name}.ipynb" for name in parse_toc_yaml(root / "_toc.yml")]
    stale = []
    for path in filter(Path.is_file, pages):
        stored = nbformat.read(path, as_version=4)
        if notebooks.code_cells(stored):
            try:
                executed = with_outputs(root, stored)
            except KeyError:
                name = path.relative_to(root)
                return [f"{name}: no run of it is kept: run make book again"]
            name = path.relative_to(root)
            stale += notebooks.stale_outputs(name, stored, executed)
    return [f"{each}\n{STALE}" for each in stale]


def build(root=ROOT):
    """Build the site where it is not current, and check it.

    Parameters
    ----------
    root : Path
        The folder of the book: ``_config.yml``, ``_toc.yml``, the notebooks and
        the package. The site goes to ``_build/html`` in it.

    Returns
    -------
    list of str
        What is wrong and where, one text a problem; empty when the site is good.
    """
    root = Path(root).resolve()
    folder = root / "_build"
    stamp = folder / "site.json"
    if problems := unreadable_notebooks(root):
        return problems
    before = fingerprint(root)
    if not is_current(root):
        print("running the notebooks and writing the pages", flush=True)
        clear_stale(folder, before["code"])
        forget_generated(root)
        if problems := offer_problem_sets(root, folder / "html/assignments"):
            return problems
        run_notebooks(root)
        code, lines = run_jupyter_book(root, folder / "book.log")
        if fingerprint(root)["code"] != before["code"]:
            # Some outputs are the old code's and some the new one's.
            remove(folder / "outputs.key")
            return ["bnlib changed while the notebooks ran: run make book again"]
        if problems := problems_of_build(root, code, lines):
            return problems
    problems = site.check(folder / "html") + stale_outputs(root)
    if problems:
        remove(stamp)
        return problems
    write_whole(stamp, json.dumps(before))
    return []


def main():
    start = time.perf_counter()
    try:
        problems = build()
    except KeyboardInterrupt:
        print("\ninterrupted: make book begins the pages anew", file=sys.stderr)
        return 130
    seconds = time.perf_counter() - start
    for problem in problems:
        print(f"\n{problem}", file=sys.stderr)
    if problems:
        print(
            f"\nthe site is not good: {len(problems)} problem(s) after {seconds:.0f} s;"
            f" Sphinx's whole log is in _build/book.log",
            file=sys.stderr,
        )
        return 1
    print(f"the site is good, after {seconds:.1f} s: {ROOT / '_build/html/index.html'}")
    print("to read it: make serve")
    return 0


if __name__ == "__main__":
    # Ended from outside as by Ctrl-C: the processes that run notebooks end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
