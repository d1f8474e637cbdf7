"""Time GDNP, and bnlib's batch normalization against torch's own.

``python -m tools.bench [--rounds N] [--threads N]``. What is compared is called in
turn, so that a disturbance of the machine meets all; medians are compared. A row
whose own times of torch scatter by more than a fifth is marked as noisy.
"""

import argparse
import statistics
import time

import torch

from bnlib.functional import batch_norm
from tools import bench_gdnp

SHAPES = ((32, 64), (4096, 512), (32768, 64), (32, 64, 28, 28), (128, 256, 7, 7))


def compare(shape, rounds):
    """Return medians of torch and bnlib, forward and with backward, and the noise."""
    x = torch.randn(shape, requires_grad=True)
    upstream = torch.randn(shape)
    functions = {"torch": torch.nn.functional.batch_norm, "bnlib": batch_norm}
    times = {(name, part): [] for name in functions for part in ("forward", "both")}
    for _ in range(rounds + 1):
        for name, function in functions.items():
            forward, both = _timed(function, x, upstream)
            times[name, "forward"].append(forward)
            times[name, "both"].append(both)
    # The first round warms up.
    medians = {key: statistics.median(values[1:]) for key, values in times.items()}
    low, _, high = statistics.quantiles(times["torch", "both"][1:], n=4)
    return medians, (high - low) / medians["torch", "both"]


def _timed(function, x, upstream):
    x.grad = None
    start = time.perf_counter()
    y = function(x, None, None, training=True)
    forward = time.perf_counter() - start
    y.backward(upstream)
    return forward, time.perf_counter() - start


def at_least(least):
    """Return what reads a whole number that is not below another."""

    def whole_number(text):
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return whole_number


def main(arguments=None):
    """Print GDNP's rates, then a row a shape: times, and how many times torch's."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--rounds", type=at_least(2), default=15)
    parser.add_argument("--threads", type=at_least(1), default=1)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    bench_gdnp.report(given.rounds)
    print(f"float32, torch {torch.__version__}, {given.threads} thread(s), medians of")
    print(f"{given.rounds} rounds; ratio: bnlib's time over torch's\n")
    print(
        f"{'shape':20} {'torch forward':>14} {'ratio':>6} {'with backward':>14} ratio"
    )
    for shape in SHAPES:
        medians, noise = compare(shape, given.rounds)
        row = f"{shape!s:20}"
        for part in ("forward", "both"):
            ours, theirs = medians["bnlib", part], medians["torch", part]
            row += f" {theirs * 1e3:11.3f} ms {ours / theirs:6.1f}"
        print(row + ("  noisy" if noise > 0.2 else ""), flush=True)


if __name__ == "__main__":
    main()
