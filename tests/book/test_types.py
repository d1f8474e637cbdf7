"""The package's types, as mypy sees them in the script of a user."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
USERS = Path(__file__).parent / "users"


@pytest.fixture(scope="module")
def found():
    """Return (file, line, kind) of each error that mypy finds in the two scripts."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", *USERS.glob("*.py")],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert not done.stderr, done.stderr
    errors = re.findall(r"(\w+\.py):(\d+): error: .*\[([\w-]+)\]", done.stdout)
    return {(name, int(line), kind) for name, line, kind in errors}


def test_mypy_finds_no_fault_with_a_users_script(found):
    assert {error for error in found if error[0] == "right.py"} == set()


def test_mypy_reports_wrong_calls(found):
    lines = (USERS / "wrong.py").read_text(encoding="utf-8").splitlines()
    marked = [(n, line.partition("  # ")[2]) for n, line in enumerate(lines, 1)]
    expected = {("wrong.py", number, kind) for number, kind in marked if kind}
    assert {error for error in found if error[0] == "wrong.py"} == expected


def test_the_users_script_runs():
    runpy.run_path(str(USERS / "right.py"))
