"""Build the site: ``python -m tools.build``, which ``make book`` runs.

Notebooks without a kept run are run (`tools.execution`); Jupyter Book then writes
the pages from their outputs. A stamp records the sources of the whole site; it is
written last, so that a failed or interrupted build is never taken for a good one.
"""

import hashlib
import importlib.util
import json
import shutil
import signal
import sys
import time
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from sphinx_external_toc.parsing import parse_toc_yaml

from tools import execution, jupyter_book, outputs, runs, site
from tools.cells import code_cells, stale_outputs
from tools.files import own_files, write_whole

ROOT = Path(__file__).resolve().parents[1]
#: The sources of the problem sets.
SETS = "assignments/source"
#: The files that determine the pages, besides the notebooks' outputs.
PAGES = (
    *("_config.yml", "_toc.yml", "references.bib", "intro.ipynb"),
    *("_ext", "_static", "chapters", SETS, "grading", "bnlib"),
)
STALE = (
    "(If you changed the code: make notebooks. If not, this machine computes "
    "otherwise; the site is built all the same, and make serve shows it.)"
)


def digest(root, names):
    """Return one hash of the names and contents of files and folders."""
    total = hashlib.sha256()
    for name in names:
        for path in own_files(root / name):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{path.relative_to(root)} {content}\n".encode())
    return total.hexdigest()


def fingerprint(root):
    """Return hashes of what a build would use now: sources and installed packages."""
    return {"sources": digest(root, PAGES), "environment": runs.environment()}


def is_current(root=ROOT):
    """Return True if the present sources gave the whole site, without a problem."""
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


def clear_stale(folder):
    """Remove what an earlier build left and this one must not use.

    Sphinx must read every page again: it does not repeat warnings about pages that
    it keeps, and it does not drop pages whose sources are gone.
    """
    folder.mkdir(exist_ok=True)
    for name in (
        *("site.json", "judgements.json", "html"),
        *(".doctrees", ".jupyter_cache", "jupyter_execute"),
    ):
        remove(folder / name)


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


def notebooks_of(root):
    """List the notebooks of the contents."""
    pages = [root / f"{name}.ipynb" for name in parse_toc_yaml(root / "_toc.yml")]
    return [path for path in pages if path.is_file()]


def unreadable_notebooks(root):
    """List the files that cannot be read as notebooks, as after a failed merge."""
    problems = []
    for path in notebooks_of(root):
        try:
            nbformat.read(path, as_version=4)
        except (nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
            reason = str(error).partition("\n")[0][:200]
            problems.append(f"{path.relative_to(root)} is no notebook: {reason}")
    return problems


def run_notebooks(root):
    """Run the notebooks that have no kept run.

    Returns
    -------
    executed : dict of Path to NotebookNode
        All notebooks, with the outputs that the pages show; if a notebook failed,
        with those from before the failure.
    failures : list of str
        What failed.
    ran : bool
        Whether any ran.
    """
    executed, failures, ran = {}, [], False
    for path, result, now in execution.run(root, notebooks_of(root)):
        if isinstance(result, execution.NotebookError):
            failures.append(str(result))
            result = result.notebook
        executed[path] = result
        ran |= now
    return executed, failures, ran


def hand_over(root, executed):
    """Put the outputs where Jupyter Book looks, so that it runs nothing itself."""
    cache = get_cache(root / "_build/.jupyter_cache")
    for path, notebook in executed.items():
        if code_cells(notebook):
            bundle = CacheBundleIn(outputs.for_pages(notebook), str(path))
            cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def write_pages(root, executed):
    """Write all pages; list what is wrong with them."""
    folder = root / "_build"
    clear_stale(folder)
    if problems := offer_problem_sets(root, folder / "html/assignments"):
        return problems
    hand_over(root, executed)
    outputs.write_judgements(root, executed)
    print("writing the pages", flush=True)
    return jupyter_book.problems(root, *jupyter_book.run(root, folder / "book.log"))


def build(root=ROOT):
    """Build the site if it is not current, and check it.

    Parameters
    ----------
    root : Path
        The folder of the book: ``_config.yml``, ``_toc.yml``, the notebooks and
        ``bnlib``, which they read.

    Returns
    -------
    list of str
        One text for each problem; empty if the site is good.
    """
    root = Path(root).resolve()
    if problems := unreadable_notebooks(root):
        return problems
    before = fingerprint(root)
    executed, problems, ran = run_notebooks(root)
    if ran or not is_current(root):
        problems += write_pages(root, executed)
    if not problems:
        problems = site.check(root / "_build/html")
        for path, notebook in executed.items():
            stored = nbformat.read(path, as_version=4)
            stale = stale_outputs(path.relative_to(root), stored, notebook)
            problems += [f"{each}\n{STALE}" for each in stale]
    stamp = root / "_build/site.json"
    if problems:
        remove(stamp)
    else:
        write_whole(stamp, json.dumps(before))
    return problems


def main():
    start = time.perf_counter()
    try:
        problems = build()
    except KeyboardInterrupt:
        print(
            "\ninterrupted: make book goes on from the notebooks that ran",
            file=sys.stderr,
        )
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
    # SIGTERM acts like Ctrl-C, so that the processes that run notebooks end too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
