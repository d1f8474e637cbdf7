"""A course through nbgrader itself: release, grades, export; none harms another."""

import csv
import json
import os
import shutil
import subprocess
import sys

import course_toy
import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

from grading import __main__, configure, report, sets
from grading.check import points_of

SET = "1-transform"


def nbgrader(folder, *arguments):
    """Run a command of nbgrader in a course folder, as a teacher does."""
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def extra(source, at=3):
    """Return what puts a code cell of its author's own into a submission."""

    def put(notebook):
        cell = nbformat.v4.new_code_cell(source)
        notebook["cells"].insert(at, json.loads(json.dumps(cell)))

    return put


def forged(notebook):
    """Take tests away, empty one, and claim a hundred points for what is left."""
    tests = [
        c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade")
    ]
    for cell in tests[::2]:
        notebook["cells"].remove(cell)
    for cell in tests[1::2]:
        cell["source"] = "100"
        cell["metadata"]["nbgrader"]["points"] = 100
        cell["outputs"] = [
            {
                "output_type": "execute_result",
                "data": {"text/plain": "100"},
                "execution_count": 1,
                "metadata": {},
            }
        ]


def nothing(notebook):
    """Leave a submission as it is."""


KILLS_JUDGE = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"
# What each student did, to a solution or to the untouched version, and the share of
# the autograded points that this is worth.
CHANGES = {
    "right": (True, nothing, 1),
    "untouched": (False, nothing, 0),
    "endless": (True, extra("while True: pass"), 1),
    "killer": (True, extra(KILLS_JUDGE), 0),
    "leaves": (True, extra("import os\nif os.fork(): os._exit(0)"), 1),
    "forged": (False, forged, 0),
}
FILES = {
    "no-json": lambda path: path.write_text("{"),
    "empty": lambda path: path.write_bytes(b""),
    "large": lambda path: path.touch() or os.truncate(path, 200 * 2**20),
    "folder": lambda path: (path / "sub").mkdir(parents=True),
    "broken-link": lambda path: path.symlink_to("no such file"),
}


def submit(folder, student, text=None):
    place = folder / "submitted" / student / SET
    place.mkdir(parents=True)
    if text is not None:
        (place / f"{SET}.ipynb").write_text(text, encoding="utf-8")
    return place / f"{SET}.ipynb"


def hand_in(out):
    """Hand in what all the students made of the set; return the solution."""
    folder = out / "course"
    student = json.loads((out / f"student/{SET}.ipynb").read_text(encoding="utf-8"))
    source = nbformat.read(folder / f"source/{SET}/{SET}.ipynb", as_version=4)
    solved = {
        cell.metadata.nbgrader.grade_id.replace("-", "_"): cell.source
        for cell in source.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    solution = course_toy.with_sources(student, **solved)
    for name, (is_solved, change, _) in CHANGES.items():
        notebook = course_toy.with_sources(solution if is_solved else student)
        change(notebook)
        submit(folder, name, json.dumps(notebook))
    answer = next(iter(sets.load_wrong(SET).values()))
    changed = {name.replace("-", "_"): text for name, text in answer["cells"].items()}
    submit(folder, "wrong", json.dumps(course_toy.with_sources(solution, **changed)))
    for name, write in FILES.items():
        write(submit(folder, name))
    misnamed = submit(folder, "misnamed")
    misnamed.with_name("mine.ipynb").write_text(json.dumps(solution))
    submit(folder, "no-file")
    submit(folder, "pdf").with_name("answers.pdf").touch()
    beside = submit(folder, "links", json.dumps(solution)).parent
    (beside / "notes.txt").symlink_to(folder / "course_key.txt")
    os.mkfifo(beside / "timestamp.txt")
    return solution


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A course with the first set, released, handed in, and graded by command."""
    out = tmp_path_factory.mktemp("teacher")
    command = ["make", SET, "--key", "spring", "--out", str(out)]
    assert __main__.main(command) == 0
    folder = out / "course"
    code, said = nbgrader(folder, "generate_assignment", SET)
    assert code == 0, said
    hand_in(out)
    code, said = nbgrader(folder, "autograde", SET)
    assert code == 1, said
    assert "assignment '1-transform' for student 'misnamed'" in said
    return folder


@pytest.fixture(scope="module")
def exported(graded):
    """The lines of the exported CSV by student."""
    code, said = nbgrader(graded, "export")
    assert code == 0, said
    with (graded / "grades.csv").open(newline="") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def total():
    return sum(points_of(sets.load_source(SET, "spring")).values())


def reported(folder):
    return report.read(report.report_path(folder, SET))


@pytest.mark.parametrize(
    ("student", "share"),
    [(name, share) for name, (_, _, share) in CHANGES.items()],
)
def test_each_submission_gets_its_own_points(exported, graded, total, student, share):
    assert float(exported[student]["raw_score"]) == share * total
    assert reported(graded)[student]["autograded"] == f"{share * total:g}"
    assert reported(graded)[student]["of"] == f"{total:g}"


def test_a_wrong_answer_loses_what_it_should(exported, total):
    answer = next(iter(sets.load_wrong(SET).values()))
    lost = sum(answer["lost"].values())
    assert float(exported["wrong"]["raw_score"]) == total - lost
    assert lost > 0


def test_the_points_of_the_whole_set_are_exported(exported):
    assert {row["max_score"] for row in exported.values()} == {"100.0"}
    assert {row["assignment"] for row in exported.values()} == {SET}


@pytest.mark.parametrize(
    ("student", "remark"),
    [
        ("endless", "took longer than 10 s and is left out"),
        ("forged", "was deleted: put back"),
        ("forged", "is read-only and was changed: the original counts"),
        ("no-json", "refused: the file is not JSON"),
        ("empty", "refused: the file is empty"),
        ("large", "refused: the file has 200 MiB; 20 are taken"),
        ("folder", "refused: there is no plain file to read"),
        ("folder", "1-transform.ipynb was a folder: renamed"),
        ("broken-link", "refused: there is no plain file to read"),
        ("broken-link", "1-transform.ipynb was a link or a device: removed"),
        ("misnamed", "refused: there is no 1-transform.ipynb, only mine.ipynb"),
        ("links", "notes.txt was a link or a device: removed"),
        ("no-file", "refused: there is no 1-transform.ipynb, the folder is empty"),
        ("pdf", "refused: there is no 1-transform.ipynb, only answers.pdf"),
    ],
)
def test_the_report_says_what_there_is_to_know(graded, student, remark):
    assert remark in reported(graded)[student]["remarks"]


def test_the_report_says_nothing_of_a_plain_submission(graded):
    for student in ("right", "wrong", "untouched"):
        assert reported(graded)[student]["remarks"] == ""


@pytest.mark.parametrize("student", FILES)
def test_what_cannot_be_read_gets_no_points_and_a_line(exported, graded, student):
    assert float(exported[student]["raw_score"]) == 0
    assert reported(graded)[student]["autograded"] == "0"


def test_every_submission_has_a_line(graded):
    students = {path.name for path in (graded / "submitted").iterdir()}
    assert reported(graded).keys() == students
    for student in ("misnamed", "no-file", "pdf"):
        assert reported(graded)[student]["autograded"] == ""


def test_no_file_of_the_teacher_s_comes_near_a_student(graded):
    handed = [p for p in (graded / "autograded").rglob("*") if p.is_file()]
    assert handed
    assert {p.suffix for p in handed} == {".ipynb"}
    assert all(b"spring" not in p.read_bytes() for p in handed)


def test_an_untouched_answer_is_graded_and_a_written_one_waits(graded):
    with Gradebook(f"sqlite:///{graded}/gradebook.db") as book:
        waiting = {
            name: {
                grade.name
                for grade in book.find_submission_notebook(SET, SET, name).grades
                if grade.needs_manual_grade
            }
            for name in ("untouched", "right")
        }
    assert waiting["untouched"] == set()
    assert waiting["right"]


def api_of(folder, **settings):
    config = Config(Judge=settings)
    config.CourseDirectory.root = str(folder)
    configure(config)
    return NbGraderAPI(config=config)


@pytest.mark.parametrize("student", ["right", "wrong", "no-json"])
def test_the_formgrader_s_button_gives_the_same_score_again(graded, student):
    before = reported(graded)[student]
    found = api_of(graded).autograde(SET, student)
    assert found["success"], found
    assert reported(graded)[student] == before


@pytest.mark.parametrize(
    ("student", "shown"),
    [
        ("untouched", "is not written yet"),
        ("no-json", "refused: the file is not JSON"),
        ("forged", "the original counts"),
    ],
)
def test_the_feedback_shows_messages_and_remarks(graded, student, shown):
    found = api_of(graded).generate_feedback(SET, student)
    assert found["success"], found
    page = graded / f"feedback/{student}/{SET}/{SET}.html"
    assert shown in page.read_text(encoding="utf-8")


def test_what_grading_itself_lacks_costs_nobody_a_point(graded, tmp_path):
    folder = tmp_path / "course"
    shutil.copytree(graded, folder, symlinks=True, ignore=lambda *_: ["timestamp.txt"])
    found = api_of(folder, student_user="no such user").autograde(SET, "right")
    assert not found["success"]
    assert "this machine has no user 'no such user'" in found["log"]
    # What nbgrader leaves behind would make the tests of open notebooks fail.
    assert "NBGRADER_EXECUTION" not in os.environ
    line = reported(folder)["right"]
    assert line["autograded"] == ""
    assert line["remarks"].startswith("grading did not come to its end: see what nbgr")


def test_downloads_of_a_learning_platform_are_collected(graded, tmp_path):
    for name in ("course_key.txt", "nbgrader_config.py"):
        shutil.copy(graded / name, tmp_path)
    shutil.copytree(graded / "release", tmp_path / "release")
    place = tmp_path / f"downloaded/{SET}/archive"
    place.mkdir(parents=True)
    for name in ("ada_1-transform", "bob_LATE_12_345_1-transform-1"):
        (place / f"{name}.ipynb").write_text(name)
    code, said = nbgrader(tmp_path, "zip_collect", SET)
    assert code == 0, said
    found = (tmp_path / "submitted").rglob("*.ipynb")
    assert {path.parent.parent.name: path.read_text() for path in found} == {
        "ada": "ada_1-transform",
        "bob": "bob_LATE_12_345_1-transform-1",
    }


def test_without_the_course_s_configuration_nobody_gets_a_point(graded, tmp_path):
    folder = tmp_path / "course"
    shutil.copytree(graded, folder, ignore=shutil.ignore_patterns("nbgrader_config.py"))
    shutil.rmtree(folder / "autograded")
    for path in (folder / "submitted").iterdir():
        if path.name != "right":
            shutil.rmtree(path)
    nbgrader(folder, "autograde", SET, "--Execute.timeout=60")
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        assert book.find_submission(SET, "right").score == 0
