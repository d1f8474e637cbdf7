"""Flows of linear models: against closed forms, invariants and scikit-learn."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from test_implicit_bias import DATA, DATA_SETS, random_rows, svc

from bnlib.implicit_bias import (
    angle,
    deep_growth,
    limit_offset,
    linear_flow,
    log_loss,
    max_margin,
    one_sample_flow,
)

METHODS = pytest.mark.parametrize("method", ["gd", "wn"])
TWO = np.array([[1.0, 0.3], [1.0, -1.2]])


def test_orthogonal_rows_have_a_closed_form():
    rows = np.array([[3.0, 0.0, 4.0], [0.8, 0.0, -0.6], [0.0, 0.5, 0.0]])
    start, log_times = np.array([0.3, -4.0, 0.2]), np.array([-8.0, 0.0, 5.0, 60, 500])
    flow = linear_flow(rows, start, log_times)
    squares = np.log((rows**2).sum(axis=1))
    margins = np.logaddexp(rows @ start, squares + log_times[:, None])
    np.testing.assert_allclose(flow.weights @ rows.T, margins, atol=1e-8)
    losses = np.log(np.exp(-margins).sum(axis=1))
    np.testing.assert_allclose(flow.log_losses, losses, atol=1e-8)


@METHODS
def test_early_it_is_the_flow_in_plain_time(method):
    rows, start = random_rows(0), np.array([0.4, -0.3, 0.8])

    def rate(_, w):
        value, descent = log_loss(rows, w)
        slope = np.exp(value) * descent
        if method == "gd":
            return slope
        along = w * (w @ slope) / (w @ w)
        return along + (w @ w) * (slope - along)

    plain = solve_ivp(rate, (0, 20), start, rtol=1e-10, atol=1e-12)
    flow = linear_flow(rows, start, [np.log(20)], method)
    np.testing.assert_allclose(flow.weights[0], plain.y[:, -1], rtol=1e-7)
    lengths = np.linalg.norm(flow.weights, axis=1)
    np.testing.assert_allclose(flow.lengths, lengths, rtol=1e-14)
    units = flow.weights / lengths[:, None]
    np.testing.assert_allclose(flow.directions, units, rtol=1e-14)


@METHODS
@DATA_SETS
def test_the_invariants_are_kept_to_log_time_60(rows, method):
    start = rows.mean(axis=0)
    flow = linear_flow(rows, start, np.linspace(0.0, 60.0, 7), method)
    assert flow.stop_reason == "reached"
    assert 0 < flow.drift < 1e-8
    losses = [log_loss(rows, w)[0] for w in flow.weights]
    np.testing.assert_allclose(flow.log_losses, losses, atol=1e-12)


@DATA_SETS
def test_the_angle_to_scikit_learns_classifier_falls_as_1_over_log_time(rows):
    log_times = np.array([60.0, 480.0, 1920.0])
    flow = linear_flow(rows, np.zeros(rows.shape[1]), log_times)
    angles = angle(flow.weights, svc(rows))
    assert (np.diff(angles) < 0).all()
    slope = np.diff(np.log(angles))[1] / np.log(4)
    assert slope == pytest.approx(-1.0, abs=0.06)


def test_two_support_vectors_give_gradient_flow_its_constant_at_log_time_60():
    kappa = np.log(0.3 / 1.2) / 1.5
    flow = linear_flow(TWO, [1.0, 0.2], [60.0])
    assert angle(flow.weights[0], [1, 0]) * 60 == pytest.approx(-kappa, rel=0.02)
    np.testing.assert_allclose(limit_offset(TWO), [0, kappa], atol=1e-12)


def test_two_support_vectors_give_weight_normalization_the_same_by_a_fit():
    log_times = np.linspace(30.0, 120.0, 10)
    flow = linear_flow(TWO, [1.0, 0.2], log_times, "wn")
    turned = angle(flow.weights, [1, 0]) * log_times
    line = np.polynomial.Polynomial.fit(1 / log_times, turned, 1)
    assert line(0.0) == pytest.approx(np.log(4) / 1.5, rel=0.02)
    assert turned[3] < 0.97 * np.log(4) / 1.5


@METHODS
def test_beyond_log_time_60_the_invariants_are_kept_too(method):
    flow = linear_flow(DATA["blobs"], np.ones(4), [600.0], method)
    assert flow.drift < 1e-8


def test_small_rows_that_leave_the_weights_at_rest_for_long_do_not_overflow():
    flow = linear_flow(1e-150 * TWO, [1.0, 0.2], [0.0, 1400.0])
    assert flow.stop_reason == "reached"
    np.testing.assert_array_equal(flow.weights[0], [1.0, 0.2])
    assert flow.log_losses[1] < -700


@METHODS
def test_a_start_far_on_the_wrong_side_does_not_overflow(method):
    start = -2000 * max_margin(TWO).direction + [0.0, 0.1]
    flow = linear_flow(TWO, start, [-1500.0, 0.0, 60.0], method)
    assert flow.stop_reason == "reached"
    assert flow.log_losses[0] > 1000
    assert flow.log_losses[-1] < -50
    assert flow.drift < 1e-7


@METHODS
def test_one_sample_is_the_linear_flow_of_one_row(method):
    row, start = np.array([[0.9, 1.2]]), np.array([1.0, -0.5])
    log_times = np.array([-3.0, 0.0, 4.0])
    linear = linear_flow(row, start, log_times, method)
    theta, length = angle(start, row[0]), np.linalg.norm(start)
    flow = one_sample_flow(1.5, length, float(theta), log_times, method)
    np.testing.assert_allclose(flow.lengths, linear.lengths, rtol=1e-9)
    sines = np.sin(angle(linear.weights, row[0]))
    np.testing.assert_allclose(np.exp(flow.log_sines), sines, rtol=1e-7)
    np.testing.assert_allclose(flow.log_losses, linear.log_losses, atol=1e-9)


@pytest.mark.parametrize("theta", [1e-12, 0.3, 2.5, 3.1])
@pytest.mark.parametrize("size", [0.2, 1.0, 5.0])
def test_gradient_flow_of_one_sample_has_a_closed_form(theta, size):
    log_times = np.array([-2.0, 10.0, 60.0, 700.0])
    flow = one_sample_flow(size, 0.7, theta, log_times)
    along = 0.7 * size * np.cos(theta)
    along = np.logaddexp(along, 2 * np.log(size) + log_times) / size
    across = 0.7 * np.sin(theta)
    lengths = np.hypot(along, across)
    np.testing.assert_allclose(flow.lengths, lengths, rtol=1e-8)
    np.testing.assert_allclose(flow.log_sines, np.log(across / lengths), atol=1e-8)
    np.testing.assert_allclose(flow.log_losses, -size * along, atol=1e-8)


@METHODS
@pytest.mark.parametrize("size", [0.5, 1.0, 2.0])
def test_the_invariant_of_one_sample_is_kept_to_log_time_60(method, size):
    flow = one_sample_flow(size, 1.3, 0.9, np.linspace(0.0, 60.0, 31), method)
    own = flow.log_sines + (
        np.log(flow.lengths) if method == "gd" else flow.lengths**2 / 2
    )
    start = np.log(np.sin(0.9)) + (np.log(1.3) if method == "gd" else 1.3**2 / 2)
    np.testing.assert_allclose(own, start, atol=1e-8)
    np.testing.assert_allclose(flow.invariants, own, atol=1e-12)
    assert flow.drift < 1e-8
    assert flow.stop_reason == "reached"


def test_the_exponents_at_size_1_are_found_within_1_percent():
    log_times = np.array([30.0, 60.0])
    plain = one_sample_flow(1.0, 1.0, 0.8, log_times)
    slope = np.diff(plain.log_sines) / np.diff(np.log(log_times))
    assert slope == pytest.approx(-1.0, rel=0.01)
    normalised = one_sample_flow(1.0, 1.0, 0.8, log_times, "wn")
    np.testing.assert_allclose(normalised.log_sines / log_times**2, -0.5, rtol=0.01)


def test_weight_normalization_may_turn_a_length_negative_and_still_arrive():
    # log sin(theta) + length^2 / 2 < 0 and theta > pi / 2: g falls through 0.
    flow = one_sample_flow(1.0, 0.5, 2.9, [60.0], "wn")
    linear = linear_flow(
        [[1.0, 0.0]], [0.5 * np.cos(2.9), 0.5 * np.sin(2.9)], [60.0], "wn"
    )
    np.testing.assert_allclose(flow.lengths, linear.lengths, rtol=1e-8)
    assert flow.log_losses[-1] == pytest.approx(-60.0, abs=0.5)
    assert linear.weights[0, 0] > 50


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_product_of_norms_solves_its_equation(depth):
    grown = deep_growth(depth, 0.7, np.log([1.0, 1.001]), length=1.2)
    rho = grown.mean()
    rate = depth * rho ** (2 - 2 / depth) * 0.7 * np.exp(-0.7 * rho)
    assert np.diff(grown)[0] / 0.001 == pytest.approx(rate, rel=1e-5)
    late = deep_growth(depth, 0.7, [2000.0], length=1.2)
    log = np.log(2000.0)
    expected = 2000 + (2 - 2 / depth) * log + np.log(depth * 0.7 ** (2 / depth))
    assert 0.7 * late[0] == pytest.approx(expected, abs=0.05)


@METHODS
def test_a_flow_that_gives_up_says_so_and_keeps_what_it_reached(method):
    log_times = np.linspace(-2.0, 1000.0, 50)
    whole = linear_flow(TWO, [1.0, 0.2], log_times, method)
    part = linear_flow(TWO, [1.0, 0.2], log_times, method, max_evaluations=150)
    assert whole.stop_reason == "reached"
    assert part.stop_reason.startswith("gave up: 15")
    reached = len(part.log_times)
    assert 0 < reached < 50
    last = float(part.stop_reason.split("log t = ")[1])
    assert part.log_times[-1] <= last <= log_times[reached]
    np.testing.assert_allclose(part.weights, whole.weights[:reached], rtol=1e-9)
    assert part.log_losses.shape == part.lengths.shape == (reached,)
    assert part.directions.shape == (reached, 2)


def test_a_flow_that_gives_up_at_once_is_empty():
    flow = linear_flow(TWO, [1.0, 0.2], [60.0], max_evaluations=1)
    assert flow.stop_reason.startswith("gave up")
    assert flow.weights.shape == flow.directions.shape == (0, 2)
    one = one_sample_flow(1.0, 1.0, 1.0, [60.0], max_evaluations=1)
    assert one.stop_reason.startswith("gave up")
    assert len(one.lengths) == len(one.log_losses) == 0
