"""Plugins for nbgrader's autograding: this course's reading, judging and report.

``nbgrader_config.py`` names these classes. The gradebook, the formgrader, the feedback
and the export stay nbgrader's.
"""

import functools
import hashlib
import math
import os
import re
import shutil
import stat
import sys
from pathlib import Path

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader import preprocessors as theirs, utils
from nbgrader.api import Gradebook
from traitlets import Unicode

from grading import report, sets
from grading.check import points_of
from grading.collect import pattern
from grading.grade import Grading, grade
from grading.keys import read_key
from grading.restore import limited, restore
from grading.submission import MAX_FILE, harmless

# By submission: remarks on files taken out of its folder before it was read.
_taken_out = {}


def install(config):
    """Write these classes into a configuration of nbgrader."""
    # nbgrader runs alembic by name, even if the environment is not activated.
    if shutil.which("alembic") is None:
        beside = os.path.dirname(sys.executable)
        os.environ["PATH"] = os.pathsep.join([beside, os.environ.get("PATH", "")])
    here = __name__
    autograde = config.Autograde
    autograde.exporter_class = f"{here}.SubmissionExporter"
    root = config.CourseDirectory.get("root", "")
    autograde.pre_convert_hook = functools.partial(before, root=root)
    # The exporter returns the set's own notebook, so nothing is left to put right.
    autograde.sanitize_preprocessors = [theirs.CheckCellMetadata]
    autograde.autograde_preprocessors = [
        f"{here}.Judge",
        theirs.SaveAutoGrades,
        theirs.AssignLatePenalties,
        theirs.CheckCellMetadata,
    ]
    config.ExportApp.plugin_class = "grading.table.Table"
    # A teacher may set another pattern for files with other names.
    held = sorted(path.name for path in Path(root, "source").glob("*/"))
    config.FileNameCollectorPlugin.named_regexp = pattern(held or sets.set_names())
    config.ZipCollectApp.extractor_plugin = "grading.collect.Archives"


def source_of(coursedir, assignment):
    """Return a course folder's source notebook of a set, hidden tests and all."""
    folder = coursedir.format_path(coursedir.source_directory, ".", assignment)
    return nbformat.read(Path(folder, f"{assignment}.ipynb"), as_version=4)


def before(*, assignment, student, notebooks, root):
    """Make a submission's folder safe for nbgrader to copy; write its first line.

    nbgrader copies the files beside the notebook to where the student will read them. A
    link would give away one of the teacher's files, and a file named like the feedback
    page would replace it.
    """
    folder = Path(notebooks[0]).parent
    student, assignment = folder.parent.name, folder.name
    remarks = []
    try:
        remarks.extend(_take_out(folder, assignment))
    except OSError as error:
        remarks.append(f"a file could not be read: {error.strerror}")
    _taken_out.setdefault((student, assignment), []).extend(remarks)
    names = [Path(path).name for path in notebooks]
    why = "grading did not come to its end: see what nbgrader says"
    if f"{assignment}.ipynb" not in names:
        why = _refused(assignment, names)
    total = _total(root, assignment)
    report.note(root, assignment, student, None, total, [why, *remarks])


def _total(root, assignment):
    source = Path(root, "source", assignment, f"{assignment}.ipynb")
    return sum(points_of(nbformat.read(source, as_version=4)).values())


def _refused(assignment, names):
    shown = ", ".join(name[:80] for name in sorted(names))
    there = f"only {shown}" if names else "the folder is empty"
    return f"refused: there is no {assignment}.ipynb, {there}"


def _take_out(folder, assignment):
    """Remove links and devices; rename files that stand in the way of others."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in [*folders, *files]:
            path = Path(place, name)
            mode = path.lstat().st_mode
            page = Path(place) == folder and name.casefold() == f"{assignment}.html"
            if page:
                path.rename(path.with_name(f"submitted-{name}"))
                yield f"{name} stood where the feedback comes: renamed"
            elif stat.S_ISDIR(mode) and path.suffix == ".ipynb":
                path.rename(path.with_suffix(".folder"))
                yield f"{name[:80]} was a folder: renamed"
            elif not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                path.unlink()
                yield f"{name[:80]} was a link or a device: removed"


class SubmissionExporter(NotebookExporter):
    """An exporter that reads a submission as the set's notebook with its answers."""

    def __init__(self, **options):
        super().__init__(**options)
        # nbgrader makes it after it has looked for submissions and before it begins.
        if hasattr(self.parent, "assignments"):
            _prepare(self.parent)

    def from_filename(self, filename, resources=None, **options):
        """Read a notebook: put a submitted one right, and leave any other as it is."""
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
            notebook.metadata.bnlib = {
                "remarks": [*taken, *remarks],
                "submitted": _digest(filename),
            }
        return self.from_notebook_node(notebook, resources=resources, **options)


def _prepare(converter):
    """Name the submissions that cannot be graded; mark new ones to be graded again."""
    coursedir = converter.coursedir
    place = Path(coursedir.format_path(coursedir.submitted_directory, "x", "y"))
    for folder in list(converter.assignments):
        student, name = Path(folder).parent.name, Path(folder).name
        if not student.isprintable():
            del converter.assignments[folder]
            converter.log.error("Skipped %r: no name for a folder", student)
            _note_refused(coursedir.root, name, student, "no name for a folder")
            continue
        converter.assignments[folder] = _renamed(folder, name, student)
        copy = coursedir.format_path(coursedir.autograded_directory, student, name)
        graded = Path(copy, f"{name}.ipynb")
        if graded.is_file() and _is_new(Path(folder, graded.name), graded):
            converter.log.warning("%s of %s is new: graded again", name, student)
            utils.rmtree(copy)
    for name in {Path(folder).name for folder in converter.assignments}:
        _note_absent(coursedir.root, name, place.parents[1])


def _renamed(folder, name, student):
    """Undo a browser's renaming of the only notebook: ``1-transform (1).ipynb``."""
    found = sorted(Path(folder).glob("*.ipynb"))
    if len(found) == 1 and found[0].is_file() and not found[0].is_symlink():
        [path] = found
        if re.fullmatch(
            rf"{re.escape(name)}([ _-]*(\(\d+\)|\d+|copy))+", path.stem, re.I
        ):
            found = [path.rename(path.with_name(f"{name}.ipynb"))]
            remark = f"{path.name[:80]} was renamed {found[0].name}"
            _taken_out[student, name] = [remark]
    return [str(path) for path in found]


def _is_new(submitted, graded):
    """Return True if a submission is not the file that was graded."""
    noted = nbformat.read(graded, as_version=4).metadata.get("bnlib", {})
    return "submitted" in noted and noted["submitted"] != _digest(submitted)


def _digest(path):
    """Return the digest of a regular file, its size if it is too large, or None."""
    path = Path(path)
    if path.is_symlink() or not path.is_file():
        return None
    if path.stat().st_size > MAX_FILE:
        return f"{path.stat().st_size} bytes"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _note_absent(root, name, submitted):
    """Write the line of every submission that nbgrader does not report."""
    known = report.read(report.report_path(root, name))
    for entry in os.scandir(submitted):
        student, folder = entry.name, Path(entry.path, name)
        # An existing line tells of a notebook that was there earlier.
        if report.plain(student) in known or not folder.is_dir():
            continue
        if student.startswith("."):
            _note_refused(root, name, student, "a name with a dot in front is not read")
        elif not any(folder.glob("*.ipynb")):
            names = [path.name for path in folder.glob("*")]
            _note_refused(root, name, student, _refused(name, names))


def _note_refused(root, name, student, why):
    why = why if why.startswith("refused: ") else f"refused: {why}"
    report.note(root, name, student, None, _total(root, name), [why])


class Judge(theirs.base.NbGraderPreprocessor):
    """A preprocessor that fills the outputs of test cells with the judge's findings."""

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
        remarks += _lateness(about, name, student)
        if grading.fault:
            why = f"not graded: {grading.fault}; run it again"
            total = sum(points.values())
            report.note(coursedir.root, name, student, None, total, [why, *remarks])
            raise RuntimeError(why)
        for what in grading.unlocked:
            self.log.warning("Students' code is not locked in: %s", what)
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
            # nbgrader leaves it set if grading fails, and a formgrader's server would
            # pass it on to the notebooks that are opened next.
            os.environ.pop("NBGRADER_EXECUTION", None)
            raise
        return grading


def _lateness(about, name, student):
    """Return a line on a submission that came after the set's date, or None."""
    with Gradebook(about["db_url"]) as gradebook:
        late = gradebook.find_submission(name, student).total_seconds_late
    days, hours = divmod(math.ceil(late / 3600), 24)
    return [f"late by {days} days and {hours} hours"] if late > 0 else []


def _shown(remarks):
    """Return the cell that tells student and grader what was put right."""
    lines = [harmless(report.line(remark)) for remark in remarks]
    return nbformat.v4.new_markdown_cell("**Grading**\n\n- " + "\n- ".join(lines))


def _error(message):
    return nbformat.v4.new_output(
        "error", ename="Test", evalue=message, traceback=[message]
    )
