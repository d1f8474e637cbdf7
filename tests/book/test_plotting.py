"""The figures' style, and the drawing of graphs."""

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from refusals import refused

from bnlib import plotting
from bnlib.networks import Watched


@pytest.fixture
def own_style():
    with mpl.rc_context():
        yield


def contrast_on_white(color):
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in to_rgb(color)
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 1.05 / (luminance + 0.05)


@pytest.mark.parametrize("color", plotting.COLORS)
def test_every_line_colour_stands_out_from_white(color):
    assert contrast_on_white(color) >= 3


def test_lines_differ_in_dashes_as_well_as_in_colour(own_style):
    plotting.use_style()
    lines = list(mpl.rcParams["axes.prop_cycle"])
    assert len(lines) >= 6
    assert len({line["color"] for line in lines}) == len(lines)
    assert len({str(line["linestyle"]) for line in lines}) == len(lines)


def test_the_style_draws_a_figure(own_style):
    plotting.use_style()
    figure = Figure()
    ax = figure.subplots()
    for _ in plotting.COLORS:
        ax.plot([0, 1], [0, 1])
    figure.draw_without_rendering()
    assert figure.get_facecolor() == (1.0, 1.0, 1.0, 1.0)


def test_the_style_needs_no_notebook(own_style, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    plotting.use_style()
    assert mpl.rcParams["image.cmap"] == plotting.COLORMAP


def test_in_a_notebook_figures_are_drawn_sharp(own_style, monkeypatch):
    import IPython
    from matplotlib_inline import backend_inline

    formats = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    monkeypatch.setattr(backend_inline, "set_matplotlib_formats", formats.append)
    plotting.use_style()
    assert formats == ["retina"]


PLACES = {"a": (0.0, 0.0), "b": (2.0, 0.0), "c": (1.0, 1.0)}


def test_a_graph_shows_every_node_and_every_label():
    ax = Figure().subplots()
    plotting.draw_graph(ax, PLACES, [("a", "b", "first"), ("c", "b", "second")])
    texts = [text.get_text() for text in ax.texts]
    assert sorted(filter(None, texts)) == ["a", "b", "c", "first", "second"]


def test_a_graph_lies_within_its_axes():
    ax = Figure().subplots()
    plotting.draw_graph(ax, PLACES, [])
    for x, y in PLACES.values():
        assert ax.get_xlim()[0] < x < ax.get_xlim()[1]
        assert ax.get_ylim()[0] < y < ax.get_ylim()[1]


def test_an_arrow_that_carries_nothing_is_dotted():
    ax = Figure().subplots()
    plotting.draw_graph(ax, PLACES, [("a", "b", "0"), ("c", "b", "1")])
    arrows = [text.arrow_patch for text in ax.texts if hasattr(text, "arrow_patch")]
    assert [arrow.get_linestyle() for arrow in arrows] == [":", "-"]


def test_an_arrow_from_nowhere_is_refused_before_anything_is_drawn():
    ax = Figure().subplots()
    with refused(ValueError, "place", "'d'", "one of a b c"):
        plotting.draw_graph(ax, PLACES, [("a", "b", ""), ("d", "a", "")])
    assert not ax.texts


def test_a_dashboard_has_a_line_for_each_layer_in_each_panel():
    layers = np.ones((5, 3))
    seen = Watched(("0", "3", "6"), layers[:, 0], layers, layers, layers)
    figure = plotting.dashboard(seen)
    lines = [len(ax.get_lines()) for ax in figure.axes]
    assert lines == [1, 3, 3, 4]  # the last has the dotted line of the usual size
    assert figure.axes[3].get_lines()[3].get_ydata()[0] == plotting.USUAL_UPDATE
    figure.draw_without_rendering()
    plt.close(figure)
