"""The timing tool runs; what it measures is no test's business."""

import pytest
import torch

from tools import bench


def test_a_row_gives_both_times_and_their_ratios(monkeypatch, capsys):
    monkeypatch.setattr(bench, "SHAPES", ((8, 3),))
    bench.main(["--rounds", "2", "--threads", str(torch.get_num_threads())])
    row = capsys.readouterr().out.splitlines()[-1].removesuffix("  noisy")
    shape, forward, _, ratio, both, _, total = row.replace("(8, 3)", "(8,3)").split()
    assert shape == "(8,3)"
    assert 0 < float(forward) <= float(both)
    assert min(float(ratio), float(total)) > 0


@pytest.mark.parametrize(
    "options", [["--rounds", "1"], ["--rounds", "ten"], ["--threads", "0"]]
)
def test_a_number_that_it_cannot_use_is_named(options, capsys):
    with pytest.raises(SystemExit) as stopped:
        bench.main(options)
    assert stopped.value.code == 2
    assert f"argument {options[0]}: " in capsys.readouterr().err
