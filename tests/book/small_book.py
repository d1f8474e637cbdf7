"""A small book with the real one's configuration, and a stand-in for Jupyter Book."""

import shutil

import nbformat
from sound_page import CARD

from tools import build, execution, repository, runs
from tools.cells import code_cells, output_text

CONTENTS = """
format: jb-book
root: intro
parts:
  - caption: The pages
    numbered: true
    chapters:
      - file: chapters/02-page
"""
INTRO = "# Intro\n\nThe first page of a small book says what it is about."
OPENING = "The second page has other words of its own. It has two sentences."
READ_PACKAGE = "print(open('../bnlib/value.txt').read())"


class Notebooks:
    """A folder with notebooks and what they read."""

    def __init__(self, root):
        self.root = root

    def copy(self, root):
        """Copy the folder with the runs that are kept in it."""
        shutil.copytree(self.root, root)
        copy = object.__new__(type(self))
        copy.root = root
        return copy

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)

    def write_notebook(
        self, name, text, code=None, printed="package one", kernel="python3", **marks
    ):
        cells = [nbformat.v4.new_markdown_cell(text)]
        if code:
            outputs = [nbformat.v4.new_output("stream", text=printed)]
            cells.append(nbformat.v4.new_code_cell(code, outputs=outputs))
        spec = {"name": kernel, "display_name": "Python 3", "language": "python"}
        metadata = {"kernelspec": spec, "bnlib": marks}
        notebook = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
        self.write(name, nbformat.writes(notebook))

    def path(self, stem):
        return self.root / f"chapters/{stem}.ipynb"

    def paths(self):
        return sorted((self.root / "chapters").glob("*.ipynb"))

    def read(self, stem):
        return nbformat.read(self.path(stem), as_version=4)

    def run(self):
        """Run the notebooks that have no kept run; return their names."""
        return {p.stem for p, _, ran in execution.run(self.root, self.paths()) if ran}

    def needs_run(self):
        """Return the names of the notebooks that would run."""
        notebooks = {path: self.read(path.stem) for path in self.paths()}
        return {p.stem for p, n in notebooks.items() if not runs.find(self.root, p, n)}

    def printed(self, stem):
        """Return what the cells of a kept run printed."""
        notebook, _ = runs.find(self.root, self.path(stem), self.read(stem))
        return "".join(map(output_text, code_cells(notebook)))


class Book(Notebooks):
    """A small book with the real one's configuration."""

    def __init__(self, root):
        super().__init__(root)
        for name in ("_ext", "_static"):
            shutil.copytree(build.ROOT / name, root / name)
        for name in ("_config.yml", "references.bib"):
            shutil.copy(build.ROOT / name, root)
        self.write("_toc.yml", CONTENTS)
        self.set_addresses(repository.UNSET)
        self.write("bnlib/value.txt", "package one")
        self.write_notebook("intro.ipynb", INTRO)
        self.write_page(code=READ_PACKAGE)

    def write_page(self, text="", code=None, **printed):
        name = "chapters/02-page.ipynb"
        self.write_notebook(name, f"# Page\n\n{OPENING}\n\n{text}", code, **printed)

    def set_addresses(self, address, site=""):
        config = (self.root / "_config.yml").read_text()
        self.write("_config.yml", repository.configured(config, address, site))

    def build(self):
        return build.build(self.root)

    def html(self, name):
        return (self.root / "_build/html" / name).read_text()


class Builder:
    """A stand-in for Jupyter Book, for tests of what happens around it."""

    def __init__(self, book, page="", meanwhile=lambda: None):
        self.book, self.page, self.meanwhile = book, page, meanwhile

    def __call__(self, root, log):
        card = CARD.replace("page.html", "index.html")
        html = f'<html lang="en"><title>Page</title>{card}{self.page}</html>'
        self.book.write("_build/html/index.html", html)
        self.meanwhile()
        return 0, []
