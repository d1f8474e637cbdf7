"""Show the built site on this machine alone: ``python -m tools.serve PORT``."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent / "_build/html"


def main(arguments=None):
    """Serve until interrupted; return 1 where that is not possible."""
    arguments = sys.argv[1:] if arguments is None else arguments
    port = int(arguments[0]) if arguments and arguments[0].isdecimal() else -1
    if not 0 <= port <= 65535:
        print("give a port from 0 to 65535: make serve PORT=8000", file=sys.stderr)
        return 1
    if not (SITE / "index.html").is_file():
        print("there is no site yet: make book", file=sys.stderr)
        return 1
    handler = partial(SimpleHTTPRequestHandler, directory=str(SITE))
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
