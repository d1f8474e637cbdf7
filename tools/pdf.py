"""Print the built site to one file: ``python -m tools.pdf``, which ``make pdf`` runs.

A headless Chromium lays all pages out as one, with the site's own styles for paper,
so that links within the book stay links. Only the printed file shows on which page a
place lies, so the contents get their page numbers, and the file its bookmarks, after
printing.
"""

import html
import io
import re
import sys
from pathlib import Path
from typing import NamedTuple

import yaml
from pypdf import PdfReader, PdfWriter
from pypdf.generic import Fit
from sphinx_external_toc.parsing import parse_toc_yaml

import bnlib
from tools import browser, build
from tools.files import write_whole

ROOT = build.ROOT
HERE = Path(__file__).parent
#: A4 between the margins of print.css, in CSS pixels, 96 an inch.
PAPER = {"width": 672, "height": 985}
#: Points of a PDF: 72 an inch.
PAGE_HEIGHT = 842.88
RIGHT_EDGE = (210 - 16) / 25.4 * 72
FOOTER = (
    '<div style="width: 100%; text-align: center; font: 8pt sans-serif">'
    '<span class="pageNumber"></span></div>'
)
#: The limit for the whole book, on a machine that has other work too.
MILLISECONDS = 1_800_000
FAULTS = """
() => {
  const found = [];
  for (const formula of document.querySelectorAll("mjx-merror"))
    found.push(`a formula in error: ${formula.textContent}`);
  for (const link of document.querySelectorAll('article a[href^="#"]'))
    if (!document.getElementById(decodeURIComponent(link.hash.slice(1))))
      found.push(`a link to no place: ${link.getAttribute("href")}`);
  for (const box of document.querySelectorAll("article *")) {
    if (box.closest("svg, mjx-math, mjx-assistive-mml") || !box.checkVisibility())
      continue;
    const { right, width } = box.getBoundingClientRect();
    const outer = box.parentElement.getBoundingClientRect().right;
    if (width > 1 && right > innerWidth + 1 && outer <= innerWidth + 1)
      found.push(`beyond the edge of the paper: ${box.outerHTML.slice(0, 160)}`);
  }
  return found;
}
"""


class PdfError(Exception):
    """The printed book would have faults; the message has a line for each."""


def site_pages(root):
    """List the pages in reading order, each with its file and the part it is in."""
    site_map = parse_toc_yaml(root / "_toc.yml")
    pages = [{"file": f"{site_map.root.docname}.html", "part": None}]
    for part in site_map.root.subtrees:
        pages += [
            {"file": f"{name}.html", "part": part.caption} for name in part.files()
        ]
    return pages


def cover(config):
    """Return the first page: the title, the version and the book's address."""
    logo = (ROOT / config["logo"]).read_text(encoding="utf-8")
    lines = [config["title"], f"Version {bnlib.__version__}", config["html"]["baseurl"]]
    said = "".join(f"<p>{html.escape(line)}</p>" for line in lines if line)
    return re.sub(r"<\?xml.*?\?>", "", logo) + said


def lay_out(page, address, root):
    """Put the whole site into a page of the browser; return the outline."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    pages = site_pages(root)
    # What is measured on the screen is what will be printed.
    page.set_viewport_size(PAPER)
    page.set_default_timeout(MILLISECONDS)
    page.goto(f"{address}/{pages[0]['file']}")
    page.add_style_tag(content=(HERE / "pdf.css").read_text(encoding="utf-8"))
    page.emulate_media(media="print", color_scheme="light")
    assemble = (HERE / "pdf.js").read_text(encoding="utf-8").rstrip().rstrip(";")
    site = config["html"]["baseurl"]
    given = {"pages": pages, "cover": cover(config), "site": site}
    outline = page.evaluate(assemble, given)
    if faults := page.evaluate(FAULTS):
        raise PdfError("\n".join(faults))
    return outline


class Place(NamedTuple):
    """The position of a named place: its page, from 0, and its height on that page."""

    page: int
    top: float


def places(reader):
    """Return the place of each name that a link of the file leads to."""
    return {
        name.removeprefix("/"): Place(reader.get_destination_page_number(to), to.top)
        for name, to in reader.named_destinations.items()
    }


def targets(page):
    """Yield the links of a page that lead into the file: (rectangle, name)."""
    for annotation in page.get("/Annots") or ():
        link = annotation.get_object()
        if "/Dest" in link:
            yield link["/Rect"], str(link["/Dest"]).removeprefix("/")


def number_contents(writer, found, browser_page, last):
    """Write page numbers beside the entries of the contents, pages 2 to last."""
    sheets = []
    for index in range(1, last):
        numbers = [
            f'<span style="top: {PAGE_HEIGHT - float(box[3]):.2f}pt">'
            f"{found[name].page + 1}</span>"
            for box, name in targets(writer.pages[index])
        ]
        sheets.append(f"<div>{''.join(numbers)}</div>")
    browser_page.set_content(
        "<style>@page { size: A4; margin: 0 } body { margin: 0 }"
        f"div {{ position: relative; height: {PAGE_HEIGHT - 1}pt; break-after: page }}"
        f"span {{ position: absolute; left: 0; width: {RIGHT_EDGE:.1f}pt; "
        "text-align: right; font: 9pt sans-serif }</style>" + "".join(sheets)
    )
    overlay = PdfReader(io.BytesIO(browser_page.pdf(prefer_css_page_size=True)))
    for index in range(1, last):
        writer.pages[index].merge_page(overlay.pages[index - 1])


def add_bookmarks(writer, outline, found):
    """Add bookmarks to the file: parts, their pages and the pages' sections."""

    def add(title, name, parent=None, **look):
        page, top = found[name]
        fit = Fit.xyz(top=top)
        return writer.add_outline_item(
            title=title, page_number=page, parent=parent, fit=fit, **look
        )

    parts = {None: None}
    for page in outline:
        if page["part"] not in parts:
            parts[page["part"]] = add(page["part"], page["id"])
        own = add(page["title"], page["id"], parts[page["part"]], is_open=False)
        for section in page["sections"]:
            add(section["title"], section["id"], own)


def print_book(folder, path, root=ROOT):
    """Print a built site to one file.

    Parameters
    ----------
    folder : Path
        The folder of the built site.
    path : Path
        The PDF; it is written whole or not at all.
    root : Path
        The folder of the book, with ``_config.yml`` and ``_toc.yml``.

    Returns
    -------
    int
        How many pages it has.

    Raises
    ------
    PdfError
        If a formula is in error, a link leads to no place, or something sticks out
        of the paper; the message has a line for each.
    FileNotFoundError
        If no Chromium is installed.
    """
    with browser.served(folder) as address, browser.launched() as chromium:
        page = chromium.new_page()
        outline = lay_out(page, address, root)
        printed = page.pdf(
            format="A4",
            # The margins are those of print.css.
            prefer_css_page_size=True,
            print_background=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
            tagged=True,
        )
        writer = PdfWriter(clone_from=io.BytesIO(printed))
        found = places(PdfReader(io.BytesIO(printed)))
        number_contents(
            writer, found, chromium.new_page(), found[outline[0]["id"]].page
        )
        title = yaml.safe_load((root / "_config.yml").read_text())["title"]
    add_bookmarks(writer, outline, found)
    writer.page_mode = "/UseOutlines"
    writer.add_metadata({"/Title": title})
    whole = io.BytesIO()
    writer.write(whole)
    write_whole(path, whole.getvalue())
    return len(writer.pages)


def main():
    """Print the book's site; return 1 if that is not possible."""
    path = ROOT / "_build/book.pdf"
    if not build.is_current(ROOT):
        print(
            "the site is missing or older than its sources: make book", file=sys.stderr
        )
        return 1
    try:
        pages = print_book(ROOT / "_build/html", path)
    except (PdfError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{path}: {pages} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
