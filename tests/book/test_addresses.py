"""What the site shows while its addresses are unset, and once they are set."""

from types import SimpleNamespace

import nbformat
import pytest
from refusals import refused
from small_book import CONTENTS, OPENING, Book
from sphinx.errors import ConfigError

from tools import build, executed
from tools.cells import code_cells
from tools.site import Site

REPOSITORY = "https://github.com/someone/a-book"
ADDRESS = "https://someone.example/a-book"
PAGE = "chapters/02-page.html"
DESCRIBED = "A page of text can say in its front matter what it is about."
UNSET = "Put the address of your copy here."


@pytest.fixture(scope="module")
def unset(tmp_path_factory):
    """A built book whose addresses nobody has set."""
    return with_text_page(Book(tmp_path_factory.mktemp("unset")))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A built book that knows its repository and its site."""
    book = Book(tmp_path_factory.mktemp("published"))
    book.set_addresses(REPOSITORY, ADDRESS)
    return with_text_page(book)


def with_text_page(book):
    book.write("_toc.yml", CONTENTS + "      - file: chapters/more\n")
    text = f"# More\n\n```{{only}} address_unset\n{UNSET}\n```\n\nText.\n"
    book.write("chapters/more.md", f"---\ndescription: {DESCRIBED}\n---\n{text}")
    assert book.build() == []
    return book


def page(book, name):
    return Site.read(book.root / "_build/html").pages[name]


def test_no_button_leads_to_a_repository_that_is_not_there(unset):
    for name in (PAGE, "index.html", "chapters/more.html", "404.html"):
        html = unset.html(name)
        for host in ("mybinder.org", "colab.research.google.com", "github.com/OWNER"):
            assert host not in html, name
    assert UNSET in unset.html("chapters/more.html")


def test_with_the_repositorys_address_every_button_is_there(published):
    links = page(published, PAGE).links
    file = "chapters/02-page.ipynb"
    for link in (
        f"https://mybinder.org/v2/gh/someone/a-book/notebooks?urlpath=lab/tree/{file}",
        "https://colab.research.google.com/github/someone/a-book/blob/notebooks/"
        + file,
        REPOSITORY,
    ):
        assert link in links
    assert any(link.startswith(f"{REPOSITORY}/issues/new") for link in links)
    assert UNSET not in published.html("chapters/more.html")


def test_a_notebook_can_be_downloaded_either_way(unset, published):
    for book in (unset, published):
        assert "../_sources/chapters/02-page.ipynb" in page(book, PAGE).links


def test_a_page_is_described_by_its_opening_or_its_front_matter(unset, published):
    for book in (unset, published):
        assert page(book, PAGE).meta["description"] == OPENING
        assert page(book, "chapters/more.html").meta["description"] == DESCRIBED


def test_without_the_sites_address_there_are_no_cards(unset):
    for name, each in Site.read(unset.root / "_build/html").pages.items():
        assert not any(key.startswith("og:") for key in each.meta if key), name


def test_with_the_sites_address_cards_are_whole(published):
    card = page(published, "chapters/more.html").meta
    assert card["og:title"] == "More"
    assert card["og:description"] == DESCRIBED
    assert card["og:url"] == f"{ADDRESS}/chapters/more.html"
    assert card["og:image"] == f"{ADDRESS}/_static/preview.png"
    assert card["twitter:card"] == "summary_large_image"
    first = page(published, "index.html")
    assert first.meta["og:url"] == first.canonical == f"{ADDRESS}/"


@pytest.mark.parametrize(("name", "top"), [("unset", "/"), ("published", "/a-book/")])
def test_the_page_for_missing_addresses_starts_at_the_sites_top(name, top, request):
    links = page(request.getfixturevalue(name), "404.html").links
    assert f"{top}chapters/more.html" in links
    assert all(link.startswith(("#", top, "http")) for link in links), links


def test_github_pages_serves_the_folders_of_styles_and_images(unset):
    assert (unset.root / "_build/html/.nojekyll").is_file()


@pytest.fixture
def addresses(monkeypatch):
    monkeypatch.syspath_prepend(build.ROOT / "_ext")
    import addresses

    return addresses


@pytest.mark.parametrize(
    "address", ["a-book", "ftp://example.org/", "https:///a", "/a/"]
)
def test_what_is_no_address_of_a_site_is_refused(addresses, address):
    config = SimpleNamespace(html_baseurl=address)
    with refused(
        ConfigError, "baseurl", repr(address), "YOUR-NAME.github.io/YOUR-BOOK"
    ):
        addresses.check_site_address(None, config)


@pytest.mark.parametrize(
    ("given", "kept"),
    [("", ""), ("https://a.org/b", "https://a.org/b/"), ("https://a.org/", None)],
)
def test_the_sites_address_ends_in_a_slash(addresses, given, kept):
    config = SimpleNamespace(html_baseurl=given, html_title="A book")
    addresses.check_site_address(None, config)
    assert config.html_baseurl == (given if kept is None else kept)


def test_an_executed_notebook_has_what_its_page_shows(published, tmp_path):
    written = executed.write_executed(tmp_path, published.root)
    assert tmp_path / "chapters/02-page.ipynb" in written
    notebook = nbformat.read(tmp_path / "chapters/02-page.ipynb", as_version=4)
    assert code_cells(notebook)[0].outputs[0].text == "package one\n"


def test_no_notebook_is_written_of_a_site_that_is_older_than_its_sources(
    published, tmp_path, monkeypatch
):
    monkeypatch.setattr(build, "is_current", lambda root: False)
    with refused(FileNotFoundError, "site", "make book"):
        executed.write_executed(tmp_path, published.root)
    assert list(tmp_path.iterdir()) == []
