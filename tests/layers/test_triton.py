"""Triton: its kernels' values, how they compile, and what it refuses.

The interpreter has to be asked for before triton is imported, and keeps the compiler
from working: each has a process of its own.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from refusals import assert_named, refused

from bnlib import kernels
from bnlib.functional import batch_norm
from bnlib.kernels import _triton
from tools import bench_triton

ROOT = Path(__file__).resolve().parents[2]
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)


def run(*words, **variables):
    """Run Python in the repository, with triton's own variable left out."""
    there = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    found = subprocess.run(
        [sys.executable, *words],
        env=there | {"OMP_NUM_THREADS": "1"} | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return found.returncode, found.stdout + found.stderr


@needs_triton
def test_the_kernels_are_right_in_the_interpreter():
    words = (
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/layers/triton_interpreted.py",
    )
    code, said = run(*words, TRITON_INTERPRET="1")
    assert code == 0, said
    assert int(re.search(r"(\d+) passed", said)[1]) > 100
    assert "skipped" not in said


CASES = [
    ((4096, 3), torch.float32, 90, 128),
    ((8, 64, 56, 56), torch.bfloat16, 80, 128),
    ((8, 64, 14, 14), torch.bfloat16, 90, 64),
]
COMPILE = """
import torch
from tools import bench_triton

for shape, dtype, target, _ in {cases}:
    for launch in bench_triton.launches(torch.empty(shape, dtype=dtype)):
        made = bench_triton.compile_for(launch, target)
        print(launch.kernel.__name__, made.local_bytes, made.bits, made.is_wide)
"""


@needs_triton
def test_it_compiles_without_local_memory_and_with_wide_loads(tmp_path):
    code = COMPILE.format(cases=CASES)
    failed, said = run("-c", code, TRITON_CACHE_DIR=str(tmp_path))
    assert not failed, said
    expected = []
    for *_, bits in CASES:
        expected += [f"sum_values 0 {bits} True", "finish_statistics 0 None None"]
        expected += [f"normalise 0 {bits} True", f"sum_gradients 0 {bits} True"]
        expected += ["finish_gradients 0 None None", f"differentiate 0 {bits} True"]
    assert said.splitlines() == expected


def test_a_kernel_that_uses_local_memory_or_narrow_loads_is_reported():
    good = bench_triton.Compiled(64, 0, 128, True)
    assert list(bench_triton.faults("one", good)) == []
    bad = good._replace(local_bytes=8, is_wide=False)
    assert list(bench_triton.faults("one", bad)) == [
        "one uses 8 bytes of local memory",
        "one moves values less than 128 bits at a time",
    ]


@needs_triton
@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        # Rows, and rows folded until 16 divides their length.
        ((4096, 512), (False, 4096, 512, 64, 8, 128)),
        ((4096, 3), (False, 256, 48, 64, 1, 8)),
        ((130, 65), (False, 65, 130, 64, 3, 3)),
        ((7, 5, 1, 1), (False, 7, 5, 8, 1, 1)),
        # Planes: blocks are channels.
        ((32, 64, 56, 56), (True, 32, 3136, 256, 64, 52)),
        ((2, 3, 128, 128), (True, 2, 16384, 1024, 3, 16)),
        ((4, 6, 7, 7), (True, 4, 49, 64, 6, 1)),
    ],
    ids=str,
)
def test_memory_is_cut_into_tiles(shape, expected):
    cut = _triton.cut(torch.empty(shape))
    found = cut.planes, cut.height, cut.units * cut.unit
    assert (*found, cut.width, cut.blocks, cut.tiles) == expected


@needs_triton
def test_few_channels_of_many_values_still_fill_a_gpu():
    for x in (torch.empty(32, 4, 128, 128), torch.empty(2**20, 2)):
        cut = _triton.cut(x)
        assert cut.blocks * cut.splits >= 512
        assert cut.splits * cut.run >= cut.tiles
        assert (cut.splits - 1) * cut.run < cut.tiles


@pytest.mark.parametrize(
    ("input", "reason"),
    [
        (
            torch.ones(2, 3, dtype=torch.float64),
            (
                "float64",
                "float32, float16, bfloat16",
            ),
        ),
        pytest.param(
            torch.ones(2, 3),
            (
                "cpu",
                "GPU, TRITON_INTERPRET=1",
            ),
            marks=needs_triton,
        ),
        pytest.param(
            torch.ones(2, 3, device="meta"),
            ("meta", "CUDA GPU"),
            marks=needs_triton,
        ),
    ],
    ids=["float64", "cpu", "meta"],
)
def test_what_it_cannot_take_it_refuses_with_the_reason(input, reason):
    assert_named(kernels.refusal("triton", input), "input", *reason)
    with refused(ValueError, "backend 'triton' input", *reason) as raised:
        batch_norm(input, None, None, training=True, backend="triton")
    assert "readable" in str(raised.value)


def test_without_triton_it_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not _triton._is_installed.__wrapped__()
    monkeypatch.setattr(_triton, "_is_installed", lambda: False)
    reason = kernels.refusal("triton", torch.ones(2, 3))
    assert reason == "triton is not installed: on Linux, pip install triton"
    assert bench_triton.report() == []
    assert "its kernels were not compiled" in capsys.readouterr().out


def test_a_first_launch_that_fails_is_a_reason(monkeypatch):
    def no_compiler(*arguments):
        raise RuntimeError("no C compiler\nin three folders")

    monkeypatch.setattr(_triton, "forward", no_compiler)
    reason = _triton._fault.__wrapped__(torch.device("cpu"))
    assert reason == "triton fails on cpu: RuntimeError: no C compiler"


def test_bnlib_does_not_import_it():
    code = "import sys, bnlib.functional, bnlib.nn; print('triton' in sys.modules)"
    assert run("-c", code) == (0, "False\n")
