"""How sharp each check is: found by running it, and never coarser than a tenth."""

import numpy as np
import pytest

from bnlib.claims import Check, all_claims, judge
from bnlib.claims.check import recorded
from bnlib.claims.sharpness import sharpness

CHECKED = [entry for entry in all_claims() if entry.is_checked]
# No check of an equality may let a tenth pass.
COARSEST = 0.1


@pytest.mark.parametrize("entry", CHECKED, ids=lambda entry: entry.id)
def test_no_equality_lets_a_tenth_pass(entry):
    equality = judge(entry).sharpness.equality
    assert equality is None or equality < COARSEST


@pytest.mark.parametrize(
    ("check", "resolution"),
    [
        (Check(2.0, 2.0, "==", allowed=1e-9), 1e-9),
        (Check(2.04, 2.0, "==", allowed=0.05, scale=2.0), 0.07),
        (Check(0.9, 1.0, "<=", allowed=0.0), 0.1),
        (Check(1.2, 1.0, ">=", allowed=0.0), 0.2),
        (Check([0.5, 0.9], [1.0, 1.0], "<=", allowed=0.0), 0.1),
        (Check(0.02, 0.0, "==", allowed=0.5, scale=4.0), 0.505),
        (Check(1.0, 2.0, "==", allowed=0.1), 0.0),
    ],
)
def test_the_resolution_is_the_smallest_change_that_is_rejected(check, resolution):
    assert check.resolution == pytest.approx(resolution, rel=0.03)


def test_a_larger_right_side_does_not_excuse_a_larger_miss():
    # Relative to the new right side the miss would stay below one half for ever.
    assert Check(1.0, 1.0, "==", allowed=0.6).resolution == pytest.approx(0.6, rel=0.03)


def test_only_a_sign_has_no_resolution():
    assert Check(0.1, 1e-6, ">=", allowed=0.0).resolution == np.inf


def test_of_several_pairs_the_coarsest_counts_and_of_instances_the_sharpest():
    def run(coarse, bound):
        fine = Check(1.0, 1.0, "==", allowed=1e-9)
        return [fine, Check(1.0, 1.0, "==", coarse), Check(bound, 1.0, "<=", 0.0)]

    found = sharpness([run(0.02, 0.5), run(0.01, 0.75)])
    assert found.equality == pytest.approx(0.01, rel=0.03)
    assert found.slack == pytest.approx(0.25, rel=0.03)


def test_instances_with_unlike_numbers_of_pairs_count_their_coarsest():
    fine, coarse = (Check(1.0, 1.0, "==", allowed) for allowed in (1e-9, 0.02))
    found = sharpness([[fine, coarse], [fine, coarse, coarse]])
    assert found.equality == pytest.approx(0.02, rel=0.03)
    assert found.slack is None


def test_every_comparison_of_a_block_is_collected_and_none_outside():
    with recorded() as made:
        Check.worst(Check(1.0, 1.0, "==", 0.0), Check(2.0, 1.0, ">=", 0.0))
    Check(3.0, 3.0, "==", 0.0)
    assert [check.left for check in made] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("left", "relation", "allowed", "words"),
    [
        (1.0, "==", 0.0, "equal to the last digit"),
        (1.0, "==", 1e-9, "equal to 1e-09"),
        (1.0, "==", 0.05, "equal to 5 %"),
        (0.75, "<=", 0.0, "slack 25 %"),
        (1.0, "<=", 1e-12, "bound attained"),
        (7.0, ">=", 0.0, "slack a factor 7"),
        (1e9, ">=", 0.0, "a sign"),
    ],
)
def test_the_words_of_a_sharpness(left, relation, allowed, words):
    assert str(sharpness([[Check(left, 1.0, relation, allowed)]])) == words
