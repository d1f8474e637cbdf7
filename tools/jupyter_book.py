"""Run Jupyter Book strictly, and list the problems that its log reports."""

import re
import subprocess
import sys
from pathlib import Path

from tools.execution import ANSI

PROBLEM = re.compile(
    r"^(?:.*\.\.\. )?"
    r"(?:(?P<path>[^:]+):(?:(?P<line>\d+):|docstring of (?P<name>[^:]+):\S*|:)? )?"
    r"(?:WARNING|ERROR|CRITICAL|SEVERE): (?P<what>.+)"
)
CRASH = re.compile(r"[\w.]+(?:Error|Exception)\b")


def run(root, log):
    """Run Jupyter Book strictly; return its exit code and the lines it printed."""
    command = Path(sys.executable).with_name("jupyter-book")
    lines = []
    with (
        log.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            [command, "build", "-W", "--keep-going", root],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        try:
            for line in process.stdout:
                lines.append(ANSI.sub("", line.rstrip()))
                print(lines[-1], file=file, flush=True)
        except KeyboardInterrupt:
            # Otherwise it would go on, beside the next build in the same folder.
            process.terminate()
            process.wait()
            raise
    return process.returncode, lines


def explain(root, line):
    """Return the problem that a line of the log reports and its place, or None."""
    match = PROBLEM.match(line)
    if not match or "exception traceback saved in" in line:
        return None
    what = match["what"].replace(f"{root}/", "")
    if not match["path"]:
        return what
    path = source_of(root, Path(match["path"]))
    where = str(path.relative_to(root) if path.is_relative_to(root) else path)
    if match["name"]:
        where = f"the docstring of {match['name']}"
    if match["line"]:
        # myst-nb counts 10000 lines a cell.
        cell, number = divmod(int(match["line"]), 10000)
        where += f", cell {cell}" if cell else ""
        where += f", line {number}"
    return f"{where}: {what}"


def source_of(root, path):
    """Return a page's source; some extensions write .rst for .ipynb or .md."""
    stem = root / path.parent / path.name.partition(".")[0]
    for source in (path, stem.with_suffix(".ipynb"), stem.with_suffix(".md")):
        if source.is_file():
            return source
    return path


def problems(root, code, lines):
    """List what Jupyter Book found wrong; empty when it found nothing."""
    found = {}
    for i, line in enumerate(lines):
        if problem := explain(root, line):
            if problem.endswith(":") and "" in lines[i:]:
                # A traceback follows, up to an empty line.
                problem += f"\n    {lines[lines.index('', i) - 1]}"
            found[problem] = None
    if code and not found:
        # A crash; the last exception is Jupyter Book's own and says nothing.
        crash = [line for line in lines if CRASH.match(line)][:-1] or lines[-15:]
        tail = "\n    ".join(crash)
        return [f"jupyter-book ended with exit code {code}:\n    {tail}"]
    return list(found)
