"""The tests' check of what an error says: its content, whatever the sentence."""

import warnings

import pytest
from refusals import assert_named, refused, warned

SAYS = ("eps", -1, "a finite number of at least 0")


@pytest.mark.parametrize(
    "message",
    [
        "eps is -1: give a finite number of at least 0",
        "give a finite number at least 0 for eps, not -1",
        "a finite number >= 0 is taken; 'eps' is -1.0",
        "layer.eps, a finite number, is 0 or more; it was -1.",
    ],
)
def test_a_reworded_message_is_taken(message):
    assert_named(message, *SAYS)


@pytest.mark.parametrize(
    ("message", "missing"),
    [
        ("the value is -1: give a finite number of at least 0", "eps (name)"),
        ("epsilon is -1: give a finite number of at least 0", "eps (name)"),
        ("eps is negative: give a finite number of at least 0", "-1.0 (given)"),
        ("eps is -12: give a finite number of at least 0", "-1.0 (given)"),
        ("eps is 1: give a finite number of at least 0", "-1.0 (given)"),
        ("eps is -1: give a finite number of at least 1", "0.0 (taken)"),
        ("eps is -1: give a finite number of at most 0", ">= (taken)"),
        ("eps is -1: give a number of at least 0", "finite (taken)"),
        ("eps is -1", "finite (taken), number (taken), >= (taken), 0.0 (taken)"),
        ("", "eps (name), -1.0 (given), "),
    ],
)
def test_a_message_that_leaves_something_out_is_not_taken(message, missing):
    with pytest.raises(AssertionError) as raised:
        assert_named(ValueError(message), *SAYS)
    assert f"missing {missing}" in str(raised.value)


@pytest.mark.parametrize("other", ["12", "-1", "1.5", "1e5", "(1, 2)", "x1", "BN1d"])
def test_a_number_is_not_found_in_another_token(other):
    assert_named("steps is 1", "steps", 1)
    with pytest.raises(AssertionError):
        assert_named(f"steps is {other}", "steps", 1)


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (0.1, "0.1"),
        (-1e-9, "-1e-09"),
        (float("nan"), "nan"),
        ((3, 1), "(3, 1)"),
        ((3,), "(3,)"),
        ((), "()"),
        ("[4, 5]", "torch.Size([4, 5])"),
        (None, "None"),
        (True, "True"),
        (list, "list"),
        ("'fast'", "'fast'"),
        ("int64", "torch.int64"),
        ("toy.json", "some/records/toy.json"),
    ],
    ids=str,
)
def test_a_value_is_found_as_it_is_printed_and_not_beside_another(given, printed):
    assert_named(f"x is {printed}: give y", "x", given, "y")
    with pytest.raises(AssertionError):
        assert_named("x is 7 or (7, 7) or 'seven': give y", "x", given, "y")


def test_a_text_in_quotes_is_told_from_a_number():
    with pytest.raises(AssertionError):
        assert_named("rate is 1: give a number", "rate", "'1'", "number")


def test_what_is_asked_for_twice_must_stand_twice():
    says = ("left right", (3,), "(3,)")
    assert_named("left is (3,): give (3,) as right is", *says)
    with pytest.raises(AssertionError):
        assert_named("left is (3,): give what right is", *says)


def test_nothing_asked_checks_nothing_and_is_an_error():
    with pytest.raises(AssertionError) as raised:
        assert_named("eps is -1", taken="the")
    assert "nothing is asked" in str(raised.value)


def test_an_error_of_another_kind_or_none_is_not_taken():
    with pytest.raises(TypeError), refused(ValueError, "eps"):
        raise TypeError("eps")
    with pytest.raises(pytest.fail.Exception), refused(ValueError, "eps"):
        pass
    with refused((TypeError, ValueError), "eps", -1) as raised:
        raise ValueError("eps is -1")
    assert str(raised.value) == "eps is -1"


def test_a_warning_is_read_as_an_error_is():
    with warned(RuntimeWarning, "eps", 0):
        warnings.warn("eps is 0", RuntimeWarning, stacklevel=1)
    with pytest.raises(AssertionError), warned(RuntimeWarning, "eps", 0):
        warnings.warn("eps is 1", RuntimeWarning, stacklevel=1)
