"""Implicit bias: what is refused, and what the refusal names."""

import numpy as np
import pytest
import torch

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
    with pytest.raises(ValueError, match="not linearly separable"):
        needs_separable(rows)


@pytest.mark.parametrize("all_zero", [max_margin, lambda r: coordinate_descent(r, 3)])
def test_rows_that_are_all_zero_are_named(all_zero):
    with pytest.raises(ValueError, match="all zero"):
        all_zero(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([1, 1, 1], "y is 1 for every row"),
        ([-1, -1, -1], "y is -1 for every row"),
        ([0, 1, 1], r"y holds \[0.0, 1.0\]: give labels -1 and 1"),
        ([1, -1], "X has 3 rows and y 2 labels"),
        ([1, -1, np.nan], "not finite"),
        ([[1], [-1], [1]], "y has shape"),
    ],
)
def test_labels_that_do_not_fit_are_named(labels, says):
    for call in (
        lambda: signed_rows(X, labels),
        lambda: network_flow(NET, X, labels, TIMES),
    ):
        with pytest.raises(ValueError, match=says):
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
    with pytest.raises(ValueError, match=r"p is .*: give a finite number of at least"):
        takes_p(p)


@pytest.mark.parametrize("p", ["2", None, True])
def test_an_exponent_that_is_no_number_is_named(p):
    with pytest.raises(TypeError, match="give a number"):
        norm_gradient([1.0], p)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: linear_flow(ROWS, [0.0, 0.0], TIMES, "wn"), "start is zero"),
        (lambda: normalised_margins(ROWS, [0.0, 0.0]), "w is zero"),
        (lambda: normalised_margins(ROWS, [[1.0, 0.0], [0.0, 0.0]]), "w is zero"),
        (lambda: angle([0.0, 0.0], [1.0, 0.0]), "a is zero"),
        (lambda: angle([1.0, 0.0], [0.0, 0.0]), "b is zero"),
        (lambda: norm_gradient([0.0, 0.0]), "V is zero"),
        (lambda: tangent_projection([0.0], [1.0]), "V is zero"),
        (lambda: tangent_flow(lambda V: V, [0.0], TIMES), "start is zero"),
        (lambda: layer_directions([NET[0], 0 * NET[1]]), r"weights\[1\] is zero"),
        (lambda: network_flow([0 * NET[0], NET[1]], X, Y, TIMES), r"weights\[0\] is z"),
        (lambda: one_sample_flow(0.0, 1.0, 1.0, TIMES), "size is 0"),
        (lambda: one_sample_flow(1.0, 0.0, 1.0, TIMES), "length is 0"),
        (lambda: one_sample_flow(1.0, 1.0, 0.0, TIMES), "angle is 0"),
        (lambda: one_sample_flow(1.0, 1.0, np.pi, TIMES), "below pi"),
        (lambda: deep_growth(2, 0.0, TIMES), "margin is 0"),
        (lambda: deep_growth(0, 1.0, TIMES), "depth is 0"),
        (lambda: constrained_path(ROWS, [0.0, 1.0]), r"lengths\[0\] is 0"),
    ],
)
def test_what_has_no_length_or_direction_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_a_zero_start_is_fine_for_gradient_flow():
    assert linear_flow(ROWS, [0.0, 0.0], TIMES).stop_reason == "reached"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: linear_flow(ROWS, [1.0], TIMES), r"start has shape \(1,\)"),
        (lambda: linear_flow(ROWS, [[1.0, 2.0]], TIMES), "start has shape"),
        (lambda: linear_flow(ROWS[0], [1.0, 1.0], TIMES), "rows has shape"),
        (lambda: linear_flow(ROWS, [1.0, 1.0], [1.0, 1.0]), "does not increase"),
        (lambda: linear_flow(ROWS, [1.0, 1.0], []), "log_times has shape"),
        (lambda: linear_flow(ROWS, [1.0, np.inf], TIMES), "not finite"),
        (lambda: linear_flow(ROWS, [1.0, 1.0], TIMES, "sgd"), "give one of gd, wn"),
        (lambda: one_sample_flow(1.0, 1.0, 1.0, TIMES, "sgd"), "one of gd, wn"),
        (lambda: log_loss(ROWS, [1.0, 2.0, 3.0]), "w has shape"),
        (lambda: angle([1.0, 2.0], [1.0, 2.0, 3.0]), "a has length 2 and b 3"),
        (lambda: max_margin(np.empty((0, 2))), "rows has shape"),
        (lambda: tangent_projection([1.0, 2.0], [1.0]), "give equal ones"),
        (lambda: tangent_flow(lambda V: [1.0], [1.0, 2.0], TIMES), "give equal ones"),
        (lambda: tangent_flow(lambda V: V, [1.0], [-1.0, 1.0]), r"times\[0\] is -1"),
        (lambda: constrained_path(ROWS, [2.0, 1.0]), "does not increase"),
        (lambda: relu_net(NET, np.ones((2, 5))), r"give \(out, 5\)"),
        (lambda: relu_net(NET[:1], X), "the last layer has 3 rows"),
        (lambda: relu_net([], X), "weights is empty"),
        (lambda: euler_sums([NET[0], NET[0]], X), r"weights\[1\] has shape"),
        (lambda: relu_net_gradients(NET, X, [1.0]), "upstream has 1 entries"),
        (lambda: gaussian_weights((3,), 0), "give at least those of input and output"),
        (lambda: gaussian_weights((3, 0), 0), "a width is 0"),
        (lambda: coordinate_descent(ROWS, -1), "steps is -1"),
        (lambda: coordinate_descent(ROWS, 1, rate=0), "rate is 0"),
        (lambda: linear_flow(ROWS, [1.0, 1.0], TIMES, max_evaluations=0), "is 0"),
    ],
)
def test_what_does_not_fit_is_named(call, says):
    with pytest.raises(ValueError, match=says):
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
    with pytest.raises(TypeError, match=r"rows is a .*: give a plain array"):
        max_margin(array)


def test_a_tensor_in_a_graph_is_refused_and_a_plain_one_taken():
    rows = torch.tensor(ROWS)
    assert max_margin(rows).margin == max_margin(ROWS).margin
    with pytest.raises(TypeError, match="rows is a Tensor"):
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
