"""Record which files of the repository a running notebook reads.

A kernel that is started with `environment` records each file below a folder that
it, or a Python process that it starts, opens for reading: the modules it imports,
records, data, other notebooks, C sources. The folders that it lists count too,
since a new record or a new chapter changes a page that lists them.

What other programs than Python read is not recorded, nor is a test for a file that
is not opened. bnlib reads its C sources before it gives them to the compiler.
"""

import hashlib
import importlib.metadata
import os
import pkgutil
import sys
from importlib.util import source_from_cache
from pathlib import Path

ROOT, LOG = "NOTEBOOK_READS_BELOW", "NOTEBOOK_READS"
#: The folders that these list do not count: they look for files that they then open.
FINDERS = ("<frozen importlib", importlib.metadata.__file__)
#: Its folder does not count either: it lists its modules, and loads some of them.
PACKAGE = "bnlib/__init__.py"
#: `bnlib.claims.get` looks for an id in these files and imports the one that has it.
LOOKED_INTO = "bnlib/claims/chapter"


def environment(root, log):
    """Return the environment for a process whose reads are to be recorded.

    Parameters
    ----------
    root : Path
        The folder below which reads count.
    log : Path
        The file in which they will be written, for `read_below`.

    Returns
    -------
    dict of str
    """
    here = Path(__file__).resolve().parent
    paths = [str(here / "kernel"), str(here.parent), os.environ.get("PYTHONPATH", "")]
    watched = {ROOT: os.path.realpath(root), LOG: str(log)}
    path = os.pathsep.join(filter(None, paths))
    return os.environ | watched | {"PYTHONPATH": path}


def read_below(log):
    """Return what was read: each name with its `digest` when it was opened.

    Parameters
    ----------
    log : Path
        The file that was given to `environment`.

    Returns
    -------
    dict of str
        Digests by names relative to the folder; the name of a listed folder ends
        in "/". If a file was changed while it was used, the first digest counts.
    """
    found = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        value, _, name = line.partition(" ")
        found.setdefault(name, value)
    return dict(sorted(found.items()))


def digest(path):
    """Return a hash of a file's bytes or a folder's names; "-" if there is neither."""
    try:
        if os.path.isdir(path):
            names = [name for name in sorted(os.listdir(path)) if _is_own(name)]
            content = "\n".join(names).encode()
        else:
            with open(path, "rb") as file:
                content = file.read()
    except OSError:
        return "-"
    return hashlib.sha256(content).hexdigest()


def watch():
    """Record what this process reads from now on, in the log of `environment`."""
    root, log = os.environ[ROOT], os.environ[LOG]
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    seen = set()

    def note(event, arguments):
        if event == "open":
            path, _, flags = arguments
            counts = not flags & os.O_WRONLY
        elif event in ("os.listdir", "os.scandir"):
            path = "." if arguments[0] in (None, "") else arguments[0]
            counts = not _is_finder(sys._getframe(1))
        else:
            return
        name = _name_below(root, path) if counts else None
        if name is None or name in seen:
            return
        # Before the digest, which opens the file.
        seen.add(name)
        os.write(file, f"{digest(os.path.join(root, name))} {name}\n".encode())

    sys.addaudithook(note)


def _is_finder(frame):
    """Return True if a folder is listed only to find a module or a package's names."""
    while frame.f_code.co_filename == pkgutil.__file__:
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(FINDERS) or (
        frame.f_code.co_filename.endswith(PACKAGE)
    )


def _name_below(root, path):
    """Return a path's name below the root, or None if it does not count."""
    if isinstance(path, int):
        return None
    try:
        whole = os.path.realpath(os.fsdecode(path))
    except (OSError, TypeError, ValueError):
        return None
    if not whole.startswith(f"{root}{os.sep}"):
        return None
    imported = f"{os.sep}__pycache__{os.sep}" in whole
    if imported:
        try:
            whole = source_from_cache(whole)
        except ValueError:  # a file of another kind, or one that is being written
            return None
    name = os.path.relpath(whole, root).replace(os.sep, "/")
    if not all(map(_is_own, name.split("/"))):
        return None
    if name.startswith(LOOKED_INTO) and not imported:
        return None
    if os.path.isdir(whole):
        name += "/"
    return name


def _is_own(name):
    return not name.startswith((".", "~")) and name not in ("_build", "__pycache__")
