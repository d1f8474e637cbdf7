"""What the tests of the website in a browser share.

The pages are listed at collection. Without a site the list has one page, whose test
fails and says what to do. The pages of the package's source are alike: one stands for
all, and test_site reads the others. The first page is there twice: as index.html too.
"""

from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe

from tools import browser, build

DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 780}
# With preload, axe asks the server for style sheets of its own. Only violations are
# asked for, since listing what passes takes a third of the time.
AXE = {"preload": False, "resultTypes": ["violations"]}
WCAG = AXE | {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
#: On the same page another theme changes only the colours.
CONTRAST = AXE | {"runOnly": ["color-contrast"]}

SITE = build.ROOT / "_build/html"
SOURCE_PAGE = "_modules/bnlib/transform.html"
CHAPTER = "chapters/02-transform.html"
PAGES = sorted(
    name
    for path in SITE.rglob("*.html")
    if not (name := path.relative_to(SITE).as_posix()).startswith(("_static/", "intro"))
    and (name == SOURCE_PAGE or not name.startswith("_modules/"))
) or ["index.html"]


@contextmanager
def launched():
    """Yield a browser, or skip the test if there is none."""
    try:
        with browser.launched() as chromium:
            yield chromium
    except FileNotFoundError as error:
        pytest.skip(f"{error}: the website was not opened")


class Visit:
    """One page opened once, with all that the browser complained about."""

    def __init__(self, browser, address, name, viewport=DESKTOP, **context):
        self.context = browser.new_context(viewport=viewport, **context)
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


def accessibility_faults(page, options=WCAG):
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{fault['id']}: {node['html'][:200]}\n{node['failureSummary']}"
        for fault in found
        for node in fault["nodes"]
    ]
