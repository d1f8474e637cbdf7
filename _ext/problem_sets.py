"""List the problem sets: the directives ``problem-set-table`` and ``problem-sets``.

The folder ``assignments`` of the site holds the student versions, which
``python -m tools.build`` writes before the pages are read. All that a page says about
a set is read from the file that a student gets: its title and opening, its minutes,
its points, its checksum.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.osutil import relative_uri

FOLDER = "assignments"
TITLE = re.compile(r"# Problem set (?P<number>\d+): (?P<title>\S.*)")
MINUTES = re.compile(r"\bAbout (\d+) minutes\b")
BUILDS_ON = re.compile(r"\*\*Builds on\*\*((?:(?!\bAbout\b|\n\n).)*)", re.DOTALL)
HEAD = (
    "| set | builds on | minutes | points by tests | points by hand | download |\n"
    "|---|---|--:|--:|--:|---|"
)


class ProblemSet(NamedTuple):
    """What a student version says of itself."""

    name: str
    number: int
    title: str
    opening: str
    chapters: list
    minutes: int
    tested: int | float
    by_hand: int | float


def read_set(path):
    """Read a student version.

    Parameters
    ----------
    path : Path
        The notebook.

    Returns
    -------
    ProblemSet

    Raises
    ------
    ValueError
        If its opening lacks the title, the chapters or the minutes.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first, *paragraphs = "".join(cells[0]["source"]).strip().split("\n\n")
    text = "\n\n".join(paragraphs)
    found = TITLE.fullmatch(first), BUILDS_ON.search(text), MINUTES.search(text)
    for match, what in zip(
        found, ("# Problem set N: TITLE", "**Builds on** chapter NN", "About N minutes")
    ):
        if match is None:
            raise ValueError(f"{path.stem}: its first cell does not say {what!r}")
    title, builds_on, minutes = found
    return ProblemSet(
        path.stem,
        int(title["number"]),
        title["title"][0].upper() + title["title"][1:],
        # The page says once how all sets are graded.
        "\n\n".join(p for p in paragraphs if not p.startswith("**How it is graded")),
        re.findall(r"\b\d\d\b", builds_on[1]),
        int(minutes[1]),
        points(cells, "code"),
        points(cells, "markdown"),
    )


def points(cells, kind):
    """Add the points of all graded cells of a kind."""
    marks = [c["metadata"].get("nbgrader", {}) for c in cells if c["cell_type"] == kind]
    return sum(mark["points"] for mark in marks if mark.get("grade"))


class Offered(SphinxDirective):
    """What both directives share: the sets, and links to their files."""

    def sets(self):
        """Read all student versions of the site, in their order."""
        paths = sorted(self.folder().glob("student/*.ipynb"))
        if not paths:
            raise self.error("no student versions are there: run make book")
        try:
            return [read_set(path) for path in paths]
        except ValueError as reason:
            raise self.error(str(reason)) from None

    def folder(self):
        return Path(self.env.app.outdir, FOLDER)

    def file(self, name):
        """Link a file of the site in HTML, since Sphinx does not know the file."""
        page = self.env.app.builder.get_target_uri(self.env.docname)
        address = relative_uri(page, f"{FOLDER}/{name}")
        return f'<a href="{address}" download>{Path(name).name}</a>'


class ProblemSetTable(Offered):
    """A table of the sets, a row for each."""

    def run(self):
        """Write the table as Markdown, and parse it as part of the page."""
        table = "\n".join([HEAD, *map(self.row, self.sets())])
        return self.parse_text_to_nodes(table)

    def row(self, each):
        chapters = ", ".join(map(self.chapter, each.chapters))
        return (
            f"| [{each.number} {each.title}](#set-{each.name}) | {chapters} "
            f"| {each.minutes} | {each.tested:g} | {each.by_hand:g} "
            f"| {self.file(f'{each.name}.zip')} |"
        )

    def chapter(self, number):
        """Link a chapter, which lies beside this page."""
        here = Path(self.env.doc2path(self.env.docname)).parent
        [file] = [path.name for path in here.glob(f"{number}-*.ipynb")] or [None]
        return f"[{number}]({file})" if file else number


class ProblemSets(Offered):
    """A section for each set: what it says of itself, and its files."""

    def run(self):
        """Make the sections, each with a label: set-NAME."""
        lines = (self.folder() / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
        sums = {name: total for total, name in (line.split("  ") for line in lines)}
        return [self.section(each, sums) for each in self.sets()]

    def section(self, each, sums):
        names = f"{each.name}.zip", f"student/{each.name}.ipynb"
        files = [f"- {self.file(name)}, SHA-256 `{sums[name]}`" for name in names]
        text = "\n\n".join([each.opening, "**Files**", "\n".join(files)])
        title = nodes.title("", f"{each.number}. {each.title}")
        section = nodes.section("", title, names=[f"set-{each.name}"])
        self.state.document.note_explicit_target(section)
        section += self.parse_text_to_nodes(text)
        return section


def setup(app):
    app.add_directive("problem-set-table", ProblemSetTable)
    app.add_directive("problem-sets", ProblemSets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
