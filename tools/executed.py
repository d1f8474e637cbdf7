"""Write every notebook with all its outputs: ``python -m tools.executed FOLDER``.

The repository stores text outputs alone. These have the figures too, as the site
shows them: the branch that Binder and Colab open, and a release's notebooks.
"""

import argparse
import sys
from pathlib import Path

import nbformat
from sphinx_external_toc.parsing import parse_toc_yaml

from tools import build
from tools.files import write_whole

ROOT = build.ROOT


def write_executed(folder, root=ROOT):
    """Write the executed notebooks of a built book.

    Parameters
    ----------
    folder : Path
        Where to; the notebooks lie in it as in the book.
    root : Path
        The folder of the book.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    FileNotFoundError
        The site is missing or older than its sources, so that no run of the present
        cells is kept; nothing is written.
    """
    if not build.is_current(root):
        raise FileNotFoundError(
            f"the site in {root / '_build/html'} is missing or older than its "
            "sources: run make book"
        )
    names = [f"{name}.ipynb" for name in parse_toc_yaml(root / "_toc.yml")]
    notebooks = {
        name: build.with_outputs(root, nbformat.read(root / name, as_version=4))
        for name in names
        if (root / name).is_file()
    }
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
