"""The book's figures: one style, readable on light and dark pages.

Lines differ in dash pattern as well as in colour, so that no figure needs
colour vision; the colours are those of Okabe and Ito.
"""

import matplotlib as mpl
from matplotlib import cycler

#: Okabe and Ito's colours that keep a contrast of 3:1 or more on white.
COLORS = ("#0072B2", "#D55E00", "#007A5E", "#9B4F82", "#6B6B6B", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
#: Perceptually even and safe for colour-blind readers.
COLORMAP = "cividis"

_STYLE = {
    "axes.grid": True,
    "axes.prop_cycle": cycler(color=COLORS) + cycler(linestyle=DASHES),
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
}


def use_style():
    """Set Matplotlib's defaults to the book's, for this process.

    In a notebook the figures are also drawn at twice the resolution, for
    sharp screens. The background stays white on a dark page: the contrast of
    every line was chosen on it.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> import bnlib
    >>> bnlib.plotting.use_style()
    >>> mpl.rcParams["image.cmap"]
    'cividis'
    """
    mpl.rcParams.update(_STYLE)
    try:
        from IPython import get_ipython
    except ModuleNotFoundError:
        return
    if get_ipython() is not None:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("retina")
