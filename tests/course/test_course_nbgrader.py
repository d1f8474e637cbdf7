"""A course through nbgrader itself: release, grades, export; none harms another."""

import csv
import json
import os
import shutil
import subprocess
import sys
import zipfile

import course_toy
import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

from grading import __main__, configure, report, sets, submission
from grading.check import points_of

SET = "toy"


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
    """Return a function that puts a student's new code cell into a submission."""

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


KILLS = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"
# What each student did, to a solution or to the untouched version, and the share of
# the autograded points that this is worth.
CHANGES = {
    "right": (True, nothing, 1),
    "untouched": (False, nothing, 0),
    "endless": (True, extra("import time\ntime.sleep(60)"), 1),
    "killer": (True, extra(KILLS), 1),
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
    wrong = course_toy.with_sources(solution, moved="def moved(x):\n    return x + 9.5")
    submit(folder, "wrong", json.dumps(wrong))
    for name, write in FILES.items():
        write(submit(folder, name))
    misnamed = submit(folder, "misnamed")
    misnamed.with_name("mine.ipynb").write_text(json.dumps(solution))
    submit(folder, "no-file")
    submit(folder, "pdf").with_name("answers.pdf").touch()
    beside = submit(folder, "links", json.dumps(solution)).parent
    (beside / "notes.txt").symlink_to(folder / "course_key.txt")
    os.mkfifo(beside / "timestamp.txt")
    page = submit(folder, "exported", json.dumps(solution)).with_suffix(".html")
    page.write_text("my own page")
    page.chmod(0o444)
    for name in ("browser", ".hidden", "new\nline", "=cmd|' 'quoted\"", "late"):
        submit(folder, name, json.dumps(solution))
    path = folder / f"submitted/browser/{SET}/{SET}.ipynb"
    path.rename(path.with_name(f"{SET} (1).ipynb"))
    late = folder / f"submitted/late/{SET}/timestamp.txt"
    late.write_text("2027-03-02 15:30:00 UTC")
    return solution


def make_course(out):
    """Make a course of the toy set; return its folder."""
    with pytest.MonkeyPatch.context() as patch:
        course_toy.write_set(out / "sets")
        patch.setattr(sets, "SOURCE", out / "sets")
        assert __main__.main(["make", "--key", "spring", "--out", str(out)]) == 0
    return out / "course"


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A course with the first set, released, handed in, and graded by command."""
    out = tmp_path_factory.mktemp("teacher")
    folder = make_course(out)
    code, said = nbgrader(folder, "generate_assignment", SET)
    assert code == 0, said
    hand_in(out)
    due = "--duedate=2027-03-01 12:00:00 UTC"
    code, said = nbgrader(folder, "db", "assignment", "add", SET, due)
    assert code == 0, said
    code, said = nbgrader(folder, "autograde", SET)
    assert code == 1, said
    assert "assignment 'toy' for student 'misnamed'" in said
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
    return sum(points_of(course_toy.notebook()).values())


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
    lost = course_toy.notebook().cells[4:6]
    assert float(exported["wrong"]["raw_score"]) == total - sum(
        cell.metadata.nbgrader.points for cell in lost
    )


def test_the_points_of_the_whole_set_are_exported(exported):
    assert {row["max_score"] for row in exported.values()} == {"10.0"}
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
        ("folder", "toy.ipynb was a folder: renamed"),
        ("broken-link", "refused: there is no plain file to read"),
        ("broken-link", "toy.ipynb was a link or a device: removed"),
        ("misnamed", "refused: there is no toy.ipynb, only mine.ipynb"),
        ("links", "notes.txt was a link or a device: removed"),
        ("no-file", "refused: there is no toy.ipynb, the folder is empty"),
        ("pdf", "refused: there is no toy.ipynb, only answers.pdf"),
        ("exported", "toy.html stood where the feedback comes: renamed"),
        ("browser", "toy (1).ipynb was renamed toy.ipynb"),
        (".hidden", "refused: a name with a dot in front is not read"),
        ("new\nline", "refused: no name for a folder"),
        ("late", "late by 1 days and 4 hours"),
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
    assert reported(graded).keys() == {report.plain(name) for name in students}
    for student in ("misnamed", "no-file", "pdf"):
        assert reported(graded)[student]["autograded"] == ""


def test_no_file_of_the_teacher_s_comes_near_a_student(graded):
    handed = [p for p in (graded / "autograded").rglob("*") if p.is_file()]
    assert handed
    own = {"timestamp.txt", f"submitted-{SET}.html"}
    assert {p.name for p in handed} == {f"{SET}.ipynb", *own}
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
    folder = copied(graded, tmp_path)
    found = api_of(folder, student_user="no such user").autograde(SET, "right")
    assert not found["success"]
    assert "this machine has no user 'no such user'" in found["log"]
    # What nbgrader leaves behind would make the tests of open notebooks fail.
    assert "NBGRADER_EXECUTION" not in os.environ
    line = reported(folder)["right"]
    assert line["autograded"] == ""
    assert line["remarks"].startswith("grading did not come to its end: see what nbgr")
    code, said = nbgrader(folder, "export")
    assert code == 0, said
    with (folder / "grades.csv").open(newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert rows["right"]["score"] == ""
    assert rows["wrong"]["score"] != ""


def test_downloads_of_a_learning_platform_are_collected(graded, tmp_path):
    for name in ("course_key.txt", "nbgrader_config.py"):
        shutil.copy(graded / name, tmp_path)
    for name in ("release", "source"):
        shutil.copytree(graded / name, tmp_path / name)
    place = tmp_path / f"downloaded/{SET}/archive"
    place.mkdir(parents=True)
    for name in ("ada_toy", "bob_LATE_12_345_toy-1", "twice_toy", "twice_toy-1"):
        (place / f"{name}.ipynb").write_text(name)
    for name in ("same_toy", "same_toy-1", ".._toy", "-rf_toy", "$(id)_toy"):
        (place / f"{name}.ipynb").write_text("the same")
    (place / "broken_toy.zip").write_bytes(b"PK no archive")
    moodle = place / "Ada Lovelace_12_assignsubmission_file_"
    moodle.mkdir()
    (moodle / "toy.ipynb").write_text("in a folder")
    members = {
        "zoe_1/toy.ipynb": "in a zip",
        "../../eve_toy.ipynb": "outside",
        "/eve_toy.ipynb": "outside",
        "bomb_toy.ipynb": "0" * (submission.MAX_FILE + 1),
        "large.bin": "0" * 2**20,
    }
    with zipfile.ZipFile(place / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    code, said = nbgrader(tmp_path, "zip_collect", SET)
    assert code == 0, said
    found = (tmp_path / "submitted").rglob("*.ipynb")
    assert {path.parent.parent.name: path.read_text() for path in found} == {
        "ada": "ada_toy",
        "bob": "bob_LATE_12_345_toy-1",
        "same": "the same",
        "Ada Lovelace": "in a folder",
        "zoe": "in a zip",
    }
    assert not list(tmp_path.rglob("*eve*"))
    for named in (
        "broken_toy.zip: File is not a zip file",
        "toy of twice, who has two: twice_toy-1.ipynb, twice_toy.ipynb",
        "../../eve_toy.ipynb in",
        "bomb_toy.ipynb in",
        "over 20 MiB",
    ):
        assert named in said


def test_a_replaced_submission_is_graded_anew_and_no_other(graded, tmp_path):
    folder = copied(graded, tmp_path)
    before = reported(folder)
    for student in ("no-json", "misnamed"):
        (folder / f"submitted/{student}").rename(tmp_path / student)
    right = folder / f"submitted/right/{SET}/{SET}.ipynb"
    again = submit(folder, "no-json")
    shutil.copy(right, again)
    code, said = nbgrader(folder, "autograde", SET)
    assert code == 0, said
    assert said.count("is new: graded again") == 1
    after = reported(folder)
    assert after.pop("no-json")["autograded"] == before["right"]["autograded"]
    assert {**before, **after} == before


def copied(graded, tmp_path):
    """Return a copy of the course, which a test may change."""
    folder = tmp_path / "course"
    shutil.copytree(graded, folder, symlinks=True, ignore=ignored)
    return folder


def ignored(folder, names):
    pipes = [n for n in names if not os.path.exists(os.path.join(folder, n))]
    return [*pipes, *(n for n in names if "new\nline" in n or "links" in folder)]


def test_a_table_that_is_not_the_report_s_is_not_written(graded, tmp_path):
    folder = copied(graded, tmp_path)
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        for grade in book.find_submission_notebook(SET, SET, "wrong").grades:
            grade.auto_score = 4
        book.db.commit()
    (folder / "grades.csv").unlink(missing_ok=True)
    code, said = nbgrader(folder, "export")
    assert code == 1
    assert "toy of wrong: points by tests: " in said
    assert "12 in the gradebook, 4 in the report" in said
    assert not (folder / "grades.csv").exists()


def test_points_by_hand_are_no_difference(graded, tmp_path):
    folder = copied(graded, tmp_path)
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        for grade in book.find_submission_notebook(SET, SET, "wrong").grades:
            grade.manual_score = 2
            grade.extra_credit = 1
        book.db.commit()
    assert nbgrader(folder, "export")[0] == 0


def test_a_name_that_is_a_formula_is_text_in_both_tables(exported, graded):
    name = "'=cmd|' 'quoted\""
    assert exported[name]["raw_score"] == exported["right"]["raw_score"]
    assert reported(graded)[name]["autograded"] == "7"


def test_the_feedback_comes_where_a_page_of_the_student_s_stood(graded):
    found = api_of(graded).generate_feedback(SET, "exported")
    assert found["success"], found
    page = graded / f"feedback/exported/{SET}/{SET}.html"
    assert "my own page" not in page.read_text(encoding="utf-8")
    kept = graded / f"submitted/exported/{SET}/submitted-{SET}.html"
    assert kept.read_text() == "my own page"


def test_without_the_course_s_configuration_nobody_gets_a_point(graded, tmp_path):
    folder = tmp_path / "course"
    copied(graded, tmp_path)
    (folder / "nbgrader_config.py").unlink()
    shutil.rmtree(folder / "autograded")
    for path in (folder / "submitted").iterdir():
        if path.name != "right":
            shutil.rmtree(path)
    nbgrader(folder, "autograde", SET, "--Execute.timeout=60")
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        assert book.find_submission(SET, "right").score == 0
