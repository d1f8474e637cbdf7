"""The table of grades, written only if gradebook and report say the same."""

import csv
import math
from pathlib import Path

from nbgrader.api import MissingEntry
from nbgrader.plugins import CsvExportPlugin

from grading import report

FIELDS = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name"),
    *("email", "raw_score", "late_submission_penalty", "score", "max_score"),
)


class Table(CsvExportPlugin):
    """nbgrader's table, after a check that its points are those of grading.

    Text that a spreadsheet would take for a formula begins with a quote. If grading did
    not come to its end, there are no points.
    """

    def export(self, gradebook):
        """Write the table of a gradebook.

        Parameters
        ----------
        gradebook : nbgrader.api.Gradebook
        """
        rows, differences = [], []
        for assignment in gradebook.assignments:
            if self.assignment and assignment.name not in map(str, self.assignment):
                continue
            noted = report.read(report.report_path(self._root(), assignment.name))
            for student in gradebook.students:
                if self.student and student.id not in map(str, self.student):
                    continue
                submission = _submission(gradebook, assignment, student)
                line = noted.get(report.plain(student.id))
                if submission is not None:
                    differences += _differences(submission, line)
                rows.append(_row(assignment, student, submission, line))
                if line is not None and line["autograded"] == "":
                    told = assignment.name, student.id, line["remarks"]
                    self.log.warning("%s: no points for %s: %s", *told)
        if differences:
            self.log.error("No table was written. %s", "; ".join(differences[:20]))
            raise SystemExit(1)
        path = Path(self.to or "grades.csv")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        self.log.info("Wrote %s", path)

    def _root(self):
        return self.parent.coursedir.root


def _submission(gradebook, assignment, student):
    try:
        return gradebook.find_submission(assignment.name, student.id)
    except MissingEntry:
        return None


def _row(assignment, student, submission, line):
    row = {
        "assignment": assignment.name,
        "duedate": assignment.duedate,
        "student_id": student.id,
        "last_name": student.last_name,
        "first_name": student.first_name,
        "email": student.email,
        "max_score": str(assignment.max_score),
    }
    row = {name: "" if v is None else report.plain(str(v)) for name, v in row.items()}
    points = ("raw_score", "late_submission_penalty", "score")
    if line is not None and line["autograded"] == "":
        return row | dict.fromkeys(("timestamp", *points), "")
    if submission is None:
        # As in nbgrader, a student who hands in nothing has 0 points.
        return row | {"timestamp": ""} | dict.fromkeys(points, 0.0)
    penalty = submission.late_submission_penalty
    values = submission.score, penalty, max(0.0, submission.score - penalty)
    return row | {"timestamp": submission.timestamp or ""} | dict(zip(points, values))


def _differences(submission, line):
    """Return the differences between gradebook and report in a submission's points."""
    where = f"{submission.name} of {submission.student.id}"
    if line is None:
        return [f"{where}: the gradebook has points, the report has no line"]
    if line["autograded"] == "":
        return []
    tests = [
        grade
        for notebook in submission.notebooks
        for grade in notebook.grades
        if grade.cell.cell_type == "code"
    ]
    found = []
    for what, ours, theirs in (
        ("points by tests", line["autograded"], (g.auto_score or 0 for g in tests)),
        ("points that tests can give", line["of"], (g.max_score for g in tests)),
    ):
        total = math.fsum(theirs)
        if not math.isclose(total, float(ours), abs_tol=1e-9):
            found.append(
                f"{where}: {what}: {total:g} in the gradebook, {ours} in the report; "
                f"see what changed, then grade it again with --force"
            )
    return found
