"""The search for a bracket, on slopes whose roots are known."""

import numpy as np
import pytest

from bnlib.optim._length import bisect, find_bracket


def between_two_turns(g):
    """The slope of a function with its minimum at -2 and a maximum at 3."""
    return -(g + 2) * (g - 3)


@pytest.mark.parametrize("g", [-1e6, -2.5, -1e-9, 2.9, 3.1, 5.0, 1e6])
def test_the_minimum_is_found_from_everywhere_even_from_behind_the_maximum(g):
    low, high = find_bracket(between_two_turns, g, flat=False)
    assert low < -2 < high
    assert bisect(between_two_turns, (low, high), 100) == pytest.approx(-2, rel=1e-12)


@pytest.mark.parametrize("g", [0.6, 1.0, 5.0])
def test_a_search_that_finds_nothing_downhill_goes_the_other_way(g):
    low, high = find_bracket(lambda g: -(g + 2) * (g - 0.5), g, flat=False)
    assert low < -2 < high


def test_a_start_at_a_root_is_inside_the_bracket():
    low, high = find_bracket(lambda g: g - 1, 1.0, flat=False)
    assert low < 1 < high


def test_a_start_at_a_maximum_is_no_root():
    low, high = find_bracket(between_two_turns, 3.0, flat=False)
    assert low < -2 < high


def test_a_level_start_is_a_minimum_only_where_levels_are():
    assert find_bracket(lambda g: 0.0, 1.0, flat=False) is None
    low, high = find_bracket(lambda g: 0.0, 1.0, flat=True)
    assert low <= 1 <= high


def test_the_edge_of_a_level_is_a_minimum_only_where_levels_are():
    def slope(g):
        return min(g - 5.0, 0.0)

    assert find_bracket(slope, 1.0, flat=False) is None
    low, high = find_bracket(slope, 1.0, flat=True)
    assert slope(low) < 0 == slope(high)


@pytest.mark.parametrize("slope", [np.exp, lambda g: -np.exp(-g), lambda g: np.nan])
def test_no_root_no_bracket(slope):
    with np.errstate(over="ignore"):
        assert find_bracket(slope, 1.0, flat=False) is None


def test_halving_ends_where_the_floats_do():
    calls = []

    def slope(g):
        calls.append(g)
        return g - np.pi

    assert bisect(slope, (3.0, 4.0), 10_000) == pytest.approx(np.pi, rel=4e-16)
    assert len(calls) < 60
