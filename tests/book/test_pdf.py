"""The whole site in one file, printed of a small book by a browser."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from browsing import launched
from pypdf import PdfReader
from small_book import CONTENTS, Book

from tools import pdf

WIDE = "+".join(f"\\frac{{x_{{{n}}}}}{{1 + x_{{{n}}}^2}}" for n in range(30))
PAGE = rf"""
(place)=
## The first section

[The intro](../intro.ipynb), [the other page](more.md#a-section-there) and
[a section](#place). The letters α and γ, a dash – and $\epsilon \le \zeta$.

$$ {WIDE} = 0 $$

:::{{dropdown}} Folded
What is folded on the screen.
:::

![A diagonal](diagonal.png)
"""


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    book = Book(tmp_path_factory.mktemp("printed"))
    book.write("_toc.yml", CONTENTS + "      - file: chapters/more\n")
    plt.imsave(book.root / "chapters/diagonal.png", np.eye(64))
    book.write_page(PAGE)
    opening = "This page has a second section, and a link that leads back to the first."
    more = f"# More\n\n{opening} [Back](#place).\n\n## A section there\n\nThe end.\n"
    book.write("chapters/more.md", more)
    assert book.build() == []
    return book


@pytest.fixture(scope="module")
def printed(book):
    path = book.root / "book.pdf"
    with launched():
        pass
    pages = pdf.print_book(book.root / "_build/html", path, book.root)
    reader = PdfReader(path)
    assert len(reader.pages) == pages
    return reader


def test_it_has_a_cover_the_contents_and_each_page_on_a_sheet_of_its_own(printed):
    texts = [page.extract_text() for page in printed.pages]
    assert "Batch Normalization, Proved and Run" in texts[0]
    assert texts[1].startswith("Contents")
    assert "The first page of a small book" in texts[2]
    assert len(texts) == 5
    paper = [tuple(map(round, page.mediabox[2:])) for page in printed.pages]
    assert set(paper) == {(596, 843)}


def test_the_contents_give_the_page_of_each_entry(printed):
    text = printed.pages[1].extract_text(extraction_mode="layout")
    shown = dict(re.findall(r"^ *(\S.*?) {2,}(\d+)$", text, re.MULTILINE))
    assert shown == {
        "Intro": "3",
        "2. Page": "4",
        "2.1. The first section": "4",
        "2. More": "5",
        "2.1. A section there": "5",
    }


def test_bookmarks_lead_to_parts_pages_and_sections(printed):
    def titles(items):
        return [titles(i) if isinstance(i, list) else i.title for i in items]

    assert titles(printed.outline) == [
        "Intro",
        "The pages",
        ["2. Page", ["2.1. The first section"], "2. More", ["2.1. A section there"]],
    ]
    last = printed.outline[-1][-1][-1]
    assert printed.get_destination_page_number(last) == 4


def test_links_between_pages_lead_to_their_places_in_the_file(printed):
    known = printed.named_destinations
    links = [
        (number, note.get_object())
        for number, page in enumerate(printed.pages)
        for note in page.get("/Annots", ())
    ]
    within = [(n, str(link["/Dest"])) for n, link in links if "/Dest" in link]
    assert all(name in known for _, name in within)
    led = {(n, printed.get_destination_page_number(known[name])) for n, name in within}
    # From page to intro, to the other page and to itself; from the other page back.
    assert {(3, 2), (3, 4), (3, 3), (4, 3)} <= led
    assert not [link for _, link in links if "127.0.0.1" in str(link.get("/A"))]


def test_all_is_unfolded_and_every_letter_is_there(printed):
    text = printed.pages[3].extract_text()
    assert "What is folded on the screen." in text
    assert "α and γ" in text
    assert "\ufffd" not in text
    assert printed.pages[3].images


def test_what_sticks_out_of_the_paper_or_leads_nowhere_is_refused(book, monkeypatch):
    with launched():
        pass
    page = book.root / "_build/html/chapters/more.html"
    before = page.read_text()
    wide = '<p style="width: 3000px">wide</p><a href="02-page.html#no">nowhere</a>'
    page.write_text(before.replace("<p>The end.</p>", wide))
    path = book.root / "refused.pdf"
    with pytest.raises(pdf.PdfError) as refused:
        pdf.print_book(book.root / "_build/html", path, book.root)
    page.write_text(before)
    assert "beyond the edge of the paper: <p style" in str(refused.value)
    assert "a link to no place: #chapters-02-page--no" in str(refused.value)
    assert not path.exists()


def test_a_site_that_is_not_there_is_not_printed(monkeypatch, capsys):
    monkeypatch.setattr(pdf.build, "is_current", lambda root: False)
    assert pdf.main() == 1
    assert "make book" in capsys.readouterr().err
