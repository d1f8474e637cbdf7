"""Implicit bias: what is refused, and what the refusal names."""

import numpy as np
import pytest
import torch
from refusals import refused

from bnlib.implicit_bias import (
    angle,
    constrained_path,
    coordinate_descent,
    deep_growth,
    euler_sums,
    gaussian_weights,
    layer_directions,
    layer_lengths,
    linear_flow,
    log_loss,
    max_l1_margin,
    max_margin,
    network_flow,
    norm_gradient,
    normalised_margins,
    one_sample_flow,
    relu_net,
    relu_net_gradients,
    signed_rows,
    tangent_flow,
    tangent_projection,
)

X, Y = np.array([[1.0, 2.0], [-1.0, 0.5], [0.0, -1.0]]), np.array([1, 1, -1])
ROWS = np.array([[1.0, 0.3], [1.0, -1.2]])
MIXED = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
NET = [np.ones((3, 2)), np.ones((1, 3))]
TIMES = [0.0, 1.0]


@pytest.mark.parametrize("rows", [MIXED, np.array([[1.0], [0.0]]), -ROWS[:, 1:]])
@pytest.mark.parametrize(
    "needs_separable",
    [
        max_margin,
        max_l1_margin,
        lambda rows: linear_flow(rows, np.ones(rows.shape[1]), TIMES),
        lambda rows: linear_flow(rows, np.ones(rows.shape[1]), TIMES, "wn"),
        lambda rows: constrained_path(rows, [1.0]),
    ],
)
def test_data_that_nothing_separates_are_named(needs_separable, rows):
    with refused(ValueError, "rows", "not linearly separable"):
        needs_separable(rows)


@pytest.mark.parametrize("all_zero", [max_margin, lambda r: coordinate_descent(r, 3)])
def test_rows_that_are_all_zero_are_named(all_zero):
    with refused(ValueError, "rows", "all zero"):
        all_zero(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([1, 1, 1], ("y", "1 every row", "both labels")),
        ([-1, -1, -1], ("y", "-1 every row", "both labels")),
        ([0, 1, 1], ("y", "[0.0, 1.0]", "labels -1 and 1")),
        ([1, -1], ("X", "3 rows and y 2 labels", "one a row")),
        ([1, -1, np.nan], ("y", "not finite")),
        ([[1], [-1], [1]], ("y", (3, 1), "1 axes with at least one entry")),
    ],
)
def test_labels_that_do_not_fit_are_named(labels, says):
    for call in (
        lambda: signed_rows(X, labels),
        lambda: network_flow(NET, X, labels, TIMES),
    ):
        with refused(ValueError, *says):
            call()


@pytest.mark.parametrize("p", [0.99, 0, -1, np.inf, np.nan])
@pytest.mark.parametrize(
    "takes_p",
    [
        lambda p: norm_gradient([1.0, 2.0], p),
        lambda p: tangent_projection([1.0, 2.0], [1.0, 1.0], p),
        lambda p: tangent_flow(lambda V: V, [1.0, 2.0], TIMES, p),
        lambda p: normalised_margins(ROWS, [1.0, 1.0], p),
        lambda p: layer_lengths(NET, p),
        lambda p: layer_directions(NET, p),
    ],
)
def test_an_exponent_below_1_is_named(takes_p, p):
    with refused(ValueError, "p", p, "finite, at least 1"):
        takes_p(p)


@pytest.mark.parametrize("p", ["2", None, True])
def test_an_exponent_that_is_no_number_is_named(p):
    with refused(TypeError, "p", repr(p), "number"):
        norm_gradient([1.0], p)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: linear_flow(ROWS, [0.0, 0.0], TIMES, "wn"), ("start", "zero")),
        (lambda: normalised_margins(ROWS, [0.0, 0.0]), ("w", "zero")),
        (lambda: normalised_margins(ROWS, [[1.0, 0.0], [0.0, 0.0]]), ("w", "zero")),
        (lambda: angle([0.0, 0.0], [1.0, 0.0]), ("a", "zero or no vector")),
        (lambda: angle([1.0, 0.0], [0.0, 0.0]), ("b", "zero or no vector")),
        (lambda: norm_gradient([0.0, 0.0]), ("V", "zero")),
        (lambda: tangent_projection([0.0], [1.0]), ("V", "zero")),
        (lambda: tangent_flow(lambda V: V, [0.0], TIMES), ("start", "zero")),
        (lambda: layer_directions([NET[0], 0 * NET[1]]), ("weights[1]", "zero")),
        (
            lambda: network_flow([0 * NET[0], NET[1]], X, Y, TIMES),
            ("weights[0]", "zero"),
        ),
        (lambda: one_sample_flow(0.0, 1.0, 1.0, TIMES), ("size", 0, "number above 0")),
        (
            lambda: one_sample_flow(1.0, 0.0, 1.0, TIMES),
            ("length", 0, "number above 0"),
        ),
        (lambda: one_sample_flow(1.0, 1.0, 0.0, TIMES), ("angle", 0, "number above 0")),
        (
            lambda: one_sample_flow(1.0, 1.0, np.pi, TIMES),
            ("angle", 3.141592653589793, "angle below pi"),
        ),
        (lambda: deep_growth(2, 0.0, TIMES), ("margin", 0, "number above 0")),
        (lambda: deep_growth(0, 1.0, TIMES), ("depth", 0, "integer of at least 1")),
        (
            lambda: constrained_path(ROWS, [0.0, 1.0]),
            ("lengths[0]", 0, "number above 0"),
        ),
    ],
)
def test_what_has_no_length_or_direction_is_named(call, says):
    with refused(ValueError, *says):
        call()


def test_a_zero_start_is_fine_for_gradient_flow():
    assert linear_flow(ROWS, [0.0, 0.0], TIMES).stop_reason == "reached"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: linear_flow(ROWS, [1.0], TIMES),
            ("start", "(1,) for rows of length 2", "that length on the last axis"),
        ),
        (
            lambda: linear_flow(ROWS, [[1.0, 2.0]], TIMES),
            ("start", (1, 2), "1 axes with at least one entry"),
        ),
        (
            lambda: linear_flow(ROWS[0], [1.0, 1.0], TIMES),
            ("rows", (2,), "2 axes with at least one entry"),
        ),
        (
            lambda: linear_flow(ROWS, [1.0, 1.0], [1.0, 1.0]),
            ("log_times", "not increase"),
        ),
        (
            lambda: linear_flow(ROWS, [1.0, 1.0], []),
            ("log_times", (0,), "1 axes with at least one entry"),
        ),
        (lambda: linear_flow(ROWS, [1.0, np.inf], TIMES), ("start", "not finite")),
        (
            lambda: linear_flow(ROWS, [1.0, 1.0], TIMES, "sgd"),
            ("method", "'sgd'", "one of gd, wn"),
        ),
        (
            lambda: one_sample_flow(1.0, 1.0, 1.0, TIMES, "sgd"),
            ("method", "'sgd'", "one of gd, wn"),
        ),
        (
            lambda: log_loss(ROWS, [1.0, 2.0, 3.0]),
            ("w", "(3,) for rows of length 2", "that length on the last axis"),
        ),
        (lambda: angle([1.0, 2.0], [1.0, 2.0, 3.0]), ("a", "length 2 and b 3")),
        (
            lambda: max_margin(np.empty((0, 2))),
            ("rows", (0, 2), "2 axes with at least one entry"),
        ),
        (
            lambda: tangent_projection([1.0, 2.0], [1.0]),
            ("V", "(2,) and g (1,)", "equal ones"),
        ),
        (
            lambda: tangent_flow(lambda V: [1.0], [1.0, 2.0], TIMES),
            ("V", "(2,) and g (1,)", "equal ones"),
        ),
        (
            lambda: tangent_flow(lambda V: V, [1.0], [-1.0, 1.0]),
            ("times[0]", -1.0, "finite, at least 0"),
        ),
        (lambda: constrained_path(ROWS, [2.0, 1.0]), ("lengths", "not increase")),
        (
            lambda: relu_net(NET, np.ones((2, 5))),
            ("weights[0]", "(3, 2) and gets 5 numbers", "(out, 5)"),
        ),
        (lambda: relu_net(NET[:1], X), ("last layer", "3 rows", "one, for one output")),
        (lambda: relu_net([], X), ("weights", "empty", "at least one layer")),
        (
            lambda: euler_sums([NET[0], NET[0]], X),
            ("weights[1]", "(3, 2) and gets 3 numbers", "(out, 3)"),
        ),
        (
            lambda: relu_net_gradients(NET, X, [1.0]),
            ("upstream", "1 entries for 3 rows of X"),
        ),
        (
            lambda: gaussian_weights((3,), 0),
            ("widths", "[3]", "at least those of input and output"),
        ),
        (lambda: gaussian_weights((3, 0), 0), ("a width", 0, "integer of at least 1")),
        (lambda: coordinate_descent(ROWS, -1), ("steps", -1, "integer of at least 0")),
        (lambda: coordinate_descent(ROWS, 1, rate=0), ("rate", 0, "number above 0")),
        (
            lambda: linear_flow(ROWS, [1.0, 1.0], TIMES, max_evaluations=0),
            ("max_evaluations", 0, "integer of at least 1"),
        ),
    ],
)
def test_what_does_not_fit_is_named(call, says):
    with refused(ValueError, *says):
        call()


@pytest.mark.parametrize(
    "array",
    [
        "rows",
        None,
        np.array(["1"]),
        1j * ROWS,
        np.ma.masked_array(ROWS),
        [[1.0], [1, 2]],
    ],
    ids=["text", "None", "texts", "complex", "masked", "ragged"],
)
def test_what_is_no_array_of_real_numbers_is_named(array):
    with refused(TypeError, "rows", type(array), "plain array of real numbers"):
        max_margin(array)


def test_a_tensor_in_a_graph_is_refused_and_a_plain_one_taken():
    rows = torch.tensor(ROWS)
    assert max_margin(rows).margin == max_margin(ROWS).margin
    with refused(TypeError, "rows", "Tensor", "plain array of real numbers"):
        max_margin(rows.requires_grad_())


@pytest.mark.parametrize(
    "rows",
    [
        ROWS.astype(np.float32),
        np.asfortranarray(ROWS),
        np.repeat(ROWS, 2, axis=1)[:, ::2],
        ROWS.tolist(),
    ],
    ids=["float32", "fortran", "strided", "lists"],
)
def test_rows_of_any_layout_give_the_same_and_stay_as_they_are(rows):
    before = np.array(rows)
    found = max_margin(rows)
    assert found.margin == pytest.approx(1.0, rel=1e-7)
    assert found.weights.dtype == np.float64
    flow = linear_flow(rows, np.ones(2, np.float32), TIMES)
    assert flow.weights.dtype == np.float64
    np.testing.assert_array_equal(rows, before)
