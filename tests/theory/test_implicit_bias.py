"""Margins: the hard-margin classifiers, and the paths that lead to them."""

import numpy as np
import pytest
import torch
from refusals import refused
from scipy import optimize
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.svm import SVC

from bnlib.implicit_bias import (
    angle,
    constrained_path,
    coordinate_descent,
    limit_offset,
    log_loss,
    max_l1_margin,
    max_margin,
    norm_gradient,
    normalised_margins,
    signed_rows,
    tangent_flow,
    tangent_projection,
)


def two_classes(X, y, first, second):
    """Return the signed rows of two classes, with a constant input; none is long."""
    chosen = (y == first) | (y == second)
    X = np.hstack([X[chosen], np.full((chosen.sum(), 1), np.abs(X).mean())])
    X = X / np.linalg.norm(X, axis=1).max()
    return signed_rows(X, np.where(y[chosen] == first, 1, -1))


DATA = {
    "iris": two_classes(*load_iris(return_X_y=True), 0, 1),
    "digits": two_classes(*load_digits(return_X_y=True), 0, 1),
    "blobs": two_classes(
        *make_blobs(60, centers=[[0, 3, 0], [2, 0, 3]], random_state=0), 0, 1
    ),
}
DATA_SETS = pytest.mark.parametrize("rows", DATA.values(), ids=DATA)


def random_rows(seed, n=12, d=3):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d))
    rows[:, 0] = np.abs(rows[:, 0]) + 0.2
    return rows


def svc(rows):
    """scikit-learn's hard-margin weights; with its mirror image it has no offset."""
    model = SVC(kernel="linear", C=1e10, tol=1e-10)
    return model.fit(np.vstack([rows, -rows]), np.repeat([1, -1], len(rows))).coef_[0]


@DATA_SETS
def test_the_hard_margin_is_that_of_scikit_learn(rows):
    found, expected = max_margin(rows), svc(rows)
    assert found.margin == pytest.approx(1 / np.linalg.norm(expected), rel=1e-5)
    assert angle(found.direction, expected) < 1e-4
    margins = normalised_margins(rows, expected)
    assert margins.min() == pytest.approx(found.margin, rel=1e-4)


@DATA_SETS
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_the_hard_margin_meets_the_conditions_of_an_optimum(rows, scale):
    weights, direction, margin, duals = max_margin(scale * rows)
    weights, duals = weights * scale, duals * scale**2
    slack = rows @ weights - 1
    assert slack.min() > -1e-9
    assert duals.min() >= 0
    assert np.abs(duals * slack).max() < 1e-9 * duals.max()
    np.testing.assert_allclose(duals @ rows, weights, atol=1e-10 * duals.max())
    np.testing.assert_allclose(direction, weights / np.linalg.norm(weights))
    assert margin == pytest.approx(scale / np.linalg.norm(weights), rel=1e-12, abs=0)


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200])
def test_the_hard_margin_is_found_where_squares_are_not(scale):
    rows = np.array([[1.0, 0.3], [1.0, -1.2]])
    found = max_margin(scale * rows)
    assert found.margin == pytest.approx(scale, rel=1e-9, abs=0)
    np.testing.assert_allclose(found.direction, [1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_no_direction_has_a_larger_l1_margin(seed):
    rows = random_rows(seed, d=2)
    found = max_l1_margin(rows)
    assert np.abs(found.direction).sum() == pytest.approx(1)
    around = np.linspace(0, 2 * np.pi, 20_001)
    every = np.stack([np.cos(around), np.sin(around)], axis=1)
    best = normalised_margins(rows, every, p=1).min(axis=1).max()
    assert best <= found.margin + 1e-12
    assert best == pytest.approx(found.margin, abs=1e-3)


@pytest.mark.parametrize("p", [1, 1.5, 2, 7.0])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_margins_are_over_the_norm_at_any_scale(p, scale):
    rows, w = random_rows(0), np.random.default_rng(1).standard_normal((4, 3))
    expected = w @ rows.T / np.linalg.norm(w, p, axis=1, keepdims=True)
    found = normalised_margins(rows, scale * w, p)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_labels_turn_the_rows():
    X = np.arange(6.0).reshape(3, 2)
    found = signed_rows(X, np.array([1, -1, -1]))
    np.testing.assert_array_equal(found, [[0, 1], [-2, -3], [-4, -5]])


def test_the_slope_of_the_loss_is_autograds():
    rows, w = random_rows(2), np.array([0.3, -1.0, 2.0])
    leaf = torch.tensor(w, requires_grad=True)
    loss = torch.log(torch.exp(-torch.tensor(rows) @ leaf).sum())
    loss.backward()
    value, descent = log_loss(rows, w)
    assert value == pytest.approx(loss.item(), rel=1e-13)
    np.testing.assert_allclose(descent, -leaf.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_loss_is_finite_where_its_exponential_is_not(sign):
    value, descent = log_loss([[1.0, 0.0], [1.0, 1.0]], [sign * 1e4, 0.0])
    assert value == pytest.approx(np.log(2) - sign * 1e4, rel=1e-15)
    np.testing.assert_allclose(descent, [1.0, 0.5])


@pytest.mark.parametrize("size", [1e-100, 1e-9, 0.5, 1.5, np.pi - 1e-6])
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_an_angle_is_exact_however_small(size, scale):
    turned = scale * np.array([np.cos(size), np.sin(size)])
    assert angle([3.0, 0.0], turned) == pytest.approx(size, rel=1e-9, abs=0)


def test_the_offset_satisfies_its_equation_with_more_rows_than_dimensions():
    near = np.array([[1.0, 0.3], [1.0, -1.2], [1.0, 0.7], [1.0, -0.1]])
    offset = limit_offset([*near, [5.0, 0.0]])
    slope = optimize.approx_fprime(
        offset[1:], lambda across: np.exp(-near[:, 1] * across).sum(), 1e-7
    )
    assert offset[0] == pytest.approx(0, abs=1e-12)
    assert np.abs(slope).max() < 1e-6
    assert abs(offset[1]) > 0.1


def test_the_offset_turns_and_scales_with_the_rows():
    rows = np.array([[1.0, 0.3], [1.0, -1.2]])
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    expected = turn @ [0, np.log(0.25) / 1.5] / 3
    np.testing.assert_allclose(limit_offset(3 * rows @ turn.T), expected, atol=1e-12)


def test_one_dimension_has_no_room_for_an_offset():
    np.testing.assert_array_equal(limit_offset([[2.0], [3.0]]), [0.0])


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[1.0, 0.0], [3.0, 1.0]], ("rows", "span 1 of 2")),
        ([[1.0, 0.0], [1.0, 1.0]], ("no choice of duals",)),
    ],
)
def test_an_offset_that_is_not_the_rows_alone_is_named(rows, says):
    with refused(ValueError, *says):
        limit_offset(rows)


@pytest.mark.parametrize("seed", range(3))
def test_the_constrained_path_is_where_the_projected_flow_rests(seed):
    rows = random_rows(seed)
    weights = constrained_path(rows, [0.5, 4.0, 1e5])
    np.testing.assert_allclose(np.linalg.norm(weights, axis=1), [0.5, 4.0, 1e5])
    flow = tangent_flow(lambda V: log_loss(rows, 4 * V)[1], np.ones(3), [200.0])
    rest = flow.points[-1] / np.linalg.norm(flow.points[-1])
    flow = tangent_flow(lambda V: log_loss(rows, 4 * V)[1], rest, [200.0])
    assert angle(flow.points[-1], weights[1]) < 1e-6
    assert angle(weights[2], svc(rows)) < 1e-3


def test_greedy_descent_moves_the_coordinate_of_the_largest_slope():
    rows = random_rows(3)
    path = coordinate_descent(rows, steps=60, rate=0.5)
    largest = np.abs(rows).max()
    for k in range(60):
        descent = log_loss(rows, path.weights[k])[1]
        change = path.weights[k + 1] - path.weights[k]
        moved = np.abs(descent).argmax()
        step = 0.5 / largest / np.sqrt(k + 1) * np.sign(descent[moved])
        np.testing.assert_allclose(change, step * np.eye(3)[moved], atol=1e-13)
        assert path.log_losses[k] == pytest.approx(log_loss(rows, path.weights[k])[0])
    assert (np.abs(path.weights).sum(axis=1) <= path.travelled + 1e-12).all()


@pytest.mark.parametrize("seed", range(3))
def test_greedy_descent_leads_to_the_l1_margin_and_not_to_the_other(seed):
    rows = random_rows(seed, d=6)
    best = max_l1_margin(rows).margin
    path = coordinate_descent(rows, steps=20_000)
    reached = normalised_margins(rows, path.weights[-1], p=1).min()
    assert 0.97 * best < reached <= best + 1e-12
    assert normalised_margins(rows, max_margin(rows).weights, p=1).min() < reached


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 40.0])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_gradient_of_a_norm_is_autograds(p, scale):
    V = np.array([[1.0, -2.0, 0.5], [0.25, 4.0, -3.0]])
    leaf = torch.tensor(V, requires_grad=True)
    torch.linalg.vector_norm(leaf, p).backward()
    np.testing.assert_allclose(
        norm_gradient(scale * V, p), leaf.grad, rtol=1e-11, atol=1e-300
    )


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_projecting_leaves_the_tangent_space_alone(p):
    V, g = np.random.default_rng(4).standard_normal((2, 3, 4))
    once = tangent_projection(V, g, p)
    assert (norm_gradient(V, p) * once).sum() == pytest.approx(0, abs=1e-14)
    np.testing.assert_allclose(tangent_projection(V, once, p), once, atol=1e-14)
    np.testing.assert_allclose(tangent_projection(7 * V, g, p), once, atol=1e-14)
    # What is taken away lies along the normal.
    parallel = (g - once) / norm_gradient(V, p)
    np.testing.assert_allclose(parallel, parallel[0, 0], rtol=1e-9)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 4])
def test_a_tangent_flow_keeps_its_norm(p):
    rng = np.random.default_rng(6)
    V, target = rng.standard_normal((2, 5)) + 2
    flow = tangent_flow(lambda V: target - 0.1 * V**2, V, [0.0, 0.3, 1.0], p)
    norms = np.linalg.norm(flow.points, p, axis=1)
    np.testing.assert_allclose(norms, np.linalg.norm(V, p), rtol=1e-8)
    assert flow.drift == pytest.approx(np.abs(norms - norms[0]).max(), abs=1e-13)
    assert flow.stop_reason == "reached"
    np.testing.assert_array_equal(flow.points[0], V)
    assert angle(flow.points[0], flow.points[-1]) > 0.05


@pytest.mark.parametrize("p", [1.5, 3])
def test_the_tangent_flow_crosses_the_planes_where_an_entry_is_0(p):
    flow = tangent_flow(lambda V: [1.0, -1.0], [0.4, 0.7], [0.0, 1.0, 3.0], p)
    assert flow.points[0, 1] > 0 > flow.points[-1, 1]
    assert flow.drift < 1e-8


def test_a_tangent_flow_that_a_kink_holds_says_how_far_it_came():
    # With p = 1 both sides of the plane V_2 = 0 push back to it.
    flow = tangent_flow(
        lambda V: [0.0, -5.0 * np.sign(V[1])],
        [1.0, 0.5],
        [0.05, 10.0],
        1,
        max_evaluations=3000,
    )
    assert flow.stop_reason.startswith("gave up: ")
    assert "at time 0." in flow.stop_reason
    assert len(flow.times) == len(flow.points) == 1
