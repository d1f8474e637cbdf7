"""Say what each page is, to search engines and where a link to it is shared.

A page's description is the one of its front matter, ``description: ...``, or else
the sentences that it opens with. It goes into the page's card too (Open Graph),
beside the book's image. A card's addresses must be whole: they need the address
of the site, ``html: baseurl`` in ``_config.yml``. Without it the image is named
relative to the page, which only some services follow.
"""

import importlib
import re
import textwrap
import unicodedata
from html import escape
from urllib.parse import urlsplit

import preview_image
from docutils import nodes
from sphinx.errors import ConfigError

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


def check_base_address(app, config):
    address = config.html_baseurl
    parts = urlsplit(address)
    if address and not (parts.scheme in ("http", "https") and parts.netloc):
        raise ConfigError(
            "html: baseurl in _config.yml must be the site's address, such as "
            f"https://YOUR-NAME.github.io/YOUR-BOOK/; got {address!r}"
        )
    if address and not address.endswith("/"):
        # Or the last part of its path would be lost in every address made of it.
        config.html_baseurl = f"{address}/"


def readable(text):
    """Put Greek letters for their names in TeX."""

    def letter(match):
        try:
            return unicodedata.lookup(f"GREEK SMALL LETTER {match[1]}")
        except KeyError:
            return match[0]

    return GREEK.sub(letter, " ".join(text.split()))


def summary(paragraphs):
    """Give the first sentences, as many as fit, of SHORTEST to LONGEST characters.

    A sentence that is too long by itself is cut at a word. One with a formula is
    left out.
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
    """Give the text of a page's paragraphs that stand by themselves."""
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


def add_card(app, pagename, templatename, context, doctree):
    base, root = app.config.html_baseurl, app.config.root_doc
    if pagename == root and base:
        context["pageurl"] = base
    text = description(app, pagename, doctree)
    # The search page is the one that gives its template no title.
    title = context.get("title", pagename.capitalize())
    if pagename in app.env.titles:
        title = app.env.titles[pagename].astext()
    image = preview_image.NAME
    properties = {
        "og:type": "website" if pagename == root else "article",
        "og:site_name": app.config.html_title,
        "og:title": title,
        "og:description": text,
        "og:url": context["pageurl"] if base else "",
        "og:image": base + image if base else context["pathto"](image, resource=True),
        "og:image:alt": preview_image.alt_text(),
        "og:image:width": str(preview_image.WIDTH),
        "og:image:height": str(preview_image.HEIGHT),
    }
    names = {"description": text, "twitter:card": "summary_large_image"}
    context["metatags"] = context.get("metatags", "") + "\n".join(
        f'<meta {kind}="{key}" content="{escape(value)}" />'
        for kind, tags in (("name", names), ("property", properties))
        for key, value in tags.items()
        if value
    )


def setup(app):
    app.connect("config-inited", check_base_address)
    app.connect("html-page-context", add_card)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
