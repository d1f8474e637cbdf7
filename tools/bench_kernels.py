"""Print and draw what `bnlib.experiments.kernels` measured, beside the goals."""

import matplotlib.pyplot as plt
import numpy as np

from bnlib.experiments.kernels import LARGE, SMALL
from bnlib.plotting import use_style

NOISY = 0.2
#: The last of the large shapes has few channels, and a goal of its own.
SIX, FEW = LARGE[:-1], LARGE[-1:]
#: Each goal: name, backend, part, cases, activations and the least speed-up.
SPEED_GOALS = (
    ("forward, six large shapes", "c", "forward", SIX, ("none",), 1.6),
    ("with backward, six large shapes", "c", "both", SIX, ("none",), 1.4),
    ("with ReLU and backward, six large shapes", "c", "both", SIX, ("relu",), 2.0),
    ("few channels, channels_last, forward", "c", "forward", FEW, ("none",), 5.0),
    ("few channels, with backward", "c", "both", FEW, ("none",), 5.0),
    *(
        (f"anywhere, {part}", "auto", part, LARGE + SMALL, ("none", "relu"), 0.95)
        for part in ("forward", "both")
    ),
)


def speed_table(record):
    """Return lines: a table for each dtype and activation, a row for each case.

    Parameters
    ----------
    record : Record
        The record of "kernel-speed" or "kernel-speed-gpu".

    Returns
    -------
    list of str
    """
    others = [name for name in record.parameters["backends"] if name != "pytorch"]
    head = f"{'':28}{'copy':>9}{'torch, ms':>16}" + "".join(f"{n:>14}" for n in others)
    lines = [f"{record.title}: {record.device}, torch {record.versions['torch']}"]
    lines += ["Speed-up over torch: forward / forward and backward"]
    for dtype in record.parameters["dtypes"]:
        for activation in record.parameters["activations"]:
            lines += ["", f"{dtype}, activation {activation}", head]
            lines += [
                _speed_row(row, record.parameters["backends"])
                for row in record.results
                if (row["dtype"], row["activation"]) == (dtype, activation)
            ]
    return lines


def _speed_row(row, backends):
    bandwidth = 2 * row["megabytes"] / row["copy_ms"]
    line = f"{row['case']:28}{bandwidth:5.0f} GB/s"
    columns = zip(backends, *(row[f"{p}_ms"] for p in ("forward", "both")))
    theirs = {name: pair for name, *pair in columns}["pytorch"]
    line += f"{theirs[0]:8.3g}{theirs[1]:8.3g}"
    for name, forward, both in zip(
        backends, row["forward_speedup"], row["both_speedup"]
    ):
        if name != "pytorch":
            line += f"{f'{forward:.2f} / {both:.2f}' if forward else '-':>14}"
    if row["compile_seconds"]:
        line += f"  compiled in {row['compile_seconds']:.0f} s"
    return line + "  noisy" * is_noisy(row)


def is_noisy(row):
    """Return True if a row's copy times or torch's times vary by more than NOISY."""
    return max(row["copy_spread"], row["pytorch_spread"]) > NOISY


def error_table(record):
    """Return lines: the errors of y and dx of each backend, a row for each input.

    Parameters
    ----------
    record : Record
        The record of "kernel-errors".

    Returns
    -------
    list of str
    """
    backends = record.parameters["backends"]
    lines = ["Errors of y / dx over the largest value, or in units of the last place"]
    lines += [f"{'':48}" + "".join(f"{name:>18}" for name in backends)]
    for row in record.results:
        kind = "error" if row["units"] is None else "units"
        line = f"{row['input'] + ', ' + row['layout']:48}"
        for y, dx in zip(row[kind], row[f"dx_{kind}"]):
            line += f"{'-' if y is None else f'{y:.1e} / {dx:.1e}':>18}"
        lines.append(line)
    return lines


def goals(speed, errors):
    """Return lines that compare each goal of the CPU kernel with its worst case.

    Parameters
    ----------
    speed, errors : Record
        The records of "kernel-speed" and "kernel-errors".

    Returns
    -------
    list of str
    """
    lines = ["Goals of the cpu backend (auto for the last of the speed-ups)"]
    for name, backend, part, cases, activation, least in SPEED_GOALS:
        place = speed.parameters["backends"].index(backend)
        found = [
            (row[f"{part}_speedup"][place], is_noisy(row))
            for row in speed.results
            if row["case"] in cases and row["activation"] in activation
        ]
        if found and None not in dict(found):
            worst, noisy = min(found)
            lines.append(_verdict(name, worst, worst >= least, least, noisy))
    place = errors.parameters["backends"].index("c")
    for kind, most in (("error", 2e-7), ("units", 1.0)):
        rows = [r for r in errors.results if (kind == "units") == bool(r["units"])]
        found = [row[name][place] for row in rows for name in (kind, f"dx_{kind}")]
        if found and None not in found:
            lines.append(
                _verdict(f"worst {kind}", max(found), max(found) <= most, most)
            )
    return lines


def _verdict(name, worst, is_met, asked, noisy=False):
    verdict = "met" if is_met else "MISSED, in a noisy row" if noisy else "MISSED"
    return f"{name:44}{worst:9.3g}  asked {asked:<7.3g}{verdict}"


def draw(record, path):
    """Draw the speed-ups of forward and backward together, a bar for each backend.

    Parameters
    ----------
    record : Record
    path : path
        Where to write the figure.
    """
    use_style()
    backends = [n for n in record.parameters["backends"] if n != "pytorch"]
    cases, activations = (record.parameters[n] for n in ("cases", "activations"))
    speedup = record.array("both_speedup")[:, 0, :, 0]
    size = 6.4 * len(activations), 0.35 * len(cases) + 1.8
    fig, axes = plt.subplots(1, len(activations), figsize=size, squeeze=False)
    for column, (ax, activation) in enumerate(zip(axes[0], activations)):
        for number, name in enumerate(backends):
            values = speedup[:, column, record.parameters["backends"].index(name)]
            at = np.arange(len(cases)) + 0.8 * (number / len(backends) - 0.4)
            ax.barh(at, values, 0.8 / len(backends), color=f"C{number}", label=name)
        ax.axvline(1, color="black")
        ax.set_yticks(range(len(cases)), cases if not column else [])
        ax.invert_yaxis()
        ax.set(
            xlabel="times as fast as torch", title=f"Forward and backward, {activation}"
        )
    handles = axes[0, 0].get_legend_handles_labels()
    fig.legend(*handles, loc="outside lower center", ncols=len(backends))
    fig.savefig(path)
    plt.close(fig)
