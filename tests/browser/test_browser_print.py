"""The website on paper: what a browser lays out for print, and a PDF of it."""

import pytest
from browsing import CHAPTER, PAGES, Visit

pytestmark = pytest.mark.every_light

#: A4 within the margins of print.css, in CSS pixels (96 an inch).
PAPER = {"width": int((210 - 2 * 16) / 25.4 * 96), "height": 980}
#: The maths for screen readers takes room although it is out of sight.
NO_MATHS_FOR_SCREEN_READERS = "mjx-assistive-mml { display: none !important; }"
BUTTONS = """
() => [...document.querySelectorAll(
    "button, input, select, .headerlink, .bd-sidebar-primary, .bd-sidebar-secondary, "
    + ".bd-header, .bd-header-article, .prev-next-footer, .bd-footer"
)].filter(element => element.checkVisibility({ visibilityProperty: true }))
    .filter(element => element.getBoundingClientRect().width > 1)
    .map(element => element.outerHTML.slice(0, 120))
"""
FOLDED = """
() => [...document.querySelectorAll("details > :not(summary), .toggle > *")]
    .filter(element => element.textContent.trim()
        && !element.matches("script, style"))
    .filter(element => !element.checkVisibility({
            opacityProperty: true, visibilityProperty: true,
        }) || element.getBoundingClientRect().height < 4)
    .map(element => element.outerHTML.slice(0, 120))
"""
# Each box must end within the paper and show all that it holds.
CUT_OFF = """
() => [...document.querySelectorAll("main *")].filter(element => {
    if (element.closest("svg") || !element.checkVisibility()) {
        return false;
    }
    const box = element.getBoundingClientRect();
    const { overflowX } = getComputedStyle(element);
    return box.right > innerWidth + 1 && box.width > 1
        || overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1
            && element.clientWidth > 1;
}).map(element => element.outerHTML.slice(0, 120))
"""
# Tinted boxes are as light as paper; ink would drown the text of darker ones.
DARK = r"""
() => [...document.querySelectorAll("html, body, main, main *")].filter(element => {
    if (!element.checkVisibility() || element.closest("svg, img")) return false;
    const color = getComputedStyle(element).backgroundColor;
    const [r, g, b, alpha = 1] = color.match(/[\d.]+/g).map(Number);
    const scale = color.startsWith("color(") ? 255 : 1;
    return alpha > 0.2 && Math.min(r, g, b) * scale < 160;
}).map(element => element.outerHTML.slice(0, 120))
"""
SPLIT = """
() => [...document.querySelectorAll("main img, .cell pre, mjx-container[display]")]
    .filter(element => element.checkVisibility())
    .filter(element => getComputedStyle(element).breakInside !== "avoid"
        || element.getBoundingClientRect().height > innerHeight)
    .map(element => element.outerHTML.slice(0, 120))
"""


@pytest.mark.parametrize("name", PAGES)
def test_a_dark_page_prints_light_unfolded_and_whole(browser, address, name):
    dark = {"viewport": PAPER, "color_scheme": "dark"}
    with Visit(browser, address, name, **dark) as visit:
        visit.page.emulate_media(media="print")
        # The maths for screen readers takes room out of sight.
        visit.page.add_style_tag(
            content="mjx-assistive-mml { display: none !important; }"
        )
        assert visit.page.evaluate(BUTTONS) == []
        assert visit.page.evaluate(FOLDED) == []
        assert visit.page.evaluate(CUT_OFF) == []
        assert visit.page.evaluate(DARK) == []
        assert visit.page.evaluate(SPLIT) == []
        assert visit.complaints == []


def test_after_printing_a_page_is_as_it_was(browser, address):
    note = """() => addEventListener("beforeprint", () => {
        window.printed = {
            theme: document.documentElement.dataset.theme,
            folded: document.querySelectorAll("details:not([open])").length,
        };
    })"""
    state = """() => ({
        theme: document.documentElement.dataset.theme,
        folded: document.querySelectorAll("details:not([open])").length,
        shut: document.querySelectorAll(".toggle-hidden").length,
    })"""
    with Visit(browser, address, CHAPTER, color_scheme="dark") as visit:
        visit.page.evaluate(note)
        before = visit.page.evaluate(state)
        assert before["theme"] == "dark"
        assert before["folded"] > 0
        pdf = visit.page.pdf(prefer_css_page_size=True)
        assert visit.page.evaluate("() => window.printed") == {
            "theme": "light",
            "folded": 0,
        }
        assert visit.page.evaluate(state) == before
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") > 5
