"""The key of a course."""

from pathlib import Path

KEY_FILE = "course_key.txt"


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
