"""The website by keyboard alone."""

import pytest
from browsing import CHAPTER, DESKTOP, PAGES, PHONE, Visit

pytestmark = pytest.mark.every_light

#: More stops than any page has.
MANY = 3000
FOCUSED = """
() => {
    const element = document.activeElement;
    if (element === document.body) return null;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return {
        name: element.outerHTML.slice(0, 120),
        region: element.closest("#pst-skip-link") ? "skip link"
            : element.closest(".search-button, .search-button-field") ? "search"
            : element.closest(".theme-switch-button") ? "theme switch"
            : element.closest(".bd-sidebar-primary") ? "sidebar"
            : element.closest(".copybtn") ? "copy button"
            : element.closest("article") ? "content" : "other",
        shown: box.width > 0 && box.height > 0
            && box.left < innerWidth && box.right > 0
            && element.checkVisibility({
                opacityProperty: true, visibilityProperty: true,
            })
            && (parseFloat(style.outlineWidth) > 0 && style.outlineStyle !== "none"
                || style.boxShadow !== "none"),
    };
}
"""
#: Number each thing that folds, and say whether it is open and can be read.
FOLDS = """
() => [...document.querySelectorAll("summary, .toggle-button")].map((key, i) => {
    key.dataset.fold = i;
    return i;
})
"""
FOLD = """
i => {
    const key = document.querySelector(`[data-fold="${i}"]`);
    const box = key.closest("details, .toggle");
    const content = box.matches("details") ? key.nextElementSibling
        : box.querySelector(".admonition-title").nextElementSibling;
    const open = box.matches("details") ? box.open
        : key.getAttribute("aria-expanded") === "true";
    const read = content.checkVisibility({
        opacityProperty: true, visibilityProperty: true,
    });
    return { open, read };
}
"""


INSIDE = "node => node.contains(document.activeElement)"


def tab_through(page, stops=MANY):
    """Press the tab key and note what has the focus, until the page's end."""
    for _ in range(stops):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused is None:
            return
        yield focused


@pytest.mark.parametrize("name", PAGES)
def test_the_tab_key_goes_through_a_page_and_shows_where_it_is(browser, address, name):
    with Visit(browser, address, name, reduced_motion="reduce") as visit:
        stops = list(tab_through(visit.page))
    assert len(stops) < MANY, "the focus never leaves the page"
    assert [stop["name"] for stop in stops if not stop["shown"]] == []
    assert stops[0]["region"] == "skip link"
    regions = {stop["region"] for stop in stops}
    assert {"search", "sidebar", "theme switch"} <= regions


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_tab_key_reaches_a_chapters_content(browser, address, viewport):
    still = {"viewport": viewport, "reduced_motion": "reduce"}
    with Visit(browser, address, CHAPTER, **still) as visit:
        stops = list(tab_through(visit.page))
    assert {"content", "copy button"} <= {stop["region"] for stop in stops}
    # A phone's sidebars are closed, so the tab key skips them.
    assert [stop["name"] for stop in stops if not stop["shown"]] == []


def test_the_skip_link_leads_past_the_sidebar(browser, address):
    with Visit(browser, address, CHAPTER) as visit:
        visit.page.keyboard.press("Tab")
        visit.page.keyboard.press("Enter")
        regions = [stop["region"] for stop in tab_through(visit.page, 5)]
    assert "sidebar" not in regions


@pytest.mark.parametrize("name", PAGES)
def test_what_is_folded_opens_and_closes(browser, address, name):
    with Visit(browser, address, name, reduced_motion="reduce") as visit:
        for fold in visit.page.evaluate(FOLDS):
            visit.page.locator(f"[data-fold='{fold}']").focus()
            seen = [visit.page.evaluate(FOLD, fold)]
            for key in ("Enter", "Space", "Space", "Enter"):
                visit.page.keyboard.press(key)
                seen.append(visit.page.evaluate(FOLD, fold))
            shut, opened = {"open": False, "read": False}, {"open": True, "read": True}
            assert seen == [shut, opened, shut, opened, shut], fold


def test_a_folded_solutions_links_are_reached_once_it_is_open(browser, address):
    with Visit(browser, address, CHAPTER, reduced_motion="reduce") as visit:
        solution = visit.page.locator(".solution:has(.copybtn)").first
        button = solution.locator(".toggle-button")
        seen = []
        for _ in range(2):
            button.focus()
            list(tab_through(visit.page, 1))
            seen.append(solution.evaluate(INSIDE))
            button.focus()
            visit.page.keyboard.press("Enter")
    assert seen == [False, True]


@pytest.mark.parametrize("opener", [".search-button-field", "Control+k"])
def test_the_search_opens_closes_and_gives_the_focus_back(browser, address, opener):
    with Visit(browser, address, CHAPTER) as visit:
        page = visit.page
        dialog = page.locator(".search-button__wrapper")
        before = page.locator(".search-button-field:visible")
        before.focus()
        page.keyboard.press("Enter" if opener.startswith(".") else opener)
        assert dialog.locator("input").is_visible()
        assert dialog.evaluate(INSIDE)
        page.keyboard.press("Escape")
        assert not dialog.locator("input").is_visible()
        assert before.evaluate("node => node === document.activeElement")


def test_the_search_closes_when_the_focus_goes_on(browser, address):
    with Visit(browser, address, CHAPTER) as visit:
        visit.page.keyboard.press("Control+k")
        visit.page.keyboard.press("Tab")
        dialog = visit.page.locator(".search-button__wrapper input")
        assert not dialog.is_visible()
        assert visit.page.evaluate(FOCUSED)["shown"]


def test_the_search_goes_to_the_results(browser, address):
    with Visit(browser, address, CHAPTER) as visit:
        visit.page.keyboard.press("Control+k")
        visit.page.keyboard.type("variance")
        visit.page.keyboard.press("Enter")
        visit.page.locator("#search-results li a").first.wait_for(timeout=30_000)


@pytest.mark.parametrize("side", ["primary", "secondary"])
def test_a_phones_sidebars_open_and_close(browser, address, side):
    still = {"viewport": PHONE, "reduced_motion": "reduce"}
    with Visit(browser, address, CHAPTER, **still) as visit:
        toggle = visit.page.locator(f".{side}-toggle:visible")
        link = visit.page.locator(f".bd-sidebar-{side} a").first
        inside = f"() => document.activeElement.closest('.bd-sidebar-{side}') !== null"
        toggle.focus()
        visit.page.keyboard.press("Enter")
        visit.page.wait_for_function(inside)
        assert link.is_visible()
        visit.page.keyboard.press("Escape")
        assert toggle.evaluate("node => node === document.activeElement")
        link.wait_for(state="hidden")


def test_a_cells_code_is_copied(browser, address):
    permissions = ["clipboard-read", "clipboard-write"]
    with Visit(browser, address, CHAPTER, permissions=permissions) as visit:
        cell = visit.page.locator("div.highlight", has=visit.page.locator(".copybtn"))
        cell.first.locator(".copybtn").focus()
        visit.page.keyboard.press("Enter")
        copied = visit.page.evaluate("() => navigator.clipboard.readText()")
        assert copied == cell.first.locator("pre").inner_text().rstrip("\n")


def test_the_theme_switches(browser, address):
    with Visit(browser, address, "index.html", color_scheme="light") as visit:
        html = visit.page.locator("html")
        visit.page.locator(".theme-switch-button:visible").first.focus()
        seen = []
        for _ in range(3):
            visit.page.keyboard.press("Enter")
            seen.append(html.get_attribute("data-theme"))
    assert set(seen) == {"light", "dark"}
