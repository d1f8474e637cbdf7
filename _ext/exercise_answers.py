"""Give an exercise whose answer is a number a field under its text.

The solution's cell computes the answer (`bnlib.exercises.answer`); `tools.outputs`
writes it as a mark in the page. The mark becomes a field under the exercise, which a
script compares with it. Without scripts the field is not shown.
"""

import html
import re

from docutils import nodes
from sphinx.util import logging
from sphinx_exercise.nodes import is_exercise_node

MARK = re.compile(
    r'<i class="answer-mark" data-exercise="([^"]+)" data-value="([^"]+)" '
    r'data-within="([^"]+)"></i>'
)
logger = logging.getLogger(__name__)


def move_answers(app, doctree):
    boxes = {box.get("label"): box for box in doctree.findall(is_exercise_node)}
    for mark in list(doctree.findall(nodes.raw)):
        if not (found := MARK.fullmatch(mark.astext().strip())):
            continue
        exercise, *numbers = found.groups()
        mark.parent.remove(mark)
        if exercise in boxes:
            boxes[exercise].append(
                nodes.raw("", field(exercise, *numbers), format="html")
            )
        else:
            logger.warning("an answer to %s, which is no exercise here", exercise)


def field(exercise, value, within):
    """Return the form in which a reader's number is compared, as HTML."""
    name = html.escape(f"answer-{exercise}")
    return (
        f'<form class="answer" data-value="{value}" data-within="{within}" hidden>'
        f'<label for="{name}">Your number</label> '
        f'<input id="{name}" inputmode="text" autocomplete="off" size="9" required> '
        '<button type="submit">Check</button> <output aria-live="polite"></output>'
        "</form>"
    )


def setup(app):
    app.connect("doctree-read", move_answers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
