"""A toy experiment that tests stop and resume, in this process or another.

Run as a script it is `python -m bnlib.experiments` with the toy registered: it
logs each unit in the file `computed` and sends itself the signal `$STOP` in the
fourth.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from bnlib import experiments
from bnlib.experiments import _registry
from bnlib.experiments.__main__ import main

UNITS = 6
TOY = {
    "id": "toy",
    "title": "A draw for each size and seed",
    "chapter": "02-transform",
    "source": "ioffe2015",
    "sweep": {"arm": "arms", "size": "sizes", "seed": "seeds"},
    "paired": ("arm",),
    "threads": 1,
    "live": {"arms": ["a", "b"], "sizes": [0.5], "seeds": [0], "steps": 1},
    "paper": {"arms": ["a", "b"], "sizes": [0.5], "seeds": [0, 1, 2], "steps": 2},
}


def register(begin):
    """Register the toy; each unit first calls `begin` with its arguments."""

    @experiments.experiment(**TOY)
    def draw(context, arm, size, steps):
        begin((arm, size, steps))
        draws = np.random.default_rng(context.seed_sequence).random(steps)
        return {"value": size * draws.sum(), "tuple": (1, 2)}


def context(seed=0, **datasets):
    """Return what an experiment gives a unit."""
    sequence = np.random.SeedSequence(seed)
    return experiments.Context(torch.device("cpu"), sequence, datasets)


class Toy:
    """Runs the toy experiment in a folder of its own; lists the units computed.

    `before` is called with the number of units begun, and may stop the run.
    """

    def __init__(self, monkeypatch, folder):
        self.folder = folder / "records"
        self.cache = folder / "cache"
        self.computed = []
        self.before = lambda begun: None
        monkeypatch.setenv("BNLIB_CACHE", str(self.cache))
        experiments.all_experiments()
        monkeypatch.setattr(_registry, "_EXPERIMENTS", dict(_registry._EXPERIMENTS))
        register(self.begin)

    def begin(self, arguments):
        self.before(len(self.computed) + 1)
        self.computed.append(arguments)

    def run(self, **options):
        self.computed.clear()
        options = {"device": "cpu", "folder": self.folder} | options
        return experiments.run("toy", "paper", **options)

    def partials(self):
        return sorted(self.cache.rglob("*.jsonl"))

    def stop_in_the_middle(self, **options):
        """Three of six units are done when the run is interrupted."""
        self.before = self.interrupt_at_the_fourth
        with pytest.raises(KeyboardInterrupt) as caught:
            self.run(**options)
        self.before = lambda begun: None
        return caught.value

    @staticmethod
    def interrupt_at_the_fourth(begun):
        if begun == 4:
            raise KeyboardInterrupt


def run_in_a_process(folder, stop=""):
    """Run the toy by the command line in another process, all files in `folder`."""
    command = ["run", "toy", "--scale=paper", "--device=cpu", "--folder=records"]
    environment = os.environ | {"STOP": stop, "BNLIB_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, __file__, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def log_and_stop(arguments):
    with open("computed", "a") as log:
        log.write(f"{arguments}\n")
    begun = len(Path("computed").read_text().splitlines())
    if os.environ["STOP"] and begun == 4:
        os.kill(os.getpid(), getattr(signal, os.environ["STOP"]))


if __name__ == "__main__":
    # A shell that starts tests in the background makes them ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    register(log_and_stop)
    sys.exit(main(sys.argv[1:]))
