"""The instructors' page: its commands run as they are printed."""

import csv
import getpass
import os
import re
import subprocess

import pytest
from notebook_rules import section

from grading import submission
from grading.worker import Limits
from tools import build

PAGE = (build.ROOT / "chapters/instructors.md").read_text(encoding="utf-8")
REHEARSAL = section(PAGE, "Rehearse it in ten minutes")
COURSE = section(PAGE, "Make your course")
LAPTOP = section(PAGE, "On one laptop")
HUB = section(PAGE, "On a JupyterHub")
#: The report of the rehearsal, as the page prints it.
REPORT = re.search(r"```text\n(student,.+?)```", REHEARSAL, re.DOTALL)[1]
#: The points that the tests of set 1 give.
MOST = float(next(csv.DictReader(REPORT.splitlines()))["of"])


def blocks(text, language="bash"):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Shell:
    """Runs the page's commands: the copy of the repository is this one."""

    def __init__(self, folder):
        self.folder = folder
        config = folder / "etc"
        config.mkdir()
        # Whoever runs the tests has settings and files of nbgrader's too.
        self.environment = os.environ | {
            "JUPYTER_CONFIG_PATH": str(config),
            "JUPYTER_CONFIG_DIR": str(folder / "own"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "PYTHONWARNINGS": "default",
        }

    def here(self, text):
        """Put this machine's folders in a text of the page's."""
        clone = r"git clone \S+/([\w-]+)\ncd \1|cd batch-normalization-proved-and-run"
        text = re.sub(clone, f"cd '{build.ROOT}'", text)
        text = re.sub(r"(?<!cd )\.\./(rehearsal|bn-2027)\b", rf"{self.folder}/\1", text)
        text = re.sub(r"cd \.\./(rehearsal|bn-2027)\b", rf"cd {self.folder}/\1", text)
        # A test must not make again the environment in which it runs.
        text = text.replace("make assignments", "make -o .venv/.ready assignments")
        return text.replace("/srv/nbgrader", str(self.folder))

    def run(self, *commands, place=".", typed=""):
        """Run commands in one shell; return all that they printed."""
        done = subprocess.run(
            ["bash", "-e", "-c", self.here("\n".join(commands))],
            cwd=self.folder / place,
            env=self.environment,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


def grades(path):
    """Return the points in a table of grades by student."""
    with path.open(newline="") as file:
        return {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}


def test_the_rehearsal_runs_as_printed_and_leaves_nothing(tmp_path):
    shell = Shell(tmp_path)
    commands = blocks(REHEARSAL)
    printed = shell.run(*commands)
    assert REPORT in printed
    for line in csv.DictReader(REPORT.splitlines()):
        points = float(line["autograded"])
        assert f"1-transform,,,{line['student']},,,,{points},0.0,{points},100.0\n" in (
            printed
        )
    assert not (tmp_path / "rehearsal").exists()


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A shell, with a course made as the page makes it."""
    shell = Shell(tmp_path_factory.mktemp("course"))
    [making, listing] = blocks(COURSE)
    shell.run(making, typed="a private key\n")
    place = "bn-2027/course"
    [students] = [text for text in blocks(COURSE, "text") if text.startswith("id,")]
    (shell.folder / place / "students.csv").write_text(students)
    activate = f". '{build.ROOT}/.venv/bin/activate'"
    shell.run(activate, listing, place=place)
    return shell


def test_the_course_has_the_name_and_the_key_and_is_the_teachers_alone(course):
    place = course.folder / "bn-2027/course"
    assert "course_id = 'bn-2027'" in (place / "nbgrader_config.py").read_text()
    assert (place / "course_key.txt").read_text() == "a private key\n"
    assert place.stat().st_mode & 0o077 == 0


def test_files_from_a_learning_platform_are_sorted_graded_and_exported(course):
    place = course.folder / "bn-2027/course"
    archive = place / "downloaded/1-transform/archive"
    archive.mkdir(parents=True)
    solution = (course.folder / "bn-2027/solution/1-transform.ipynb").read_bytes()
    (archive / "s01_1-transform.ipynb").write_bytes(solution)
    activate = f". '{build.ROOT}/.venv/bin/activate'"
    release = "nbgrader generate_assignment 1-transform"
    assert f"`{release}`" in LAPTOP
    course.run(activate, release, *blocks(LAPTOP), place="bn-2027/course")
    # The points by tests; a student who hands in nothing has 0.
    assert grades(place / "grades.csv") == {"s01": MOST, "s02": 0.0}
    assert (place / "feedback/s01/1-transform/1-transform.html").is_file()
    assert "`nbgrader autograde 1-transform --student s01 --force`" in " ".join(
        LAPTOP.split()
    )


def test_a_hub_releases_collects_and_gives_back(tmp_path):
    shell = Shell(tmp_path)
    (setting_up,) = blocks(HUB, "text")
    shell.run(setting_up)
    [config] = blocks(HUB, "python")
    (tmp_path / "etc/nbgrader_config.py").write_text(shell.here(config))
    (tmp_path / "student").mkdir()
    teacher = "bn-2027/course"
    release, student, grade, read = blocks(HUB)
    activate = f". '{build.ROOT}/.venv/bin/activate'"
    shell.run(blocks(COURSE)[0], typed="a private key\n")
    shell.run(activate, release, place=teacher)
    shell.run(activate, student, place="student")
    shell.run(activate, grade, place=teacher)
    shell.run(activate, read, place="student")
    assert grades(tmp_path / teacher / "grades.csv") == {getpass.getuser(): 0.0}
    assert list((tmp_path / "student/1-transform/feedback").rglob("*.html"))


def test_all_commands_of_the_page_are_run():
    run = [REHEARSAL, COURSE, LAPTOP, HUB]
    assert blocks(PAGE) == [block for text in run for block in blocks(text)]


def test_the_limits_on_the_page_are_those_of_grading():
    limits = Limits()
    values = {
        "a call of a function": f"{limits.call:g} s",
        "a cell": f"{limits.cell:g} s",
        "the whole submission": f"{limits.total:g} s",
        "memory (on Linux)": f"{limits.memory // 2**30} GiB",
        "a file that it writes": f"{limits.file_size // 2**20} MiB",
        "open files": f"{limits.open_files}",
        "processes (with a user of its own)": f"{limits.processes}",
        "the submitted notebook": f"{submission.MAX_FILE // 2**20} MiB, "
        f"{submission.MAX_CELLS} cells",
    }
    text = section(PAGE, "Limits")
    assert dict(re.findall(r"^\| (.+?) \| (\d.+?) \|$", text, re.MULTILINE)) == values
