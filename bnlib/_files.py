"""Write files whole or not at all, and say where bnlib keeps them."""

import os
from contextlib import suppress
from pathlib import Path

import platformdirs

PACKAGE = Path(__file__).parent


def write_whole(path, content, mode=None):
    """Write a file whole or not at all: no reader sees half of it.

    Parameters
    ----------
    path : path
        The file; its folder is made if it is missing.
    content : bytes or str
        Text is written in UTF-8; its line ends stay as they are.
    mode : int, optional
        The file's permissions, such as ``0o600`` for a secret; they hold from the
        first byte on. The default is the system's.
    """
    path = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if mode is not None:
            beside.touch(mode=0o600)
        beside.write_bytes(data)
        if mode is not None:
            beside.chmod(mode)
        os.replace(beside, path)
    finally:
        # What stopped the writing may stop this too; the first error is the one to
        # report.
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def cache_folder(kind):
    """Return the folder for what can be fetched or compiled again.

    Parameters
    ----------
    kind : {"data", "kernels"}
        Its name below `$BNLIB_CACHE`; if that is not set, below bnlib's folder in
        the system's cache.
    """
    if chosen := os.environ.get("BNLIB_CACHE"):
        return Path(chosen) / kind
    return Path(platformdirs.user_cache_dir("bnlib")) / kind


def runs_folder():
    """Return the folder for unfinished runs of experiments.

    It is `$BNLIB_CACHE/experiments`, or `.experiments` if that is not set: a folder
    of the source tree (git ignores it, and `make clean` keeps it, because its content
    took hours), or of the current folder if bnlib is installed without its tree.
    """
    if chosen := os.environ.get("BNLIB_CACHE"):
        return Path(chosen) / "experiments"
    tree = PACKAGE.parent
    is_checkout = (tree / "pyproject.toml").is_file()
    return (tree if is_checkout else Path()) / ".experiments"
