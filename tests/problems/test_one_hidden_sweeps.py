"""GDNP on hidden units: each unit's direction, and what sweeps over them reach."""

from dataclasses import replace

import numpy as np
import pytest
from halfspace_problems import moments_of, rows
from refusals import refused
from scipy.optimize import brentq
from test_one_hidden import layer_of

from bnlib.halfspaces import GaussianHalfspace
from bnlib.networks import FiniteOneHiddenLayer, OneHiddenLayer, gdnp_sweeps
from bnlib.optim import gdnp

NEWTON = {"length": "newton"}


def plain(theta=(2.0, 2.0), u=0.6, **options):
    return OneHiddenLayer(np.array([u, 0.0]), np.eye(2), np.array(theta), **options)


def ill(theta=(1.0, 1.5)):
    """A problem on which one step does not reach the line."""
    u, S = np.array([0.4, 0.25]), np.diag([1.0, 0.3])
    return OneHiddenLayer(u, S, np.array(theta))


def start(layer, seed=0):
    return np.random.default_rng(seed).standard_normal((layer.units, layer.dim))


@pytest.mark.parametrize("loss", ["logistic", "pseudo_huber", "shifted_sigmoid"])
def test_with_the_others_on_the_line_a_unit_turns_as_a_halfspace_does(loss):
    layer, W = layer_of(d=4, m=3, loss=loss)
    W[:2] = np.outer([0.6, 0.0], layer.line)
    trace = gdnp(layer.unit(W, 2), W[2], steps=6, **NEWTON)
    halfspace = GaussianHalfspace(layer.u, layer.S)
    expected = gdnp(halfspace, W[2], steps=6, **NEWTON)
    np.testing.assert_allclose(trace.w, expected.w, rtol=1e-7)
    gaps = np.array([halfspace.rho(w) for w in trace.w]) + layer.lambda_1
    bound = gaps[0] * (1 - layer.mu / layer.L) ** (2 * np.arange(7))
    assert (gaps <= bound + 1e-13).all()


def test_with_another_unit_off_the_line_it_does_not():
    layer, W = layer_of(d=4)
    trace = gdnp(layer.unit(W, 1), W[1], steps=2, **NEWTON)
    expected = gdnp(GaussianHalfspace(layer.u, layer.S), W[1], steps=2, **NEWTON)
    assert np.abs(trace.w[-1] / expected.w[-1] - 1).max() > 1e-3


def test_a_sweep_solved_well_ends_on_the_line_with_a_gradient_left():
    layer = plain()
    trace = gdnp_sweeps(layer, start(layer), steps=60, **NEWTON)
    assert trace.stop_reason == "sweeps"
    assert layer.angles(trace.W[1]).max() < 1e-12
    slopes = np.linalg.norm(layer.gradient(trace.W[1]), axis=1)
    assert slopes[1] < 1e-9 < 1e-2 < slopes[0]


def test_repeated_sweeps_reach_the_saddle_at_the_factor_of_gauss_seidel():
    layer = plain((0.5, 3.0), u=0.8)
    on_line = np.array([[-1.0, 0.0], [-1.0, 0.0]])
    trace = gdnp_sweeps(layer, on_line, sweeps=14, steps=0, **NEWTON)
    assert (np.diff(trace.values) <= 1e-14).all()
    # Where both units are equal, they are one unit of the summed output weight.
    both = OneHiddenLayer(layer.u, layer.S, np.array([3.5])).unit(np.zeros((1, 2)), 0)
    best = brentq(both.ray(np.array([1.0, 0.0])).slope, -5, -0.1)
    np.testing.assert_allclose(trace.W[-1][:, 0], best, atol=1e-6)
    H = layer.hessian(trace.W[-1])
    c = trace.W[:, 1, 0]
    factor = H[0, 2] ** 2 / (H[0, 0] * H[2, 2])
    assert (c[10] - c[9]) / (c[9] - c[8]) == pytest.approx(factor, rel=1e-2)
    assert np.linalg.eigvalsh(H)[0] < -1e-3


def test_sweeps_of_single_steps_may_find_the_minimum_off_the_line():
    layer, W = ill(), np.array([[-1.0, 1.0], [-1.0, -2.0]])
    trace = gdnp_sweeps(layer, W, sweeps=20, steps=1, **NEWTON)
    assert np.degrees(layer.angles(trace.W[-1])).min() > 3
    assert np.linalg.eigvalsh(layer.hessian(trace.W[-1]))[0] > 1e-3
    well = gdnp_sweeps(layer, W, sweeps=1, steps=20, **NEWTON)
    assert trace.values[-1] < well.values[-1]


def test_in_the_first_sweep_the_units_that_follow_are_0():
    layer = ill()
    W = start(layer)
    trace = gdnp_sweeps(layer, W, steps=3, **NEWTON)
    alone = gdnp(ill((1.0,)).unit(np.zeros((1, 2)), 0), W[0], steps=3, **NEWTON)
    np.testing.assert_allclose(trace.units[0][0].w, alone.w, rtol=1e-12)
    np.testing.assert_array_equal(trace.W[0], np.zeros((2, 2)))
    assert trace.values[0] == pytest.approx(np.log(2))


def test_the_trace_tells_of_the_weights_that_it_holds():
    layer = plain((1.0, -2.0))
    trace = gdnp_sweeps(layer, start(layer), sweeps=3, steps=2, **NEWTON)
    assert trace.n_sweeps == 3 == len(trace.units)
    assert trace.W.shape == (4, 2, 2)
    for W, value, norm in zip(trace.W, trace.values, trace.grad_norms):
        assert value == layer.value(W)
        assert norm == pytest.approx(np.linalg.norm(layer.gradient(W)))
    last = trace.units[-1][1].solution
    np.testing.assert_array_equal(trace.W[-1][1], last)


def test_lengths_of_the_start_do_not_matter_and_it_is_not_changed():
    layer = ill()
    W = start(layer)
    kept = W.copy()
    first = gdnp_sweeps(layer, W, steps=3, **NEWTON).W[-1]
    scaled = gdnp_sweeps(layer, W * [[1e5], [1e-5]], steps=3, **NEWTON).W[-1]
    np.testing.assert_allclose(scaled, first, rtol=1e-8)
    np.testing.assert_array_equal(W, kept)


def test_a_tolerance_ends_the_sweeps():
    layer = plain((1.0, 1.0))
    on_line = np.array([[-1.0, 0.0], [-1.0, 0.0]])
    options = {"steps": 0, "tol": 1e-3, **NEWTON}
    trace = gdnp_sweeps(layer, on_line, sweeps=30, **options)
    assert trace.stop_reason == "tolerance"
    assert trace.grad_norms[-1] <= 1e-3 < trace.grad_norms[-2]
    assert gdnp_sweeps(layer, on_line, sweeps=0).n_sweeps == 0


def test_a_loss_without_a_best_length_ends_them_and_says_so():
    layer = plain(loss="sigmoid")
    trace = gdnp_sweeps(layer, start(layer), sweeps=5, steps=3)
    assert trace.stop_reason == "no bracket"
    assert trace.n_sweeps == 1
    assert [len(done) for done in trace.units] == [1]
    np.testing.assert_array_equal(trace.W[-1][1], 0)


def test_a_line_search_that_finds_nothing_better_does_not_end_them(monkeypatch):
    def stalled(*arguments, **options):
        return replace(gdnp(*arguments, **options), stop_reason="stalled")

    monkeypatch.setattr("bnlib.optim._sweeps.gdnp", stalled)
    trace = gdnp_sweeps(plain(), start(plain()), sweeps=2, steps=1, **NEWTON)
    assert trace.stop_reason == "sweeps"
    assert [len(done) for done in trace.units] == [2, 2]


def test_three_units_in_space_need_steps_enough_or_a_sample():
    u, S = moments_of(np.random.default_rng(0), 3, condition=1.3)
    layer = OneHiddenLayer(u, S, np.array([1.0, 1.2, 0.8]))
    W = start(layer)
    with refused(ValueError, "units", "plane", "FiniteOneHiddenLayer"):
        gdnp_sweeps(layer, W, steps=1, **NEWTON)
    trace = gdnp_sweeps(layer, W, steps=18, **NEWTON)
    assert layer.angles(trace.W[-1]).max() < 1e-9


def test_on_data_the_sweeps_go_down():
    Z, _ = rows(n=200, d=3)
    layer = FiniteOneHiddenLayer(Z, np.array([1.0, 2.0, -1.0]))
    options = {"step": "line_search", **NEWTON}
    trace = gdnp_sweeps(layer, start(layer), sweeps=4, steps=10, **options)
    assert (np.diff(trace.values) < 0).all()
    assert trace.grad_norms[-1] < 0.05 * trace.grad_norms[0]


@pytest.mark.parametrize(
    ("W0", "options", "error", "says"),
    [
        (np.ones((1, 2)), {}, ValueError, ("W", (1, 2), "(2, 2), a unit a row")),
        (
            np.array([[1.0, 1], [0, 0]]),
            {},
            ValueError,
            ("W0[1]", "[0. 0.]", "finite direction other than 0"),
        ),
        (
            np.array([[np.nan, 1], [1, 1]]),
            {},
            ValueError,
            ("W0[0]", "[nan  1.]", "finite direction other than 0"),
        ),
        (np.array([[0.0, 1], [1, 1]]), {}, ValueError, ("u.w0", "0, 0 to rounding")),
        (
            np.ones((2, 2)),
            {"sweeps": -1},
            ValueError,
            ("sweeps", -1, "integer of at least 0"),
        ),
        (np.ones((2, 2)), {"sweeps": 1.5}, TypeError, ("sweeps", 1.5, "integer")),
        (
            np.ones((2, 2)),
            {"tol": -1.0},
            ValueError,
            ("tol", -1.0, "finite, at least 0"),
        ),
        (
            np.ones((2, 2)),
            {"step": "long"},
            ValueError,
            ("step", "'long'", "one of paper, line_search"),
        ),
        (np.ones((2, 2)), {"speed": 2}, TypeError, ("speed",)),
    ],
    ids=range(9),
)
def test_what_the_sweeps_do_not_take_is_named(W0, options, error, says):
    with refused(error, *says):
        gdnp_sweeps(plain(), W0, **options)
