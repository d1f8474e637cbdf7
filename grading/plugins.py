"""nbgrader's autograding with this course's reading, judging and report.

``nbgrader_config.py`` names what is here; nbgrader itself keeps the gradebook, the
formgrader, the feedback and the export.
"""

import functools
import os
import re
import shutil
import stat
import sys
from pathlib import Path

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader import preprocessors as theirs
from traitlets import Unicode

from grading import report, sets
from grading.check import points_of
from grading.grade import Grading, grade
from grading.keys import read_key
from grading.restore import limited, restore
from grading.submission import harmless

# By submission: what was taken out of its folder before it was read.
_taken_out = {}


def install(config):
    """Write these classes into a configuration of nbgrader."""
    # nbgrader runs alembic by its name, whether or not the environment is activated.
    if shutil.which("alembic") is None:
        beside = os.path.dirname(sys.executable)
        os.environ["PATH"] = os.pathsep.join([beside, os.environ.get("PATH", "")])
    here = __name__
    autograde = config.Autograde
    autograde.exporter_class = f"{here}.SubmissionExporter"
    root = config.CourseDirectory.get("root", "")
    autograde.pre_convert_hook = functools.partial(before, root=root)
    # What is read is the set's own notebook already: nothing is left to put right.
    autograde.sanitize_preprocessors = [theirs.CheckCellMetadata]
    autograde.autograde_preprocessors = [
        f"{here}.Judge",
        theirs.SaveAutoGrades,
        theirs.AssignLatePenalties,
        theirs.CheckCellMetadata,
    ]
    # How a learning platform often names what it hands out: ada_1-transform.ipynb,
    # ada_12_34_1-transform-1.ipynb. For other names, a teacher sets another pattern.
    names = "|".join(map(re.escape, sets.set_names()))
    config.FileNameCollectorPlugin.named_regexp = (
        rf".*[/\\](?P<student_id>[^/\\_]+)_([^/\\]*_)?(?P<file_id>{names})"
    )


def source_of(coursedir, assignment):
    """Return a course folder's source notebook of a set, hidden tests and all."""
    folder = coursedir.format_path(coursedir.source_directory, ".", assignment)
    return nbformat.read(Path(folder, f"{assignment}.ipynb"), as_version=4)


def before(*, assignment, student, notebooks, root):
    """Make a submission's folder one that nbgrader can copy; open its line.

    nbgrader copies what lies beside the notebook to where the student will read it:
    through a link, that would be a file of the teacher's. And it says nothing of a
    submission without a notebook: that gets its line here too.
    """
    folder = Path(notebooks[0]).parent
    student, assignment = folder.parent.name, folder.name
    source = Path(root, "source", assignment, f"{assignment}.ipynb")
    total = sum(points_of(nbformat.read(source, as_version=4)).values())
    known = report.read(report.report_path(root, assignment))
    for other in folder.parent.parent.glob(f"*/{assignment}/"):
        # A line that is there tells of a notebook that was.
        if other.parent.name not in known and not any(other.glob("*.ipynb")):
            why = _refused(assignment, [path.name for path in other.glob("*")])
            report.note(root, assignment, other.parent.name, None, total, [why])
    remarks = []
    try:
        remarks.extend(_take_out(folder))
    except OSError as error:
        remarks.append(f"a file could not be read: {error.strerror}")
    _taken_out[student, assignment] = remarks
    names = [Path(path).name for path in notebooks]
    why = "grading did not come to its end: see what nbgrader says"
    if source.name not in names:
        why = _refused(assignment, names)
    report.note(root, assignment, student, None, total, [why, *remarks])


def _refused(assignment, names):
    shown = ", ".join(name[:80] for name in sorted(names))
    there = f"only {shown}" if names else "the folder is empty"
    return f"refused: there is no {assignment}.ipynb, {there}"


def _take_out(folder):
    """Remove links and devices; rename a folder that stands where a notebook should."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in [*folders, *files]:
            path = Path(place, name)
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode) and path.suffix == ".ipynb":
                path.rename(path.with_suffix(".folder"))
                yield f"{name[:80]} was a folder: renamed"
            elif not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                path.unlink()
                yield f"{name[:80]} was a link or a device: removed"


class SubmissionExporter(NotebookExporter):
    """Reads a submission as the set's own notebook with the student's answers."""

    def from_filename(self, filename, resources=None, **options):
        """Read a notebook: a submitted one put right, any other as it is."""
        about = resources["nbgrader"]
        coursedir = self.parent.coursedir
        submitted = coursedir.format_path(
            coursedir.submitted_directory, about["student"], about["assignment"]
        )
        if Path(filename).parent != Path(submitted):
            notebook = nbformat.read(filename, as_version=4)
        else:
            source = source_of(coursedir, about["assignment"])
            notebook, remarks = restore(source, filename)
            taken = _taken_out.pop((about["student"], about["assignment"]), [])
            notebook.metadata.bnlib = {"remarks": [*taken, *remarks]}
        return self.from_notebook_node(notebook, resources=resources, **options)


class Judge(theirs.base.NbGraderPreprocessor):
    """Fills the outputs of test cells with what the judge's process found."""

    student_user = Unicode(
        None,
        allow_none=True,
        help="Whom students' code runs as, where grading runs as root.",
    ).tag(config=True)

    def preprocess(self, nb, resources):
        """Grade the restored notebook; write its line in the report."""
        about = resources["nbgrader"]
        coursedir = self.parent.parent.coursedir
        name, student = about["assignment"], about["student"]
        source = source_of(coursedir, name)
        remarks = list(nb.metadata.get("bnlib", {}).get("remarks", []))
        grading = self._graded(nb, source, name, remarks, coursedir.root)
        points = points_of(source)
        for cell in nb.cells:
            if sets.is_test(cell):
                message = grading.messages[sets.mark(cell)["grade_id"]]
                cell.outputs = [] if message is None else [_error(message)]
        passed = [p for test, p in points.items() if grading.messages[test] is None]
        total = sum(points.values())
        remarks = limited(remarks + grading.remarks)
        if remarks:
            nb.cells.insert(0, _shown(remarks))
        report.note(coursedir.root, name, student, sum(passed), total, remarks)
        return nb, resources

    def _graded(self, nb, source, name, remarks, root):
        work = sets.work_of(source)
        refused = next((r for r in remarks if r.startswith("refused: ")), None)
        if refused:
            return Grading({test: refused for test, _ in work["tests"]})
        cells = sets.runnable(nb)
        try:
            key = read_key(root)
            [grading] = grade(work, [cells], key, name, user=self.student_user)
        except Exception:
            # nbgrader leaves it where grading fails: a formgrader's server would hand
            # it on to the notebooks that are opened next.
            os.environ.pop("NBGRADER_EXECUTION", None)
            raise
        return grading


def _shown(remarks):
    """Return the cell that tells student and grader what was put right."""
    lines = [harmless(report.line(remark)) for remark in remarks]
    return nbformat.v4.new_markdown_cell("**Grading**\n\n- " + "\n- ".join(lines))


def _error(message):
    return nbformat.v4.new_output(
        "error", ename="Test", evalue=message, traceback=[message]
    )
