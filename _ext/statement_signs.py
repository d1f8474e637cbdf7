"""Give each statement that is checked a sign, made from the run that the ledger shows.

The ledger's notebook hands over what its run found (`tools.outputs`). A box whose
label is a claim's id gets the sign in its title line; it opens and tells the error,
what is allowed, how the control went, and where to see and repeat it. What was not
found by that run gets no sign, and the build fails.
"""

import importlib
import json
from pathlib import Path

from docutils import nodes
from sphinx.util import logging

LEDGER, ERRATA = "chapters/ledger", "chapters/errata"
JUDGEMENTS = "_build/judgements.json"
logger = logging.getLogger(__name__)


def read_judgements(app):
    """Return what the ledger's run found, by the claims' ids; empty without one."""
    file = Path(app.srcdir, JUDGEMENTS)
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def load(app, env, docnames):
    app.judgements, app.claims = {}, {}
    if LEDGER in env.found_docs:
        registry = importlib.import_module("bnlib.claims")
        app.claims = {claim.id: claim for claim in registry.all_claims()}
        app.judgements = read_judgements(app)
        if not app.judgements:
            logger.warning("no run of the ledger: no statement carries a sign")


def sign_boxes(app, doctree):
    for box in list(doctree.findall(nodes.Admonition)):
        claim = app.claims.get(box.get("label"))
        if claim is None or not isinstance(box[0], nodes.title):
            continue
        if claim.printed and ERRATA in app.env.found_docs:
            link = in_print(claim, uri(app, ERRATA))
            box[0].append(nodes.raw("", link, format="html"))
        found = app.judgements.get(claim.id)
        if found is None and app.judgements:
            logger.warning("the ledger has no run of %s", claim.id, location=box)
        elif found and found["worst"] and found["passes"]:
            sign = nodes.raw("", panel(claim, found, uri(app, LEDGER)), format="html")
            box.insert(1, sign)
            box["classes"].append("signed")


def uri(app, docname):
    return app.builder.get_relative_uri(app.env.docname, docname)


def in_print(claim, errata):
    """Return the link to what other texts print."""
    says = f"other texts print it otherwise: {claim.verdict}"
    return (
        f' <a class="in-print" href="{errata}#errata-{claim.id}" title="{says}">'
        "in print</a>"
    )


def degree(claim, found):
    """Return the word beside the sign: how sure the check makes us."""
    return found.get("degree") or (
        "measured" if claim.kind == "empirical" else "checked"
    )


def panel(claim, found, ledger):
    """Return the sign and what it opens, as HTML."""
    pages = importlib.import_module("bnlib.claims.pages")
    short = pages.short
    worst, control = found["worst"], found["control"]
    lines = [
        f"Error <b>{short(worst['error'])}</b> at worst, "
        f"allowed {short(worst['allowed'])}."
    ]
    if control:
        lines.append(
            "The control, a false neighbour of the statement, misses by "
            f"{short(control['error'])} and is rejected."
        )
    if found["sharpness"]:
        lines.append(f"Sharpness: {found['sharpness']}.")
    links = (
        f'<a href="{pages.source_address(claim)}">its check</a>, '
        f'<a href="{ledger}#ledger-{claim.id}">its row in the ledger</a>, '
        f"or run <code>python -m bnlib.claims {claim.id}</code>"
    )
    return (
        f'<details class="sign-of-check"><summary><span aria-hidden="true">✓</span>'
        f'<span class="word"> {degree(claim, found)}</span></summary>'
        f"<div><p>{' '.join(lines)}</p><p>See {links}.</p></div></details>"
    )


def setup(app):
    app.connect("env-before-read-docs", load)
    app.connect("doctree-read", sign_boxes)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
