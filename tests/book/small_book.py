"""A small book with the real one's configuration, and what builds its pages."""

import shutil

import nbformat
from sound_page import CARD

from tools import build, repository

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


class Book:
    """A small book with the real one's configuration."""

    def __init__(self, root):
        self.root = root
        for name in ("_ext", "_static"):
            shutil.copytree(build.ROOT / name, root / name)
        for name in ("_config.yml", "references.bib"):
            shutil.copy(build.ROOT / name, root)
        self.write("_toc.yml", CONTENTS)
        self.set_addresses(repository.UNSET)
        self.write("bnlib/value.txt", "package one")
        self.write_notebook("intro.ipynb", INTRO)
        self.write_page(code=READ_PACKAGE)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)

    def write_notebook(self, name, text, code=None, printed="package one", **marks):
        cells = [nbformat.v4.new_markdown_cell(text)]
        if code:
            outputs = [nbformat.v4.new_output("stream", text=printed)]
            cells.append(nbformat.v4.new_code_cell(code, outputs=outputs))
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = nbformat.v4.new_notebook(
            cells=cells,
            metadata={"kernelspec": kernel, "bnlib": marks},
        )
        self.write(name, nbformat.writes(notebook))

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
    """Stands for Jupyter Book where a test is about what is done around it."""

    def __init__(self, book, page="", meanwhile=lambda: None):
        self.book, self.page, self.meanwhile = book, page, meanwhile

    def __call__(self, root, log):
        card = CARD.replace("page.html", "index.html")
        html = f'<html lang="en"><title>Page</title>{card}{self.page}</html>'
        self.book.write("_build/html/index.html", html)
        self.meanwhile()
        return 0, []
