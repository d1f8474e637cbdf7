"""What a run and a registration take, and how they refuse the rest."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from experiment_toys import TOY, Toy
from refusals import refused

from bnlib import experiments
from bnlib.experiments import _registry


@pytest.fixture
def toy(monkeypatch, tmp_path):
    return Toy(monkeypatch, tmp_path)


def test_an_unknown_experiment_is_refused_with_those_there_are():
    with refused(ValueError, "", "'nope'", "digits-learning-rate"):
        experiments.run("nope")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"rate": 1},
            TypeError,
            ("", "no parameter 'rate'", "arms, sizes, seeds, steps"),
        ),
        ({"scale": "big"}, ValueError, ("scale", "'big'", "live or paper")),
        ({"seeds": 3}, TypeError, ("seeds", 3, "list of int")),
        ({"seeds": []}, TypeError, ("seeds", "[]", "list of int, not empty")),
        ({"seeds": [0.5]}, TypeError, ("seeds", 0.5, "int")),
        ({"seeds": [True]}, TypeError, ("seeds", True, "int")),
        ({"seeds": [1, 1]}, ValueError, ("seeds", "twice")),
        ({"sizes": [float("nan")]}, TypeError, ("sizes", "nan", "float")),
        ({"arms": ["c"]}, ValueError, ("arms", "'c'", "a, b")),
        ({"steps": "2"}, TypeError, ("steps", "'2'", "int")),
        ({"device": "tpu"}, ValueError, ("device", "'tpu'", "auto, cpu")),
        ({"device": "cuda:99"}, ValueError, ("device", "'cuda:99'", "auto, cpu")),
    ],
)
def test_bad_input_is_refused_before_any_work(toy, options, error, message):
    with refused(error, *message):
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

    unit = "'arm' 'a', 'size' 0.5, 'seed' 0"
    with refused(ValueError, "toy", f"{unit} returned {result!r}"):
        experiments.run("toy")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, ("experiment", "'toy' already")),
        ({"id": "x", "sweep": {"arm": "arms"}}, ("seed", "not sweep")),
        (
            {"id": "x", "paired": ("arn",)},
            ("x: paired", ("arn",), "tuple, arm, size"),
        ),
        (
            {"id": "x", "paired": ("seed",)},
            ("x: paired", ("seed",), "tuple, arm, size"),
        ),
        (
            {"id": "x", "paired": "arm"},
            ("x: paired", "'arm'", "tuple, arm, size"),
        ),
        ({"id": "x", "data": ("digitz",)}, ("x: data", ("digitz",), "digits")),
        (
            {"id": "x", "live": TOY["live"] | {"sizes": []}},
            ("x sizes", "[]", "list not empty"),
        ),
        (
            {"id": "x", "paper": TOY["paper"] | {"arms": "ab"}},
            ("x arms", "'ab'", "list not empty"),
        ),
        (
            {"id": "x", "live": {"arms": ["a"]}},
            ("x", "other parameters", "live paper"),
        ),
        (
            {"id": "x", "sweep": {"seed": "seeds", "size": "sizes"}, "paired": ()},
            (
                "x",
                "given arms, context, size, steps",
                "context, arm, size, steps",
            ),
        ),
    ],
)
def test_a_wrong_registration_is_refused(toy, change, message):
    with refused(ValueError, *message):

        @experiments.experiment(**TOY | change)
        def unit(context, arm, size, steps):
            pass

    assert "x" not in [entry.id for entry in experiments.all_experiments()]


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
