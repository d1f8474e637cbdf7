"""What a run and a registration take, and how they refuse the rest."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from experiment_toys import TOY, Toy

from bnlib import experiments
from bnlib.experiments import _registry


@pytest.fixture
def toy(monkeypatch, tmp_path):
    return Toy(monkeypatch, tmp_path)


def test_an_unknown_experiment_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="'nope'; there are digits-learning-rate"):
        experiments.run("nope")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rate": 1}, TypeError, "no parameter 'rate'; it takes arms, sizes, seeds"),
        ({"scale": "big"}, ValueError, "live or paper, not 'big'"),
        ({"seeds": 3}, TypeError, "seeds takes a list of int.* not 3"),
        ({"seeds": []}, TypeError, "not empty"),
        ({"seeds": [0.5]}, TypeError, "seeds takes int.* not 0.5"),
        ({"seeds": [True]}, TypeError, "seeds takes int.* not True"),
        ({"seeds": [1, 1]}, ValueError, "seeds holds a value twice"),
        ({"sizes": [float("nan")]}, TypeError, "sizes takes float.* not nan"),
        ({"arms": ["c"]}, ValueError, "arms are among a, b, not 'c'"),
        ({"steps": "2"}, TypeError, "steps takes int.* not '2'"),
        ({"device": "tpu"}, ValueError, "no device 'tpu'.* there are auto, cpu"),
        ({"device": "cuda:99"}, ValueError, "no device 'cuda:99'"),
    ],
)
def test_bad_input_is_refused_before_any_work(toy, options, error, message):
    with pytest.raises(error, match=message):
        experiments.run("toy", **{"scale": "live"} | options)
    assert toy.computed == []


def test_numpy_values_are_taken_as_plain_ones(toy):
    record = experiments.run(
        "toy", sizes=np.array([1, 2]), seeds=range(2), steps=np.int64(3), arms=("b",)
    )
    text = '{"arms": ["b"], "sizes": [1.0, 2.0], "seeds": [0, 1], "steps": 3}'
    assert json.dumps(record.parameters) == text


@pytest.mark.parametrize(
    "result", [{"x": float("nan")}, {"x": np.float32(1)}, 3, {"arm": "a"}]
)
def test_a_result_that_a_record_cannot_hold_is_refused(monkeypatch, toy, result):
    monkeypatch.setattr(_registry, "_EXPERIMENTS", {})

    @experiments.experiment(**TOY)
    def returns(context, arm, size, steps):
        return result

    with pytest.raises(ValueError, match=r"toy at .* returned"):
        experiments.run("toy")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "an experiment 'toy' already"),
        ({"id": "x", "sweep": {"arm": "arms"}}, "does not sweep seed"),
        ({"id": "x", "paired": ("arn",)}, r"x: paired is \('arn',\);.* arm, size"),
        ({"id": "x", "paired": ("seed",)}, "x: paired is .* among arm, size$"),
        ({"id": "x", "paired": "arm"}, "x: paired is 'arm'; give a tuple"),
        ({"id": "x", "data": ("digitz",)}, "x: data is .*digitz.*, digits,"),
        ({"id": "x", "live": TOY["live"] | {"sizes": []}}, r"sizes, which is \[\]"),
        ({"id": "x", "paper": TOY["paper"] | {"arms": "ab"}}, "arms, which is 'ab'"),
        ({"id": "x", "live": {"arms": ["a"]}}, "other parameters in live"),
        (
            {"id": "x", "sweep": {"seed": "seeds", "size": "sizes"}, "paired": ()},
            "is given arms",
        ),
    ],
)
def test_a_wrong_registration_is_refused(toy, change, message):
    with pytest.raises(ValueError, match=message):

        @experiments.experiment(**TOY | change)
        def unit(context, arm, size, steps):
            pass

    assert "x" not in _registry._EXPERIMENTS


# What is registered

ROOT = Path(__file__).resolve().parents[2]
each = pytest.mark.parametrize(
    "entry", experiments.all_experiments(), ids=lambda entry: entry.id
)


@each
def test_its_source_is_in_the_bibliography(entry):
    text = (ROOT / "references.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{\s*([^,\s]+)\s*,", text, re.MULTILINE)
    assert entry.source in keys


@each
def test_its_chapter_is_there(entry):
    assert (ROOT / "chapters" / f"{entry.chapter}.ipynb").is_file()
