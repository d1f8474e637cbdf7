"""The report of a course folder: a line with remarks for each submission."""

import csv
import io
from pathlib import Path

from filelock import FileLock

from bnlib._files import write_whole

FIELDS = ("student", "set", "autograded", "of", "remarks")


def report_path(course, name):
    """Return the path of the report on a set's submissions."""
    return Path(course) / f"report-{name}.csv"


def note(course, name, student, points, total, remarks):
    """Write one submission's line in place of an earlier one."""
    path = report_path(course, name)
    with FileLock(path.with_name(f".{path.name}.lock")):
        rows = read(path)
        rows[plain(student)] = {
            "student": plain(student),
            "set": name,
            "autograded": "" if points is None else f"{points:g}",
            "of": f"{total:g}",
            "remarks": plain("; ".join(map(line, remarks))),
        }
        text = io.StringIO()
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[student] for student in sorted(rows))
        write_whole(path, text.getvalue())


def read(path):
    """Return a report's lines by student."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def line(remark):
    """Return a remark as one line of printable text of limited length."""
    words = " ".join(str(remark).split())
    return "".join(c for c in words if c.isprintable())[:400]


def plain(text):
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
