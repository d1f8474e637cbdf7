"""Number a chapter as its file is numbered: 02-transform is chapter 2.

Sphinx counts the table of contents from 1 and takes no start value, so a book that
lacks chapter 1 would call chapter 2 the first. Theorems, equations and exercises
take the chapter's number from here too. Other pages count from 1, and those with
statements or figures of their own have a letter, E.1, E.2, ..., so that no two things
of the book have one number.
"""

import re
from pathlib import PurePosixPath

from docutils import nodes
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles

LETTERS = {
    "chapters/background": "B",
    "chapters/errata": "E",
    "chapters/reproductions": "R",
}


def file_number(docname):
    """Return the number that starts a page's file name, or None."""
    match = re.match(r"(\d+)-", PurePosixPath(docname).name)
    return int(match[1]) if match else None


def renumber(env, docname):
    """Put the file's number first in every section number of a page."""
    chapter = file_number(docname)
    numbers = env.toc_secnumbers[docname]
    for anchor, number in numbers.items():
        if number:
            numbers[anchor] = (chapter, *number[1:])
    for holder in (env.titles[docname], *env.tocs[docname].findall(nodes.reference)):
        if holder.get("secnumber"):
            holder["secnumber"] = [chapter, *holder["secnumber"][1:]]


def number_by_file(count_chapters):
    """Wrap the collector's method so that chapters have their files' numbers."""

    def assign_section_numbers(self, env):
        before = env.toc_secnumbers
        count_chapters(self, env)
        for docname in env.toc_secnumbers:
            if file_number(docname) is not None:
                renumber(env, docname)
        return [
            docname
            for docname, numbers in env.toc_secnumbers.items()
            if numbers != before.get(docname)
        ]

    return assign_section_numbers


def number_by_page(number_figures):
    """Wrap the collector's method so that a page without a number counts by itself."""

    def assign_figure_numbers(self, env):
        rewritten = number_figures(self, env)
        for docname, kinds in env.toc_fignumbers.items():
            if file_number(docname) is None:
                letter = (LETTERS[docname],) if docname in LETTERS else ()
                for numbers in kinds.values():
                    for place, anchor in enumerate(numbers, start=1):
                        numbers[anchor] = (*letter, place)
        return rewritten

    return assign_figure_numbers


def setup(app):
    # The same event numbers sections, then figures and theorems by section: the
    # only place between the two is the method itself.
    TocTreeCollectorWithStyles.assign_section_numbers = number_by_file(
        TocTreeCollectorWithStyles.assign_section_numbers
    )
    TocTreeCollectorWithStyles.assign_figure_numbers = number_by_page(
        TocTreeCollectorWithStyles.assign_figure_numbers
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
