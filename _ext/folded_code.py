"""Fold the code of chapters, so that a switch in the header can show it.

Every input becomes a fold like those of cells tagged hide-input, which stay folded
when the switch says Run. Cells that ask the reader for code, and those tagged
show-code, are shown always, and so is what stands in a solution, which is a fold
itself. Without scripts each fold opens by a click too.
"""

from chapter_numbers import file_number
from docutils import nodes
from sphinx_exercise.nodes import solution_node

ASKS = ("exercises.check(", "= ...", "return ...")
SHOW, HIDE = "Show code", "Hide code"


def fold(app, doctree):
    if file_number(app.env.docname) is None:
        return
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") != "cell_code" or cell.get("hide_mode"):
            continue
        if not (cell.children and "cell_input" in cell[0]["classes"]):
            continue
        if inside(cell, solution_node):
            continue
        code = cell[0].astext()
        if "tag_show-code" in cell["classes"] or any(word in code for word in ASKS):
            continue
        cell["hide_mode"], cell["prompt_show"], cell["prompt_hide"] = (
            "input",
            SHOW,
            HIDE,
        )
        cell["classes"].append("shown-in-run")


def inside(node, kind):
    """Return whether a node of a kind is among a node's ancestors."""
    while node is not None and not isinstance(node, kind):
        node = node.parent
    return node is not None


def name_by_words(app, pagename, templatename, context, doctree):
    """Let a fold's name be what it shows; myst-nb gives all of them another one."""
    if "body" in context:
        context["body"] = context["body"].replace(
            '<summary aria-label="Toggle hidden content">', "<summary>"
        )


def setup(app):
    app.connect("doctree-read", fold)
    app.connect("html-page-context", name_by_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
