"""Read a submission: of any file whatsoever, only the known parts are taken."""

import base64
import json
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field

MAX_FILE = 20 * 2**20
MAX_CELLS = 300
MAX_SOURCE = 20_000
MAX_IMAGE = 2 * 2**20
MAX_TEXT = 10_000
_SIGNATURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


class Unreadable(Exception):
    """An error that says why a submission cannot be graded."""


@dataclass
class Cell:
    """One cell as its author saved it."""

    kind: str
    source: str
    name: str | None
    id: str | None
    marks: dict
    outputs: list = field(default_factory=list)
    attachments: dict = field(default_factory=dict)
    left_out: int = 0


def read_submission(path):
    """Return a submitted notebook's cells.

    Raises
    ------
    Unreadable
        If it cannot be graded; the message says why, in words for a report.
    """
    data = _read(path)
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable("the file is not text in UTF-8") from None
    except RecursionError:
        raise Unreadable("the file's JSON is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"the file is not JSON ({str(error)[:80]})") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    form = notebook.get("nbformat") if isinstance(notebook, dict) else None
    if form is not None and form != 4:
        raise Unreadable(f"the notebook's format is {str(form)[:20]}; 4 is taken")
    if not isinstance(cells, list):
        raise Unreadable("the file is not a notebook: it has no list of cells")
    if len(cells) > MAX_CELLS:
        raise Unreadable(f"the notebook has {len(cells)} cells; {MAX_CELLS} are taken")
    found = [_cell(cell) for cell in cells if isinstance(cell, dict)]
    longest = max((len(cell.source) for cell in found), default=0)
    if longest > MAX_SOURCE:
        raise Unreadable(f"a cell has {longest} characters; {MAX_SOURCE} are taken")
    return found


def _read(path):
    try:
        # Opened without blocking: a pipe in the file's place must not keep us waiting.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        kind = "a link" if os.path.islink(path) else error.strerror
        raise Unreadable(f"there is no plain file to read ({kind})") from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable("there is no plain file to read (a folder or a device)")
        if about.st_size > MAX_FILE:
            size, most = about.st_size // 2**20, MAX_FILE // 2**20
            raise Unreadable(f"the file has {size} MiB; {most} are taken")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_FILE)
    finally:
        os.close(descriptor)
    if not data.strip():
        raise Unreadable("the file is empty")
    return data


def _cell(cell):
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    marks = marks if isinstance(marks, dict) else {}
    name = marks.get("grade_id")
    kind = cell.get("cell_type")
    pasted = cell.get("attachments")
    attachments = _attachments(pasted)
    return Cell(
        kind if kind in ("code", "markdown", "raw") else "raw",
        _text(cell.get("source")),
        name if isinstance(name, str) else None,
        cell.get("id") if isinstance(cell.get("id"), str) else None,
        marks,
        _outputs(cell.get("outputs")),
        attachments,
        len(pasted) - len(attachments) if isinstance(pasted, dict) else 0,
    )


def _text(value):
    """Return text, which a notebook stores whole or in lines, as valid Unicode."""
    if isinstance(value, list):
        value = "".join(part for part in value if isinstance(part, str))
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", "replace").decode("utf-8")


def _images(bundle):
    """Return a bundle's images by kind, without data that is not an image."""
    found = {}
    for kind, signature in _SIGNATURES.items():
        text = _text(bundle.get(kind)) if isinstance(bundle, dict) else ""
        if 0 < len(text) <= MAX_IMAGE:
            with suppress(ValueError):
                data = base64.b64decode("".join(text.split()), validate=True)
                if data.startswith(signature):
                    found[kind] = base64.b64encode(data).decode()
    return found


def _attachments(bundles):
    """Return pictures pasted into a text cell, such as a derivation on paper."""
    if not isinstance(bundles, dict):
        return {}
    named = {
        name: _images(bundle)
        for name, bundle in list(bundles.items())[:20]
        if re.fullmatch(r"[\w .()-]{1,100}", name)
    }
    return {name: images for name, images in named.items() if images}


def _outputs(outputs):
    """Return the images and the plain text of a cell's outputs."""
    kept = []
    for output in outputs[:20] if isinstance(outputs, list) else []:
        if not isinstance(output, dict):
            continue
        images = _images(output.get("data"))
        if images:
            kept.append({"output_type": "display_data", "data": images, "metadata": {}})
        elif output.get("output_type") == "stream":
            text = _text(output.get("text"))[:MAX_TEXT]
            kept.append({"output_type": "stream", "name": "stdout", "text": text})
    return kept


def harmless(text):
    """Return a student's Markdown without what could run where it is shown.

    A space takes the meaning from HTML tags, from links to anything but the web, from
    pictures that would come from the web, and from MathJax's links and attributes.
    Formulas keep their meaning.
    """
    text = re.sub(r"<(?=[A-Za-z/!?])", "< ", text)
    text = re.sub(r"\](?=\((?!https?://|#|attachment:))", "] ", text)
    text = re.sub(r"\](?=\s*:)", "] ", text)
    text = re.sub(r"!(?=\[)(?!\[[^\[\]]*\]\(attachment:[^)\s]*\))", "! ", text)
    names = "href|require|unicode|mmlToken|class|cssId|style|data|includegraphics"
    return re.sub(rf"\\(?=(?:{names})\b)", r"\\ ", text)
