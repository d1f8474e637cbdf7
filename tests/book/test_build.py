"""What `make book` promises, tried on a throwaway book of two pages."""

import importlib.metadata

import pytest
from small_book import READ_PACKAGE, Book, Builder

from tools import build, execution, jupyter_book


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A sound book that was built once, for the tests to start from."""
    book = Book(tmp_path_factory.mktemp("built").resolve())
    assert book.build() == []
    return book


@pytest.fixture
def book(built, tmp_path):
    return built.copy(tmp_path.resolve() / "book")


@pytest.fixture
def page_builder(book, monkeypatch):
    """The book, with a stand-in for Jupyter Book if the pages do not matter."""
    monkeypatch.setattr(jupyter_book, "run", Builder(book))
    return book


def test_a_sound_book_builds_and_is_current(book):
    assert build.is_current(book.root)
    assert "package one" in book.html("chapters/02-page.html")


def test_an_unchanged_book_is_neither_run_nor_built_again(book, monkeypatch):
    monkeypatch.setattr(execution, "_run_missing", lambda root, missing, _: missing)
    monkeypatch.setattr(jupyter_book, "run", None)
    assert book.build() == []


def test_a_change_of_the_package_shows_and_names_the_stale_cell(book, monkeypatch):
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
    monkeypatch.setattr(jupyter_book, "run", Builder(book))
    assert book.build() == []


def test_a_notebook_that_is_none_is_named(book):
    book.write("chapters/02-page.ipynb", "<<<<<<< HEAD\n{}\n")
    (problem,) = book.build()
    assert problem.startswith("chapters/02-page.ipynb is no notebook: ")


def test_of_a_verdict_line_only_the_error_may_differ(page_builder):
    book = page_builder
    line = "holds: error 3e-16, allowed 1e-12"
    book.write_page(code=f"print({line!r})", printed=line.replace("3e-16", "2e-14"))
    assert book.build() == []
    book.write_page(code=f"print({line!r})", printed=line.replace("holds", "fails"))
    assert "Cell 0" in book.build()[0]


def test_a_removed_page_leaves_the_site(page_builder):
    page_builder.write("_toc.yml", "format: jb-book\nroot: chapters/02-page\n")
    assert page_builder.build() == []
    assert not (page_builder.root / "_build/html/intro.html").exists()


def test_every_fault_of_the_pages_is_named_with_its_place(book):
    book.write_notebook("intro.ipynb", "# Intro", code="x = 1\n\nx / 0")
    book.write_page(
        "(twice)=\n## One\n\n(twice)=\n## Two\n\n"
        "{prf:ref}`no-theorem`, {eq}`no-equation`, [text](no-page.md)",
        code="import warnings\nwarnings.warn('careful')",
    )
    problems = book.build()
    page = "chapters/02-page.ipynb"
    for place, what in (
        ("intro.ipynb::Cell 0 (x = 1) failed", "ZeroDivisionError: division by zero"),
        (f"{page}::Cell 0 (import warnings) wrote", "UserWarning: careful"),
        (f"{page}, cell 1", 'Duplicate explicit target name: "twice"'),
        (f"{page}, cell 1", "equation not found: no-equation"),
        (f"{page}, cell 1", "target not found: 'no-page.md'"),
        (page, "label 'no-theorem' not found"),
    ):
        assert any(
            problem.startswith(place) and what in problem for problem in problems
        ), (what, problems)
    assert not build.is_current(book.root)


def test_what_a_cell_prints_in_parts_is_one_output(book):
    code = "print('one', flush=True)\nimport time\ntime.sleep(0.5)\nprint('two')"
    book.write_page(code=code, printed="one\ntwo")
    assert book.build() == []
    assert book.html("chapters/02-page.html").count('class="output stream') == 1


def test_a_broken_link_fails_the_build_until_it_is_mended(book, monkeypatch):
    book.write_page("changed", code=READ_PACKAGE)
    broken = Builder(book, '<a href="gone.html">gone</a>')
    monkeypatch.setattr(jupyter_book, "run", broken)
    problem = "index.html: broken link: 'gone.html' leads to no file"
    assert book.build() == [problem]
    assert book.build() == [problem]
    monkeypatch.setattr(jupyter_book, "run", Builder(book))
    assert book.build() == []


def test_a_page_that_is_lost_from_the_site_is_built_again(page_builder):
    (page_builder.root / "_build/html/intro.html").unlink()
    assert page_builder.build() != []
    assert page_builder.build() == []


def test_an_interrupted_build_is_not_trusted(book, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    page = book.root / "chapters/02-page.ipynb"
    before = page.read_bytes()
    book.write_page("changed", code=READ_PACKAGE)
    monkeypatch.setattr(jupyter_book, "run", Builder(book, meanwhile=interrupt))
    with pytest.raises(KeyboardInterrupt):
        book.build()
    page.write_bytes(before)
    assert not build.is_current(book.root)


def test_a_site_whose_sources_changed_meanwhile_is_not_current(book, monkeypatch):
    book.write_page("changed", code=READ_PACKAGE)
    edit = Builder(book, meanwhile=lambda: book.write("bnlib/value.txt", "package two"))
    monkeypatch.setattr(jupyter_book, "run", edit)
    assert book.build() == []
    assert not build.is_current(book.root)
    (stale,) = book.build()
    assert "package two" in stale


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
    told = jupyter_book.explain(tmp_path, line.format(root=tmp_path))
    assert told == problem or told.startswith(problem)
