"""Find the files of the source tree, and write files whole."""

import os
from pathlib import Path

from bnlib._files import write_whole

__all__ = ["is_own", "own_files", "write_whole"]

#: Folders that tools fill; no folder of sources has such a name.
NOT_OURS = {"__pycache__", "_build", "build", "dist"}
HIDDEN_AND_OURS = {".ci", ".dockerignore", ".github", ".gitignore"}


def is_own(name):
    """Return True if a file or folder of this name belongs to the sources."""
    hidden = name.startswith((".", "~")) and name not in HIDDEN_AND_OURS
    return not hidden and name not in NOT_OURS and not name.endswith(".egg-info")


def own_files(top):
    """Yield the tree's own files: no caches, no environment, nothing built.

    Parameters
    ----------
    top : Path
        A folder, or a single file.

    Yields
    ------
    Path
        Files, always in the same order.
    """
    if top.is_file():
        yield top
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(filter(is_own, folders))
        for name in sorted(filter(is_own, names)):
            yield Path(folder, name)
