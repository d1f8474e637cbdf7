"""What an optimiser's trace holds, for methods that part length and direction too."""

import time

import numpy as np
import pytest
from refusals import refused

import bnlib
from bnlib.optim._trace import Recorder


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    return bnlib.decoupling.LeastSquares(rng.normal(size=(30, 4)), rng.normal(size=30))


def test_an_iterate_of_length_g_stands_for_the_vector_of_that_length(problem):
    w, g = np.array([1.0, -2.0, 0.5, 3.0]), 0.25
    recorder = Recorder(tol=0.0, callback=None)
    recorder.record(problem.ray(w), np.array([3.0, 0.0, 4.0, 0.0]), g=g)
    trace = recorder.trace("steps")
    expected = g * w / np.sqrt(w @ problem.S @ w)
    np.testing.assert_allclose(trace.solution, expected, rtol=1e-13)
    assert trace.values[0] == pytest.approx(problem.value(expected), rel=1e-13)
    assert (trace.g[0], trace.grad_norms[0], trace.n_iter) == (g, 5.0, 0)
    np.testing.assert_array_equal(trace.w, [w])


def test_recording_and_the_callback_are_off_the_clock(problem, monkeypatch):
    now = 0.0
    ray = type(problem.ray(np.ones(4)))
    exact_gradient, exact_value = ray.gradient, ray.value

    def taking(seconds, function):
        def timed(*arguments):
            nonlocal now
            now += seconds
            return function(*arguments)

        return timed

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(ray, "gradient", taking(1.0, exact_gradient))
    monkeypatch.setattr(ray, "value", taking(100.0, exact_value))
    slow = taking(1000.0, lambda step, w, value: False)
    trace = bnlib.optim.gradient_descent(problem, np.ones(4), steps=3, callback=slow)
    np.testing.assert_array_equal(trace.seconds, [1.0, 2.0, 3.0, 4.0])


def test_a_problem_without_s_has_euclidean_lengths():
    class Bowl:
        dim, gradient_lipschitz = 2, 2.0

        def value(self, w):
            return float(w @ w)

        def gradient(self, w):
            return 2 * w

    trace = bnlib.optim.gradient_descent(Bowl(), np.array([3.0, 4.0]), steps=1)
    np.testing.assert_allclose(trace.g, [5.0, 0.0])
    np.testing.assert_allclose(trace.values, [25.0, 0.0])


def test_values_close_to_the_least_keep_their_digits():
    rng = np.random.default_rng(1)
    X, exact = rng.normal(size=(50, 5)), 1e3 * rng.normal(size=5)
    problem = bnlib.decoupling.LeastSquares(X, X @ exact + 1e-6 * rng.normal(size=50))
    w = problem.best + 1e-7 * rng.normal(size=5)
    direct = problem.least + np.mean((X @ (w - problem.best)) ** 2)
    assert problem.value(w) == pytest.approx(direct, rel=1e-9)
    assert problem.least <= problem.value(w)


def test_an_exact_fit_has_no_negative_value():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(20, 3)), rng.normal(size=3)
        assert 0 <= bnlib.decoupling.LeastSquares(X, X @ w).value(w) < 1e-28


@pytest.mark.parametrize("method", ["value", "gradient", "norm", "rho"])
@pytest.mark.parametrize(
    ("w", "error", "given"),
    [
        (np.ones((4, 1)), ValueError, (4, 1)),
        (np.ones(2), ValueError, (2,)),
        ([1.0] * 4, TypeError, list),
    ],
    ids=["column", "short", "list"],
)
def test_a_w_that_does_not_fit_is_named(problem, method, w, error, given):
    with refused(error, "w", given):
        getattr(problem, method)(w)
