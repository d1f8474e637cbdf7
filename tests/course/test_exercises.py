"""What an exercise of a chapter says to the reader's code."""

import numpy as np
import pytest
from refusals import refused

from bnlib import exercises


def said(capsys, function, *arguments, **how):
    exercises.check(function, *arguments, **how)
    return capsys.readouterr().out.strip()


def test_right_code_is_right_and_wrong_code_is_not(capsys):
    x = np.arange(3.0)
    assert said(capsys, lambda x: 2 * x, x, expected=x + x).startswith("right: ")
    assert said(capsys, lambda x: 3 * x, x, expected=x + x).startswith("not yet: ")


def test_every_part_of_several_results_is_judged(capsys):
    right = said(capsys, lambda: (1.0, 2.0), expected=(1.0, 2.0))
    wrong = said(capsys, lambda: (1.0, 2.5), expected=(1.0, 2.0))
    assert right.startswith("right: ")
    assert wrong.startswith("not yet: ")
    assert "2 results" in said(capsys, lambda: 1.0, expected=(1.0, 2.0))


@pytest.mark.parametrize(
    ("blank", "expected"),
    [(lambda x: ..., 1.0), (lambda x: x - ..., 1.0), (lambda x: (x, ...), (1.0, 1.0))],
    ids=["all", "in a formula", "one of two"],
)
def test_a_blank_that_is_left_is_no_error(capsys, blank, expected):
    assert said(capsys, blank, 1.0, expected=expected).startswith("a blank is left")


@pytest.mark.parametrize("result", [None, "a", np.zeros(2)])
def test_what_is_no_result_of_that_kind_is_named(capsys, result):
    told = said(capsys, lambda: result, expected=np.zeros(3))
    assert told.startswith("not yet: ")


def test_an_error_of_the_reader_is_told_in_a_line(capsys):
    assert "ZeroDivisionError" in said(capsys, lambda: 1 / 0, expected=1.0)


def test_an_answer_is_printed_and_bad_ones_are_refused(capsys):
    exercises.answer("ex", 0.57271, within=0.005)
    assert capsys.readouterr().out == "answer: 0.573\n"
    for value, within in ((np.nan, 1), (1.0, 0.0)):
        with refused(ValueError, "give a finite number"):
            exercises.answer("ex", value, within=within)
