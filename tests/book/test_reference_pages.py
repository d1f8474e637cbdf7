"""The ledger and the errata, as built: every claim, its numbers, its code."""

import re

import nbformat
import pytest
from bs4 import BeautifulSoup

from bnlib.claims import all_claims, pages
from tools.cells import ROOT, code_cells

CLAIMS = all_claims()


@pytest.fixture(scope="module")
def ledger(site):
    return BeautifulSoup((site / "chapters/ledger.html").read_text(), "html.parser")


@pytest.fixture(scope="module")
def errata(site):
    return BeautifulSoup((site / "chapters/errata.html").read_text(), "html.parser")


def test_every_claim_has_one_row_of_the_ledger_under_its_chapter(ledger):
    rows = ledger.select(".ledger-row")
    assert [row["id"] for row in rows] == [f"ledger-{entry.id}" for entry in CLAIMS]
    for row, entry in zip(rows, CLAIMS):
        assert entry.chapter[:2] in row.find_parent("section").h2.text


def test_a_row_leads_to_the_code_of_its_check_and_the_code_back(ledger, site):
    for entry in CLAIMS:
        row = ledger.find(id=f"ledger-{entry.id}")
        (address,) = [a["href"] for a in row.find_all("a") if a.text == "its check"]
        assert address == pages.source_address(entry)
        page, _, name = address.removeprefix("../").partition("#")
        html = (site / page).read_text()
        block = html.partition(f'<div class="viewcode-block" id="{name}">')[2]
        module = entry.functions["check"].__module__
        assert f'chapters/ledger.html#{module}.{name}"' in block[:200]


def test_the_errata_have_every_printed_form_by_its_text_and_gravity(errata):
    entries = errata.select(".erratum")
    printed = [entry for entry in CLAIMS if entry.printed]
    assert sorted(e["id"] for e in entries) == sorted(
        f"errata-{entry.id}" for entry in printed
    )
    heads = {"wrong": "Wrong", "misprint": "Misprints"}
    for entry in printed:
        section = errata.find(id=f"errata-{entry.id}").find_parent("section")
        expected = heads.get(pages.gravity(entry))
        if expected:
            assert section.h3.text.startswith(expected)


def test_the_table_of_the_errata_counts_its_entries(errata):
    rows = [row.find_all("td") for row in errata.table.select("tbody tr")]
    numbers = [[int(cell.text or 0) for cell in row[1:]] for row in rows]
    assert numbers[-1] == [sum(column) for column in zip(*numbers[:-1])]
    assert sum(numbers[-1]) == len(errata.select(".erratum"))


def test_no_code_of_the_errata_is_in_the_open(errata):
    assert [
        block
        for block in errata.select(".highlight")
        if not block.find_parent("details")
    ] == []


@pytest.mark.parametrize(
    ("name", "letter"), [("errata", "E"), ("background", "B"), ("reproductions", "R")]
)
def test_a_page_that_is_no_chapter_counts_by_itself_with_a_letter(site, name, letter):
    page = BeautifulSoup((site / f"chapters/{name}.html").read_text(), "html.parser")
    for kind in (".proof .caption-number", "figcaption .caption-number"):
        found = [re.findall(r"\w\.\d+", each.text) for each in page.select(kind)]
        numbers = [each[0] for each in found if each]
        expected = [f"{letter}.{place}" for place in range(1, len(numbers) + 1)]
        assert numbers == expected


def test_a_part_of_the_errata_without_a_statement_is_not_shown(errata):
    parts = [head for head in errata.select("h3") if "From chapter" in head.text]
    assert all(part.find_parent("section").select(".proof") for part in parts)
    assert bool(parts) is bool(errata.find(id="errata-statements"))


def test_the_ledger_stores_the_numbers_of_its_run_for_the_boxes():
    page = nbformat.read(ROOT / "chapters/ledger.ipynb", as_version=4)
    (cell,) = [c for c in code_cells(page) if "pages.record" in c.source]
    assert cell.metadata.tags == ["remove-cell"]


# The first page.


@pytest.fixture(scope="module")
def first(site):
    return BeautifulSoup((site / "index.html").read_text(), "html.parser")


def test_every_chapter_has_a_card_with_its_title_its_question_and_a_sketch(first):
    files = sorted((ROOT / "chapters").glob("[0-9][0-9]-*.ipynb"))
    cards = first.select(".chapter-card")
    assert len(cards) == len(files)
    for card, path in zip(cards, files):
        cells = nbformat.read(path, as_version=4).cells
        title = next(c for c in cells if c.cell_type == "markdown").source
        title = title.partition("\n")[0].removeprefix("# ")
        assert card.a["href"] == f"chapters/{path.stem}.html"
        assert card.a.text == f"{path.name[:2]} {title}"
        assert card.svg.find_all(["polyline", "circle"])
        assert card.text.strip().endswith("?")


def test_three_doors_lead_to_practice_to_the_theory_and_to_teaching(first):
    doors = first.select(".door")
    links = [[a["href"].partition("#")[0] for a in d.find_all("a")] for d in doors]
    assert [found[0] for found in links] == [
        "chapters/04-inference.html",
        "chapters/01-covariate-shift.html",
        "chapters/syllabus.html",
    ]
    assert "chapters/15-practice.html" in links[0]


def test_the_hours_of_the_paths_are_those_of_the_syllabus(first, site):
    syllabus = (site / "chapters/syllabus.html").read_text()
    told = BeautifulSoup(syllabus, "html.parser").get_text()
    for path, door in zip(("practice", "theory"), first.select(".door")):
        exact = float(re.search(rf"The {path} path: \d+ chapters, ([\d.]+)", told)[1])
        hours = int(re.search(r"about (\d+) hours", " ".join(door.text.split()))[1])
        assert abs(hours - exact) <= 0.55


def test_the_first_page_and_the_ledger_tell_the_same_numbers_and_none_is_ours_as_wrong(
    first, ledger, errata
):
    text = " ".join(first.get_text().split())
    total, corrected = re.search(
        r"makes (\d+) numbered claims, and all of them hold.*?(\d+) of the claims "
        r"correct or complete something that other texts print",
        text,
    ).groups()
    assert int(total) == len(ledger.select(".ledger-row")) == len(CLAIMS)
    assert int(corrected) == len(errata.select(".erratum"))
    assert "verdict" not in text.lower()


def test_the_first_page_has_no_commands_and_says_what_it_is_for(first):
    text = " ".join(first.get_text().split())
    assert "make book" not in text
    assert "proposed in 2015" in text
    assert re.search(r"(\d+) train without it and (\d+) with it", text)


# The bibliography and the notation.


def test_a_work_names_all_the_pages_that_cite_it_and_no_other(site):
    page = site / "chapters/bibliography.html"
    works = BeautifulSoup(page.read_text(), "html.parser").select("div.citation")
    assert len(works) > 40
    others = [site / "intro.html", *(site / "chapters").glob("*.html")]
    texts = {path: path.read_text() for path in others if path != page}
    for work in works:
        told = {(page.parent / a["href"]).resolve() for a in work.select(".cited-in a")}
        address = f'bibliography.html#{work["id"]}"'
        assert told == {path for path, text in texts.items() if address in text}


def test_each_letter_of_the_notation_leads_to_where_it_comes_first(site):
    page = (site / "chapters/notation.html").read_text()
    rows = BeautifulSoup(page, "html.parser").select(".symbols tbody tr")
    assert len(rows) > 50
    for row in rows:
        assert row.find_all("td")[2].a, row.text
