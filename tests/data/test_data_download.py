"""bnlib.data: where files are looked for, how they are fetched, and what may go wrong.

Every address is one of a server on this machine.
"""

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import data_server
import pytest
from data_server import PATH, TABLE, give, give_half, refuse, sorted_rows
from refusals import refused

from bnlib import data
from bnlib.data import _files, _formats, _sets


@pytest.fixture(autouse=True)
def nothing_here(tmp_path, monkeypatch):
    """An empty cache, no data folder, and no proxy between us and the server."""
    monkeypatch.setenv("BNLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BNLIB_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def cached(tmp_path):
    """Where a download goes."""
    return tmp_path / "cache/data" / PATH


@pytest.fixture
def server(monkeypatch):
    with data_server.Server() as server:
        urls = [server.url("/first"), server.url("/mirror")]
        monkeypatch.setitem(_sets.SOURCES, "power_plant", data_server.stand_in(urls))
        yield server


def put(path, content=TABLE):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def files_in(folder):
    """Return the names of the files there, without the locks."""
    found = [path.name for path in folder.rglob("*") if path.is_file()]
    return [name for name in found if not name.endswith(".lock")]


def assert_is_the_table(dataset):
    rows = [tuple(map(float, line.split())) for line in TABLE.splitlines()]
    assert sorted_rows(dataset) == rows


def test_a_download_gives_the_data_and_stays_in_the_cache(server, cached):
    server.answers = {"/first": give(TABLE)}
    assert_is_the_table(data.load("power_plant"))
    assert cached.read_bytes() == TABLE
    assert files_in(cached.parent) == [cached.name]


def test_a_second_load_asks_no_server(server):
    server.answers = {"/first": give(TABLE)}
    data.load("power_plant")
    assert_is_the_table(data.load("power_plant"))
    assert server.asked == ["/first"]


@pytest.mark.parametrize(
    "answer",
    [
        refuse,
        give(TABLE.replace(b"1", b"2")),
        give(TABLE[:-1]),
        give(b""),
        give_half(TABLE),
    ],
    ids=["404", "edited", "one byte short", "empty", "broken off"],
)
def test_what_the_first_address_fails_to_give_the_mirror_gives(server, cached, answer):
    server.answers = {"/first": answer, "/mirror": give(TABLE)}
    assert_is_the_table(data.load("power_plant"))
    assert server.asked == ["/first", "/mirror"]
    assert files_in(cached.parent) == [cached.name]


def test_a_file_that_is_wrong_everywhere_is_removed_and_the_error_says_so(
    server, cached
):
    wrong = give(TABLE + b"\n")
    server.answers = {"/first": wrong, "/mirror": wrong}
    with refused(
        OSError, "power_plant power-plant.txt", "wrong checksum, removed"
    ) as caught:
        data.load("power_plant")
    assert server.url("/first") in str(caught.value)
    assert server.url("/mirror") in str(caught.value)
    assert files_in(cached.parent) == []


def test_the_error_tells_what_each_address_did(server, cached):
    server.answers = {"/first": refuse, "/mirror": give_half(TABLE)}
    with refused(
        OSError,
        "power_plant power-plant.txt",
        f"{server.url('/first')} 404; {server.url('/mirror')} ChunkedEncodingError",
    ):
        data.load("power_plant")
    assert files_in(cached.parent) == []


def test_after_a_failure_the_next_load_starts_anew(server):
    server.answers = {"/first": give_half(TABLE)}
    with refused(OSError, "power_plant power-plant.txt", "ChunkedEncodingError"):
        data.load("power_plant")
    server.answers = {"/first": give(TABLE)}
    assert_is_the_table(data.load("power_plant"))


def test_offline_the_error_names_the_file_the_folder_and_the_command(
    server, cached, monkeypatch
):
    with data_server.Server() as gone:
        nowhere = [gone.url("/first")]
    monkeypatch.setitem(_sets.SOURCES, "power_plant", data_server.stand_in(nowhere))
    with pytest.raises(FileNotFoundError) as caught:
        data.load("power_plant")
    said = str(caught.value)
    assert "power-plant.txt" in said
    assert f"{nowhere[0]}: ConnectionError" in said
    assert f"not in {cached.parent}" in said
    assert "python -m bnlib.data fetch power_plant" in said
    assert "\n" not in said


# Files that are packed.


def test_a_packed_file_is_judged_by_what_it_holds(server, cached, monkeypatch):
    file = _sets.SOURCES["power_plant"].routes[0].files[0]
    packed = file._replace(contents=_formats.unpacked)
    route = _files.Route((packed,), _sets._power_plant)
    monkeypatch.setitem(
        _sets.SOURCES, "power_plant", _sets._fetched("power_plant", "2014", route)
    )
    fast, small = gzip.compress(TABLE, 1), gzip.compress(TABLE, 9)
    assert fast != small
    # Some servers label any gz file so that the client unpacks it on the way.
    answers = [give(fast), give(small), give(fast, encoding="gzip")]
    for answer in answers:
        server.answers = {"/first": answer}
        assert_is_the_table(data.load("power_plant"))
        cached.unlink()
    server.answers = {"/first": give(fast[:-9]), "/mirror": give(fast[:4] + small)}
    with refused(
        OSError, "power_plant", "wrong checksum, removed; wrong checksum, removed"
    ):
        data.load("power_plant")


# Interrupted, and more than one at a time.


@pytest.fixture
def fetching(server):
    """Start a process that fetches the table, and wait until it is about to ask."""
    started = []

    def start():
        process = subprocess.Popen(
            [sys.executable, data_server.__file__, server.url("/first")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "asking\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_until(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_an_interrupted_download_leaves_nothing_that_is_trusted(
    server, cached, fetching, number, code
):
    gate = threading.Event()
    # Long enough for a part of it to be on the disk.
    server.answers = {"/first": give_half(TABLE * 3000, gate)}
    process = fetching()
    part = cached.with_name(f"{cached.name}.part")
    wait_until(lambda: part.is_file() and part.stat().st_size)
    process.send_signal(number)
    process.communicate(timeout=30)
    gate.set()
    assert process.returncode == code
    assert files_in(cached.parent) == ([] if code == 130 else [part.name])
    assert "power_plant" not in data.available()
    server.answers = {"/first": give(TABLE)}
    assert_is_the_table(data.load("power_plant"))
    assert files_in(cached.parent) == [cached.name]


def test_of_two_processes_at_once_one_downloads_and_both_have_it(
    server, cached, fetching
):
    gate = threading.Event()
    server.answers = {"/first": give_half(TABLE, gate)}
    both = [fetching(), fetching()]
    wait_until(lambda: server.asked)
    # Long enough for the second to ask too, if it did not wait.
    time.sleep(0.3)
    gate.set()
    for process in both:
        said, complaint = process.communicate(timeout=30)
        assert process.returncode == 0, complaint
        assert said == f"power_plant: 6 + 2 examples, in {cached.parent}\n"
    assert server.asked == ["/first"]
    assert cached.read_bytes() == TABLE


# Folders.


def test_a_cache_that_cannot_be_written_to_is_named_before_the_download(
    server, tmp_path
):
    (tmp_path / "cache").write_text("a file where the folder should be")
    server.answers = {"/first": give(TABLE)}
    with refused(OSError, "data file", "", "another folder, BNLIB_CACHE") as caught:
        data.load("power_plant")
    assert str(tmp_path / "cache/data/uci") in str(caught.value)
    assert server.asked == []


def test_a_folder_without_write_permission_is_named_before_the_download(server, cached):
    cached.parent.mkdir(parents=True)
    cached.parent.chmod(0o500)
    if os.access(cached.parent, os.W_OK):
        pytest.skip("this user may write everywhere")
    server.answers = {"/first": give(TABLE)}
    with refused(
        PermissionError, "data file", "", "another folder, BNLIB_CACHE"
    ) as caught:
        data.load("power_plant")
    assert str(cached.parent) in str(caught.value)
    assert server.asked == []


def test_a_denied_write_is_told_as_such(server, cached, monkeypatch):
    def denied(dir):
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr(_files.tempfile, "TemporaryFile", denied)
    with refused(
        PermissionError,
        "data file",
        "Permission denied",
        "another folder, BNLIB_CACHE",
    ):
        data.load("power_plant")
    assert server.asked == []


def test_the_data_folder_is_looked_through_before_the_cache(
    server, cached, tmp_path, monkeypatch
):
    monkeypatch.setenv("BNLIB_DATA", str(tmp_path / "mine"))
    put(tmp_path / "mine" / PATH)
    put(cached, b"broken")
    assert_is_the_table(data.load("power_plant"))
    assert server.asked == []


def test_what_the_data_folder_lacks_is_taken_from_the_cache(
    server, cached, tmp_path, monkeypatch
):
    monkeypatch.setenv("BNLIB_DATA", str(tmp_path))
    put(cached)
    assert_is_the_table(data.load("power_plant"))
    assert server.asked == []


def test_nothing_is_downloaded_into_the_data_folder(
    server, cached, tmp_path, monkeypatch
):
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("BNLIB_DATA", str(tmp_path / "mine"))
    server.answers = {"/first": give(TABLE)}
    assert_is_the_table(data.load("power_plant"))
    assert files_in(tmp_path / "mine") == []
    assert cached.is_file()


@pytest.mark.parametrize("folder", ["mine", "cache/data"])
def test_a_file_that_is_here_and_wrong_is_named_and_left_alone(
    server, tmp_path, monkeypatch, folder
):
    monkeypatch.setenv("BNLIB_DATA", str(tmp_path / "mine"))
    path = tmp_path / folder / PATH
    put(path, TABLE + b"\n")
    server.answers = {"/first": give(TABLE)}
    with refused(ValueError, "power-plant.txt", "not sha256", "fetch") as caught:
        data.load("power_plant")
    assert str(path) in str(caught.value)
    assert "Delete it, then: python -m bnlib.data fetch power_plant" in str(
        caught.value
    )
    assert path.read_bytes() == TABLE + b"\n"
    assert server.asked == []


@pytest.mark.parametrize(
    ("name", "route"),
    [(name, route) for name, each in _sets.SOURCES.items() for route in each.routes],
)
def test_no_real_set_is_read_from_other_files(tmp_path, monkeypatch, name, route):
    monkeypatch.setenv("BNLIB_DATA", str(tmp_path))
    for file in route.files:
        put(tmp_path / file.path, b"other")
    first = str(tmp_path / route.files[0].path)
    with refused(ValueError, first):
        data.load(name)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            Path.mkdir,
            ("power_plant", "nor BNLIB_DATA"),
        ),
        (
            Path.touch,
            ("power_plant", "BNLIB_DATA, no folder"),
        ),
    ],
)
def test_the_error_says_what_was_made_of_the_data_folder(
    server, tmp_path, monkeypatch, make, says
):
    monkeypatch.setenv("BNLIB_DATA", str(tmp_path / "mine"))
    make(tmp_path / "mine")
    with refused(FileNotFoundError, *says) as caught:
        data.load("power_plant")
    assert str(tmp_path / "mine") in str(caught.value)


def test_available_are_the_sets_whose_files_are_all_here(tmp_path, monkeypatch):
    shipped = [name for name, source in _sets.SOURCES.items() if not source.routes]
    assert "digits" in shipped
    assert data.available() == shipped
    monkeypatch.setenv("BNLIB_DATA", str(tmp_path))
    put(tmp_path / "a9a/a9a")
    assert data.available() == shipped
    put(tmp_path / "cache/data/a9a/a9a.t")
    assert data.available() == [*shipped, "a9a"]
    put(tmp_path / "cifar10/cifar10_10k_2k.npz")
    assert data.available() == [*shipped, "a9a", "cifar10_subset"]
    put(tmp_path / "cifar10/cifar-10-python.tar.gz")
    assert data.available() == [*shipped, "a9a", "cifar10", "cifar10_subset"]


# What is shown.


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown_on_a_terminal_alone(
    server, capsys, monkeypatch, is_terminal
):
    server.answers = {"/first": give(TABLE)}
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    data.load("power_plant")
    said = capsys.readouterr().err
    if is_terminal:
        assert server.url("/first") in said
        assert "100%" in said
    else:
        assert said == ""


def test_the_official_addresses_are_encrypted_and_each_set_has_one():
    for name, source in _sets.SOURCES.items():
        if source.routes:
            files = source.routes[-1].files
            assert all(file.urls for file in files), name
            urls = [url for file in files for url in file.urls]
            assert all(url.startswith("https://") for url in urls), name


def test_importing_the_data_module_imports_no_downloader():
    heavy = ["pooch", "requests", "sklearn", "torch", "xml.sax"]
    code = f"import sys, bnlib.data; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_a_broken_connection_has_a_reason_in_few_words():
    gone = SimpleNamespace(status_code=503, reason="Service Unavailable")
    answered = OSError("long text")
    answered.response = gone
    assert _files._reason(answered) == "503 Service Unavailable"
    assert _files._reason(OSError(28, "No space left on device")) == (
        "No space left on device"
    )
    assert _files._reason(ConnectionResetError("long text")) == "ConnectionResetError"
