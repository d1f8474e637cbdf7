"""Figures in the pages: SVG whose colours follow the theme, or PNG."""

import io
import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from bnlib import plotting
from tools import build, figures

CSS = (build.ROOT / "_static/figures.css").read_text()


def drawn(draw):
    with mpl.rc_context():
        plotting.use_style()
        figure = Figure(figsize=(3, 2))
        draw(figure.subplots())
        file = io.StringIO()
        figure.savefig(file, format="svg")
    return file.getvalue()


def all_looks(ax):
    for place, meaning in enumerate(plotting.MEANINGS):
        ax.plot([0, place], **plotting.look(meaning))
    ax.axhline(1, color="0.7")
    ax.text(0, 0, "$x^2$ & <b>")


def test_all_looks_and_grays_follow_the_theme():
    svg = figures.inline(drawn(all_looks), 'He said "so"', "f1")
    assert svg.startswith('<svg class="figure" role="img" aria-label="He said &quot;so')
    assert set(re.findall(r"--fig-\w+", svg)) == set(re.findall(r"--fig-\w+", CSS))
    assert "color-mix(in srgb, var(--fig-ink) 30%, var(--fig-paper))" in svg
    assert "#" not in re.sub(r"url\(#f1-|href=\"#f1-|&#", "", svg)
    assert "\n" not in svg
    assert re.search(r"<svg[^>]* viewBox=", svg)


def test_every_id_is_used_and_starts_with_the_figures_own():
    svg = figures.inline(drawn(all_looks), "alt", "f1")
    ids = re.findall(r' id="([^"]+)"', svg)
    assert ids
    assert len(set(ids)) == len(ids)
    assert set(ids) == set(re.findall(r"#([\w-]+)", svg))
    assert all(each.startswith("f1-") for each in ids)


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: ax.imshow(np.eye(3)),
        lambda ax: ax.contour(np.arange(9).reshape(3, 3)),
        lambda ax: ax.plot([0, 1], color="#123456"),
        lambda ax: [ax.plot(np.sin(np.arange(4000) * n)) for n in range(3)],
    ],
    ids=["image", "map's colours", "an unknown colour", "heavy"],
)
def test_of_what_is_heavy_or_has_other_colours_the_png_is_shown(draw):
    assert figures.inline(drawn(draw), "alt", "f1") is None


def luminance(color):
    levels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in levels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_colour_stands_out_from_the_paper_of_its_theme(theme):
    block = CSS[CSS.index(f'"{theme}"') :].partition("}")[0]
    colors = dict(re.findall(r"--fig-(\w+): (#\w+)", block))
    colors = {k: v if len(v) == 7 else "#" + 2 * v[1:] for k, v in colors.items()}
    paper = luminance(colors.pop("paper"))
    assert len(colors) == 5
    for name, color in colors.items():
        high, low = sorted((paper, luminance(color)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 3, name
