"""GDNP on data: what it costs, what the line search adds, and where it stops."""

import numpy as np
import pytest
import torch
from halfspace_problems import FORMATS, finite, gaussian, rows
from hypothesis import given, settings, strategies as st
from refusals import refused
from scipy import sparse
from scipy.optimize import minimize

from bnlib.decoupling import LeastSquares
from bnlib.halfspaces import FiniteHalfspace, GaussianHalfspace
from bnlib.losses import LOSSES
from bnlib.optim import gdnp

STEPS = pytest.mark.parametrize("step", ["paper", "line_search"])
LENGTHS = pytest.mark.parametrize("length", ["bisection", "newton", "gradient"])
REASONS = {"steps", "tolerance", "no bracket", "separable", "overflow", "stalled"}


def best_value(problem, d):
    """Return the least value, by SciPy's BFGS."""
    return minimize(
        problem.value, np.zeros(d), jac=problem.gradient, method="BFGS", tol=1e-10
    ).fun


@STEPS
@LENGTHS
def test_it_finds_the_minimum_of_data_from_two_gaussians(step, length):
    problem, w = finite(n=3000, d=4)
    trace = gdnp(problem, w, steps=300, tol=1e-10, step=step, length=length)
    assert trace.stop_reason == "tolerance"
    assert trace.values[-1] == pytest.approx(best_value(problem, 4), rel=1e-12)


@STEPS
@LENGTHS
def test_every_library_and_format_takes_the_same_path(step, length):
    Z, w = rows()
    options = {"steps": 12, "step": step, "length": length}
    expected = gdnp(FiniteHalfspace(Z), w, **options)
    for kind in FORMATS.values():
        trace = gdnp(FiniteHalfspace(kind(Z)), w, **options)
        np.testing.assert_allclose(trace.w, expected.w, rtol=1e-8)
        np.testing.assert_allclose(trace.values, expected.values, rtol=1e-11)
    trace = gdnp(FiniteHalfspace(torch.tensor(Z)), torch.tensor(w), **options)
    assert isinstance(trace.w, torch.Tensor)
    np.testing.assert_allclose(trace.w, expected.w, rtol=1e-8)
    np.testing.assert_allclose(trace.values, expected.values, rtol=1e-11)


class Counting:
    """A matrix that counts its products."""

    def __init__(self, matrix):
        self._matrix = matrix
        self.products = 0

    def __matmul__(self, vector):
        assert vector.ndim == 1
        self.products += 1
        return self._matrix @ vector


@STEPS
@LENGTHS
@pytest.mark.parametrize("kind", [np.array, sparse.csr_array, torch.tensor])
def test_a_step_costs_one_product_with_the_data_and_one_with_their_transpose(
    step, length, kind
):
    Z, w = rows()
    problem = FiniteHalfspace(kind(Z))
    problem._Z, problem._transposed = Counting(kind(Z)), Counting(kind(Z.T))
    start = torch.tensor(w) if kind is torch.tensor else w
    trace = gdnp(problem, start, steps=9, step=step, length=length)
    assert trace.n_iter == 9
    # One each at the start.
    assert (problem._Z.products, problem._transposed.products) == (10, 10)


def test_the_line_search_goes_down_where_the_printed_direction_stalls():
    # Labels by a logistic model of Gaussian x: z is far from Gaussian.
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 5)) * np.array([1.0, 2, 4, 8, 16])
    signs = np.where(rng.random(400) < 1 / (1 + np.exp(-x @ np.ones(5))), 1.0, -1.0)
    problem = FiniteHalfspace(-signs[:, None] * x)
    w = rng.standard_normal(5)
    least = best_value(problem, 5)
    options = {"steps": 300, "length": "newton"}
    paper, search = (
        gdnp(problem, w, step=step, **options) for step in ("paper", "line_search")
    )
    assert search.values[-1] - least < 1e-10
    assert paper.values[-1] - least > 1e3 * (search.values[-1] - least)
    assert (np.diff(search.values) <= 1e-12).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(4))
def test_the_line_search_never_goes_up(loss, seed):
    problem, w = finite(loss=loss, seed=seed)
    trace = gdnp(problem, w, steps=40, step="line_search", length="newton")
    assert trace.stop_reason in REASONS
    assert (np.diff(trace.values) <= 1e-12).all()
    assert np.isfinite(trace.values).all()


def test_long_runs_of_the_line_search_keep_z_w_in_step_with_w():
    problem, w = finite(n=500, d=6, shift=0.3)
    seen = []
    exact = problem.ray(w).minus

    def spying(self, step, other):
        new = exact.__func__(self, step, other)
        seen.append(new)
        return new

    type(problem.ray(w)).minus = spying
    try:
        gdnp(problem, w, steps=2000, step="line_search", length="newton")
    finally:
        type(problem.ray(w)).minus = exact.__func__
    drift = seen[-1]._m - problem._forward(seen[-1].w)
    assert np.abs(drift).max() < 1e-11 * np.abs(seen[-1]._m).max()


@LENGTHS
def test_least_squares_have_the_rate_and_the_step_of_the_closed_form(length):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((50, 4)), rng.standard_normal(50)
    problem, w = LeastSquares(X, y), rng.standard_normal(4)
    trace = gdnp(problem, w, steps=5, length=length)
    for t in range(5):
        square = w @ problem.S @ w
        rho = -((problem.u @ w) ** 2) / square
        gradient = -2 / square * ((problem.u @ w) * problem.u + rho * problem.S @ w)
        w = w - square / (2 * problem.L * abs(rho)) * gradient
        np.testing.assert_allclose(trace.w[t + 1], w, rtol=1e-11)
        best = -problem.u @ w / np.sqrt(w @ problem.S @ w)
        assert trace.g[t + 1] == pytest.approx(best, rel=1e-11)


# Where it stops.


@LENGTHS
@STEPS
def test_separable_data_are_said_to_be(length, step):
    Z = -np.abs(np.random.default_rng(0).standard_normal((30, 3))) - 0.1
    trace = gdnp(
        FiniteHalfspace(Z), np.array([1.0, 0.3, 0.2]), length=length, step=step
    )
    assert trace.stop_reason == "separable"
    assert np.isfinite(trace.values).all()
    assert (Z @ trace.solution < 0).all()


def test_separable_data_are_found_on_the_way():
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((40, 3)) * np.array([0.2, 3.0, 3.0]) - [1.0, 0, 0]
    trace = gdnp(FiniteHalfspace(Z), np.array([0.1, 1.0, -1.0]), steps=5000)
    assert trace.stop_reason == "separable"
    assert trace.n_iter > 0
    assert (Z @ trace.solution < 0).all()
    assert np.isfinite(trace.values).all()


@pytest.mark.parametrize("length", ["bisection", "newton"])
@pytest.mark.parametrize("seed", range(5))
def test_the_plain_sigmoid_has_no_bracket_over_a_gaussian(length, seed):
    problem, w = gaussian(seed=seed, loss="sigmoid")
    for g0 in (None, 2.0, -3.0):
        trace = gdnp(problem, w, g0, length=length)
        assert trace.stop_reason == "no bracket"
        assert trace.n_iter == (0 if g0 is None else 1)
        assert np.isfinite(trace.values).all()
        assert trace.g[-1] == trace.g[0]


def test_gradient_steps_on_g_need_no_minimum():
    problem, w = gaussian(loss="sigmoid", condition=5.0)
    trace = gdnp(problem, w, steps=100, length="gradient")
    assert trace.stop_reason == "steps"
    assert problem.rho(trace.w[-1]) == pytest.approx(-problem.lambda_1, rel=1e-9)
    assert (np.diff(np.abs(trace.g)) > 0).all()


def test_a_maximum_along_w_is_not_taken_for_a_minimum():
    # sigmoid(t + 1): along every direction f has a maximum, and no minimum.
    class Early:
        strictly_increasing, zeta, breaks = True, 0.1, (-1.0,)

        def __getattr__(self, name):
            function = getattr(LOSSES["sigmoid"], name)
            return lambda t: function(t + 1)

    u, S = gaussian(seed=1)[0].u, gaussian(seed=1)[0].S
    problem, w = GaussianHalfspace(u, S, Early()), np.ones(5)
    ray = problem.ray(w)
    slopes = [ray.slope(g / ray.norm) for g in np.linspace(-40, 40, 401)]
    assert max(slopes) > 0 > min(slopes)
    assert gdnp(problem, w).stop_reason == "no bracket"
    assert gdnp(problem, w, length="newton").stop_reason == "no bracket"


@pytest.mark.parametrize("length", ["bisection", "newton"])
@pytest.mark.parametrize("g0", [3.0, -3.0, 1e-9, -1e-9, 1e7, -1e7])
def test_the_bracket_is_found_from_either_side_of_0(length, g0):
    problem, w = gaussian(seed=3, loss="shifted_sigmoid")
    usual = gdnp(problem, w, steps=2)
    trace = gdnp(problem, w, g0, steps=2, length=length, bisection_steps=80)
    np.testing.assert_allclose(trace.g[1:], usual.g[1:], rtol=1e-9)


@pytest.mark.parametrize("length", ["bisection", "newton"])
def test_a_bracket_that_is_given_is_kept_to(length):
    problem, w = gaussian(seed=3)
    usual = gdnp(problem, w, steps=3)
    low, high = sorted((1.5 * float(usual.g[1]), 0.0))
    trace = gdnp(problem, w, steps=3, length=length, bracket=(low, high))
    np.testing.assert_allclose(trace.g, usual.g, rtol=1e-9)


@pytest.mark.parametrize("length", ["bisection", "newton"])
def test_a_bracket_that_no_longer_holds_ends_the_run(length):
    problem, w = gaussian(seed=3, d=5, condition=100.0, lambda_1=0.9)
    path = gdnp(problem, w, steps=50).g
    assert abs(path[-1]) > 1.5 * abs(path[0])
    bracket = tuple(sorted((0.0, 1.2 * float(path[0]))))
    trace = gdnp(problem, w, steps=50, length=length, bracket=bracket)
    assert trace.stop_reason == "no bracket"
    assert 0 < trace.n_iter < 50


def test_fewer_halvings_leave_wider_lengths():
    problem, w = gaussian(seed=3)
    exact = gdnp(problem, w, steps=0, length="newton").g[0]
    for halvings in (0, 3, 10):
        bracket = (exact - 0.7, exact + 1.0)
        trace = gdnp(problem, w, steps=0, bracket=bracket, bisection_steps=halvings)
        assert abs(trace.g[0] - exact) <= 1.7 * 0.5 ** (halvings + 1)
        assert abs(trace.g[0] - exact) > 1e-9


FAR = 1e300 * np.array([1e-14, 1.0])


def test_the_line_search_tries_a_shorter_step_where_the_other_overflows():
    problem = FiniteHalfspace(np.array([[1.0, 5.0], [1.0, -5.0], [-0.5, 0.0]]))
    trace = gdnp(problem, FAR, 1.0, steps=20, step="line_search")
    assert trace.n_iter > 1
    assert np.isfinite(trace.w).all()
    assert (np.diff(trace.values) <= 0).all()


def test_a_step_that_overflows_is_not_taken():
    problem, w = FiniteHalfspace(np.array([[1.0, 5.0], [1.0, -5.0], [-0.5, 0.0]])), FAR
    trace = gdnp(problem, w, 1.0, steps=5)
    assert (trace.stop_reason, trace.n_iter) == ("overflow", 0)
    np.testing.assert_array_equal(trace.w, [w])
    assert np.isfinite(trace.solution).all()


def test_a_minimum_that_has_a_breadth_is_reached():
    Z = -np.abs(np.random.default_rng(0).standard_normal((30, 3))) - 0.1
    problem = FiniteHalfspace(Z, "smoothed_hinge")
    for length in ("bisection", "newton"):
        trace = gdnp(problem, np.array([1.0, 0.3, 0.2]), length=length)
        assert (trace.stop_reason, trace.values[-1]) == ("tolerance", 0)


def test_a_start_at_the_minimum_stops_at_once():
    problem = FiniteHalfspace(np.array([[1.0], [-1.0], [-1.0]]))
    trace = gdnp(problem, np.array([1.0]), tol=1e-12)
    assert (trace.stop_reason, trace.n_iter) == ("tolerance", 0)
    assert trace.solution[0] == pytest.approx(np.log(2), rel=1e-10)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 12),
    d=st.integers(1, 5),
    power=st.sampled_from([-100, -8, 0, 8, 100]),
    loss=st.sampled_from(sorted(LOSSES)),
    length=st.sampled_from(["bisection", "newton", "gradient"]),
    step=st.sampled_from(["paper", "line_search"]),
    g0=st.sampled_from([None, 1.0, -1.0, 1e-12, -1e6]),
)
def test_no_data_lead_to_nan(seed, n, d, power, loss, length, step, g0):
    rng = np.random.default_rng(seed)
    Z = rng.integers(-3, 4, size=(n, d)).astype(float)
    start = rng.integers(-3, 4, size=d)
    w = 10.0**power * start
    if not Z.any():
        return
    problem = FiniteHalfspace(Z, loss)
    if Z.sum(axis=0) @ start == 0:
        with refused(ValueError, "w0", 0):
            gdnp(problem, w, g0)
        return
    trace = gdnp(problem, w, g0, steps=15, length=length, step=step)
    assert trace.stop_reason in REASONS
    for column in (trace.w, trace.g, trace.values, trace.grad_norms, trace.solution):
        assert np.isfinite(column).all()
    value = problem.value(trace.solution)
    assert trace.values[-1] == pytest.approx(value, rel=1e-10, abs=1e-12)


# Bad input.


def bad(changed, error, says):
    return pytest.param(changed, error, says, id=str(says))


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        bad({"w0": np.ones(3)}, ValueError, ("w0", (3,), "(4,)")),
        bad(
            {"w0": np.zeros(4)},
            ValueError,
            ("|w0|_S", 0.0, "w0 of a finite length above 1e-290"),
        ),
        bad(
            {"w0": 1e-310 * np.ones(4)},
            ValueError,
            ("|w0|_S", "", "w0 of a finite length above 1e-290"),
        ),
        bad({"w0": np.ones(4, int)}, TypeError, ("w0", "int64", "real floating dtype")),
        bad(
            {"w0": np.ones(4, object)},
            TypeError,
            ("w0", "object", "real floating dtype"),
        ),
        bad({"w0": np.full(4, np.nan)}, ValueError, ("w0", "not finite")),
        bad(
            {"w0": torch.ones(4)},
            TypeError,
            ("w0", "torch tensor, S NumPy array", "one library"),
        ),
        bad(
            {"w0": 1e308 * np.ones(4)},
            ValueError,
            ("|w0|_S", "", "w0 of a finite length above 1e-290"),
        ),
        bad({"g0": 0}, ValueError, ("g0", 0, "vector length 0 no direction")),
        bad({"g0": np.nan}, ValueError, ("g0", "nan", "finite")),
        bad({"g0": "1"}, TypeError, ("g0", "'1'", "number")),
        bad({"steps": -1}, ValueError, ("steps", -1, "integer of at least 0")),
        bad({"steps": 1.5}, TypeError, ("steps", 1.5, "integer")),
        bad({"tol": -1.0}, ValueError, ("tol", -1.0, "finite, at least 0")),
        bad(
            {"step": "newton"},
            ValueError,
            ("step", "'newton'", "one of paper, line_search"),
        ),
        bad(
            {"length": None},
            ValueError,
            ("length", None, "one of bisection, newton, gradient"),
        ),
        bad({"bisection_steps": 2.0}, TypeError, ("bisection_steps", 2.0, "integer")),
        bad(
            {"bisection_steps": -1},
            ValueError,
            ("bisection_steps", -1, "integer of at least 0"),
        ),
        bad({"bracket": 3}, TypeError, ("bracket", 3, "pair (a, b), a below b")),
        bad(
            {"bracket": (1, 2, 3)},
            TypeError,
            ("bracket", (1, 2, 3), "pair (a, b), a below b"),
        ),
        bad(
            {"bracket": (0.0, np.inf)},
            ValueError,
            ("bracket's end", "inf", "finite"),
        ),
        bad(
            {"bracket": (1.0, 1.0)},
            ValueError,
            ("bracket", (1.0, 1.0), "pair (a, b), a below b"),
        ),
        bad(
            {"bracket": (2.0, 1.0)},
            ValueError,
            ("bracket", (2.0, 1.0), "pair (a, b), a below b"),
        ),
        bad(
            {"bracket": (50.0, 60.0)},
            ValueError,
            (
                "bracket",
                "(50.0, 60.0) along w0 slope goes from 0.204 0.204",
                "lengths between which it rises through 0",
            ),
        ),
        bad(
            {"bracket": (-9.0, 9.0), "length": "gradient"},
            ValueError,
            ("", "no bracket"),
        ),
        bad({"callback": 3}, TypeError, ("callback", 3, "function")),
    ],
)
def test_bad_input_is_named(changed, error, says):
    problem, w = finite()
    with refused(error, *says):
        gdnp(problem, **{"w0": w, "g0": None, **changed})


def test_a_start_across_u_is_named():
    problem = GaussianHalfspace(np.array([0.6, 0.0]), np.eye(2))
    with refused(ValueError, "u.w0", "0, 0 to rounding"):
        gdnp(problem, np.array([0.0, 1.0]))
    turned = GaussianHalfspace(np.array([0.1, 0.3]), np.eye(2))
    with refused(ValueError, "u.w0", "0 to rounding"):
        gdnp(turned, np.array([0.3 / 7, -0.1 / 7]))


def test_data_of_mean_0_are_named():
    problem = FiniteHalfspace(np.array([[1.0, 2.0], [-1.0, -2.0]]))
    with refused(ValueError, "u.w0", "0, 0 to rounding"):
        gdnp(problem, np.ones(2))


def test_a_start_that_no_row_sees_is_named():
    problem = FiniteHalfspace(np.array([[1.0, 0.0], [2.0, 0.0]]))
    with refused(ValueError, "|w0|_S", 0.0, "w0 of a finite length above 1e-290"):
        gdnp(problem, np.array([0.0, 1.0]))


def test_a_problem_without_rays_is_named():
    class Bowl:
        dim, gradient_lipschitz = 2, 2.0

    with refused(TypeError, "Bowl", "no rays", "problem with u, S and ray(w)"):
        gdnp(Bowl(), np.ones(2))
