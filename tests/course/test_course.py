"""What a set's cells import: expect, instances, and the key's variants."""

import subprocess
import sys

import course_toy
import numpy as np
import pytest
from refusals import refused

from bnlib.course import expect, instances
from grading import keys, sets, variant_of


@pytest.fixture
def toy(tmp_path, monkeypatch):
    course_toy.write_set(tmp_path)
    monkeypatch.setattr(sets, "SOURCE", tmp_path)


def test_students_need_numpy_alone():
    code = (
        "import sys, bnlib.course as c; c.instances('a'); c.expect('a', 1, 1, 0, '');"
        "print(sorted({'nbgrader', 'nbformat', 'torch', 'scipy'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_what_is_near_enough_is_let_pass():
    expect("y", [1.0, 2.0], np.array([1.0, 2.5]), 0.5, "")
    expect("y", np.float32(1), 1.0, 0.0, "")
    expect("y", np.zeros((0, 3)), np.zeros((0, 3)), 0.0, "")
    expect("y", 1 + 1j, 1 + 1.5j, 0.5, "")


@pytest.mark.parametrize(
    ("found", "wanted", "message"),
    [
        (1.25, 1.0, ("y", "2.5e-01", "1.0e-03 Look")),
        (np.zeros(3), np.zeros((3, 1)), ("y", (3,), "(3, 1) Look")),
        ([1.0, np.nan], [1.0, 2.0], ("y", "1 of 2 not finite", "Look")),
        ([np.inf], [1.0], ("y", "1 of 1 not finite")),
        (None, 1.0, ("y", "NoneType", "numbers Look")),
        ("1.0", 1.0, ("y", str, "numbers")),
        ([[1.0], [1.0, 2.0]], [1.0], ("y", list, "numbers")),
        ({}, 1.0, ("y", dict, "numbers")),
        (np.uint8([0]), np.uint8([1]), ("y", "1.0e+00")),
        (1e308, -1e308, ("y", "inf")),
        (10**400, 1.0, ("y", int, "numbers")),
    ],
    ids=str,
)
def test_a_miss_is_told_with_its_size(found, wanted, message):
    with refused(AssertionError, *message):
        expect("y", found, wanted, 1e-3, "Look.")


@pytest.mark.parametrize(("wanted", "allowed"), [(np.nan, 1.0), (1.0, np.nan)])
def test_a_test_that_could_not_fail_is_an_error(wanted, allowed):
    with refused(ValueError, "wanted allowed", "", "finite, at least 0"):
        expect("y", 1.0, wanted, allowed, "")


def test_a_notebook_sees_other_instances_each_time():
    assert instances("a").integers(2**62) != instances("a").integers(2**62)


def test_grading_sees_the_same_instances_each_time():
    def drawn(*parts):
        return keys.generator(*parts).integers(2**62)

    assert drawn("k", "s", "a") == drawn("k", "s", "a")
    others = {drawn("k", "s", "b"), drawn("l", "s", "a"), drawn("k", "t", "a")}
    assert len({drawn("k", "s", "a"), *others}) == 4


def test_nbgrader_without_this_course_s_configuration_gives_no_points(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with refused(RuntimeError, "nbgrader", "", "nbgrader_config.py"):
        instances("a")


def test_students_may_validate_their_notebook(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    assert instances("a").integers(9) < 9


def test_a_key_settles_the_variant(toy):
    found = {key: str(variant_of("toy", key)) for key in ("a", "b", "c", "book")}
    assert found["book"] == str(variant_of("toy"))
    assert len(set(found.values())) > 1


@pytest.mark.parametrize("name", ["none", "", "../toy"])
def test_a_set_that_is_not_there_is_named(toy, name):
    with refused(ValueError, "set", repr(name), "toy"):
        variant_of(name, "key")


@pytest.mark.parametrize("key", ["", " ", "two\nlines", None, 7])
def test_a_key_is_a_line_of_text(toy, key):
    with refused(ValueError, "course key", repr(key), "line of text"):
        variant_of("toy", key)
