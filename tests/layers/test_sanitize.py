"""The C kernel under the address sanitizer; `make sanitize` runs more of it."""

import shutil

import pytest

from bnlib.kernels import _build
from tools import sanitize

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sanitize.runtime() is None, reason="the compiler has no sanitizers"
    ),
]


def test_the_kernel_touches_no_memory_but_its_own():
    found = sanitize.sanitized((1, 7, 9, 513), kinds="address")
    assert found.returncode == 0, found.stderr
    assert "1024 passes without a fault" in found.stdout


def test_a_planted_fault_is_found(tmp_path):
    for source in _build.SOURCES:
        shutil.copy(source, tmp_path)
    job = tmp_path / "batch_norm_job.h"
    # Memory for the sums is forgotten.
    text = job.read_text()
    assert text.count("(ALL + 3) * cells + sums") == 1
    job.write_text(text.replace("(ALL + 3) * cells + sums", "ALL * cells"))
    found = sanitize.sanitized((9,), tmp_path / "batch_norm.c", kinds="address")
    assert found.returncode != 0
    assert "heap-buffer-overflow" in found.stderr
