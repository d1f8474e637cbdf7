"""Make the boxes of theorems, proofs and exercises sound HTML, and fold what folds.

An id must be unique, but sphinx-proof and sphinx-exercise give the same id to the
body of every box, and sphinx-proof gives another one to every proof. A proof has no
title, so ``:class: dropdown``, which folds by the title, breaks the page's script.
Whatever a page folds, proofs, hints, solutions and boxes of class dropdown, becomes a
dropdown of sphinx-design: one look, one key, and open to all without a script.
"""

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_design.shared import create_component
from sphinx_exercise.nodes import solution_node
from sphinx_proof.nodes import proof_node

REPEATED_IDS = (["proof-content"], ["exercise-content"], ["solution-content"])
PREFIX = "Proof. "


def mend_boxes(app, doctree):
    for body in list(doctree.findall(nodes.section)):
        if body["ids"] in REPEATED_IDS:
            # Sphinx expects a heading in a section, and asks for its id.
            container = nodes.container("", *body.children, classes=body["classes"])
            body["ids"] = []
            body.replace_self(container)
    for proof in list(doctree.findall(proof_node)):
        box = proof[0]
        box["ids"] = []
        box["classes"].append("argument")
        first = next(box.findall(nodes.Text))
        if "dropdown" in box["classes"]:
            if first.startswith(PREFIX):
                first.parent.replace(first, nodes.Text(first.removeprefix(PREFIX)))
            proof.replace_self(folded("Proof", box.children, "argument"))
        elif first.startswith(PREFIX):
            rest = nodes.Text(first.removeprefix(PREFIX))
            word = nodes.strong("", PREFIX.strip(), classes=["proof-word"])
            first.parent.replace(first, [word, nodes.Text(" "), rest])
    for box in list(doctree.findall(nodes.admonition)):
        if type(box) is nodes.admonition and "dropdown" in box["classes"]:
            title, *body = box.children
            kept = [name for name in box["classes"] if not name.startswith("admoni")]
            box.replace_self(folded(title.astext(), body, *kept, ids=box["ids"]))


def folded(title, children, *classes, ids=()):
    """Return a dropdown with a title."""
    dropdown = create_component(
        "dropdown",
        opened=False,
        type="dropdown",
        has_title=True,
        icon=None,
        chevron=None,
        container_classes=["sd-mb-3", *(c for c in classes if c != "dropdown")],
        title_classes=[],
        body_classes=[],
        children=[nodes.rubric("", title), *children],
    )
    dropdown["ids"] = list(ids)
    return dropdown


class FoldSolutions(SphinxPostTransform):
    """Fold a solution of class dropdown, after sphinx-exercise has named it."""

    # Before sphinx-design writes its dropdowns (199).
    default_priority = 150
    formats = ("html",)

    def run(self, **_):
        for box in list(self.document.findall(solution_node)):
            if "dropdown" in box["classes"]:
                _, *body = box.children
                box.replace_self(folded("Solution", body, "solution", ids=box["ids"]))


def setup(app):
    app.connect("doctree-read", mend_boxes)
    app.add_post_transform(FoldSolutions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
