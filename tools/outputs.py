"""Turn what a run gave into what the pages show: figures, answers and judgements."""

import json

import nbformat

from bnlib.exercises import ANSWER
from tools import figures
from tools.cells import code_cells
from tools.files import write_whole

LEDGER = "chapters/ledger.ipynb"
JUDGEMENTS = "_build/judgements.json"


def for_pages(notebook):
    """Return a copy of a notebook with its outputs as the pages show them."""
    notebook = nbformat.from_dict(notebook)
    for number, cell in enumerate(code_cells(notebook)):
        image = cell.metadata.get("mystnb", {}).get("image", {})
        for place, output in enumerate(cell.outputs):
            data = output.get("data", {})
            if told := data.get(ANSWER):
                output.data = nbformat.from_dict({"text/html": mark(told)})
            elif (svg := data.pop("image/svg+xml", None)) and image.get("alt"):
                drawn = figures.inline(svg, image["alt"], f"figure-{number}-{place}")
                if drawn:
                    output.data = nbformat.from_dict({"text/html": drawn})
    return notebook


def mark(told):
    """Return an answer as a mark in the page; _ext/exercise_answers.py reads it."""
    return (
        f'<i class="answer-mark" data-exercise="{told["exercise"]}" '
        f'data-value="{told["value"]:g}" data-within="{told["within"]:g}"></i>'
    )


def write_judgements(root, executed):
    """Write what the ledger's run found on every claim, for the chapters' boxes.

    Nothing is written if the ledger did not run to its end, or shows no judgements.
    """
    notebook = executed.get(root / LEDGER)
    for cell in code_cells(notebook) if notebook else ():
        for output in cell.outputs:
            if found := output.get("data", {}).get("application/json"):
                write_whole(root / JUDGEMENTS, json.dumps(found))
