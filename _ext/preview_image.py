"""Draw the image that other sites show beside a link to the book.

It is drawn from a record, with a font that Matplotlib brings along: the same
record gives the same image on any machine.
"""

from functools import cache
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

import bnlib

NAME = "_static/preview.png"
#: In pixels: what the services that show previews ask for.
WIDTH, HEIGHT = 1200, 630
RECORD = "digits-learning-rate"
ENOUGH = 0.9
ARMS = {"batch_norm": "with batch normalization", "plain": "without"}


def largest_rates(record):
    """Return each arm's largest learning rate with a mean accuracy above ENOUGH."""
    rates = record.parameters["learning_rates"]
    arms = zip(record.parameters["arms"], record.array("accuracy").mean(axis=2))
    return {
        arm: max(rate for rate, mean in zip(rates, means) if mean > ENOUGH)
        for arm, means in arms
    }


@cache
def alt_text():
    """Describe the image to readers who do not see it."""
    largest = largest_rates(bnlib.experiments.load_record(RECORD))
    return (
        "Test accuracy on handwritten digits against the learning rate. It stays "
        f"above {ENOUGH:g} up to a rate of {largest['batch_norm']:g} with batch "
        f"normalization, and up to {largest['plain']:g} without."
    )


def draw(path, title):
    """Write the image of a book with this title."""
    record = bnlib.experiments.load_record(RECORD)
    with mpl.rc_context(mpl.rcParamsDefault):
        bnlib.plotting.use_style()
        mpl.rcParams.update({"font.size": 20, "font.family": "DejaVu Sans"})
        mpl.rcParams.update({"figure.constrained_layout.use": False})
        figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
        lead, _, rest = title.partition(", ")
        blue = bnlib.plotting.COLORS[0]
        figure.text(0.08, 0.86, lead, size=42, weight="bold")
        figure.text(0.08, 0.76, rest, size=42, weight="bold", color=blue)
        figure.text(0.08, 0.67, "An executable book: every claim runs.", size=22)
        ax = figure.add_axes((0.08, 0.14, 0.87, 0.42))
        draw_record(ax, record)
        # Matplotlib's version is left out, so that the file is the same everywhere.
        figure.savefig(path, metadata={"Software": None})


def draw_record(ax, record):
    largest = largest_rates(record)
    rates = record.parameters["learning_rates"]
    for arm, runs in zip(record.parameters["arms"], record.array("accuracy")):
        (line,) = ax.semilogx(rates, runs.mean(axis=1), linewidth=5, label=ARMS[arm])
        low, high = runs.min(axis=1), runs.max(axis=1)
        ax.fill_between(rates, low, high, color=line.get_color(), alpha=0.2)
    ax.set(xlabel="learning rate", yticks=[0, 0.5, 1], ylim=(0, 1.04))
    ax.set_xlim(rates[0], rates[-1])
    ax.legend(loc="lower left", bbox_to_anchor=(0.17, 0), handlelength=2.8)
    ax.set_title(
        f"Test accuracy on digits: larger steps, {largest['batch_norm']:g} "
        f"instead of {largest['plain']:g}",
        pad=12,
    )


def draw_at_the_end(app, exception):
    if exception is None:
        draw(Path(app.outdir) / NAME, app.config.html_title or app.config.project)


def setup(app):
    app.connect("build-finished", draw_at_the_end)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
