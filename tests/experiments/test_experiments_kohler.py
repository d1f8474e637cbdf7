"""Kohler's experiments: what they measure, and what a failing method leaves."""

from types import SimpleNamespace

import numpy as np
import pytest
from experiment_toys import context
from refusals import refused
from scipy import sparse, stats
from scipy.integrate import quad
from sklearn.linear_model import LogisticRegression

from bnlib import data, experiments, optim
from bnlib.experiments import kohler
from bnlib.halfspaces import FiniteHalfspace

TIMES = ("seconds", "cpu_share")
SMALL = {
    "steps": 40,
    "trial_steps": 20,
    "factors": [0.3, 1.0, 3.0],
    "reference_steps": 200,
    "points": 12,
}


def gaussian(seed=0, kind="expectation", loss="logistic", lambda_1=0.5, **changed):
    settings = {"rows": 200, "dimension": 6, "condition": 5.0} | SMALL | changed
    return kohler.halfspaces_gaussian(
        context(seed), kind, loss, lambda_1=lambda_1, **settings
    )


def dataset(x, y):
    return data.Dataset(x[10:], y[10:], x[:10], y[:10], name="toy", source="")


def method(name):
    return kohler.METHODS.index(name)


# What a record keeps of a curve.


@pytest.mark.parametrize(("steps", "points"), [(0, 2), (1, 2), (3, 30), (1000, 20)])
def test_kept_steps_go_from_the_first_to_the_last_without_repeats(steps, points):
    kept = kohler.kept_steps(steps, points)
    assert (kept[0], kept[-1]) == (0, steps)
    assert len(kept) <= points
    assert (np.diff(kept) > 0).all()


@pytest.mark.parametrize(
    ("steps", "points", "message"),
    [
        (-1, 5, ("steps", -1, "integer of at least 0")),
        (9, 1, ("points", 1, "integer of at least 2")),
    ],
)
def test_kept_steps_refuse_what_keeps_no_curve(steps, points, message):
    with refused(ValueError, *message):
        kohler.kept_steps(steps, points)


# Least squares.


def by_hand(condition, dimension, steps, seed):
    """The gaps of both descents, from the update rules and the same draws."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    basis = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    S = basis * np.geomspace(1, condition, dimension) @ basis.T
    best = rng.standard_normal(dimension)
    u, w, v = -S @ best, *2 * [rng.standard_normal(dimension)]
    gaps = {"bn": [], "gd": []}
    for _ in range(steps + 1):
        gaps["gd"].append((v - best) @ S @ (v - best))
        gaps["bn"].append(best @ S @ best - (u @ w) ** 2 / (w @ S @ w))
        v = v - S @ (v - best) / condition
        w = w - (S @ w - (w @ S @ w) / (u @ w) * u) / condition
    return {name: np.array(gap) / gap[0] for name, gap in gaps.items()}


def test_least_squares_follows_both_update_rules():
    steps, points = 60, 20
    found = kohler.least_squares(context(3), 8.0, 5, steps, points)
    kept = kohler.kept_steps(steps, points)
    bound = (1 - 1 / 8) ** (2 * np.arange(steps + 1))
    for name, shares in by_hand(8.0, 5, steps, seed=3).items():
        # Shares are kept to three digits, and rho minus its minimum cancels.
        np.testing.assert_allclose(
            found[f"{name}_shares"], shares[kept], rtol=6e-3, atol=1e-14
        )
        over = (shares / bound)[1:].max()
        assert found[f"{name}_over_bound"] == pytest.approx(over, rel=1e-5)


def test_both_descents_of_the_live_run_keep_to_the_bound():
    record = experiments.run("kohler-least-squares", device="cpu")
    for name in ("bn", "gd"):
        over = record.array(f"{name}_over_bound")
        assert over.shape == (2, 3)
        assert (over <= 1 + 1e-9).all()
        assert (record.array(f"{name}_shares")[..., 0] == 1).all()


def test_the_power_plant_is_standardised_and_its_condition_number_kept():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 4)) * [1, 10, 100, 1]
    plant = dataset(x + 50, x @ [1.0, 1.0, -1.0, 2.0] + 7)
    found = kohler.power_plant(context(power_plant=plant), steps=400, points=10)
    expected = np.linalg.cond(np.corrcoef(x.T))
    assert found["condition"] == pytest.approx(expected, rel=1e-5)
    shifted = dataset(x + 9, x @ [1.0, 1.0, -1.0, 2.0])
    again = kohler.power_plant(context(power_plant=shifted), steps=400, points=10)
    np.testing.assert_allclose(again["gd_shares"], found["gd_shares"], rtol=1e-2)


# Halfspaces.


def test_the_live_comparison_gives_every_method_a_curve_of_one_shape():
    record = experiments.run("kohler-halfspaces-gaussian", device="cpu")
    kept = kohler.kept_steps(record.parameters["steps"], record.parameters["points"])
    shape = (2, 3, 1, len(kohler.METHODS), len(kept))
    for name in ("gaps", "grad_norms", "seconds"):
        assert record.array(name).shape == shape
    assert record.array("gaps").min() >= 0
    assert (np.diff(record.array("seconds")) >= 0).all()
    stops = {row["data"]: row["stops"] for row in record.results[2::3]}
    assert stops["expectation"][method("gdnp")] == "no bracket"


def test_the_floor_of_an_expectation_is_the_least_value_there_is():
    lambda_1 = 0.4
    mean = -2 * lambda_1 / (1 - lambda_1)
    law = stats.norm(mean, np.sqrt(-2 * mean))
    least, _ = quad(lambda t: law.pdf(t) * np.logaddexp(0, t), -40, 40)
    logistic = gaussian(lambda_1=lambda_1)["floor"]
    assert logistic == pytest.approx(least, abs=1e-10)
    # The plain sigmoid's infimum is at infinity, and is the share of mistakes.
    mistakes = stats.norm.cdf(-np.sqrt(lambda_1 / (1 - lambda_1)))
    sigmoid = gaussian(loss="sigmoid", lambda_1=lambda_1)["floor"]
    assert mistakes < sigmoid < mistakes + 1e-4


def test_the_floor_is_found_though_no_method_has_come_near_it():
    short = gaussian(steps=1, trial_steps=1)
    assert short["floor"] == pytest.approx(gaussian()["floor"], abs=1e-12)
    assert min(gaps[-1] for gaps in short["gaps"]) > 1e-3


def test_the_length_of_a_finite_minimum_is_found_and_of_an_infinite_one_grows():
    lambda_1, lbfgs = 0.4, method("lbfgs")
    lengths = gaussian(lambda_1=lambda_1)["lengths"]
    finite = 2 * np.sqrt(lambda_1) / (1 - lambda_1)
    assert lengths[lbfgs] == pytest.approx(finite, rel=5e-3)
    assert lengths[method("gdnp")] == pytest.approx(finite, rel=0.05)
    assert gaussian(loss="sigmoid", lambda_1=lambda_1)["lengths"][lbfgs] > 100


def test_a_sample_is_drawn_from_the_gaussian_of_the_expectation():
    wide = {"rows": 40_000, "dimension": 2, "reference_steps": 30}
    exact, sample = (
        gaussian(kind=kind, **wide)["floor"] for kind in ("expectation", "sample")
    )
    assert sample == pytest.approx(exact, abs=0.01)


def test_a_method_goes_on_with_the_step_of_the_lowest_trial():
    found = gaussian()
    for name, factor, ends in zip(kohler.METHODS, found["chosen"], found["trials"]):
        if name in ("gdnp", "gdnp_search", "lbfgs"):
            assert factor is None
            assert ends == [None, None, None]
        else:
            assert factor == SMALL["factors"][np.argmin(ends)]
    assert len(set(found["chosen"])) > 2


# With this many rows the sum of such large losses overflows.
DIVERGING = {"kind": "sample", "rows": 5000}


def test_a_diverging_step_is_recorded_as_such_and_the_rest_goes_on():
    usual = gaussian(factors=[1.0], **DIVERGING)
    found = gaussian(factors=[1.0, 1e306], **DIVERGING)
    lost = [ends[1] is None for ends in found["trials"]]
    assert lost[: method("gdnp")] == [True] * method("gdnp")
    assert found["chosen"] == usual["chosen"]
    assert found["gaps"] == usual["gaps"]


def test_every_name_stands_for_its_method():
    rng = np.random.default_rng(0)
    problem = FiniteHalfspace(rng.standard_normal((80, 4)) - 0.4)
    start = rng.standard_normal(4)
    found = kohler._compare(problem, start, **SMALL)
    lr = np.array(found["chosen"][:5]) / problem.gradient_lipschitz
    runs = {
        "gd": optim.gradient_descent(problem, start, steps=40, lr=lr[0]),
        "agd": optim.accelerated_gradient(problem, start, steps=40, lr=lr[1]),
        "bn": optim.bn_gradient_descent(problem, start, steps=40, lr=lr[2]),
        "bn_large_g": optim.bn_gradient_descent(
            problem, start, steps=40, lr=lr[3], lr_g=10 * lr[3]
        ),
        "wn": optim.wn_gradient_descent(problem, start, steps=40, lr=lr[4]),
        "gdnp": optim.gdnp(problem, start, steps=40),
        "gdnp_search": optim.gdnp(problem, start, steps=40, step="line_search"),
        "lbfgs": optim.lbfgs(problem, start, steps=40),
    }
    assert tuple(runs) == kohler.METHODS
    for name, gaps in zip(kohler.METHODS, found["gaps"]):
        expected = runs[name].values[[0, 4]] - found["floor"]
        at = [list(kohler.kept_steps(40, 12)).index(step) for step in (0, 4)]
        np.testing.assert_allclose(np.array(gaps)[at], expected, rtol=6e-3)


def test_a_loss_that_is_no_number_is_never_the_best():
    def method(problem, start, *, lr, steps):
        return SimpleNamespace(values=[9.0, {1.0: np.nan, 2.0: 0.5, 3.0: 0.7}[lr]])

    problem = SimpleNamespace(gradient_lipschitz=1.0)
    found = kohler._try(method, problem, None, 1, [1.0, 2.0, 3.0])
    assert found == (2.0, [None, 0.5, 0.7])


def test_a_method_that_diverges_keeps_its_place_and_its_reason():
    usual = gaussian(factors=[1.0], **DIVERGING)
    found = gaussian(factors=[1e306], **DIVERGING)
    gd = method("gd")
    assert found["stops"][gd] == "diverged"
    assert found["gaps"][gd][-1] is None
    assert found["ended"][gd] < SMALL["steps"]
    for name in ("gdnp", "gdnp_search", "lbfgs"):
        assert found["gaps"][method(name)] == usual["gaps"][method(name)]


def test_a_run_that_ends_early_keeps_its_last_value():
    found = gaussian(loss="sigmoid")
    gdnp = method("gdnp")
    assert (found["ended"][gdnp], found["stops"][gdnp]) == (0, "no bracket")
    assert len(set(found["gaps"][gdnp])) == 1
    assert found["gaps"][gdnp][0] > 0


def test_the_end_of_an_early_run_counts_even_between_two_steps_kept():
    found = gaussian()
    lbfgs = method("lbfgs")
    kept = kohler.kept_steps(SMALL["steps"], SMALL["points"])
    ended = found["ended"][lbfgs]
    assert ended not in kept
    before = found["gaps"][lbfgs][np.flatnonzero(kept < ended)[-1]]
    assert found["gaps"][lbfgs][-1] < before / 10


@pytest.mark.parametrize("kind", ["expectation", "sample"])
def test_the_same_seed_gives_the_same_results_but_for_times(kind):
    first, second = (gaussian(kind=kind, seed=5) for _ in range(2))
    other = gaussian(kind=kind, seed=6)
    for name in set(first) - set(TIMES):
        assert first[name] == second[name]
    assert first["gaps"] != other["gaps"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"condition": 1.0}, ("condition", 1.0, "number above 1")),
        ({"condition": -3.0}, ("condition", -3.0, "number above 1")),
        ({"condition": float("nan")}, ("condition", "nan", "number above 1")),
        ({"dimension": 1}, ("dimension", 1, "integer of at least 2")),
        ({"points": 1}, ("points", 1, "integer of at least 2")),
        ({"steps": -1}, ("steps", -1, "integer")),
    ],
)
def test_sizes_that_make_no_problem_are_refused(changed, message):
    squares = {"condition": 8.0, "dimension": 5, "steps": 9, "points": 4}
    with refused(ValueError, *message):
        kohler.least_squares(context(), **squares | changed)
    with refused(ValueError, *message):
        gaussian(**changed)


@pytest.mark.parametrize("lambda_1", [0.0, 1.0, -0.5, 2.0])
def test_moments_of_no_gaussian_are_refused(lambda_1):
    with refused(ValueError, "lambda_1", lambda_1, "0 1"):
        gaussian(lambda_1=lambda_1)


def test_a9a_is_compared_over_its_training_rows_with_their_labels():
    rng = np.random.default_rng(1)
    x = sparse.csr_matrix(rng.integers(0, 2, (210, 5)).astype(float))
    noise = rng.logistic(size=210)
    y = np.where(x @ np.array([2.0, -1.0, 0.5, 0.0, -2.0]) + noise > 0, 1, -1)
    toy = dataset(x, y)
    found = kohler.halfspaces_a9a(context(a9a=toy), "logistic", **SMALL)
    reference = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10)
    reference.fit(toy.x_train, toy.y_train)
    margins = toy.y_train * (toy.x_train @ reference.coef_[0])
    least = np.logaddexp(0, -margins).mean()
    assert found["floor"] == pytest.approx(least, abs=1e-9)


@pytest.mark.skipif("a9a" not in data.available(), reason="a9a is not here")
def test_the_live_run_on_a9a_ends_and_goes_down():
    record = experiments.run(
        "kohler-halfspaces-a9a", device="cpu", losses=["logistic"], steps=5
    )
    gaps = record.array("gaps")[0, 0]
    assert (gaps[:, -1] < gaps[:, 0]).all()


def test_the_records_are_small_enough_to_ship():
    sizes = {p.name: p.stat().st_size for p in experiments.RECORDS.glob("kohler-*")}
    assert sizes
    assert max(sizes.values()) < 300_000
