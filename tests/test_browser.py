"""The website as a reader's browser shows it, in headless Chromium.

`make test` opens every page once, in daylight; `make check-site` adds the dark
theme, a phone and the keyboard.
"""

import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from tools import build

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
# With preload, axe asks the server for style sheets of its own.
WCAG = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "preload": False}

# Read at collection. With no site there is one page, and its test fails with
# what to do. The pages of the package's source are alike: one stands for all,
# and test_site reads the others.
SITE = build.ROOT / "_build/html"
SOURCE_PAGE = "_modules/bnlib/transform.html"
PAGES = sorted(
    name
    for path in SITE.rglob("*.html")
    if not (name := path.relative_to(SITE).as_posix()).startswith("_static/")
    and (name == SOURCE_PAGE or not name.startswith("_modules/"))
) or ["index.html"]

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
FOCUSED = """
() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return {
        name: element.id || element.className || element.textContent.trim(),
        region: element.closest("#pst-skip-link") ? "skip link"
            : element.closest(".search-button, .search-button-field") ? "search"
            : element.closest(".theme-switch-button") ? "theme switch"
            : element.closest(".bd-sidebar-primary") ? "sidebar"
            : element.closest("article") ? "content" : "other",
        shown: box.width > 0 && box.height > 0
            && (parseFloat(style.outlineWidth) > 0 && style.outlineStyle !== "none"
                || style.boxShadow !== "none"),
    };
}
"""


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address(site):
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        installed = [path for name in CHROMIUM_NAMES if (path := shutil.which(name))]
        own = playwright.chromium.executable_path
        if not installed and not Path(own).is_file():
            pytest.skip("no Chromium on this machine: the website was not opened")
        browser = playwright.chromium.launch(
            executable_path=installed[0] if installed else own,
            args=CHROMIUM_FLAGS,
        )
        yield browser
        browser.close()


class Visit:
    """One page opened once, with all that the browser complained about."""

    def __init__(self, browser, address, name, **context):
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        # A busy machine is no fault of the page.
        self.page.set_default_timeout(120_000)
        self.complaints = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self._add(f"page error: {error}"))
        self.page.on("request", lambda request: self._request(request, address))
        self.page.on("requestfailed", lambda r: self._add(f"failed: {r.url}"))
        self.page.on("response", self._response)
        self.page.goto(f"{address}/{name}")
        self.page.evaluate("() => window.MathJax?.startup?.promise")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def _add(self, complaint):
        self.complaints.append(complaint)

    def _console(self, message):
        if message.type in ("error", "warning"):
            self._add(f"console {message.type}: {message.text}")

    def _request(self, request, address):
        if not request.url.startswith((address, "data:", "blob:")):
            self._add(f"request to another host: {request.url}")

    def _response(self, response):
        if response.status >= 400:
            self._add(f"status {response.status}: {response.url}")


def accessibility_faults(page):
    found = Axe().run(page, options=WCAG).response["violations"]
    return [
        f"{fault['id']}: {node['html'][:200]}\n{node['failureSummary']}"
        for fault in found
        for node in fault["nodes"]
    ]


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


@pytest.mark.every_light
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_in_the_dark(browser, address, name):
    with Visit(browser, address, name, color_scheme="dark") as visit:
        assert visit.page.locator("html").get_attribute("data-theme") == "dark"
        assert accessibility_faults(visit.page) == []
        assert visit.complaints == []


@pytest.mark.every_light
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(browser, address, name):
    with Visit(browser, address, name, **PHONE) as visit:
        width = visit.page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= PHONE["viewport"]["width"]
        # What scrolls sideways must do so by keyboard too.
        assert accessibility_faults(visit.page) == []
        assert visit.complaints == []


def tab_through(page, stops):
    """Press the tab key and note what has the focus, until the page's end."""
    for _ in range(stops):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement === document.body"):
            return
        yield page.evaluate(FOCUSED)


@pytest.mark.every_light
def test_the_tab_key_reaches_every_region_and_shows_where_it_is(browser, address):
    with Visit(browser, address, "chapters/02-transform.html") as visit:
        stops = list(tab_through(visit.page, 200))
    assert stops[0]["region"] == "skip link"
    regions = {stop["region"] for stop in stops}
    assert {"search", "sidebar", "theme switch", "content"} <= regions
    assert [stop["name"] for stop in stops if not stop["shown"]] == []


@pytest.mark.every_light
def test_the_skip_link_leads_past_the_sidebar(browser, address):
    with Visit(browser, address, "chapters/02-transform.html") as visit:
        visit.page.keyboard.press("Tab")
        visit.page.keyboard.press("Enter")
        regions = [stop["region"] for stop in tab_through(visit.page, 5)]
    assert "sidebar" not in regions


@pytest.mark.every_light
def test_the_theme_switches_by_keyboard(browser, address):
    with Visit(browser, address, "index.html", color_scheme="light") as visit:
        html = visit.page.locator("html")
        visit.page.locator(".theme-switch-button:visible").first.focus()
        seen = []
        for _ in range(3):
            visit.page.keyboard.press("Enter")
            seen.append(html.get_attribute("data-theme"))
    assert set(seen) == {"light", "dark"}
