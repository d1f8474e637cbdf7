"""Make the boxes of theorems, proofs and exercises sound HTML, and fold proofs.

An id must be unique, but sphinx-proof and sphinx-exercise give the same id to the
body of every box, and sphinx-proof gives another one to every proof. A proof has no
title, so ``:class: dropdown``, which folds by the title, breaks the page's script;
such a proof becomes a dropdown of sphinx-design.
"""

from docutils import nodes
from sphinx_design.shared import create_component
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
        if "dropdown" in box["classes"]:
            proof.replace_self(folded(box))


def folded(box):
    """Turn a proof's box into a dropdown that is titled Proof."""
    first = next(box.findall(nodes.Text))
    if first.startswith(PREFIX):
        first.parent.replace(first, nodes.Text(first.removeprefix(PREFIX)))
    return create_component(
        "dropdown",
        opened=False,
        type="dropdown",
        has_title=True,
        icon=None,
        chevron=None,
        container_classes=["argument", "sd-mb-3"],
        title_classes=[],
        body_classes=[],
        children=[nodes.rubric("", "Proof"), *box.children],
    )


def setup(app):
    app.connect("doctree-read", mend_boxes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
