"""Measure this machine: GDNP, and bnlib's batch normalization beside torch's.

``python -m tools.bench [--rounds N] [--device cuda] [--folder FOLDER]``. What is
compared is called in turn, so that a disturbance of the machine meets all; medians are
compared, on one thread. Results are written as records, with a figure. On a GPU only
the backends for it are measured, at 500 MB, after their values were checked.
"""

import argparse
from pathlib import Path

from bnlib import experiments
from tools import bench_gdnp, bench_kernels, bench_triton

FOLDER = "_build/bench"
ON_GPU = ["pytorch", "triton"]


def at_least(least):
    """Return a parser of whole numbers that refuses those below `least`."""

    def whole_number(text):
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return whole_number


def measure(id, device, folder, **parameters):
    """Run an experiment at paper scale and write its record to the folder."""
    return experiments.run(
        id, "paper", device=device, folder=folder, force=True, **parameters
    )


def on_cpu(rounds, folder):
    """Measure everything that runs on a CPU, and compile the kernels for GPUs."""
    bench_gdnp.report(rounds)
    wrong = bench_triton.report()
    errors = measure("kernel-errors", "cpu", folder)
    print(*bench_kernels.error_table(errors), "", sep="\n", flush=True)
    speed = measure("kernel-speed", "cpu", folder, rounds=rounds)
    print(*bench_kernels.speed_table(speed), "", sep="\n")
    print(*bench_kernels.goals(speed, errors), *wrong, sep="\n")
    return speed


def on_gpu(device, rounds, folder):
    """Check the values of the backends on a GPU, then time them."""
    errors = measure("kernel-errors", device, folder, backends=ON_GPU)
    print(*bench_kernels.error_table(errors), "", sep="\n", flush=True)
    speed = measure("kernel-speed-gpu", device, folder, rounds=rounds)
    print(*bench_kernels.speed_table(speed), sep="\n")
    return speed


def main(arguments=None):
    """Print the tables, and write records and a figure."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--rounds", type=at_least(2), default=15)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:0")
    parser.add_argument("--folder", default=FOLDER, help="where records are written")
    given = parser.parse_args(arguments)
    try:
        if given.device == "cpu":
            speed = on_cpu(given.rounds, given.folder)
        else:
            speed = on_gpu(given.device, given.rounds, given.folder)
    except (ValueError, OSError, experiments.AlreadyRunning) as error:
        parser.error(str(error))
    figure = Path(given.folder) / f"{speed.id}.png"
    bench_kernels.draw(speed, figure)
    noisy = sum(map(bench_kernels.is_noisy, speed.results))
    if noisy:
        print(f"{noisy} of {len(speed.results)} rows were noisy: something else ran")
    print(f"wrote {speed.id}.json and its figure to {given.folder}")


if __name__ == "__main__":
    main()
