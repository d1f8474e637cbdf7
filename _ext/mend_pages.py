"""Mend faults of the written pages: scripts, roles, images, names, the first address.

Sphinx adds MathJax to the page it writes and to its own list for the pages
after, so that a page lists it twice: a second start of MathJax logs an error in
the reader's console. Docutils marks a reference with a role that screen readers
no longer know, inside a list that must hold list items. A browser loads every image
of a page at once, also those far below. The button that unfolds a part of the contents
has no name, which a screen reader would say. And the site's own
address shows the first page, where Jupyter Book puts a bare redirect.
"""

import re
import shutil
from pathlib import Path


def mend_page(app, pagename, templatename, context, doctree):
    scripts = context.get("script_files", [])
    context["script_files"] = [
        script for i, script in enumerate(scripts) if script not in scripts[:i]
    ]
    if "body" in context:
        context["body"] = context["body"].replace(
            'role="doc-biblioentry"', 'role="listitem"'
        )
        context["body"] = load_when_near(context["body"])
    if contents := context.get("generate_toctree_html"):
        context["generate_toctree_html"] = with_named_buttons(contents)


def load_when_near(body):
    """Let images wait until the reader comes near, but not the first of a page."""
    before, image, after = body.partition("<img ")
    lazy = re.sub(r"<img (?![^>]*\bloading=)", '<img loading="lazy" ', after)
    return before + image + lazy


def with_named_buttons(contents):
    """Wrap the theme's function that writes the contents beside a page."""

    def named(*arguments, **options):
        name = "Show or hide the pages of this part"
        html = str(contents(*arguments, **options))
        return html.replace("<summary>", f'<summary aria-label="{name}">')

    return named


def put_first_page_at_address(app, exception):
    if exception is None:
        folder = Path(app.outdir)
        shutil.copy(folder / f"{app.config.root_doc}.html", folder / "index.html")


def setup(app):
    # Before the redirect, which is written only if there is no such file.
    app.connect("build-finished", put_first_page_at_address, priority=400)
    # Last of all handlers, after every extension has added its own.
    app.connect("html-page-context", mend_page, priority=999)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
