"""The tree's own files, and how one is written."""

import os
from contextlib import suppress
from pathlib import Path

#: Folders that tools fill; they are never under a name of ours.
NOT_OURS = {"__pycache__", "_build", "build", "dist"}
HIDDEN_AND_OURS = {".ci", ".gitignore"}


def is_own(name):
    """Say whether a file or folder of this name belongs to the tree's sources."""
    hidden = name.startswith((".", "~")) and name not in HIDDEN_AND_OURS
    return not hidden and name not in NOT_OURS and not name.endswith(".egg-info")


def own_files(top):
    """Yield the tree's own files: no caches, no environment, nothing built.

    Parameters
    ----------
    top : Path
        A folder, or one file, which is then the only one.

    Yields
    ------
    Path
        Files in an order that is the same every time.
    """
    if top.is_file():
        yield top
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(filter(is_own, folders))
        for name in sorted(filter(is_own, names)):
            yield Path(folder, name)


def write_whole(path, content, mode=None):
    """Write a file so that it is never there half-written.

    Parameters
    ----------
    path : Path
        The file, in a folder that is there.
    content : bytes or str
        Text is written in UTF-8 with its line ends as they are.
    mode : int, optional
        The file's permissions: others cannot read it before it has them.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.part")
    try:
        if mode is not None:
            beside.touch(0o600)
        beside.write_bytes(data)
        if mode is not None:
            beside.chmod(mode)
        os.replace(beside, path)
    finally:
        # What stopped the writing may stop this too, and is the one to report.
        with suppress(OSError):
            beside.unlink(missing_ok=True)
