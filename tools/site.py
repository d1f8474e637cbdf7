"""Check the built site as a reader meets it, without a browser.

Every internal link and anchor leads somewhere, ids are unique, nothing is
loaded from another host, images have alt text, pages have a language, a title, a
description of their own and a card for those who share a link to them, no markup
is left unrendered, and no page names a folder of the machine.
"""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

#: The attribute by which a page makes the browser load another file.
LOADED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "input": "src",
    "object": "data",
    "script": "src",
    "source": "src",
    "track": "src",
    "video": "src",
}
LOADED_LINKS = {
    "dns-prefetch",
    "icon",
    "manifest",
    "modulepreload",
    "preconnect",
    "prefetch",
    "preload",
    "stylesheet",
}
VOID = {
    *("area", "base", "br", "col", "embed", "hr", "img", "input"),
    *("link", "meta", "source", "track", "wbr"),
}
#: Elements whose text is not prose.
NOT_PROSE = {"code", "math", "pre", "script", "style", "svg", "template"}
CSS_URL = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
#: What the services that show a page's description, or a card of it, ask for.
DESCRIPTION_LENGTH = (50, 160)
CARD = (
    *("og:type", "og:title", "og:description", "og:image", "og:image:alt"),
    "twitter:card",
)
#: Pages without a source file; nobody shares a link to them.
WITHOUT_CARD = ("404.html", "search.html", "_modules/")
#: This page is shown at any missing address, so its links start at the site's top.
NOT_FOUND = "404.html"
#: The theme draws its search field twice on this page; nothing refers to the id.
REPEATED_BY_THEME = ("search.html", "search-input")
#: What prose shows where markup was not rendered.
LEFTOVERS = {
    "a role or directive": re.compile(r"\{[a-z]+(?:[:-][a-z]+)*\}"),
    "a directive's fence": re.compile(r"^\s*(?::::|```)", re.MULTILINE),
    "maths in dollar signs": re.compile(r"\$[^\s$](?:[^$\n]*[^\s$])?\$"),
    "maths in TeX": re.compile(r"\\[(\[]|\\(?:begin|frac|hat|mathbb)\b"),
    "a Markdown link": re.compile(r"\[[^\]\n]*\]\([^)\s]+\)"),
}


class Page(HTMLParser):
    """The parts of one page that the checks need."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.ids, self.links, self.loads = [], [], []
        self.images_without_alt = []
        self.lang = self.title = self.canonical = ""
        self.meta = {}
        self.html = html
        self.prose = ""
        self._open = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = {name: value or "" for name, value in attrs}
        self._note(tag, attrs)
        if tag not in VOID:
            hidden = tag in NOT_PROSE or "math" in attrs.get("class", "").split()
            self._open.append((tag, hidden or self._is_hidden()))

    def _is_hidden(self):
        return bool(self._open) and self._open[-1][1]

    def _note(self, tag, attrs):
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "html":
            self.lang = attrs.get("lang", "")
        if tag == "meta" and "content" in attrs:
            self.meta[attrs.get("name", attrs.get("property"))] = attrs["content"]
        if tag in ("a", "area") and "href" in attrs:
            self.links.append(attrs["href"])
        if tag == "link" and LOADED_LINKS & set(attrs.get("rel", "").lower().split()):
            self.loads.append(attrs.get("href", ""))
        elif tag == "link":
            self.links.append(attrs.get("href", ""))
        if tag == "link" and attrs.get("rel") == "canonical":
            self.canonical = attrs["href"]
        if attrs.get(LOADED.get(tag)):
            self.loads.append(attrs[LOADED[tag]])
        for candidate in filter(str.strip, attrs.get("srcset", "").split(",")):
            self.loads.append(candidate.split()[0])
        self.loads += css_urls(attrs.get("style", ""))
        # Sphinx writes an image's path where a page gives no alt text.
        alt = attrs.get("alt", "").strip()
        if tag == "img" and (not alt or alt in attrs.get("src", "")):
            self.images_without_alt.append(attrs.get("src", "?"))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        inside = [tag for tag, _ in self._open]
        if inside and inside[-1] == "title" and "svg" not in inside:
            self.title += data.strip()
        elif inside and inside[-1] == "style":
            self.loads += css_urls(data)
        elif not self._is_hidden():
            self.prose += data


class Site(NamedTuple):
    """A built folder: its pages by their address, and its style sheets."""

    folder: Path
    pages: dict
    styles: dict

    @classmethod
    def read(cls, folder):
        folder = Path(folder)
        pages, styles = {}, {}
        for path in sorted(folder.rglob("*.html")):
            name = path.relative_to(folder).as_posix()
            # Themes keep templates among their static files.
            if not name.startswith("_static/"):
                pages[name] = Page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.css")):
            name = path.relative_to(folder).as_posix()
            styles[name] = css_urls(path.read_text(encoding="utf-8"))
        return cls(folder, pages, styles)


def css_urls(css):
    """Return the addresses that a style sheet loads."""
    code = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    return [address or imported for address, imported in CSS_URL.findall(code)]


def is_elsewhere(url):
    """Return True if an address names a host; addresses within the site name none."""
    parts = urlsplit(url)
    return bool(parts.netloc) or parts.scheme in ("http", "https")


def dead_end(site, source, url):
    """Return why an address inside the site leads nowhere, or None if it does not."""
    if is_elsewhere(url) or urlsplit(url).scheme:
        return None
    parts = urlsplit(urljoin(source, url) if not url.startswith("#") else source + url)
    name, anchor = unquote(parts.path), unquote(parts.fragment)
    if source == NOT_FOUND:
        name = place(site, name) or name
    path = site.folder / name
    if path.is_dir():
        name = f"{name.rstrip('/')}/index.html".lstrip("/")
        path = site.folder / name
    if name.startswith("/") or not path.is_file():
        return f"{url!r} leads to no file"
    if anchor and name in site.pages and anchor not in site.pages[name].ids:
        return f"{url!r}: {name} has no such anchor"
    return None


def dead_links(site):
    for name, page in site.pages.items():
        for url in dict.fromkeys(page.links + page.loads):
            if reason := dead_end(site, name, url):
                yield name, f"broken link: {reason}"
    for name, urls in site.styles.items():
        for url in dict.fromkeys(urls):
            if reason := dead_end(site, name, url):
                yield name, f"broken link in the style sheet: {reason}"


def other_hosts(site):
    loads = {name: page.loads for name, page in site.pages.items()} | site.styles
    for name, urls in loads.items():
        for url in filter(is_elsewhere, dict.fromkeys(urls)):
            yield name, f"loads from another host: {url}"


def repeated_ids(site):
    for name, page in site.pages.items():
        for id_, times in Counter(page.ids).items():
            if times > 1 and (name, id_) != REPEATED_BY_THEME:
                yield name, f"the id {id_!r} is there {times} times"


def images_without_alt(site):
    for name, page in site.pages.items():
        for source in page.images_without_alt:
            yield name, f"no alt text: {source}"


def missing_language_or_title(site):
    for name, page in site.pages.items():
        for what in ("lang", "title"):
            if not getattr(page, what):
                yield name, f"no {what}"


def descriptions(site):
    shortest, longest = DESCRIPTION_LENGTH
    seen = {}
    for name, page in site.pages.items():
        text = page.meta.get("description", "")
        if not shortest <= len(text) <= longest:
            yield (
                name,
                f"its description has {len(text)} characters, not {shortest} to "
                f"{longest}: {text!r}; let its first paragraph say what it is, or "
                "give a description in its front matter",
            )
        # The first page is there a second time, as index.html.
        first = seen.setdefault(text, name)
        if text and site.pages[first].html != page.html:
            yield name, f"it has the description of {first}: {text!r}"


def cards(site):
    for name, page in site.pages.items():
        # Only a site that knows its address can name its pages in cards.
        if not page.canonical or name.startswith(WITHOUT_CARD):
            continue
        if missing := [tag for tag in CARD if not page.meta.get(tag)]:
            yield name, f"its card lacks {', '.join(missing)}"
        elif not has_file(site, name, page.meta["og:image"]):
            yield name, f"its card's image is no file: {page.meta['og:image']!r}"


def has_file(site, source, url):
    """Return True if an address leads to a file of the site, wherever it is served."""
    if not is_elsewhere(url):
        return dead_end(site, source, url) is None
    return bool(place(site, urlsplit(url).path))


def place(site, path):
    """Return the name of the site's file at a host's path; empty if there is none."""
    parts = path.split("/")[1:]
    names = ("/".join(parts[i:]) for i in range(len(parts)))
    return next((name for name in names if (site.folder / name).is_file()), "")


def unrendered_markup(site):
    for name, page in site.pages.items():
        for what, pattern in LEFTOVERS.items():
            for match in pattern.finditer(page.prose):
                yield name, f"{what} is left unrendered: {match[0].strip()!r}"


def folders_of_this_machine(site):
    book = str(site.folder.resolve().parent.parent)
    for name, page in site.pages.items():
        if f"{book}/" in page.html:
            yield name, f"names the folder where the book was built: {book}"


CHECKS = (
    dead_links,
    other_hosts,
    repeated_ids,
    images_without_alt,
    missing_language_or_title,
    descriptions,
    cards,
    unrendered_markup,
    folders_of_this_machine,
)


def check(folder):
    """Run every check on a built folder.

    Parameters
    ----------
    folder : str or Path
        The folder that holds the site's ``index.html``.

    Returns
    -------
    list of str
        A line for each problem, ``page: what is wrong``; empty for a sound site.

    Raises
    ------
    FileNotFoundError
        If the folder holds no page.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> page = '<html lang="en"><title>A</title><a href="b.html">b</a></html>'
    >>> _ = (folder / "index.html").write_text(page)
    >>> check(folder)[0]
    "index.html: broken link: 'b.html' leads to no file"
    """
    site = Site.read(folder)
    if not site.pages:
        raise FileNotFoundError(f"no page in {folder}: run make book")
    return [f"{page}: {what}" for find in CHECKS for page, what in find(site)]
