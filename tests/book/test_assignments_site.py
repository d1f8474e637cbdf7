"""The problem sets on the site, tried on a throwaway book with one set."""

import hashlib
import importlib.util
import io
import re
import shutil
import zipfile

import course_toy
import nbformat
import pytest
from small_book import CONTENTS, Book, Builder

from grading import make, sets
from tools import build

SETS_PAGE = """# Problem sets

A page that says what the problem sets of this small book are about.

```{problem-set-table}
```

## Openings

```{problem-sets}
```
"""
SET_OPENING = """# Problem set 1: moving

**Builds on** chapter 02. About 75 minutes."""


def write_course(root):
    """Write a small book with a problem set and a page that offers it."""
    book = Book(root)
    sources = root / build.SETS
    course_toy.write_set(sources, "1-toy")
    notebook = nbformat.read(sources / "1-toy/1-toy.ipynb", as_version=4)
    notebook.cells[0].source = SET_OPENING
    nbformat.write(notebook, sources / "1-toy/1-toy.ipynb")
    book.write("chapters/sets.md", SETS_PAGE)
    book.write("_toc.yml", f"{CONTENTS}      - file: chapters/sets\n")
    return book


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A book with a set, built once, for tests that only read it."""
    book = write_course(tmp_path_factory.mktemp("built"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets, "SOURCE", book.root / build.SETS)
        assert book.build() == []
    return book


@pytest.fixture
def course(built, tmp_path, monkeypatch):
    """A copy of it, for tests of what happens around the writing of the pages."""
    copy = object.__new__(Book)
    copy.root = tmp_path / "book"
    shutil.copytree(built.root, copy.root)
    monkeypatch.setattr(sets, "SOURCE", copy.root / build.SETS)
    monkeypatch.setattr(build.jupyter_book, "run", Builder(copy))
    return copy


def test_the_site_offers_the_student_versions_and_nothing_else(built):
    offered = built.root / "_build/html/assignments"
    names = {p.relative_to(offered).as_posix() for p in offered.rglob("*.*")}
    assert names == {"1-toy.zip", "student/1-toy.ipynb"}
    data = (offered / "1-toy.zip").read_bytes()
    text = zipfile.ZipFile(io.BytesIO(data)).read("1-toy/1-toy.ipynb").decode()
    assert text == (offered / "student/1-toy.ipynb").read_text()
    assert "YOUR CODE HERE" in text
    assert "HIDDEN" not in text
    assert "return x + SHIFT" not in text
    page = built.html("chapters/sets.html")
    for path in (offered / "1-toy.zip", offered / "student/1-toy.ipynb"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() in page


def test_the_page_links_the_files_and_adds_up_the_points(built):
    page = built.html("chapters/sets.html")
    cells = nbformat.read(
        built.root / "_build/html/assignments/student/1-toy.ipynb", as_version=4
    ).cells
    points = [mark for c in cells if (mark := c.metadata.get("nbgrader", {}))]
    assert sum(mark.get("points", 0) for mark in points) == 10
    row = re.search(r"<tr class=\"row-even\">(.*?)</tr>", page, re.DOTALL)[1]
    said = re.sub(r"<[^>]+>|\s+", " ", row).split()
    assert said == ["1", "Moving", "02", "75", "7", "3", "1-toy.zip"]
    assert 'href="../assignments/1-toy.zip" download' in page
    assert 'href="#set-1-toy"' in page
    assert '<section id="set-1-toy">' in page


def test_a_change_of_a_set_builds_the_site_again_and_no_change_does_not(
    course, monkeypatch
):
    made = course.root / "_build/html/assignments/1-toy.zip"
    before = made.read_bytes()
    monkeypatch.setattr(build.jupyter_book, "run", None)
    assert course.build() == []
    name = f"{build.SETS}/1-toy/variant.py"
    text = (course.root / name).read_text()
    course.write(name, text.replace("rng.integers(1, 9)", "99"))
    assert not build.is_current(course.root)
    monkeypatch.setattr(build.jupyter_book, "run", Builder(course))
    assert course.build() == []
    assert made.read_bytes() != before


def test_sets_that_were_made_in_an_interrupted_build_are_not_trusted(
    course, monkeypatch
):
    really_make = make.make
    course.write(f"{build.SETS}/1-toy/variant.py", f"{course_toy.VARIANT}\n")

    def interrupted(names, key, folder):
        really_make(names, key, folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(make, "make", interrupted)
    with pytest.raises(KeyboardInterrupt):
        course.build()
    left = course.root / "_build/html/assignments/student/1-toy.ipynb"
    left.write_text("half of")
    course.write(f"{build.SETS}/1-toy/variant.py", course_toy.VARIANT)
    assert not build.is_current(course.root)
    monkeypatch.setattr(make, "make", really_make)
    assert course.build() == []
    assert "YOUR CODE HERE" in left.read_text()


def test_a_set_that_cannot_be_made_is_named(course):
    name = f"{build.SETS}/1-toy/variant.py"
    course.write(name, "def variant(rng):\n    return 1 / 0")
    where = f"{build.SETS}/1-toy"
    assert course.build() == [f"{where}: ZeroDivisionError: division by zero"]
    course.write(f"{where}/1-toy.ipynb", "<<<<<<<")
    course.write(name, course_toy.VARIANT)
    [problem] = course.build()
    assert problem.startswith(f"{where}: NotJSONError: ")


def test_a_set_that_says_too_little_is_named_where_it_is_listed(course, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(sets, "SOURCE", course.root / build.SETS)
    path = course.root / build.SETS / "1-toy/1-toy.ipynb"
    path.write_text(path.read_text().replace("About 75 minutes", "An hour"))
    [problem, *_] = course.build()
    assert problem.startswith("chapters/sets.md, line 5: 1-toy: its first cell")
    assert "About N minutes" in problem


def test_without_nbgrader_the_build_says_what_to_install(course, monkeypatch):
    course.write(f"{build.SETS}/1-toy/variant.py", f"{course_toy.VARIANT}\n")
    find = importlib.util.find_spec
    without = {"nbgrader": None}
    monkeypatch.setattr(
        build.importlib.util,
        "find_spec",
        lambda name, *rest: without[name] if name in without else find(name, *rest),
    )
    [problem] = course.build()
    assert problem.startswith(
        "nbgrader, which makes the problem sets, is not installed"
    )
    assert "pip install" in problem
