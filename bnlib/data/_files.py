"""Data files: what each must hold, where it is looked for, and how it is fetched."""

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
    """The one content of a file that is not packed."""
    return (raw,)


class DataFile(NamedTuple):
    """One file of a data set.

    Attributes
    ----------
    path : str
        Its place below a data folder, ``mnist/train-images-idx3-ubyte.gz``.
    sha256 : str or None
        Of its content; None where whoever parses the content checks it.
    urls : tuple of str
        Official addresses, the one to try first at the front.
    contents : callable
        Takes the file's bytes and gives what they may hold unpacked: packing the
        same content twice need not give the same bytes.
    """

    path: str
    sha256: str | None
    urls: tuple = ()
    contents: Callable = whole

    @property
    def name(self):
        return self.path.rpartition("/")[2]

    def content(self, raw):
        """What the bytes hold, or None if that is not what it must be."""
        if self.sha256 is None:
            return raw
        try:
            for content in self.contents(raw):
                if hashlib.sha256(content).hexdigest() == self.sha256:
                    return content
        except Exception:
            # Broken bytes break an unpacker in ways of its own; all mean the same.
            pass
        return None


class Route(NamedTuple):
    """Files that together give a data set, and what makes its arrays of them.

    `parse` takes the files' contents in order; it raises ValueError on contents
    that it finds wrong.
    """

    files: tuple
    parse: Callable


def find(file):
    """The path of a data file on this machine, or None."""
    chosen = os.environ.get("BNLIB_DATA")
    folders = [Path(chosen)] if chosen else []
    for folder in [*folders, cache_folder("data")]:
        if (folder / file.path).is_file():
            return folder / file.path
    return None


def is_here(route):
    """Say whether a route needs no download."""
    return all(find(file) for file in route.files)


def read(name, routes):
    """Give a data set's arrays by the first route that is here, else by the last.

    Raises
    ------
    ValueError
        If a file that is here does not hold what it must; the message names it.
    OSError
        If a file is not here and cannot be fetched; the message says what to do.
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

    The file appears under its name only when it is whole and its checksum right.

    Raises
    ------
    OSError
        If the folder cannot be written to, before anything is downloaded; or if
        no address gives the file.
    """
    target = cache_folder("data") / file.path
    _check_writable(target.parent)
    with filelock.FileLock(f"{target}.lock"):
        # Another process may have fetched it while this one waited.
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
    """Put what an address gives at `target`; return what went wrong, or None."""
    with extra("data"):
        import pooch

    watched = sys.stderr.isatty()
    if watched:
        print(f"downloading {url}", file=sys.stderr)
    get = pooch.HTTPDownloader(
        progressbar=watched,
        chunk_size=2**16,
        timeout=30,
        # A file that is unpacked on its way is not the one that was asked for.
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
    """Say in few words why a download failed; the errors of requests are OSErrors."""
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
