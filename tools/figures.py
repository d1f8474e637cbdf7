"""Put a figure into its page as SVG: text stays text, and its colours follow the theme.

A kernel draws each figure twice, as SVG and as PNG (`bnlib.plotting.use_style`). The
SVG is shown if it has at most `MOST_BYTES` and no colours but those of the book and
grays; else the PNG. So a map of many cells, whose SVG would be heavy, is a PNG, and so
is any figure with the colours of a map, on which black and white must stay what they
are.
"""

import re
from html import escape

from bnlib import plotting

#: Above this an SVG takes longer to load and to draw than the PNG.
MOST_BYTES = 150_000
#: The colours of bnlib.plotting, by the names of their variables in figures.css, which
#: has a pair for the dark theme. Grays are mixed from ink and paper.
COLORS = dict(
    zip(map(str.lower, plotting.COLORS), ("blue", "orange", "green", "purple"))
)
HEX = re.compile(r"#[0-9a-f]{6}\b")
GRAY = re.compile(r"#([0-9a-f]{2})\1\1")
FONT = re.compile(r"font-family: [^;\"]+;? ?")
HEAD = re.compile(
    r"\A.*?(?=<svg)|<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>"
    r"|<!--.*?-->",
    re.DOTALL,
)
OPENING = re.compile(r'<svg[^>]*? width="([\d.]+)pt"[^>]*?( viewBox="[^"]+")[^>]*>')
ID = re.compile(r' id="([^"]+)"')
USED = re.compile(r"(url\(#|href=\"#)([\w-]+)")


def inline(svg, alt, prefix):
    """Return a figure as an SVG that a page can hold, or None if the PNG is better.

    Parameters
    ----------
    svg : str
        As Matplotlib writes it, with text as text.
    alt : str
        What the figure shows, for readers who do not see it.
    prefix : str
        What makes its ids unique in the page.

    Returns
    -------
    str or None
    """
    unknown = [h for h in HEX.findall(svg) if h not in COLORS and not GRAY.match(h)]
    if len(svg) > MOST_BYTES or "<image" in svg or unknown:
        return None
    svg = with_own_ids(HEAD.sub("", svg).replace("xlink:href", "href"), prefix)
    svg = FONT.sub("", HEX.sub(variable, svg))
    # Only paths have line breaks, and empty lines would end the HTML of a page.
    svg = re.sub(r"\s*\n\s*", " ", svg).strip()
    width = float(OPENING.search(svg)[1]) * 4 / 3
    return OPENING.sub(
        lambda found: (
            f'<svg class="figure" role="img" aria-label="{escape(alt)}" '
            f'style="width: {width:.0f}px"{found[2]}>'
        ),
        svg,
        count=1,
    )


def variable(found):
    """Return the colour that the style sheet gives for one of a figure."""
    if found[0] in COLORS:
        return f"var(--fig-{COLORS[found[0]]})"
    ink = round(100 * (1 - int(found[0][1:3], 16) / 255))
    if ink in (0, 100):
        return "var(--fig-ink)" if ink else "var(--fig-paper)"
    return f"color-mix(in srgb, var(--fig-ink) {ink}%, var(--fig-paper))"


def with_own_ids(svg, prefix):
    """Keep the ids that something refers to, and make them unique in the page."""
    used = {name for _, name in USED.findall(svg)}
    svg = ID.sub(
        lambda found: f' id="{prefix}-{found[1]}"' if found[1] in used else "", svg
    )
    return USED.sub(lambda found: f"{found[1]}{prefix}-{found[2]}", svg)
