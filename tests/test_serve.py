"""`make serve`: what it says where it cannot serve."""

import socket

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


def test_without_a_site_it_says_how_to_make_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(serve, "SITE", tmp_path)
    assert serve.main(["0"]) == 1
    assert "there is no site yet: make book" in capsys.readouterr().err
