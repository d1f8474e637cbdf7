"""The files of the tree: which are its own, how one is written, where the rest goes."""

import stat
import sys
from pathlib import Path

import pytest
from refusals import refused

from bnlib import _files
from tools import files

ROOT = Path(__file__).resolve().parents[2]


def test_own_files_are_those_that_someone_wrote(tmp_path):
    ours = [
        *(".ci/run", ".dockerignore", ".github/workflows/test.yml", ".gitignore"),
        *("a.py", "pages/b.md"),
    ]
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
    monkeypatch.setattr(_files.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(tmp_path / "a", "after")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "before"


def test_a_disk_that_is_full_leaves_what_was_there(tmp_path, monkeypatch):
    def full(self, data):
        with self.open("wb") as file:
            file.write(data[:1])
        raise OSError("no space left")

    (tmp_path / "a").write_text("before")
    monkeypatch.setattr(Path, "write_bytes", full)
    with refused(OSError, "no space left"):
        files.write_whole(tmp_path / "a", "after")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]


def test_a_secret_is_never_there_for_others_to_read(tmp_path, monkeypatch):
    modes = []
    write = Path.write_bytes

    def watched(self, data):
        modes.append(stat.S_IMODE(self.stat().st_mode))
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", watched)
    files.write_whole(tmp_path / "key", "secret", mode=0o600)
    assert [*modes, stat.S_IMODE((tmp_path / "key").stat().st_mode)] == [0o600] * 2


def test_a_file_is_written_into_a_folder_that_is_not_there_yet(tmp_path):
    files.write_whole(tmp_path / "new/folder/a", "text")
    assert (tmp_path / "new/folder/a").read_text() == "text"


@pytest.mark.parametrize("kind", ["data", "kernels"])
def test_downloads_and_kernels_are_kept_in_the_systems_cache(
    tmp_path, monkeypatch, kind
):
    monkeypatch.delenv("BNLIB_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert _files.cache_folder(kind) == tmp_path / "bnlib" / kind
    assert _files.cache_folder(kind).parts[-1] == kind


def test_unfinished_runs_are_kept_beside_the_package_in_a_source_checkout(
    monkeypatch, tmp_path
):
    monkeypatch.delenv("BNLIB_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert _files.runs_folder().resolve() == ROOT / ".experiments"


def test_unfinished_runs_are_kept_in_the_current_folder_without_a_checkout(
    monkeypatch, tmp_path
):
    monkeypatch.delenv("BNLIB_CACHE", raising=False)
    monkeypatch.setattr(_files, "PACKAGE", tmp_path / "site-packages" / "bnlib")
    monkeypatch.chdir(tmp_path)
    assert _files.runs_folder().resolve() == tmp_path.resolve() / ".experiments"


def test_everything_is_kept_where_bnlib_cache_says(monkeypatch, tmp_path):
    monkeypatch.setenv("BNLIB_CACHE", str(tmp_path))
    assert _files.runs_folder() == tmp_path / "experiments"
    assert _files.cache_folder("data") == tmp_path / "data"
