"""Langevin dynamics: the distribution of its chains, and what its error bars say."""

import numpy as np
import pytest
from refusals import refused

from bnlib import landscape


class Parabola:
    """Curvatures in several directions."""

    def __init__(self, *curvatures):
        self.curvatures = np.array(curvatures)

    def value(self, x):
        return (self.curvatures * x**2).sum(axis=1) / 2

    def gradient(self, x):
        return self.curvatures * x


def walk(problem, start, seed=0, **options):
    settings = {"temperature": 0.5, "step": 0.2, "steps": 400}
    settings["rng"] = np.random.default_rng(seed)
    return landscape.langevin(problem, start, **settings | options)


def in_standard_errors(squares, expected):
    return (squares.mean() - expected) / squares.std() * np.sqrt(len(squares))


@pytest.mark.parametrize("step", [0.05, 0.6])
def test_adjusted_chains_have_boltzmanns_variance_at_every_step(step):
    ends = walk(Parabola(1.0, 3.0), np.zeros((20_000, 2)), step=step, steps=200)
    for squares, curvature in zip(ends.points[-1].T ** 2, (1.0, 3.0)):
        assert abs(in_standard_errors(squares, 0.5 / curvature)) < 4


def test_plain_chains_have_the_variance_of_their_step():
    options = {"step": 0.5, "steps": 200, "adjust": False}
    (squares,) = walk(Parabola(2.0), np.zeros((20_000, 1)), **options).points[-1].T ** 2
    assert abs(in_standard_errors(squares, 0.25 / (1 - 0.5))) < 4
    assert in_standard_errors(squares, 0.25) > 10


def test_every_chain_has_its_own_temperature():
    T = np.repeat([0.1, 1.0], 10_000)
    ends = walk(Parabola(1.0), np.zeros((20_000, 1)), temperature=T, steps=60)
    cold, warm = np.split(ends.points[-1, :, 0] ** 2, 2)
    assert abs(in_standard_errors(cold, 0.1)) < 4
    assert abs(in_standard_errors(warm, 1.0)) < 4


@pytest.mark.parametrize("kind", ["flat", "quartic"])
def test_occupancy_is_the_exact_share_within_its_standard_error(kind):
    wells = landscape.Wells(kind, k=2)
    start = np.zeros((120, 3))
    start[:, 0] = np.where(np.arange(120) % 2, 1, -1)
    options = {"temperature": 0.3, "step": 0.25, "steps": 3000, "every": 3}
    made = walk(wells, start, seed=1, **options)
    share, error = landscape.occupancy(made.points[100:, :, 0] < 0)
    assert error < 0.01
    assert abs(share - wells.occupancy(0.3)) < 4 * error
    assert made.accepted.min() > 0.6


def test_the_standard_error_is_that_of_repeated_experiments():
    wells = landscape.Wells("flat")
    start = np.tile([-1.0, 0.0], (1600, 1))
    made = walk(wells, start, temperature=0.3, steps=600, every=5)
    groups = (made.points[20:, :, 0] < 0).reshape(101, 40, 40)
    found = [landscape.occupancy(group) for group in groups.swapaxes(0, 1)]
    shares, errors = np.transpose(found)
    assert shares.std(ddof=1) == pytest.approx(errors.mean(), rel=0.3)


def test_the_start_and_every_so_many_th_place_are_kept():
    start = np.full((3, 2), 0.5)
    made = walk(landscape.Wells("flat"), start, steps=25, every=10)
    assert made.points.shape == (3, 3, 2)
    np.testing.assert_array_equal(made.points[0], start)
    whole = walk(landscape.Wells("flat"), start, steps=25)
    np.testing.assert_array_equal(made.points, whole.points[::10])
    assert made.steps == 25
    assert made.stop_reason == "steps"
    assert (start == 0.5).all()


def test_the_stream_decides_and_nothing_else():
    start = np.zeros((4, 2))
    one, other, third = (
        walk(landscape.Wells("flat"), start, seed=seed).points for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, third)


def test_plain_steps_that_leave_the_finite_numbers_stop_with_a_reason():
    options = {"step": 3.0, "adjust": False, "steps": 100}
    made = walk(landscape.Wells("quartic"), np.full((2, 2), 2.0), **options)
    assert made.stop_reason == "diverged"
    assert made.steps < 100
    assert np.isfinite(made.points).all()
    assert len(made.points) == made.steps
    assert (made.accepted == 1).all()


def test_adjusted_steps_refuse_to_leave():
    made = walk(landscape.Wells("quartic"), np.full((2, 2), 2.0), step=1e150)
    assert made.stop_reason == "steps"
    assert (made.points == 2.0).all()
    assert (made.accepted == 0).all()


class Bare:
    def __repr__(self):
        return "Bare()"

    def value(self, x):
        return x[:, :1]

    def gradient(self, x):
        return x


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        (
            {"temperature": 0.0},
            ValueError,
            ("temperature", 0.0, "finite, above 0"),
        ),
        ({"temperature": -1}, ValueError, ("temperature", -1, "finite, above 0")),
        (
            {"temperature": np.nan},
            ValueError,
            ("temperature", "nan", "finite, above 0"),
        ),
        (
            {"temperature": np.inf},
            ValueError,
            ("temperature", "inf", "finite, above 0"),
        ),
        ({"temperature": "hot"}, TypeError, ("temperature", "'hot'", "numbers")),
        (
            {"temperature": [0.1] * 3},
            ValueError,
            ("temperature", (3,), "one number, each of 2 chains"),
        ),
        ({"step": 0}, ValueError, ("step", 0, "number above 0")),
        ({"step": np.inf}, ValueError, ("step", "inf", "finite, above 0")),
        ({"steps": 0}, ValueError, ("steps", 0, "integer of at least 1")),
        ({"steps": 1.5}, TypeError, ("steps", 1.5, "integer")),
        ({"every": 0}, ValueError, ("every", 0, "integer of at least 1")),
        ({"rng": 3}, TypeError, ("rng", 3, "numpy.random.Generator")),
        (
            {"problem": 3},
            TypeError,
            ("problem", "3, without value", "object with methods value and gradient"),
        ),
        (
            {"problem": landscape.Wells},
            TypeError,
            (
                "problem",
                "'bnlib.landscape._wells.Wells' without value",
                "object with methods value and gradient",
            ),
        ),
        (
            {"problem": Bare()},
            ValueError,
            ("problem.value", "(2, 1) for points of shape (2, 2)", "give (2,)"),
        ),
        (
            {"start": np.zeros(2)},
            ValueError,
            ("start", (2,), "(chains, d), at least one of each"),
        ),
        (
            {"start": np.zeros((0, 2))},
            ValueError,
            ("start", (0, 2), "(chains, d), at least one of each"),
        ),
        ({"start": [[0.0, 0.0]]}, TypeError, ("start", "list", "NumPy array")),
        (
            {"start": np.zeros((2, 2), int)},
            TypeError,
            ("start", "int64", "real floating dtype"),
        ),
        (
            {"start": np.full((2, 2), np.inf)},
            ValueError,
            ("start", "not finite"),
        ),
        (
            {"start": np.full((2, 2), 1e200)},
            ValueError,
            ("problem.value", "not finite at the start of a chain"),
        ),
        ({"start": np.zeros((2, 3))}, ValueError, ("points", (2, 3), "last axis 2")),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_a_number_is_drawn(changed, error, message):
    rng = np.random.default_rng(0)
    given = {"problem": landscape.Wells("flat"), "start": np.zeros((2, 2))}
    given |= {"temperature": 0.1, "step": 0.1, "steps": 3, "rng": rng}
    with refused(error, *message):
        landscape.langevin(**given | changed)
    assert rng.random() == np.random.default_rng(0).random()


@pytest.mark.parametrize(
    ("visits", "error", "given", "taken"),
    [
        (np.ones((4, 3)), TypeError, "float64", "bool"),
        (np.ones(4, bool), ValueError, (4,), "(records, chains)"),
        (np.ones((0, 3), bool), ValueError, (0, 3), "at least one record"),
        (np.ones((4, 1), bool), ValueError, (4, 1), "two chains"),
    ],
    ids=["floats", "one axis", "no record", "one chain"],
)
def test_an_occupancy_without_an_error_bar_is_refused(visits, error, given, taken):
    with refused(error, "visits", given, taken):
        landscape.occupancy(visits)
