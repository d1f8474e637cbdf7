"""Which files of the tree are its own, and that one is written whole or not at all."""

import pytest

from tools import files


def test_own_files_are_those_that_someone_wrote(tmp_path):
    ours = [".ci/run", ".gitignore", "a.py", "pages/b.md"]
    others = [
        *(".venv/a.py", "_build/b.md", "dist/c.py", "pages/__pycache__/b.pyc"),
        *(".a.py.part", "~b.md", "bnlib.egg-info/PKG-INFO", "pages/.hidden/c.md"),
    ]
    for name in ours + others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [p.relative_to(tmp_path).as_posix() for p in files.own_files(tmp_path)]
    assert sorted(found) == ours


def test_one_file_is_its_own_only_file_and_a_missing_one_gives_none(tmp_path):
    path = tmp_path / "a.py"
    assert list(files.own_files(path)) == []
    path.touch()
    assert list(files.own_files(path)) == [path]


def test_text_and_bytes_are_written_as_they_are(tmp_path):
    for content in ("ä\r\n", "ä\r\n".encode()):
        files.write_whole(tmp_path / "a", content)
        assert (tmp_path / "a").read_bytes() == "ä\r\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_write_that_is_interrupted_leaves_what_was_there(tmp_path, monkeypatch):
    def interrupt(source, target):
        raise KeyboardInterrupt

    (tmp_path / "a").write_text("before")
    monkeypatch.setattr(files.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(tmp_path / "a", "after")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "before"
