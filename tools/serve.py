"""Show the built site on this machine alone: ``python -m tools.serve PORT``."""

import re
import sys
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent / "_build/html"
#: The path of the published site, as the links of the 404 page give it.
TOP = re.compile(r'href="(/[^"]*?)_static/')


class Handler(SimpleHTTPRequestHandler):
    """Serve a folder, and its ``404.html`` in place of a missing page.

    The links of ``404.html`` start at the path where the site is published, so that
    path leads to the folder too.
    """

    def translate_path(self, path):
        page = Path(self.directory) / "404.html"
        top = TOP.search(page.read_text(encoding="utf-8")) if page.is_file() else None
        if top and path.startswith(top[1]):
            path = path.removeprefix(top[1][:-1])
        return super().translate_path(path)

    def send_error(self, code, message=None, explain=None):
        page = Path(self.directory) / "404.html"
        if code != HTTPStatus.NOT_FOUND or not page.is_file():
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main(arguments=None):
    """Serve until interrupted; return 1 if that is not possible."""
    arguments = sys.argv[1:] if arguments is None else arguments
    port = int(arguments[0]) if arguments and arguments[0].isdecimal() else -1
    if not 0 <= port <= 65535:
        print("give a port from 0 to 65535: make serve PORT=8000", file=sys.stderr)
        return 1
    if not (SITE / "index.html").is_file():
        print("there is no site yet: make book", file=sys.stderr)
        return 1
    handler = partial(Handler, directory=str(SITE))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        other = f"make serve PORT={port % 65535 + 1}"
        print(
            f"port {port} cannot be used ({error.strerror}): {other}", file=sys.stderr
        )
        return 1
    with server:
        print(f"http://127.0.0.1:{server.server_address[1]} (Ctrl-C ends)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
