"""bnlib.experiments: what each unit is given, and what its errors say."""

import numpy as np
import pytest
import torch
from experiment_toys import Toy

from bnlib import experiments
from bnlib.experiments import _machine


@pytest.fixture
def toy(monkeypatch, tmp_path):
    return Toy(monkeypatch, tmp_path)


def test_units_draw_from_streams_of_their_own_shared_along_paired_arguments(toy):
    values = toy.run(sizes=[1.0, 2.0]).array("value") / np.array([1, 2])[:, None]
    np.testing.assert_array_equal(values[0], values[1])
    assert len(np.unique(values[0].round(12))) == values[0].size


def test_results_do_not_depend_on_global_random_state():
    def results(seed):
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        short = {"learning_rates": [0.1], "seeds": [3], "epochs": 2}
        return experiments.run("digits-learning-rate", device="cpu", **short).results

    assert results(1) == results(2)


def test_torch_has_the_threads_of_the_experiment_for_the_run_alone(toy):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        record = experiments.run("toy", device="cpu")
        assert record.device.endswith(", 1 thread")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("cuda", [0, 2])
def test_auto_takes_cuda_where_there_is_one(monkeypatch, cuda):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    expected = torch.device("cuda", 0) if cuda else torch.device("cpu")
    assert _machine.choose_device("auto") == expected


def test_an_error_in_a_unit_names_the_unit(toy):
    def fail(begun):
        if begun == 2:
            raise ZeroDivisionError

    toy.before = fail
    with pytest.raises(ZeroDivisionError) as caught:
        experiments.run("toy")
    assert caught.value.__notes__ == ["in toy at {'arm': 'b', 'size': 0.5, 'seed': 0}"]
