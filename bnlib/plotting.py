"""The book's figures: one style, readable on light and dark pages.

Lines differ in dash pattern as well as in colour, so that no figure needs
colour vision; the colours are those of Okabe and Ito.
"""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bnlib._extras import extra

if TYPE_CHECKING:
    from bnlib.networks import Watched

#: Those of Okabe and Ito's colours that have a contrast of 3:1 or more on white.
COLORS = ("#0072B2", "#D55E00", "#007A5E", "#9B4F82", "#6B6B6B", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
#: What a colour means, the same in every figure; the dash pattern goes with it.
MEANINGS = {
    "without BN": 0,
    "with BN": 1,
    "gradient descent": 0,
    "batch-normalised": 1,
    "weight normalised": 2,
    "GDNP": 3,
    "accelerated": 4,
    "L-BFGS": 5,
    "training mode": 1,
    "evaluation mode": 2,
    "measured": 0,
    "proved": 5,
    "layer norm": 2,
    "group norm": 3,
    "instance norm": 4,
    "ReLU": 3,
    "tanh": 2,
    "linear": 4,
    "GELU": 0,
    "BN and noise": 3,
    "descent on ρ": 1,
    "bound": 5,
    "conjugate gradients": 2,
    "gradient flow": 0,
    "weight-normalised flow": 2,
}
#: Perceptually even and safe for colour-blind readers.
COLORMAP = "cividis"

_STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.figsize": (6.4, 3.4),
    "font.size": 10,
    "grid.alpha": 0.3,
    "image.cmap": COLORMAP,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    # Text stays text, and the same figure is the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "bnlib",
}
#: Where this variable is "both", as in builds of the site, figures are SVG and PNG.
FORMATS = "BNLIB_FIGURES"


def use_style() -> None:
    """Set Matplotlib's defaults to the book's style, for this process.

    In a notebook, figures are also drawn at twice the resolution, for sharp screens.
    A build of the site draws them as SVG too; the page gives them a dark theme's
    colours.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> import bnlib
    >>> bnlib.plotting.use_style()
    >>> mpl.rcParams["image.cmap"]
    'cividis'
    """
    with extra("plot"):
        import matplotlib as mpl

    cycle = mpl.cycler(color=COLORS) + mpl.cycler(linestyle=DASHES)
    mpl.rcParams.update(_STYLE | {"axes.prop_cycle": cycle})
    try:
        from IPython import get_ipython
    except ModuleNotFoundError:
        return
    if get_ipython() is not None:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        also = ["svg"] if os.environ.get(FORMATS) == "both" else []
        set_matplotlib_formats("retina", *also)


def look(meaning: str, **changes: Any) -> dict[str, Any]:
    """Return the colour, the dashes and the label of what a line means.

    Parameters
    ----------
    meaning : str
        One of `MEANINGS`.
    **changes
        Other keywords of Matplotlib's ``plot``; they replace ours.

    Returns
    -------
    dict
        Keywords for Matplotlib's ``plot``.

    Raises
    ------
    ValueError
        If the meaning is unknown.

    Examples
    --------
    >>> look("with BN", linewidth=3)["color"]
    '#D55E00'
    """
    if meaning not in MEANINGS:
        known = ", ".join(MEANINGS)
        raise ValueError(f"no colour for {meaning!r}: give one of {known}")
    place = MEANINGS[meaning]
    own = {"color": COLORS[place], "linestyle": DASHES[place], "label": meaning}
    return own | changes


def draw_graph(
    ax: Any,
    places: Mapping[str, tuple[float, float]],
    arrows: Iterable[tuple[str, str, str]],
) -> None:
    """Draw a graph: names in circles, and labelled arrows between them.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        It loses its frame; its limits are set around the nodes.
    places : dict of str to (x, y)
        The nodes' centres, by the text to write in each node.
    arrows : iterable of (start, end, label)
        Names of two nodes, and the text on the arrow. An arrow
        labelled "0" is dotted.

    Raises
    ------
    ValueError
        If an arrow names a node that has no place.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> fig, ax = plt.subplots()
    >>> draw_graph(ax, {"x": (0, 0), "y": (1, 0)}, [("x", "y", "2x")])
    >>> [text.get_text() for text in ax.texts]
    ['', '2x', 'x', 'y']
    """
    arrows = list(arrows)
    for name in (name for start, end, _ in arrows for name in (start, end)):
        if name not in places:
            raise ValueError(f"no place for {name!r}: give one of {', '.join(places)}")
    for start, end, label in arrows:
        (x0, y0), (x1, y1) = places[start], places[end]
        style = {
            "arrowstyle": "-|>",
            "color": COLORS[4] if label == "0" else COLORS[0],
            "linestyle": ":" if label == "0" else "-",
            "linewidth": 1.5,
            "shrinkA": 15,
            "shrinkB": 15,
        }
        ax.annotate("", (x1, y1), (x0, y0), arrowprops=style)
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "linewidth": 0}
        # Off the middle, where arrows that cross tend to meet.
        beside = (x0 + 0.4 * (x1 - x0), y0 + 0.4 * (y1 - y0))
        ax.text(*beside, label, ha="center", va="center", fontsize=12, bbox=box)
    circle = {"boxstyle": "circle,pad=0.3", "facecolor": "white"}
    for name, place in places.items():
        ax.text(*place, name, ha="center", va="center", fontsize=13, bbox=circle)
    across, up = zip(*places.values())
    ax.set_xlim(min(across) - 0.5, max(across) + 0.5)
    ax.set_ylim(min(up) - 0.5, max(up) + 0.5)
    ax.axis("off")


#: The usual size of a step over its weight: a rule of thumb, drawn as a dotted line.
USUAL_UPDATE = 1e-3


def dashboard(seen: "Watched") -> Any:
    """Draw a watched training run: four panels, a line for each layer.

    The loss; by layer the size of the outputs, the size of the gradients at the
    outputs, and the length of each update over the length of the weight, with a dotted
    line at 0.001. Dark lines are layers near the input, light ones near the output.

    Parameters
    ----------
    seen : bnlib.networks.Watched
        What `bnlib.networks.watch` returns.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.networks import Watched
    >>> row = np.ones((3, 2))
    >>> figure = dashboard(Watched(("0", "3"), row[:, 0], row, row, row))
    >>> [ax.get_title() for ax in figure.axes]
    ['loss', 'outputs', 'gradients', 'update / weight']

    References
    ----------
    Chapter 15, "Practice", for what to look for.
    """
    with extra("plot"):
        import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, 2, figsize=(6.4, 5), sharex=True, layout="constrained"
    )
    (loss, outputs), (gradients, updates) = axes
    loss.plot(seen.loss, color="k", linestyle="-")
    loss.set_title("loss")
    # The lightest colours of the map do not stand out from white.
    shades = plt.get_cmap(COLORMAP)
    last = max(len(seen.layers) - 1, 1)
    for ax, title, values in (
        (outputs, "outputs", seen.activation),
        (gradients, "gradients", seen.gradient),
        (updates, "update / weight", seen.update),
    ):
        for place, name in enumerate(seen.layers):
            ax.semilogy(
                values[:, place],
                color=shades(0.7 * place / last),
                linestyle="--" if place == last else "-",
                linewidth=1.2,
                label=f"layer {name}",
            )
        ax.set_title(title)
    updates.axhline(USUAL_UPDATE, color="k", linestyle=":")
    handles = outputs.get_lines()
    ends = [handles[0], handles[-1]][: len(seen.layers)]
    figure.legend(handles=ends, loc="outside lower center", ncols=2)
    for ax in axes[1]:
        ax.set_xlabel("step")
    return figure
