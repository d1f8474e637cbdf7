"""The other optimisers: accelerated gradients, BN and WN descent, L-BFGS."""

import numpy as np
import pytest
import torch
from common import KINDS, regression
from halfspace_problems import FORMATS, finite, gaussian, rows
from refusals import refused
from scipy.optimize import minimize

from bnlib.decoupling import LeastSquares
from bnlib.halfspaces import FiniteHalfspace
from bnlib.optim import (
    accelerated_gradient,
    bn_gradient_descent,
    gdnp,
    gradient_descent,
    lbfgs,
    rayleigh_descent,
    wn_gradient_descent,
)

METHODS = {
    "gradient_descent": gradient_descent,
    "accelerated_gradient": accelerated_gradient,
    "bn_gradient_descent": bn_gradient_descent,
    "wn_gradient_descent": wn_gradient_descent,
    "lbfgs": lbfgs,
}
EACH = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
PARTED = pytest.mark.parametrize(
    "method", [bn_gradient_descent, wn_gradient_descent], ids=["bn", "wn"]
)


def squares(kind=np.array, **options):
    X, y, w = regression(**options)
    return LeastSquares(kind(X), kind(y)), kind(w)


@pytest.mark.parametrize("method", [*METHODS.values(), rayleigh_descent])
@KINDS
def test_it_finds_the_least_squares_solution(method, kind):
    X, y, w = regression(d=3)
    problem, w = LeastSquares(kind(X / [1, 2, 3]), kind(y)), kind(w)
    trace = method(problem, w, steps=5000, tol=1e-10)
    assert trace.stop_reason == "tolerance"
    assert type(trace.w) is type(w)
    np.testing.assert_allclose(trace.solution, problem.best, rtol=1e-8)


@EACH
def test_it_finds_the_minimum_of_the_logistic_loss_over_data(method):
    problem, w = finite(n=200, d=3)
    trace = method(problem, w, steps=5000, tol=1e-9)
    least = minimize(problem.value, w, jac=problem.gradient, method="BFGS", tol=1e-10)
    assert trace.stop_reason == "tolerance"
    assert trace.values[-1] == pytest.approx(least.fun, rel=1e-12)


@EACH
def test_every_library_and_format_takes_the_same_path(method):
    Z, w = rows()
    expected = method(FiniteHalfspace(Z), w, steps=8)
    for kind in FORMATS.values():
        trace = method(FiniteHalfspace(kind(Z)), w, steps=8)
        np.testing.assert_allclose(trace.w, expected.w, rtol=1e-7)
    trace = method(FiniteHalfspace(torch.tensor(Z)), torch.tensor(w), steps=8)
    assert isinstance(trace.w, torch.Tensor)
    np.testing.assert_allclose(trace.w, expected.w, rtol=1e-7)


@EACH
@KINDS
def test_the_trace_holds_what_the_iterates_stand_for(method, kind):
    Z, start = rows()
    problem, plain = FiniteHalfspace(kind(Z)), FiniteHalfspace(Z)
    trace = method(problem, kind(start), steps=6)
    assert (trace.n_iter, trace.stop_reason) == (6, "steps")
    assert tuple(trace.w.shape) == (7, 4)
    np.testing.assert_array_equal(trace.w[0], start)
    for step in range(7):
        w = np.asarray(trace.w[step])
        solution = float(trace.g[step]) * w / np.sqrt(np.mean((Z @ w) ** 2))
        assert float(trace.values[step]) == pytest.approx(plain.value(solution))
        size = np.linalg.norm(plain.gradient(solution))
        assert float(trace.grad_norms[step]) == pytest.approx(size, rel=1e-9)
    np.testing.assert_allclose(trace.solution, solution, rtol=1e-12)
    assert (np.diff(np.asarray(trace.seconds)) >= 0).all()


@EACH
def test_the_start_stands_for_w0_itself(method):
    problem, w = finite()
    trace = method(problem, w, steps=0)
    assert (trace.n_iter, trace.stop_reason) == (0, "steps")
    np.testing.assert_allclose(trace.solution, w, rtol=1e-14)
    assert trace.values[0] == pytest.approx(problem.value(w), rel=1e-14)


@EACH
def test_the_callback_sees_every_iterate_and_may_stop(method):
    problem, w = finite()
    seen = []
    trace = method(
        problem, w, steps=9, callback=lambda *args: seen.append(args) or len(seen) == 4
    )
    assert (trace.stop_reason, trace.n_iter) == ("callback", 3)
    np.testing.assert_array_equal([w for _, w, _ in seen], trace.w)
    np.testing.assert_array_equal([value for *_, value in seen], trace.values)


@EACH
def test_separable_data_are_said_to_be_when_the_steps_end(method):
    Z = -np.abs(np.random.default_rng(0).standard_normal((30, 3))) - 0.1
    trace = method(FiniteHalfspace(Z), np.array([1.0, 0.3, 0.2]), steps=30)
    assert trace.stop_reason == "separable"
    assert np.isfinite(trace.values).all()
    assert (Z @ trace.solution < 0).all()


@EACH
def test_nothing_done_to_the_trace_reaches_the_start(method):
    problem, w = finite()
    before = w.tolist()
    for steps in (0, 2):
        trace = method(problem, w, steps=steps)
        trace.w[:] = 99.0
        trace.solution[:] = 99.0
        assert w.tolist() == before


@pytest.mark.parametrize(
    "method", [gradient_descent, bn_gradient_descent], ids=["gd", "bn"]
)
@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_a_step_costs_one_product_with_the_data_and_one_with_their_transpose(
    method, kind
):
    Z, w = rows()
    problem = FiniteHalfspace(kind(Z))
    counts = {"_forward": 0, "_back": 0}

    def counted(name, exact):
        def product(vector):
            counts[name] += 1
            return exact(vector)

        return product

    for name in counts:
        setattr(problem, name, counted(name, getattr(problem, name)))
    method(problem, kind(w), steps=9, lr=0.1)
    assert counts == {"_forward": 10, "_back": 10}


# Accelerated gradients.


def test_acceleration_is_faster_by_the_root_of_the_condition():
    problem = LeastSquares(np.diag(np.geomspace(1, 0.03, 30)), np.ones(30))
    plain, fast = (
        method(problem, np.zeros(30), steps=20_000, tol=1e-6)
        for method in (gradient_descent, accelerated_gradient)
    )
    assert fast.stop_reason == "tolerance"
    assert fast.n_iter < plain.n_iter / 10


def test_the_first_two_steps_are_nesterovs():
    problem, w = squares()
    trace = accelerated_gradient(problem, w, steps=3, lr=0.01)
    one = w - 0.01 * problem.gradient(w)
    np.testing.assert_allclose(trace.w[1], one, rtol=1e-12)
    momentum = (1 + 5**0.5) / 2
    # After the first step the momentum is 0, after the second as printed by Nesterov.
    two = one - 0.01 * problem.gradient(one)
    np.testing.assert_allclose(trace.w[2], two, rtol=1e-12)
    following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
    beyond = two + (momentum - 1) / following * (two - one)
    three = beyond - 0.01 * problem.gradient(beyond)
    np.testing.assert_allclose(trace.w[3], three, rtol=1e-12)


def test_the_restart_ends_the_ripples():
    problem = LeastSquares(np.diag([1.0, 1e-2]), np.array([1.0, 1e-2]))
    trace = accelerated_gradient(problem, np.zeros(2), steps=2000)
    assert trace.values[-1] < 1e-28


# Length and direction.


def normalised_value(problem, norm):
    def value(w, g):
        return problem.value(g * w / norm(w))

    return value


@PARTED
def test_the_steps_are_those_of_descent_on_w_and_g(method):
    problem, w = gaussian(seed=2)
    norm = problem.norm if method is bn_gradient_descent else np.linalg.norm
    trace = method(problem, w, 0.7, steps=1, lr=0.05, lr_g=0.4)
    assert trace.g[0] * norm(w) / problem.norm(w) == pytest.approx(0.7, rel=1e-12)
    value = normalised_value(problem, norm)
    step = 1e-5
    slopes = [
        (value(w + e, 0.7) - value(w - e, 0.7)) / (2 * step) for e in step * np.eye(5)
    ]
    np.testing.assert_allclose(trace.w[1] - w, -0.05 * np.array(slopes), atol=1e-10)
    slope = (value(w, 0.7 + step) - value(w, 0.7 - step)) / (2 * step)
    g = trace.g[1] * norm(trace.w[1]) / problem.norm(trace.w[1])
    assert g == pytest.approx(0.7 - 0.4 * slope, rel=1e-9)


@PARTED
def test_the_steps_never_shorten_w(method):
    problem, w = gaussian(seed=2)
    sizes = np.linalg.norm(method(problem, w, steps=30, lr=0.5).w, axis=1)
    assert (np.diff(sizes) >= -1e-14).all()
    assert sizes[-1] > sizes[0]


@PARTED
def test_the_step_on_g_is_that_on_w_unless_given(method):
    problem, w = gaussian()
    usual, given = (
        method(problem, w, steps=5, lr=0.3, **options)
        for options in ({}, {"lr_g": 0.3})
    )
    np.testing.assert_array_equal(usual.w, given.w)
    larger = method(problem, w, steps=5, lr=0.3, lr_g=3.0)
    assert abs(larger.g[1] - larger.g[0]) > 5 * abs(usual.g[1] - usual.g[0])


@pytest.mark.parametrize("condition", [10.0, 100.0, 1e4])
def test_descent_on_rho_has_the_linear_rate_on_least_squares(condition):
    X = np.diag(np.geomspace(1, condition, 20) ** 0.5)
    problem = LeastSquares(X, np.random.default_rng(0).standard_normal(20))
    w = np.random.default_rng(1).standard_normal(20)
    trace = rayleigh_descent(problem, w, steps=60)
    found = np.array([problem.rho(w) for w in trace.w]) + problem.lambda_1
    factor = (1 - problem.mu / problem.L) ** (2 * np.arange(61))
    assert (found <= factor * found[0] * (1 + 1e-9) + 1e-14).all()
    np.testing.assert_allclose(trace.w, gdnp(problem, w, steps=60).w, rtol=1e-9)
    np.testing.assert_allclose(
        trace.values - problem.least, found, rtol=1e-6, atol=1e-14
    )


def test_bn_descent_takes_fixed_steps_on_least_squares_as_elsewhere():
    problem, w = squares()
    gradient = problem.gradient(w)
    tangent = gradient - problem.S @ w * (w @ gradient) / problem.norm(w) ** 2
    for lr, step in ((0.01, 0.01), (None, 1 / problem.gradient_lipschitz)):
        trace = bn_gradient_descent(problem, w, steps=1, lr=lr)
        np.testing.assert_allclose(trace.w[1], w - step * tangent, rtol=1e-12)


@PARTED
def test_a_step_that_overflows_is_not_taken(method):
    problem, w = finite()
    trace = method(problem, 1e-3 * w, 1e8, steps=9, lr=1e307)
    assert trace.stop_reason == "overflow"
    assert np.isfinite(trace.w).all()
    assert np.isfinite(trace.solution).all()


# L-BFGS.


def test_lbfgs_is_scipys():
    problem, w = finite(n=100)
    ours = lbfgs(problem, w, steps=7)
    theirs = minimize(
        problem.value,
        w,
        jac=problem.gradient,
        method="L-BFGS-B",
        options={"maxiter": 7, "ftol": 0, "gtol": 0},
    )
    np.testing.assert_allclose(ours.solution, theirs.x, rtol=1e-10)


def test_lbfgs_stalls_at_rounding_and_says_so():
    problem, w = finite(n=100)
    trace = lbfgs(problem, w, steps=500)
    assert trace.stop_reason == "stalled"
    assert trace.grad_norms[-1] < 1e-7


def test_lbfgs_with_a_longer_memory_takes_another_path():
    problem, w = finite(n=100, d=8)
    one, other = (lbfgs(problem, w, steps=8, memory=memory) for memory in (1, 8))
    assert not np.allclose(one.w[-1], other.w[-1], rtol=1e-6)


# Bad input.


@EACH
@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"w0": np.ones(3)}, ValueError, ("w0", (3,), "(4,)")),
        ({"w0": np.ones(4, int)}, TypeError, ("w0", "int64", "real floating dtype")),
        ({"w0": np.full(4, np.inf)}, ValueError, ("w0", "not finite")),
        (
            {"w0": torch.ones(4)},
            TypeError,
            ("w0", "torch tensor, S NumPy array", "one library"),
        ),
        ({"steps": -1}, ValueError, ("steps", -1, "integer of at least 0")),
        ({"tol": None}, TypeError, ("tol", None, "number")),
        ({"callback": "print"}, TypeError, ("callback", "'print'", "function")),
    ],
    ids=["shape", "int", "inf", "torch", "steps", "tol", "callback"],
)
def test_bad_input_is_named(method, changed, error, says):
    problem, w = finite()
    with refused(error, *says):
        method(problem, **{"w0": w, "steps": 3, **changed})


@PARTED
@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        (
            {"w0": np.zeros(4)},
            ValueError,
            ("|w0|_S", 0.0, "w0 of a finite length above 1e-290"),
        ),
        ({"g0": 0.0}, ValueError, ("g0", 0, "0")),
        ({"g0": np.inf}, ValueError, ("g0", "inf", "finite")),
        ({"lr": 0}, ValueError, ("lr", 0, "number above 0")),
        ({"lr_g": -1.0}, ValueError, ("lr_g", -1.0, "finite, above 0")),
        ({"lr_g": "1"}, TypeError, ("lr_g", "'1'", "number")),
    ],
    ids=["zero", "g0", "inf", "lr", "lr_g", "text"],
)
def test_bad_lengths_and_steps_are_named(method, changed, error, says):
    problem, w = finite()
    with refused(error, *says):
        method(problem, **{"w0": w, "steps": 3, **changed})


def test_a_start_across_u_is_named_where_the_step_needs_it():
    problem = LeastSquares(np.eye(2), np.array([1.0, 0.0]))
    with refused(ValueError, "u.w0", "0, 0 to rounding"):
        rayleigh_descent(problem, np.array([0.0, 1.0]), steps=3)


def test_no_problem_is_named():
    for method in METHODS.values():
        with refused(TypeError, "problem", None, "one with dim, value and gradient"):
            method(None, np.ones(2), steps=3)


@PARTED
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_a_start_of_any_scale_has_a_path(method, scale):
    problem, w = finite()
    trace = method(problem, scale * w, 1.0, steps=3, lr=0.1, lr_g=0.1)
    for column in (trace.w, trace.g, trace.values, trace.grad_norms):
        assert np.isfinite(column).all()


@pytest.mark.parametrize(("memory", "error"), [(0, ValueError), (2.0, TypeError)])
def test_a_memory_that_is_none_is_named(memory, error):
    problem, w = finite()
    with refused(error, "memory", memory, "integer"):
        lbfgs(problem, w, steps=3, memory=memory)
