"""Run the C kernel under the compiler's sanitizers of addresses and arithmetic.

``python -m tools.sanitize`` compiles the kernel with AddressSanitizer and
UndefinedBehaviorSanitizer. It runs forward and backward passes, in training and
evaluation, over all dtypes, both layouts and the sizes at which the loops change over.
It exits with 1 at the first fault, whose report it prints. If the compiler has no
sanitizers, it says so and exits with 0.
"""

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from bnlib.functional import batch_norm
from bnlib.kernels import _build

#: Columns, or values of a plane, where a vector, a line or a block of 512 ends.
EDGES = (1, 7, 8, 9, 511, 512, 513, 1025)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
KINDS = "address,undefined"
#: Neither optimised nor for this processor: so it compiles in a third of the time.
FLAGS = ("-g", "-O0", "-fno-sanitize-recover=all", "-shared", "-fPIC", "-Wno-psabi")
ROOT = Path(__file__).resolve().parents[1]


def run(edges):
    """Run every pass on every shape, dtype and layout; return how many passes."""
    passes = 0
    shapes = [s for e in edges for s in ((2, e), (9, e), (40, e), (2, 3, e))]
    for shape, dtype, training, relu, last in itertools.product(
        shapes, DTYPES, (True, False), (None, "relu"), (False, True)
    ):
        x = torch.randn(shape).to(dtype)
        x = x.movedim(1, -1).contiguous().movedim(-1, 1) if last else x
        weight, bias, mean = torch.randn(3, shape[1])
        leaves = [t.requires_grad_() for t in (x, weight, bias)]
        given = x, mean, torch.rand(shape[1]) + 0.5, weight, bias, training
        y = batch_norm(*given, activation=relu, backend="c")
        torch.autograd.grad(y.sum(), leaves)
        passes += 2
    return passes


def runtime():
    """Return the path of the sanitizer's library, or None if there is none."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    asked = [compiler, "-print-file-name=libasan.so"]
    found = Path(subprocess.run(asked, capture_output=True, text=True).stdout.strip())
    return found.resolve() if found.is_absolute() else None


def sanitized(edges, source=_build.SOURCES[0], kinds=KINDS):
    """Compile a source with the sanitizers and run all passes in a process of its own.

    Parameters
    ----------
    edges : sequence of int
        Columns, or values of a plane.
    source : path
        The C file; what it includes lies beside it.
    kinds : str
        What the sanitizers look for.

    Returns
    -------
    CompletedProcess
        The process that ran the passes; the first fault ends it.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernel.so"
        options = [f"-fsanitize={kinds}", "-o", str(made)]
        subprocess.run(["cc", *FLAGS, *options, str(source), "-lm"], check=True)
        code = (
            "import pathlib\n"
            "from tools import sanitize\n"
            "from bnlib.kernels import _build\n"
            f"_build.load = lambda: _build._opened(pathlib.Path({str(made)!r}))\n"
            f"print(sanitize.run({tuple(edges)!r}), 'passes without a fault')\n"
        )
        variables = {
            # It must come before every other library; Python itself leaks, by design.
            "LD_PRELOAD": str(runtime()),
            "ASAN_OPTIONS": "detect_leaks=0",
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | variables,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )


def main():
    """Run all passes and print what was found."""
    if runtime() is None:
        print("skipped: the compiler has no sanitizers")
        return 0
    found = sanitized(EDGES)
    print(found.stdout + found.stderr, end="")
    return 1 if found.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
