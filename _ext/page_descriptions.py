"""Describe each page, for search engines and for the cards of shared links.

sphinxext-opengraph writes the cards, but it cuts sentences, prints TeX and skips
pages without a source, so the descriptions are made here. A page's description is
the one of its front matter, ``description: ...``, or otherwise its first sentences.
"""

import importlib
import re
import textwrap
import unicodedata
from html import escape

import preview_image
from docutils import nodes

SHORTEST, LONGEST = 50, 160
SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")
GREEK = re.compile(r"\\([a-z]+)")
TEX = re.compile(r"[\\{}^_]")
#: Pages that no source file describes.
OWN_WORDS = {
    "404": "There is no page at this address. Find a chapter in the contents of "
    "{book}, or search for a word.",
    "search": "Search {book}: chapters, exercises, claims, errata, notation, API.",
    "_modules/index": "The source code of the modules of bnlib, the package of {book}.",
}


def readable(text):
    """Replace the TeX names of Greek letters by the letters."""

    def letter(match):
        try:
            return unicodedata.lookup(f"GREEK SMALL LETTER {match[1]}")
        except KeyError:
            return match[0]

    return GREEK.sub(letter, " ".join(text.split()))


def summary(paragraphs):
    """Return the first sentences, as many as fit, of SHORTEST to LONGEST characters.

    A sentence that is too long by itself is cut at a word. A sentence with a formula
    is left out.
    """
    said = ""
    for sentence in SENTENCE_END.split(" ".join(map(readable, paragraphs))):
        longer = textwrap.shorten(f"{said} {sentence}", LONGEST, placeholder="…")
        if TEX.search(longer):
            continue
        if longer.endswith("…") and len(said) >= SHORTEST:
            break
        said = longer
        if longer.endswith("…"):
            break
    return said


def opening(doctree):
    """Yield the text of the paragraphs that stand directly in a section."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = paragraph.astext().strip()
        if isinstance(paragraph.parent, nodes.section) and text.endswith((".", "?")):
            yield text


def description(app, pagename, doctree):
    book = app.config.html_title
    if pagename in OWN_WORDS:
        return OWN_WORDS[pagename].format(book=book)
    if pagename.startswith("_modules/"):
        module = pagename.removeprefix("_modules/").replace("/", ".")
        first = importlib.import_module(module).__doc__.partition("\n")[0]
        return textwrap.shorten(
            f"The source code of {module}. {first}", LONGEST, placeholder="…"
        )
    given = app.env.metadata.get(pagename, {}).get("description", "")
    return given or (summary(opening(doctree)) if doctree else "")


def describe(app, pagename, templatename, context, doctree):
    """Add a page's description and the other fields of its card."""
    base, root = app.config.html_baseurl, app.config.root_doc
    text = escape(description(app, pagename, doctree))
    if text:
        tag = f'<meta name="description" content="{text}" />\n'
        context["metatags"] = context.get("metatags", "") + tag
    card = {
        "og:type": "website" if pagename == root else "article",
        "og:description": text,
        "og:image": base + preview_image.NAME,
        "og:image:alt": escape(preview_image.alt_text()),
        "og:image:width": str(preview_image.WIDTH),
        "og:image:height": str(preview_image.HEIGHT),
    }
    if pagename in app.env.titles:
        card["og:title"] = escape(app.env.titles[pagename].astext())
    if pagename == root and base:
        # The site's own address is the first page's.
        context["pageurl"] = card["og:url"] = base
    # A card needs whole addresses, so there is none until the site's is set.
    fields = card if base else {"ogp_disable": True}
    context["meta"] = (context.get("meta") or {}) | fields


def setup(app):
    # Before sphinxext-opengraph takes the page's own fields.
    app.connect("html-page-context", describe, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
