"""Figures in the pages: SVG whose colours follow the theme, or PNG."""

import io
import re
from html import unescape

import matplotlib as mpl
import nbformat
import notebook_rules
import numpy as np
import pytest
from matplotlib.figure import Figure

from bnlib import plotting
from tools import build, figures, runs
from tools.cells import code_cells, notebook_paths

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


def test_the_light_theme_has_the_colours_that_the_figures_are_drawn_in():
    block = CSS[CSS.index('"light"') :].partition("}")[0]
    for color, name in figures.COLORS.items():
        assert f"--fig-{name}: {color};" in block


LEGEND = re.compile(
    r'<g id="legend_\d+">(.*?)(?=<g id="(?:axes|legend)_|\Z)', re.DOTALL
)
ENTRY = re.compile(
    r'<(?:path|use)[^>]* style="([^"]*)"|<!-- (.*?) -->|<text[^>]*>([^<]+)<'
)


def legend_colors(svg):
    """Yield each label of a figure's legends with the colour that it explains."""
    for legend in LEGEND.findall(svg):
        color = None
        for style, formula, words in ENTRY.findall(legend):
            own = re.findall(r"(?:stroke|fill): (#[0-9a-f]{6})", style)
            color = next((c for c in own if c not in ("#ffffff", "#cccccc")), color)
            if color and (formula or words):
                yield unescape(formula or words), color
                color = None


def test_the_colours_of_a_legend_are_read_from_the_figure():
    def draw(ax):
        for meaning in ("with BN", "proved"):
            ax.plot([0, 1], **plotting.look(meaning))
        ax.plot([0, 2], label="$x$ <", color="C2")
        ax.legend()

    expected = [("with BN", "#d55e00"), ("proved", "#000000"), ("$x$ <", "#007a5e")]
    assert list(legend_colors(drawn(draw))) == expected


def test_a_meaning_has_one_colour_in_every_figure_of_the_book(site):
    meant = {k: plotting.COLORS[v].lower() for k, v in plotting.MEANINGS.items()}
    wrong = []
    for path in notebook_paths():
        notebook, _ = runs.find(build.ROOT, path, nbformat.read(path, as_version=4))
        # Until every chapter's figures have captions, those without are let pass.
        if not any(notebook_rules.mystnb(c, "figure") for c in code_cells(notebook)):
            continue
        for number, cell in enumerate(code_cells(notebook)):
            for output in cell.outputs:
                svg = output.get("data", {}).get("image/svg+xml", "")
                for label, color in legend_colors(svg):
                    if meant.get(label, color) != color:
                        wrong.append(f"{path.stem}, cell {number}: {label} is {color}")
    assert wrong == []
