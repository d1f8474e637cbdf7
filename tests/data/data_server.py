"""What the tests of downloads share: a server on this machine, and a small table.

Run as a script it is `python -m bnlib.data fetch power_plant` with the table in that
data set's place; its arguments are the addresses to fetch it from.
"""

import hashlib
import http.server
import signal
import sys
import threading

import numpy as np

from bnlib.data import __main__ as command_line, _sets
from bnlib.data._files import DataFile, Route

#: Eight rows of five numbers, long enough to be cut in the middle.
TABLE = "".join(
    f"{row}\t{row / 4}\t{row * row}\t-{row}\t{'1' * 9}.5\n" for row in range(1, 9)
).encode()
PATH = "uci/power-plant.txt"


class Server(http.server.ThreadingHTTPServer):
    """Answers each path as `answers` says, and notes what it was asked for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = {}
        self.asked = []

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}{path}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.server.answers.get(self.path, refuse)(self)

    def log_message(self, *words):
        pass


def _head(handler, length, encoding=None):
    handler.send_response(200)
    handler.send_header("Content-Length", str(length))
    if encoding:
        handler.send_header("Content-Encoding", encoding)
    handler.end_headers()


def refuse(handler):
    handler.send_error(404)


def give(content, encoding=None):
    """Answer with all of the content."""

    def answer(handler):
        _head(handler, len(content), encoding)
        handler.wfile.write(content)

    return answer


def give_half(content, gate=None):
    """Answer with half, and hang up; with a gate, wait there and give the rest."""

    def answer(handler):
        _head(handler, len(content))
        handler.wfile.write(content[: len(content) // 2])
        if gate is not None:
            gate.wait(30)
            try:
                handler.wfile.write(content[len(content) // 2 :])
            except OSError:
                # The client has gone.
                handler.close_connection = True

    return answer


def stand_in(urls):
    """A source of the table, for the data set power_plant."""
    file = DataFile(PATH, hashlib.sha256(TABLE).hexdigest(), tuple(urls))
    return _sets._fetched("power_plant", "2014", Route((file,), _sets._power_plant))


if __name__ == "__main__":
    # A process that is started in the background may have been told to ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _sets.SOURCES["power_plant"] = stand_in(sys.argv[1:])
    print("asking", flush=True)
    sys.exit(command_line.main(["fetch", "power_plant"]))


def sorted_rows(dataset):
    """List the rows of both parts, each with its target at the end, in order."""
    parts = np.vstack(
        [
            np.column_stack([dataset.x_train, dataset.y_train]),
            np.column_stack([dataset.x_test, dataset.y_test]),
        ]
    )
    return sorted(map(tuple, parts))
