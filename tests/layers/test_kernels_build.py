"""The C kernel is built once, whole, and replaced by torch's own where it cannot be."""

import ctypes
import functools
import multiprocessing
import os
import stat
import textwrap
import time
import warnings

import pytest
import torch
from refusals import refused, warned

from bnlib import kernels
from bnlib.functional import batch_norm
from bnlib.kernels import _build, _c

pytestmark = [
    pytest.mark.skipif(_c.library() is None, reason=str(_c.refusal(torch.ones(1, 1)))),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]
FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def built():
    """The path of a library that works."""
    return _c.library()._name


@pytest.fixture
def cache(tmp_path, monkeypatch, built):
    """An empty cache, and a compiler that copies what was compiled before."""
    monkeypatch.setenv("BNLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", compiler(tmp_path, COPY))
    monkeypatch.setenv("BUILT", built)
    monkeypatch.setenv("HERE", str(tmp_path))
    return tmp_path / "cache" / "kernels"


COPY = """
    echo called >> "$HERE/calls"
    for a; do [ "$was" = -o ] && cp "$BUILT" "$a"; was=$a; done
"""


def compiler(folder, script):
    """Write a compiler of one's own; return its path."""
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{textwrap.dedent(script)}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def calls(folder):
    path = folder / "calls"
    return len(path.read_text().splitlines()) if path.exists() else 0


def libraries(cache):
    return sorted(cache.glob("*.so"))


def works(library):
    """Return True if a library normalises."""
    address, number = ctypes.c_void_p, ctypes.c_double
    library.batch_norm_forward.argtypes = [address] * 8 + [number] * 2
    x, y = torch.tensor([1.0, 3.0]), torch.zeros(2)
    call = (ctypes.c_int64 * 10)(2, 1, 1, 1, 1)
    pointers = call, x.data_ptr(), y.data_ptr(), *(None,) * 5
    return library.batch_norm_forward(*pointers, 0.1, 0.0) == 0 and y.tolist() == [
        -1,
        1,
    ]


def in_other_processes(number):
    """Load in that many processes at once; return their exit codes."""

    def load():
        assert works(_build.load())

    processes = [FORK.Process(target=load) for _ in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def test_it_is_compiled_once_and_found_again(cache, tmp_path):
    for _ in range(2):
        assert works(_build.load())
    assert calls(tmp_path) == 1
    (kept,) = libraries(cache)
    assert {path.suffix for path in cache.iterdir()} <= {".so", ".lock"}
    assert _build._checksum(kept) in kept.name


def test_it_lies_in_the_cache_beside_the_data(cache, tmp_path):
    _build.load()
    assert cache.parent == tmp_path / "cache"
    assert len(libraries(cache)) == 1


def test_what_was_just_compiled_is_loaded_from_where_it_is_kept(cache):
    library = _build.load()
    assert [str(path) for path in libraries(cache)] == [library._name]


def test_another_compiler_source_or_processor_is_another_library(
    cache, tmp_path, monkeypatch
):
    def key():
        return _build._key(_build._compiler())

    first = key()
    assert key() == first
    with monkeypatch.context() as patched:
        patched.setenv("CC", os.environ["CC"] + " -m64")
        assert key() != first
    with monkeypatch.context() as patched:
        patched.setattr(_build, "_processor", lambda: "another one")
        assert key() != first
    for number, source in enumerate(_build.SOURCES):
        changed = tmp_path / source.name
        changed.write_bytes(source.read_bytes() + b"\n")
        sources = list(_build.SOURCES)
        sources[number] = changed
        with monkeypatch.context() as patched:
            patched.setattr(_build, "SOURCES", sources)
            assert key() != first
    with open(_build._compiler()[0], "a") as updated:
        updated.write("# a new version")
    assert key() != first


DAMAGE = {
    "cut short": lambda whole: whole[: len(whole) // 2],
    "one byte changed": lambda whole: whole[:5000] + b"!" + whole[5001:],
    "emptied": lambda whole: b"",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_library_is_removed_and_built_anew(cache, tmp_path, damage):
    _build.load()
    (kept,) = libraries(cache)
    whole = kept.read_bytes()
    # Written beside it: this process has the library itself in use.
    broken = tmp_path / "broken"
    broken.write_bytes(DAMAGE[damage](whole))
    assert broken.read_bytes() != whole
    os.replace(broken, kept)
    assert works(_build.load())
    assert calls(tmp_path) == 2
    assert libraries(cache) == [kept]
    assert kept.read_bytes() == whole


def test_what_an_interrupted_build_left_is_never_used(cache, tmp_path, monkeypatch):
    script = """
        for a; do [ "$was" = -o ] && echo half > "$a"; was=$a; done
        touch "$HERE/started"
        exec sleep 2
    """
    monkeypatch.setenv("CC", compiler(tmp_path, script))
    process = FORK.Process(target=_build.load)
    process.start()
    while not (tmp_path / "started").exists():
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join()
    assert libraries(cache) == []
    assert [path.read_text() for path in cache.glob("*/made.so")] == ["half\n"]
    compiler(tmp_path, COPY)
    assert works(_build.load())
    assert len(libraries(cache)) == 1


def test_processes_that_start_at_once_build_it_once(cache, tmp_path):
    compiler(tmp_path, "sleep 0.5\n" + textwrap.dedent(COPY))
    assert in_other_processes(3) == [0, 0, 0]
    assert calls(tmp_path) == 1
    assert len(libraries(cache)) == 1


def test_a_cache_that_cannot_be_written_is_done_without_and_said(tmp_path, cache):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with warned(
        RuntimeWarning,
        str(tmp_path / "cache/kernels"),
        "cannot be kept",
        "another folder, BNLIB_CACHE",
    ):
        assert works(_build.load())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_is_done_without_and_said(cache):
    cache.mkdir(parents=True)
    cache.chmod(0o500)
    with warned(RuntimeWarning, str(cache), "cannot be kept"):
        assert works(_build.load())


BAD_COMPILERS = {
    "none": (
        "/nowhere/cc",
        ("CC", "'/nowhere/cc'", "not machine"),
    ),
    "nonsense": (
        "no such thing at all",
        ("CC", "no such thing at all", "not machine"),
    ),
    "a quote": ("cc '", ("CC", "cc", "closing quotation")),
    "blank": ("  ", ("compiler CC", "not machine")),
    "a folder": ("/", ("compiler CC", "not machine")),
    "text": ("echo a\nb \u00e9", ("é", "failed")),
}


@pytest.mark.parametrize("bad", BAD_COMPILERS)
def test_a_compiler_that_is_none_is_named(cache, monkeypatch, bad):
    named, says = BAD_COMPILERS[bad]
    monkeypatch.setenv("CC", named)
    with refused(_build.BuildError, *says):
        _build.load()


BROKEN = {
    "fails": (
        "echo 'x.c:3: error: no such option' >&2; exit 1",
        ("compiler", "failed", "x.c 3 error no such option"),
    ),
    "fails mutely": ("exit 3", ("compiler", "exit status 3")),
    "is killed": ("kill -9 $$", ("compiler", "exit status -9")),
    "makes nothing": ("exit 0", ("compiler", "made no library")),
    "makes rubbish": (
        'for a; do [ "$was" = -o ] && echo rubbish > "$a"; was=$a; done',
        ("library", "cannot be loaded"),
    ),
    "makes another library": (
        'echo "int other;" | cc -shared -fPIC -x c - -o "$HERE/other.so"\n'
        'for a; do [ "$was" = -o ] && cp "$HERE/other.so" "$a"; was=$a; done',
        ("library", "cannot be loaded"),
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_compiler_that_fails_leaves_no_file(cache, tmp_path, broken):
    script, says = BROKEN[broken]
    compiler(tmp_path, script + "\n")
    with refused(_build.BuildError, *says):
        _build.load()
    assert libraries(cache) == []
    compiler(tmp_path, COPY)
    assert works(_build.load())


def test_a_compiler_that_is_no_program_is_named(cache, tmp_path):
    (tmp_path / "compiler").write_bytes(b"\x7fELF nothing")
    with refused(_build.BuildError, "compiler"):
        _build.load()


@pytest.mark.parametrize("refused", ["-fopenmp", "-march=native", "-[fm]*"])
def test_a_compiler_without_an_option_is_asked_without_it(cache, tmp_path, refused):
    taken = "-fPIC|-fno-*) ;;"
    script = f'for a; do case "$a" in {taken} {refused}) exit 1;; esac; done\n'
    compiler(tmp_path, script + textwrap.dedent(COPY))
    assert works(_build.load())


@pytest.fixture
def fresh(monkeypatch):
    """As in a process that has not asked for the library yet."""
    monkeypatch.delenv("BNLIB_BACKEND", raising=False)
    monkeypatch.setattr(_c, "_built", functools.cache(_c._built.__wrapped__))
    monkeypatch.setattr(kernels, "_warned", set())


def test_without_a_compiler_torch_does_it_and_it_is_said_once(
    cache, monkeypatch, fresh
):
    monkeypatch.setenv("CC", "/nowhere/cc")
    x = torch.tensor([[1.0], [3.0], [5.0]])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            y = batch_norm(x, None, None, training=True)
    assert kernels.choose("auto", x) == "torch"
    torch.testing.assert_close(
        y, torch.tensor([[-1.2247], [0], [1.2247]]), atol=1e-4, rtol=0
    )
    (warning,) = said
    assert warning.category is RuntimeWarning
    assert str(warning.message).startswith("batch_norm runs on torch's own kernel")
    assert "'/nowhere/cc', is not on this machine" in str(warning.message)
    assert warning.filename == __file__
    with refused(ValueError, "backend", "'c' '/nowhere/cc'", "torch"):
        batch_norm(x, None, None, training=True, backend="c")


@pytest.mark.slow
def test_portable_c_gives_the_same_numbers(cache, tmp_path, fresh):
    """Compiled for any processor of the kind, and told to round as it likes."""
    x = torch.randn(2000, 37, generator=torch.Generator().manual_seed(0)) + 100
    x[:, ::2] = x[:, ::2].half().float()
    expected = batch_norm(x, None, None, training=True, backend="readable")
    halves = batch_norm(x.half(), None, None, training=True, backend="readable")
    script = """
        for a; do
            case "$a" in -march=native|-O3) ;; *) set -- "$@" "$a";; esac
            shift
        done
        exec cc -O1 -ffast-math "$@"
    """
    compiler(tmp_path, script)
    found = batch_norm(x, None, None, training=True, backend="c")
    assert len(libraries(cache)) == 1
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-7 * 4)
    found = batch_norm(x.half(), None, None, training=True, backend="c")
    torch.testing.assert_close(found, halves, rtol=2**-10, atol=1e-6)


def test_a_forked_process_can_go_on_with_it():
    def child():
        options = kernels.Options(True, 0.1, 1e-5, False)
        _c.forward(torch.ones(400, 300, 4), *(None,) * 4, options)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        child()
        process = FORK.Process(target=child)
        process.start()
        process.join(30)
        assert process.exitcode == 0
    finally:
        torch.set_num_threads(before)
