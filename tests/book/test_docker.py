"""The two images, as far as they can be checked without building them."""

import re
import subprocess

from test_workflows import program

from tools import build

DOCKERFILE = (build.ROOT / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (build.ROOT / ".dockerignore").read_text(encoding="utf-8").split()


def stages():
    """Return each stage's instructions, by its name, those of its base first."""
    found = {}
    for part in re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]:
        base, name = re.match(r"(\S+) AS (\w+)", part).groups()
        found[name] = found.get(base, "") + part
    return found


def copied(text):
    """Return what a stage copies from the repository."""
    lines = re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", text, re.MULTILINE)
    return {name for line in lines for name in line.split()}


def test_hadolint_finds_no_fault():
    done = subprocess.run(
        [program("hadolint"), build.ROOT / "Dockerfile"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_without_a_target_the_readers_image_is_built():
    assert list(stages())[-1] == "book"


def test_what_is_copied_is_there_and_not_ignored():
    for name in set.union(*map(copied, stages().values())):
        assert (build.ROOT / name).exists(), name
        assert name not in IGNORED


def test_what_is_made_here_is_left_out():
    assert {".git", ".venv", "_build"} <= set(IGNORED)


def test_the_graders_image_has_a_user_for_students_and_no_solutions():
    grading = stages()["grading"]
    assert not copied(grading) & {".", "assignments"}
    assert re.search(r"useradd .*\bstudent\b", grading)
    page = (build.ROOT / "chapters/instructors.md").read_text(encoding="utf-8")
    assert "docker build --target grading --tag bn-grading ." in page
    assert 'c.Judge.student_user = "student"' in page


def test_the_readers_image_does_not_run_as_root():
    assert re.search(r"^USER (?!0|root)\S+$", stages()["book"], re.MULTILINE)


def test_both_take_the_pinned_versions_and_the_tested_python():
    assert DOCKERFILE.count("pip install") == DOCKERFILE.count("-c constraints.txt")
    assert DOCKERFILE.startswith("#")
    assert re.search(r"^FROM python:3\.11-", DOCKERFILE, re.MULTILINE)
