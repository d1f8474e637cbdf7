"""Data files: their required content, the search for them, and their download."""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import filelock

from bnlib._extras import extra
from bnlib._files import cache_folder


def whole(raw):
    """Return the only possible content of a file that is not packed."""
    return (raw,)


class DataFile(NamedTuple):
    """One file of a data set.

    Attributes
    ----------
    path : str
        Its place below a data folder, ``mnist/train-images-idx3-ubyte.gz``.
    sha256 : str or None
        The checksum of its content; None if the parser checks the content.
    urls : tuple of str
        Official addresses, in the order in which to try them.
    contents : callable
        Takes the file's bytes and returns what they may hold when unpacked. The
        checksum is that of the content, because packing the same content twice need
        not give the same bytes.
    """

    path: str
    sha256: str | None
    urls: tuple = ()
    contents: Callable = whole

    @property
    def name(self):
        return self.path.rpartition("/")[2]

    def content(self, raw):
        """Return the content of the bytes, or None if its checksum is wrong."""
        if self.sha256 is None:
            return raw
        try:
            for content in self.contents(raw):
                if hashlib.sha256(content).hexdigest() == self.sha256:
                    return content
        except Exception:
            # Every unpacker fails in its own way on broken bytes; all mean the same.
            pass
        return None


class Route(NamedTuple):
    """The files of a data set, and the function that makes arrays from them.

    `parse` takes the files' contents in order; it raises ValueError if a content is
    wrong.
    """

    files: tuple
    parse: Callable


def find(file):
    """Return the path of a data file on this machine, or None."""
    chosen = os.environ.get("BNLIB_DATA")
    folders = [Path(chosen)] if chosen else []
    for folder in [*folders, cache_folder("data")]:
        if (folder / file.path).is_file():
            return folder / file.path
    return None


def is_here(route):
    """Return True if a route needs no download."""
    return all(find(file) for file in route.files)


def read(name, routes):
    """Return a data set's arrays by the first route that is here, or by the last.

    Raises
    ------
    ValueError
        If a file on this machine has the wrong content; the message names it.
    OSError
        If a file is missing and cannot be downloaded; the message says what to do.
    """
    route = next(filter(is_here, routes), routes[-1])
    paths = [find(file) or fetch(name, file) for file in route.files]
    contents = [_checked(name, *pair) for pair in zip(route.files, paths, strict=True)]
    try:
        return route.parse(*contents)
    except ValueError as error:
        raise ValueError(f"{', '.join(map(str, paths))}: {error}") from error


def _checked(name, file, path):
    content = file.content(path.read_bytes())
    if content is None:
        raise ValueError(
            f"{path} is not the {file.name} of {name}: its content does not have the "
            f"sha256 {file.sha256}. Delete it, then: python -m bnlib.data fetch {name}"
        )
    return content


def fetch(name, file):
    """Download a file of the data set `name` into the cache; return its path.

    The file appears under its name only when it is whole and its checksum is right.

    Raises
    ------
    OSError
        If the folder cannot be written to, before anything is downloaded; or if no
        address delivers the file.
    """
    target = cache_folder("data") / file.path
    _check_writable(target.parent)
    with filelock.FileLock(f"{target}.lock"):
        # Another process may have downloaded it while this one waited.
        if target.is_file():
            return target
        failures = []
        for url in file.urls:
            failure = _download(url, file, target)
            if failure is None:
                return target
            failures.append(f"{url}: {failure}")
    raise FileNotFoundError(_what_to_do(name, file, target.parent, failures))


def _check_writable(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise type(error)(
            f"no data file can be written to {folder} ({error.strerror}); name another "
            "folder in the environment variable BNLIB_CACHE"
        ) from error


def _download(url, file, target):
    """Download from an address to `target`; return what went wrong, or None."""
    with extra("data"):
        import pooch

    watched = sys.stderr.isatty()
    if watched:
        print(f"downloading {url}", file=sys.stderr)
    get = pooch.HTTPDownloader(
        progressbar=watched,
        chunk_size=2**16,
        timeout=30,
        # If the transfer unpacked the file, its bytes would not be the right ones.
        headers={"Accept-Encoding": "identity"},
    )
    part = target.with_name(f"{target.name}.part")
    try:
        get(url, str(part), None)
        if file.content(part.read_bytes()) is None:
            return "the file came with a wrong checksum and was removed"
        os.replace(part, target)
    except OSError as error:
        return _reason(error)
    finally:
        part.unlink(missing_ok=True)
    return None


def _reason(error):
    """Return in few words why a download failed; errors of requests are OSErrors."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"{response.status_code} {response.reason}"
    return error.strerror or type(error).__name__


def _what_to_do(name, file, folder, failures):
    chosen = os.environ.get("BNLIB_DATA")
    note = ""
    if chosen:
        found = f"nor in BNLIB_DATA, {chosen}"
        missing = f"BNLIB_DATA is {chosen}, no folder"
        note = f" ({found if Path(chosen).is_dir() else missing})"
    return (
        f"{name} needs {file.name}, which is not in {folder}{note} and could not be "
        f"downloaded ({'; '.join(failures)}). Put the file into that folder, or, with "
        f"a network, run: python -m bnlib.data fetch {name}"
    )
