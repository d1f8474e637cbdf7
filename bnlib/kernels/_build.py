"""Compile the C kernel on first use, and keep the compiled library.

The library lies in the cache folder. Its name is made from its source, compiler and
processor, and from its own checksum: a file that fits its name is whole.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import filelock

from bnlib._files import cache_folder

#: The C file, and what it includes.
SOURCES = tuple(
    Path(__file__).with_name(f"batch_norm{end}")
    for end in (".c", "_job.h", "_loops.h", "_vectors.h")
)
#: CC may bring -ffast-math, which would cost the kernel digits.
ALWAYS = ["-O3", "-fno-fast-math", "-fno-math-errno", "-shared", "-fPIC"]
#: The first set that the compiler accepts is used.
OPTIONS = (["-march=native", "-fopenmp"], ["-march=native"], ["-fopenmp"], [])
SECONDS = 300


class BuildError(Exception):
    """Raised if there is no library; the message says why."""


def load():
    """Return the library; compile it if it is not in the cache.

    Raises
    ------
    BuildError
        If there is no compiler, or it fails, or the library cannot be loaded.
    """
    compiler = _compiler()
    key = _key(compiler)
    folder = cache_folder("kernels")
    kept = _kept(folder, key)
    if kept is not None:
        return _opened(kept)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / f"{key}.lock", timeout=SECONDS):
            # Another process may have built it while this one waited.
            kept = _kept(folder, key)
            return _opened(kept) if kept else _build(compiler, folder, key)
    except (OSError, filelock.Timeout) as error:
        warnings.warn(
            f"the compiled kernel cannot be kept in {folder} ({error}) and is compiled "
            "in every process; name another folder in the environment variable "
            "BNLIB_CACHE",
            RuntimeWarning,
            stacklevel=2,
        )
        with tempfile.TemporaryDirectory() as elsewhere:
            return _build(compiler, Path(elsewhere), key)


def _compiler():
    """Return the command of this machine's compiler; raise if there is none."""
    chosen = os.environ.get("CC")
    try:
        command = shlex.split(chosen) if chosen else ["cc"]
    except ValueError as error:
        raise BuildError(f"CC is {chosen!r}: {error}") from error
    found = shutil.which(command[0]) if command else None
    if found is None:
        what = (
            f"the compiler that CC names, {chosen!r},"
            if chosen
            else "a C compiler, cc,"
        )
        raise BuildError(f"{what} is not on this machine")
    return [found, *command[1:]]


def _key(compiler):
    """Return a name that changes with everything the library depends on."""
    made = os.stat(compiler[0])
    parts = [
        *(source.read_bytes() for source in SOURCES),
        repr((compiler, os.path.realpath(compiler[0]), made.st_size, made.st_mtime_ns)),
        repr((ALWAYS, OPTIONS)),
        _processor(),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.encode())
    return digest.hexdigest()[:16]


def _processor():
    """Return the processor's name and its sets of instructions."""
    described = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        lines = []
    names = ("vendor_id", "model", "cpu family", "flags", "Features", "CPU p")
    described += [line for line in lines if line.startswith(names)]
    return "\n".join(described)


def _checksum(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _kept(folder, key):
    """Return the path of the library in the cache, or None; remove a broken one."""
    for path in folder.glob(f"{key}-*.so"):
        try:
            if path.name == f"{key}-{_checksum(path)}.so":
                return path
            path.unlink()
        except OSError:
            continue
    return None


def _build(compiler, folder, key):
    """Compile the library, move it to a folder if it loads, and return it."""
    with tempfile.TemporaryDirectory(prefix=f"{key}.", dir=folder) as inside:
        made = Path(inside) / "made.so"
        for options in OPTIONS:
            reason = _compile(compiler, options, made)
            if made.is_file():
                break
        else:
            raise BuildError(f"{shlex.join(compiler)} failed: {reason}")
        _opened(made)
        kept = folder / f"{key}-{_checksum(made)}.so"
        os.replace(made, kept)
    return _opened(kept)


def _compile(compiler, options, made):
    """Compile once; return what went wrong, in one line."""
    command = [*compiler, *ALWAYS, *options, "-o", str(made), str(SOURCES[0]), "-lm"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode != 0:
        made.unlink(missing_ok=True)
        lines = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in lines if "error" in line] or lines
        return errors[0] if errors else f"exit status {done.returncode}"
    return "it made no library"


def _opened(path):
    try:
        library = ctypes.CDLL(str(path))
        for name in ("batch_norm_forward", "batch_norm_backward"):
            getattr(library, name).restype = ctypes.c_int
    except (OSError, AttributeError) as error:
        raise BuildError(f"the compiled library cannot be loaded: {error}") from error
    return library
