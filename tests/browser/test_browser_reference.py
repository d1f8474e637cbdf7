"""The ledger's filter, and the rows that links lead to."""

import pytest
from browsing import PHONE, Visit

from bnlib.claims import all_claims

LEDGER = "chapters/ledger.html"
CLAIMS = all_claims()


def shown(page):
    return page.eval_on_selector_all(
        ".ledger-row",
        "rows => rows.filter(row => row.checkVisibility())"
        ".map(row => row.id.replace('ledger-', ''))",
    )


def chosen(**fields):
    return [
        entry.id
        for entry in CLAIMS
        if all(getattr(entry, name) == value for name, value in fields.items())
    ]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("chapter", "02", chosen(chapter="02-transform")),
        ("kind", "empirical", chosen(kind="empirical")),
        ("print", "misprint", chosen(verdict="misprint")),
        ("print", "corrected", [entry.id for entry in CLAIMS if entry.printed]),
    ],
)
def test_the_ledger_shows_the_rows_that_are_asked_for(
    browser, address, name, value, expected
):
    with Visit(browser, address, LEDGER) as visit:
        assert shown(visit.page) == [entry.id for entry in CLAIMS]
        visit.page.select_option(f"#ledger-filter [name={name}]", value)
        assert shown(visit.page) == expected
        count = visit.page.locator("#ledger-filter output").inner_text()
        assert count == f"{len(expected)} of {len(CLAIMS)} claims"
        # A heading without a row goes too.
        heads = visit.page.locator("section[id^=chapter-] h2, section h2")
        assert heads.count() > 5
        assert visit.complaints == []


def test_the_ledger_finds_words_and_ids_together_with_a_chapter(browser, address):
    with Visit(browser, address, LEDGER) as visit:
        visit.page.fill("#ledger-filter [name=text]", "bn-range")
        assert shown(visit.page) == ["bn-range", "bn-range-beta"]
        visit.page.select_option("#ledger-filter [name=chapter]", "03")
        assert shown(visit.page) == []


def test_an_address_can_ask_for_rows_and_for_one_row(browser, address):
    with Visit(browser, address, f"{LEDGER}?print=misprint") as visit:
        assert shown(visit.page) == chosen(verdict="misprint")
        visit.page.evaluate("location.hash = 'ledger-bn-range'")
        visit.page.locator("#ledger-bn-range").wait_for(state="visible")
        assert len(shown(visit.page)) == len(CLAIMS)


def test_without_scripts_all_rows_are_there_and_no_form(browser, address):
    with Visit(browser, address, LEDGER, java_script_enabled=False) as visit:
        assert visit.page.locator("#ledger-bn-range").is_visible()
        assert not visit.page.locator("#ledger-filter").is_visible()


def test_rows_are_cards_on_a_phone(browser, address):
    with Visit(browser, address, LEDGER, PHONE) as visit:
        parts = visit.page.locator("#ledger-bn-range > div")
        boxes = [parts.nth(n).bounding_box() for n in range(3)]
        assert [box["x"] for box in boxes] == [boxes[0]["x"]] * 3
        assert boxes[0]["y"] < boxes[1]["y"] < boxes[2]["y"]


def test_on_a_phone_the_first_screen_has_the_figure_of_the_book(browser, address):
    size = {"width": 390, "height": 844}
    with Visit(browser, address, "index.html", size) as visit:
        figure = visit.page.locator("#fig-bowl-fan").first
        picture = figure.locator("img, svg").first.bounding_box()
        assert picture["y"] + picture["height"] < size["height"]
        assert picture["width"] > 250


def test_the_whole_of_a_card_leads_to_its_chapter(browser, address):
    with Visit(browser, address, "index.html") as visit:
        visit.page.locator(".chapter-card").nth(1).click(position={"x": 8, "y": 8})
        visit.page.wait_for_url("**/chapters/02-transform.html")
