"""Files of a course: written whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

KEY_FILE = "course_key.txt"


def write_whole(path, content, mode=0o644):
    """Write a file so that it is never there half-written, or for others to read."""
    path = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.touch(mode=0o600)
        beside.write_bytes(data)
        beside.chmod(mode)
        os.replace(beside, path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def checked_key(key):
    """Return a course key, which is a line of text."""
    if not isinstance(key, str) or not key.strip() or not key.isprintable():
        raise ValueError(f"a course key is a line of text, got {key!r}")
    return key.strip()


def read_key(course):
    """Return the key of a course folder."""
    path = Path(course) / KEY_FILE
    try:
        return checked_key(path.read_text(encoding="utf-8").strip())
    except FileNotFoundError:
        raise ValueError(
            f"{path} is missing: python -m bnlib.course make writes it"
        ) from None
