r"""Escape what looks like markup in docstrings, which are plain text for a terminal.

The star in ``(N, C, *spatial)`` and the bars in ``|w|`` are not markup. A
docstring's literals (double backticks) and examples are left as they are.
"""

import re

LITERAL = re.compile(r"(``.+?``)", re.DOTALL)
MARKUP = re.compile(r"(?<!\\)(?:[*|](?=\S)|(?<=\S)[*|])")
#: How Python describes a field of a named tuple that has no docstring.
NAMELESS_FIELD = "Alias for field number"


def escape_markup(app, what, name, obj, options, lines):
    blocks = re.split(r"(\n\s*\n)", "\n".join(lines))
    for i, block in enumerate(blocks):
        if not block.lstrip().startswith(">>>"):
            blocks[i] = escape(block)
    lines[:] = "".join(blocks).split("\n")


def escape(text):
    """Put a backslash before each star and bar outside of literals."""
    parts = LITERAL.split(text)
    parts[::2] = [MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def leave_out_nameless_fields(app, what, name, obj, skip, options):
    # The docstring of the tuple describes its fields.
    return skip or (getattr(obj, "__doc__", None) or "").startswith(NAMELESS_FIELD)


def setup(app):
    # Before napoleon, which writes markup of its own.
    app.connect("autodoc-process-docstring", escape_markup, priority=400)
    app.connect("autodoc-skip-member", leave_out_nameless_fields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
