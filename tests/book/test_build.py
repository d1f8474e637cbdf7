"""What `make book` promises, tried on a throwaway book of two pages."""

import importlib.metadata
import shutil

import pytest
from small_book import CONTENTS, READ_PACKAGE, Book, Builder

from tools import build


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A sound book that was built once, for the tests to start from."""
    book = Book(tmp_path_factory.mktemp("built"))
    assert book.build() == []
    return book


@pytest.fixture
def book(built, tmp_path):
    copy = object.__new__(Book)
    copy.root = tmp_path / "book"
    shutil.copytree(built.root, copy.root)
    return copy


def test_a_sound_book_builds_and_is_current(book):
    assert build.is_current(book.root)
    assert "package one" in book.html("chapters/02-page.html")


def test_an_unchanged_book_is_not_built_again(book, monkeypatch):
    monkeypatch.setattr(build, "run_jupyter_book", None)
    assert book.build() == []


def test_a_change_of_the_package_runs_the_notebooks_again(book):
    book.write("bnlib/value.txt", "package two")
    assert not build.is_current(book.root)
    (stale,) = book.build()
    assert "package two" in book.html("chapters/02-page.html")
    assert stale.startswith(
        f"chapters/02-page.ipynb::Cell 0 ({READ_PACKAGE}): stored\npackage one\n"
        "but now\npackage two\n"
    )
    assert "make notebooks" in stale
    assert not build.is_current(book.root)
    book.write_page(code=READ_PACKAGE, printed="package two")
    assert book.build() == []


def test_a_notebook_that_is_none_is_named(book):
    book.write("chapters/02-page.ipynb", "<<<<<<< HEAD\n{}\n")
    (problem,) = book.build()
    assert problem.startswith("chapters/02-page.ipynb is no notebook: ")


def test_of_a_verdict_line_only_the_error_may_differ(book):
    line = "holds: error 3e-16, allowed 1e-12"
    book.write_page(code=f"print({line!r})", printed=line.replace("3e-16", "2e-14"))
    assert book.build() == []
    book.write_page(code=f"print({line!r})", printed=line.replace("holds", "fails"))
    assert "holds: error 3e-16" in book.html("chapters/02-page.html")
    # The cell is as it was, so that its output comes from the cache.
    assert "Cell 0" in book.build()[0]


def test_a_cell_that_prints_in_parts_is_one_output(book):
    code = "print('one', flush=True)\nimport time\ntime.sleep(0.5)\nprint('two')"
    book.write_page(code=code, printed="one\ntwo")
    assert book.build() == []
    assert book.html("chapters/02-page.html").count('class="output stream') == 1


MEET = """from pathlib import Path
import time
Path("{own}").touch()
end = time.monotonic() + 20
while not Path("{other}").exists():
    assert time.monotonic() < end, "{other} did not run meanwhile"
    time.sleep(0.01)"""


@pytest.fixture
def three(tmp_path):
    """Three notebooks, without what builds their pages; two of them meet."""
    book = object.__new__(Book)
    book.root = tmp_path
    pages = "chapters:\n  - file: chapters/one\n  - file: chapters/two\n"
    book.write("_toc.yml", f"format: jb-book\nroot: intro\n{pages}")
    book.write_notebook("intro.ipynb", "# Intro", "x = 1", alone=True)
    for own, other in (("one", "two"), ("two", "one")):
        code = MEET.format(own=own, other=other)
        book.write_notebook(f"chapters/{own}.ipynb", "# Page", code)
    (tmp_path / "_build").mkdir()
    return book


def test_two_notebooks_run_at_a_time_and_one_that_measures_alone(three, capsys):
    build.run_notebooks(three.root)
    said = [
        line.partition(":")[0].strip() for line in capsys.readouterr().out.split("\n")
    ]
    assert sorted(said[:2]) == ["chapters/one.ipynb", "chapters/two.ipynb"]
    assert said[2:] == ["intro.ipynb", ""]
    build.run_notebooks(three.root)
    assert capsys.readouterr().out == ""


def test_an_interrupted_build_waits_for_no_notebook(three, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    end = "import time\ntime.sleep(20)\nopen('end', 'w')"
    three.write_notebook("chapters/two.ipynb", "# Page", f"open('two', 'w')\n{end}")
    monkeypatch.setattr(build, "CacheBundleIn", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build.run_notebooks(three.root)
    assert (three.root / "chapters/two").exists()
    assert not (three.root / "chapters/end").exists()


def test_an_output_that_no_run_gave_is_not_trusted(book, monkeypatch):
    shutil.rmtree(book.root / "_build/.jupyter_cache")
    monkeypatch.setattr(build, "run_notebooks", lambda root: None)
    missing = "no run of it is kept: run make book again"
    assert book.build() == [f"chapters/02-page.ipynb: {missing}"]
    assert book.build() == []


def test_a_removed_page_leaves_the_site_and_other_outputs_are_kept(book, capsys):
    book.write("_toc.yml", "format: jb-book\nroot: chapters/02-page\n")
    assert book.build() == []
    assert not (book.root / "_build/html/intro.html").exists()
    assert "package one" in book.html("chapters/02-page.html")
    assert "02-page.ipynb" not in capsys.readouterr().out


def test_a_generated_page_is_run_again_when_another_page_changed(book):
    listing = "print('words there:', len(open('02-page.ipynb').read().split()))"
    book.write("_toc.yml", f"{CONTENTS}      - file: chapters/list\n")
    words = "# List\n\nA page that says how many words the page before it has got."
    book.write_notebook("chapters/list.ipynb", words, listing, generated=True)
    assert book.build() == []
    first = book.html("chapters/list.html")
    book.write_page("Seven more words than there were before.", code=READ_PACKAGE)
    assert book.build() == []
    assert "words there:" in first
    assert book.html("chapters/list.html") != first


def test_every_fault_of_the_pages_is_named_with_its_place(book):
    book.write_notebook("intro.ipynb", "# Intro", code="x = 1\n\nx / 0")
    book.write_page(
        "(twice)=\n## One\n\n(twice)=\n## Two\n\n"
        "{prf:ref}`no-theorem`, {eq}`no-equation`, [text](no-page.md)",
        code="import warnings\nwarnings.warn('careful')",
    )
    problems = book.build()
    intro, page = "intro.ipynb, cell 2", "chapters/02-page.ipynb"
    for place, what in (
        (intro, "ZeroDivisionError: division by zero"),
        (f"{page}, cell 2", "UserWarning: careful"),
        (f"{page}, cell 1", 'Duplicate explicit target name: "twice"'),
        (f"{page}, cell 1", "equation not found: no-equation"),
        (f"{page}, cell 1", "target not found: 'no-page.md'"),
        (page, "label 'no-theorem' not found"),
    ):
        assert any(
            problem.startswith(place) and what in problem for problem in problems
        ), (what, problems)
    assert not build.is_current(book.root)
    # The page with the warning now comes from the cache, and is no better.
    assert any("UserWarning: careful" in problem for problem in book.build())


def test_a_broken_link_fails_the_build_until_it_is_mended(book, monkeypatch):
    book.write_page("changed")
    broken = Builder(book, '<a href="gone.html">gone</a>')
    monkeypatch.setattr(build, "run_jupyter_book", broken)
    problem = "index.html: broken link: 'gone.html' leads to no file"
    assert book.build() == [problem]
    assert book.build() == [problem]
    monkeypatch.setattr(build, "run_jupyter_book", Builder(book))
    assert book.build() == []


def test_a_page_that_is_lost_from_the_site_is_built_again(book, monkeypatch):
    (book.root / "_build/html/intro.html").unlink()
    assert book.build() != []
    monkeypatch.setattr(build, "run_jupyter_book", Builder(book))
    assert book.build() == []


def test_an_interrupted_build_is_not_trusted(book, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    page = book.root / "chapters/02-page.ipynb"
    before = page.read_bytes()
    book.write_page("changed")
    monkeypatch.setattr(build, "run_jupyter_book", Builder(book, meanwhile=interrupt))
    with pytest.raises(KeyboardInterrupt):
        book.build()
    page.write_bytes(before)
    assert not build.is_current(book.root)


def test_outputs_of_a_package_that_changed_meanwhile_are_thrown_away(book, monkeypatch):
    cache = book.root / "_build/.jupyter_cache"

    def edit():
        book.write("bnlib/value.txt", "package two")

    book.write_page("changed")
    monkeypatch.setattr(build, "run_jupyter_book", Builder(book, meanwhile=edit))
    assert book.build() == [
        "bnlib changed while the notebooks ran: run make book again"
    ]
    assert cache.exists()
    book.write("bnlib/value.txt", "package one")
    monkeypatch.setattr(build, "run_jupyter_book", Builder(book))
    assert book.build() == []
    assert not cache.exists()


def test_what_is_imported_meanwhile_is_no_change_of_the_code(
    book, tmp_path, monkeypatch
):
    (tmp_path / "bundled-1.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: bundled\nVersion: 1.0\n"
    (tmp_path / "bundled-1.0.dist-info/METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.metadata.version("bundled") == "1.0"
    assert build.is_current(book.root)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("reading sources... [ 50%] intro", None),
        ("{root}/intro.md:7: WARNING: undefined label: 'x'", "intro.md, line 7: "),
        ("{root}/a.ipynb:20003: ERROR: unknown", "a.ipynb, cell 2, line 3: unknown"),
        ("{root}/a.ipynb:: WARNING: image file not readable", "a.ipynb: image file"),
        ("checking... {root}/b.md: WARNING: not in any toctree", "b.md: not in any"),
        (
            "{root}/bnlib/nn.py:docstring of bnlib.nn.convert:4: WARNING: bad",
            "the docstring of bnlib.nn.convert: bad",
        ),
        ("WARNING: nothing known of the place", "nothing known of the place"),
    ],
)
def test_a_line_of_sphinx_says_where(tmp_path, line, problem):
    told = build.explain(tmp_path, line.format(root=tmp_path))
    assert told == problem or told.startswith(problem)
