"""`make serve`: what it serves, and what it says if it cannot."""

import socket
import threading
from functools import partial
from http import HTTPStatus

import pytest

from tools import serve


@pytest.fixture
def site(tmp_path, monkeypatch):
    (tmp_path / "index.html").write_text("<title>A site</title>")
    monkeypatch.setattr(serve, "SITE", tmp_path)


def test_a_port_that_is_taken_is_named(site, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve.main([str(port)]) == 1
    said = capsys.readouterr().err
    assert f"port {port} cannot be used" in said
    assert "make serve PORT=" in said


@pytest.mark.parametrize("port", ["eight", "-1", "70000"])
def test_a_port_that_is_none_is_refused(site, capsys, port):
    assert serve.main([port]) == 1
    assert "give a port from 0 to 65535" in capsys.readouterr().err


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Ask a server of a folder for an address; return the status and the answer."""
    (tmp_path / "index.html").write_text("<title>A site</title>")
    monkeypatch.setattr(serve.Handler, "log_message", lambda *_: None)
    handler = partial(serve.Handler, directory=str(tmp_path))
    with serve.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def ask(address, method="GET"):
            with socket.create_connection(server.server_address) as connection:
                connection.sendall(f"{method} {address} HTTP/1.0\r\n\r\n".encode())
                head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
            return int(head.split()[1]), body.decode()

        yield ask
        server.shutdown()
        thread.join()


def test_in_place_of_a_page_that_is_not_there_it_shows_404_html(ask, tmp_path):
    assert ask("/index.html") == (HTTPStatus.OK, "<title>A site</title>")
    (tmp_path / "404.html").write_text("<title>Nothing – here</title>")
    missing = (HTTPStatus.NOT_FOUND, "<title>Nothing – here</title>")
    assert ask("/no.html") == ask("/a/b/no.html") == missing
    assert ask("/no.html", "HEAD") == (HTTPStatus.NOT_FOUND, "")


def test_it_serves_the_path_at_which_the_site_is_published(ask, tmp_path):
    (tmp_path / "404.html").write_text('<link href="/a-book/_static/favicon.svg" />')
    (tmp_path / "page.html").write_text("A page")
    assert ask("/a-book/page.html") == ask("/page.html") == (HTTPStatus.OK, "A page")
    assert ask("/another-book/page.html")[0] == HTTPStatus.NOT_FOUND


def test_a_site_without_404_html_still_says_that_there_is_nothing(ask):
    status, answer = ask("/no.html")
    assert status == HTTPStatus.NOT_FOUND
    assert "File not found" in answer


def test_without_a_site_it_says_how_to_make_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(serve, "SITE", tmp_path)
    assert serve.main(["0"]) == 1
    assert "there is no site yet: make book" in capsys.readouterr().err
