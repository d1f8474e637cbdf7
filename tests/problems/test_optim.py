"""Optimisers and their trace: gradient descent on least squares."""

import numpy as np
import pytest
import torch
from common import KINDS, regression
from refusals import refused

from bnlib.decoupling import LeastSquares
from bnlib.optim import Trace, gradient_descent


def problem_and_start(kind=np.array):
    X, y, w0 = regression(d=3)
    return LeastSquares(kind(X), kind(y)), kind(w0)


@KINDS
def test_it_finds_the_least_squares_solution(kind):
    problem, w0 = problem_and_start(kind)
    trace = gradient_descent(problem, w0, steps=2000, tol=1e-11)
    X, y, _ = regression(d=3)
    expected = np.linalg.lstsq(X, y)[0]
    np.testing.assert_allclose(trace.solution, expected, rtol=1e-9)
    assert trace.stop_reason == "tolerance"
    assert trace.grad_norms[-1] <= 1e-11 < trace.grad_norms[-2]
    assert type(trace.w) is type(w0)


@KINDS
def test_each_iterate_is_the_one_before_less_the_step(kind):
    problem, w0 = problem_and_start(kind)
    trace = gradient_descent(problem, w0, steps=5, lr=0.01)
    X, y, w = regression(d=3)
    for step in range(6):
        gradient = 2 * X.T @ (X @ w - y) / 30
        np.testing.assert_allclose(trace.w[step], w, rtol=1e-12)
        values = np.mean((y - X @ w) ** 2), np.linalg.norm(gradient)
        np.testing.assert_allclose(trace.values[step], values[0], rtol=1e-12)
        np.testing.assert_allclose(trace.grad_norms[step], values[1], rtol=1e-12)
        length = np.sqrt(np.mean((X @ w) ** 2))
        np.testing.assert_allclose(trace.g[step], length, rtol=1e-12)
        w = w - 0.01 * gradient


@KINDS
def test_the_trace_has_one_entry_more_than_steps(kind):
    problem, w0 = problem_and_start(kind)
    trace = gradient_descent(problem, w0, steps=4)
    assert isinstance(trace, Trace)
    assert (trace.n_iter, trace.stop_reason) == (4, "steps")
    assert tuple(trace.w.shape) == (5, 3)
    for column in (trace.g, trace.values, trace.grad_norms, trace.seconds):
        assert type(column) is type(trace.w)
        assert tuple(column.shape) == (5,)
        assert column.dtype == trace.w.dtype
    assert (trace.solution == trace.w[-1]).all()
    assert trace.seconds[0] >= 0
    assert (np.diff(np.asarray(trace.seconds)) >= 0).all()


def test_no_steps_record_the_start_alone():
    problem, w0 = problem_and_start()
    trace = gradient_descent(problem, w0, steps=0)
    assert (trace.n_iter, trace.stop_reason) == (0, "steps")
    assert trace.solution.tolist() == w0.tolist()


def test_the_standard_step_is_one_over_the_lipschitz_constant():
    problem, w0 = problem_and_start()
    usual = gradient_descent(problem, w0, steps=3)
    given = gradient_descent(problem, w0, steps=3, lr=1 / (2 * problem.L))
    np.testing.assert_array_equal(usual.w, given.w)
    assert (np.diff(usual.values) < 0).all()


def test_a_step_below_two_over_the_constant_goes_down_and_above_it_diverges():
    problem, w0 = problem_and_start()
    below = gradient_descent(
        problem, w0, steps=50, lr=1.99 / problem.gradient_lipschitz
    )
    above = gradient_descent(problem, w0, steps=50, lr=2.1 / problem.gradient_lipschitz)
    assert below.values[-1] < below.values[0] < above.values[-1]


def test_a_start_at_the_minimum_stops_at_once():
    problem = LeastSquares(np.eye(2), np.array([1.0, 2.0]))
    trace = gradient_descent(problem, np.array([1.0, 2.0]), steps=9)
    assert (trace.stop_reason, trace.n_iter) == ("tolerance", 0)


@KINDS
def test_a_diverged_run_says_so_and_ends_where_the_numbers_do(kind):
    problem, w0 = problem_and_start(kind)
    trace = gradient_descent(problem, w0, steps=100_000, lr=1e3)
    assert trace.stop_reason == "diverged"
    assert trace.n_iter < 1000
    last = float(trace.values[-1]) + float(trace.grad_norms[-1])
    assert not np.isfinite(last)
    assert np.isfinite(np.asarray(trace.values[:-1])).all()
    assert np.isfinite(np.asarray(trace.grad_norms[:-1])).all()


@KINDS
def test_large_finite_numbers_are_not_divergence(kind):
    problem, w0 = problem_and_start(kind)
    trace = gradient_descent(problem, w0 * 1e100, steps=3)
    assert trace.stop_reason == "steps"
    assert trace.values[-1] < trace.values[0]


@KINDS
def test_a_start_too_far_out_is_divergence_at_once(kind):
    problem, w0 = problem_and_start(kind)
    trace = gradient_descent(problem, w0 * 1e200, steps=9)
    assert (trace.stop_reason, trace.n_iter) == ("diverged", 0)


def test_the_callback_sees_every_iterate_and_may_stop():
    problem, w0 = problem_and_start()
    seen = []

    def callback(step, w, value):
        seen.append((step, w.tolist(), value))
        return step == 3

    trace = gradient_descent(problem, w0, steps=10, callback=callback)
    assert (trace.stop_reason, trace.n_iter) == ("callback", 3)
    assert seen == list(zip(range(4), trace.w.tolist(), trace.values.tolist()))


def test_the_tolerance_comes_before_the_callback():
    problem = LeastSquares(np.eye(2), np.ones(2))
    trace = gradient_descent(problem, np.ones(2), steps=9, callback=lambda *_: True)
    assert trace.stop_reason == "tolerance"


def test_an_error_in_the_callback_is_the_callers():
    problem, w0 = problem_and_start()
    with pytest.raises(ZeroDivisionError):
        gradient_descent(problem, w0, steps=3, callback=lambda *_: 1 / 0)


@KINDS
def test_nothing_done_to_the_trace_reaches_the_start(kind):
    problem, w0 = problem_and_start(kind)
    before = w0.tolist()
    for steps in (0, 2):
        trace = gradient_descent(
            problem, w0, steps=steps, callback=lambda step, w, value: None
        )
        trace.w[0] = 99.0
        trace.solution[0] = 99.0
        assert w0.tolist() == before


def test_the_solution_is_a_copy_of_the_last_iterate():
    problem, w0 = problem_and_start()
    trace = gradient_descent(problem, w0, steps=2)
    last = trace.w[-1].copy()
    trace.solution[:] = 0
    np.testing.assert_array_equal(trace.w[-1], last)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8"])
def test_the_start_may_be_of_another_dtype(dtype):
    problem, w0 = problem_and_start()
    w0 = w0.astype(dtype)
    trace = gradient_descent(problem, w0, steps=3)
    assert trace.w.dtype == np.float64
    expected = gradient_descent(problem, w0.astype(np.float64), steps=3)
    np.testing.assert_array_equal(trace.w, expected.w)


def test_a_start_that_needs_a_gradient_leaves_no_graph_behind():
    problem, w0 = problem_and_start(torch.tensor)
    trace = gradient_descent(problem, w0.requires_grad_(), steps=3)
    assert not trace.w.requires_grad
    assert not trace.solution.requires_grad


def test_numpy_and_torch_take_the_same_path():
    one, other = (
        gradient_descent(*problem_and_start(kind), steps=20)
        for kind in (np.array, torch.tensor)
    )
    np.testing.assert_allclose(one.w, other.w, rtol=1e-11, atol=1e-13)


def test_any_object_with_the_problems_methods_will_do():
    class Quartic:
        dim, S, gradient_lipschitz = 2, np.eye(2), 100.0

        def value(self, w):
            return float((w**4).sum())

        def gradient(self, w):
            return 4 * w**3

        def norm(self, w):
            return float(np.linalg.norm(w))

    trace = gradient_descent(Quartic(), np.array([1.0, -2.0]), steps=50)
    assert (np.diff(trace.values) < 0).all()
    assert trace.g[0] == pytest.approx(5**0.5)


BAD = [
    ({"w0": np.ones(2)}, ValueError, ("w0", (2,), "(3,)")),
    ({"w0": np.ones((3, 1))}, ValueError, ("w0", (3, 1), "(3,)")),
    ({"w0": np.array([1, np.nan, 1])}, ValueError, ("w0", "not finite")),
    ({"w0": np.ones(3, int)}, TypeError, ("w0", "int64", "real floating dtype")),
    ({"w0": [1.0, 1.0, 1.0]}, TypeError, ("w0", "list", "NumPy array, torch tensor")),
    ({"w0": None}, TypeError, ("w0", "NoneType", "NumPy array, torch tensor")),
    (
        {"w0": torch.ones(3)},
        TypeError,
        ("w0", "torch tensor, S NumPy array", "one library"),
    ),
    ({"steps": -1}, ValueError, ("steps", -1, "integer of at least 0")),
    ({"steps": 2.0}, TypeError, ("steps", 2.0, "integer")),
    ({"steps": True}, TypeError, ("steps", True, "integer")),
    ({"lr": 0}, ValueError, ("lr", 0, "number above 0")),
    ({"lr": -0.1}, ValueError, ("lr", -0.1, "finite, above 0")),
    ({"lr": float("nan")}, ValueError, ("lr", "nan", "finite, above 0")),
    ({"lr": float("inf")}, ValueError, ("lr", "inf", "finite, above 0")),
    ({"lr": "0.1"}, TypeError, ("lr", "'0.1'", "number")),
    ({"tol": -1e-9}, ValueError, ("tol", -1e-09, "finite, at least 0")),
    ({"tol": None}, TypeError, ("tol", None, "number")),
    ({"callback": 3}, TypeError, ("callback", 3, "function")),
]


@pytest.mark.parametrize(
    ("changed", "error", "says"), BAD, ids=[str(bad[2]) for bad in BAD]
)
def test_bad_input_is_named(changed, error, says):
    problem, w0 = problem_and_start()
    with refused(error, *says):
        gradient_descent(problem, **{"w0": w0, "steps": 3, **changed})
