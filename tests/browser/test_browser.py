"""The website as a reader's browser shows it, in headless Chromium.

`make test` opens every page once, in daylight; `make check-site` adds the dark
theme and a phone, and the tests by keyboard and on paper.
"""

import pytest
from browsing import CHAPTER, CONTRAST, PAGES, PHONE, Visit, accessibility_faults

MATHS_NOT_TYPESET = """
() => [...document.querySelectorAll("span.math, div.math")]
    .filter(node => !node.querySelector("mjx-container"))
    .map(node => node.textContent.slice(0, 80))
"""
# An unknown command is no error to MathJax: it shows the command's name.
MATHS_IN_ERROR = r"""
() => [...document.querySelectorAll("mjx-container")]
    .filter(node => node.querySelector("mjx-merror, [data-mjx-error], merror")
        || [...node.querySelectorAll("mjx-assistive-mml mtext")]
            .some(text => text.textContent.startsWith("\\")))
    .map(node => node.closest(".math, .output_area, p")?.textContent.slice(0, 80))
"""
IS_DARK = r"""
() => {
    const canvas = [document.body, document.documentElement]
        .map(element => getComputedStyle(element).backgroundColor)
        .find(color => color !== "rgba(0, 0, 0, 0)") ?? "rgb(255, 255, 255)";
    return canvas.match(/\d+/g).slice(0, 3).every(part => part < 64);
}
"""
# Elements beyond the right edge of the screen that no scrolling brings into view.
OUT_OF_REACH = """
() => [...document.querySelectorAll("main *")].filter(element => {
    const box = element.getBoundingClientRect();
    if (box.right <= innerWidth + 1 || !element.checkVisibility()) return false;
    for (let over = element; over; over = over.parentElement) {
        const { overflowX, position } = getComputedStyle(over);
        if (["auto", "scroll"].includes(overflowX)) return false;
        // Text for screen readers is out of sight on purpose.
        if (position === "absolute" && over.clientWidth <= 1) return false;
        if (over.tagName === "MJX-ASSISTIVE-MML") return false;
    }
    return true;
}).map(element => element.outerHTML.slice(0, 120))
"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_whole_silent_and_accessible(browser, address, name):
    with Visit(browser, address, name, color_scheme="light") as visit:
        assert visit.page.evaluate(MATHS_NOT_TYPESET) == []
        assert visit.page.evaluate(MATHS_IN_ERROR) == []
        assert accessibility_faults(visit.page) == []
        assert visit.complaints == []


def test_the_search_finds_a_chapter(browser, address):
    with Visit(browser, address, "search.html?q=normalization") as visit:
        chapter = "#search-results li a[href*='chapters/02-transform.html']"
        visit.page.locator(chapter).first.wait_for(timeout=30_000)
        assert visit.complaints == []


def test_an_address_without_a_page_leads_to_one(browser, address):
    with Visit(browser, address, "chapters/old/no-page.html") as visit:
        link = visit.page.get_by_role("link", name="2. The transform")
        assert visit.page.title().startswith("Page not found")
        assert visit.page.get_by_role("heading", name="no page here").is_visible()
        # The browser tells of the status 404, and of nothing else.
        assert all("404" in complaint for complaint in visit.complaints)
        link.click()
        assert visit.page.url == f"{address}/{CHAPTER}"
        visit.page.go_back()
        visit.page.keyboard.press("Control+k")
        visit.page.keyboard.type("variance")
        visit.page.keyboard.press("Enter")
        visit.page.locator("#search-results li a").first.wait_for(timeout=30_000)


@pytest.mark.every_light
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_in_the_dark(browser, address, name):
    # Without motion: the theme's buttons fade from one colour to the other.
    dark = {"color_scheme": "dark", "reduced_motion": "reduce"}
    with Visit(browser, address, name, **dark) as visit:
        assert visit.page.evaluate(IS_DARK)
        assert accessibility_faults(visit.page, CONTRAST) == []
        assert visit.complaints == []


@pytest.mark.every_light
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone_by_day_and_night(browser, address, name):
    phone = {"viewport": PHONE, "has_touch": True, "reduced_motion": "reduce"}
    with Visit(browser, address, name, **phone, color_scheme="light") as visit:
        width = visit.page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= PHONE["width"]
        assert visit.page.evaluate(OUT_OF_REACH) == []
        visit.page.emulate_media(color_scheme="dark")
        visit.page.wait_for_function(IS_DARK)
        # What scrolls sideways must do so by keyboard too.
        assert accessibility_faults(visit.page) == []
        assert visit.complaints == []


@pytest.mark.every_light
def test_the_dark_that_a_reader_chose_is_kept_where_no_page_is(browser, address):
    with Visit(browser, address, "index.html", color_scheme="light") as visit:
        visit.page.evaluate("() => localStorage.setItem('mode', 'dark')")
        visit.page.goto(f"{address}/404.html")
        assert visit.page.evaluate(IS_DARK)


@pytest.mark.every_light
@pytest.mark.parametrize("name", [CHAPTER])
def test_nothing_moves_for_those_who_asked_for_it(browser, address, name):
    moving = """() => [...document.querySelectorAll("*")].filter(element => {
        const style = getComputedStyle(element);
        return style.scrollBehavior === "smooth"
            || [style.transitionDuration, style.animationDuration]
                .some((time, i) => parseFloat(time) > 0
                    && [style.transitionProperty, style.animationName][i] !== "none");
    }).length"""
    with Visit(browser, address, name) as visit:
        assert visit.page.evaluate(moving) > 0
        visit.page.emulate_media(reduced_motion="reduce")
        assert visit.page.evaluate(moving) == 0
