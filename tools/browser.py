"""Start a headless Chromium and a local server, to print the site and to test it."""

import shutil
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from playwright.sync_api import sync_playwright

from tools import serve

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

#: The running browser, if any: Playwright cannot start two in a process.
_running = []


class QuietHandler(serve.Handler):
    """A server that reports nothing."""

    def log_message(self, *args):
        pass


@contextmanager
def served(site):
    """Serve a folder on this machine alone, and yield its address."""
    handler = partial(QuietHandler, directory=str(site))
    with serve.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def launched():
    """Yield a browser: the one that runs already, or a new one.

    Raises FileNotFoundError if none is installed.
    """
    if _running:
        yield _running[0]
        return
    with sync_playwright() as playwright:
        installed = [path for name in NAMES if (path := shutil.which(name))]
        own = playwright.chromium.executable_path
        if not installed and not Path(own).is_file():
            raise FileNotFoundError(
                f"no Chromium on this machine: install it, as one of {', '.join(NAMES)}"
            )
        browser = playwright.chromium.launch(
            executable_path=installed[0] if installed else own, args=FLAGS
        )
        _running.append(browser)
        try:
            yield browser
        finally:
            _running.clear()
            browser.close()
