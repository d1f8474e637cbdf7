"""Write every notebook with all its outputs: ``python -m tools.executed FOLDER``.

The repository stores text outputs alone. These have the figures too, as the site
shows them: the branch that Binder and Colab open, and a release's notebooks.
"""

import argparse
import sys
from pathlib import Path

import nbformat

from tools import build, runs
from tools.files import write_whole

ROOT = build.ROOT


def write_executed(folder, root=ROOT):
    """Write the executed notebooks of a built book.

    Parameters
    ----------
    folder : Path
        Where to write them; they lie in it as in the book.
    root : Path
        The folder of the book.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    FileNotFoundError
        If the site is missing or older than its sources, so that no run of the
        present cells is kept; nothing is written.
    """
    paths = build.notebooks_of(root)
    stored = {path: nbformat.read(path, as_version=4) for path in paths}
    notebooks = {
        path.relative_to(root): runs.with_outputs(root, path, notebook)
        for path, notebook in stored.items()
    }
    if not build.is_current(root) or None in notebooks.values():
        raise FileNotFoundError(
            f"the site in {root / '_build/html'} is missing or older than its "
            "sources: run make book"
        )
    for name, notebook in notebooks.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, nbformat.writes(notebook).rstrip("\n") + "\n")
    return [Path(folder, name) for name in notebooks]


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.executed")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    try:
        written = write_executed(folder)
    except FileNotFoundError as error:
        sys.exit(str(error))
    print(f"{len(written)} notebooks in {folder}")


if __name__ == "__main__":
    main()
