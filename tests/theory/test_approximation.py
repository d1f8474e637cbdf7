"""Approximation: trees, their interpolants, and what accuracy costs."""

from itertools import product

import numpy as np
import pytest
import torch
from refusals import refused

from bnlib import approximation
from bnlib.approximation import Cosine, Interpolant, Tree, _interpolation, interpolate

RNG = np.random.default_rng


def cube(inputs, points=200, seed=0):
    return RNG(seed).uniform(-1, 1, (points, inputs))


# Interpolation.


def test_one_variable_agrees_with_numpy():
    values, x = RNG(0).standard_normal(6), cube(1)
    expected = np.interp(x[:, 0], np.linspace(-1, 1, 6), values)
    np.testing.assert_allclose(Interpolant(values)(x), expected, atol=1e-13)


@pytest.mark.parametrize("inputs", [1, 2, 3, 4])
def test_what_is_affine_in_each_variable_is_reproduced(inputs):
    slopes = RNG(1).standard_normal(inputs)
    found = interpolate(lambda x: np.prod(2 + slopes * x, 1), inputs, 3)
    x = cube(inputs)
    np.testing.assert_allclose(found(x), np.prod(2 + slopes * x, 1), atol=1e-12)


def test_the_grid_runs_over_the_variables_in_their_order():
    found = interpolate(lambda x: x @ [1.0, 10.0, 100.0], 3, 2)
    assert found(np.array([[1.0, 0.5, -1.0]]))[0] == pytest.approx(1 + 5 - 100)


def test_the_ends_of_the_cube_belong_to_it_and_rounding_is_forgiven():
    found = Interpolant(np.array([1.0, 2.0, 4.0]))
    np.testing.assert_allclose(found([[-1.0], [1.0], [1 + 1e-12]]), [1, 4, 4])


def test_the_error_of_a_square_is_the_bound_at_the_middle_of_a_cell():
    found = interpolate(lambda x: x[:, 0] ** 2, 1, 4)
    assert found(np.array([[0.25]]))[0] - 0.25**2 == pytest.approx(1 / 16)
    assert approximation.interpolation_bound([2.0], 4) == 1 / 16


# Trees.


def first_more(x):
    """A function that is not symmetric: it tells its two variables apart."""
    return 0.5 * x[:, 0] - 0.25 * x[:, 1] * x[:, 0]


def test_a_tree_composes_its_nodes_in_order():
    h, g = Cosine(0.9, [1.0, 2.0], 0.1), Cosine(0.8, [0.5, -1.0], 2.0)
    tree = Tree([[h, g, g, h], [g, first_more], [first_more]])
    x = cube(8)
    pairs = [x[:, i : i + 2] for i in (0, 2, 4, 6)]
    low = [node(pair) for node, pair in zip((h, g, g, h), pairs)]
    left = g(np.stack(low[:2], axis=1))
    right = first_more(np.stack(low[2:], axis=1))
    expected = 0.5 * left - 0.25 * left * right
    np.testing.assert_allclose(tree(x), expected, rtol=1e-14)


def test_a_tree_of_three_variables_a_node_has_nine_inputs():
    tree = approximation.draw_tree(RNG(0), 2, arity=3)
    assert (tree.inputs, tree.depth, len(tree.nodes)) == (9, 2, 4)
    assert tree(cube(9)).shape == (200,)


def test_a_shared_function_is_one_object_and_its_table_counts_once():
    tree = approximation.draw_tree(RNG(0), 3, shared=True)
    assert len(set(tree.nodes)) == 1
    own = approximation.interpolate_tree(tree, 4)
    one = approximation.interpolate_tree(tree, 4, shared=True)
    assert (own.num_parameters, one.num_parameters) == (7 * 25, 25)
    np.testing.assert_array_equal(own(cube(8)), one(cube(8)))


def test_sharing_tables_leaves_different_functions_apart():
    tree = approximation.draw_tree(RNG(0), 2)
    own = approximation.interpolate_tree(tree, 4)
    shared = approximation.interpolate_tree(tree, 4, shared=True)
    assert shared.num_parameters == own.num_parameters == 75
    np.testing.assert_array_equal(shared(cube(4)), own(cube(4)))


def test_each_node_is_interpolated_by_its_own_table():
    tree = approximation.draw_tree(RNG(3), 2, draw=approximation.draw_wave)
    found, x = approximation.interpolate_tree(tree, 200), cube(4)
    np.testing.assert_allclose(found(x), tree(x), atol=1e-3)
    for node, table in zip(tree.nodes, found.nodes):
        np.testing.assert_allclose(table(x[:, :2]), node(x[:, :2]), atol=2e-4)


def derivatives(function, x, kind):
    """Differentiate by autograd as often as the kind says in each variable."""
    x = torch.tensor(x, requires_grad=True)
    value = function(x)
    for place, times in enumerate(kind):
        for _ in range(times):
            (gradient,) = torch.autograd.grad(value.sum(), x, create_graph=True)
            value = gradient[:, place]
    return value.abs().max().item()


def test_the_norm_of_a_cosine_is_the_sum_of_its_largest_derivatives():
    h, w = Cosine(0.3, [3.0, -4.0], 1.0), torch.tensor([3.0, -4.0], dtype=torch.float64)
    x = cube(2, points=40_000)

    def same(x):
        return 0.3 * torch.cos(x @ w + 1.0)

    kinds = [k for k in product(range(3), repeat=2) if sum(k) <= 2]
    sizes = {kind: derivatives(same, x, kind) for kind in kinds}
    assert h.sobolev_norm(2) == pytest.approx(sum(sizes.values()), rel=1e-5)
    assert h.lipschitz == pytest.approx([sizes[1, 0], sizes[0, 1]], rel=1e-5)
    assert h.curvatures == pytest.approx([sizes[2, 0], sizes[0, 2]], rel=1e-5)


def test_a_drawn_constituent_lies_on_the_sphere_asked_for():
    h = approximation.draw_constituent(RNG(0), 3, order=1, norm=0.7)
    assert h.sobolev_norm(1) == pytest.approx(0.7)
    assert h.sobolev_norm(0) == pytest.approx(abs(h.amplitude))


def test_draws_depend_on_the_generator_alone():
    for draw in (approximation.draw_constituent, approximation.draw_wave):
        one, other = draw(RNG(4)), draw(RNG(4))
        np.testing.assert_array_equal(one.frequencies, other.frequencies)
        assert one.phase == other.phase != draw(RNG(5)).phase


# Counts and bounds.


@pytest.mark.parametrize(("factor", "depth"), [(0.5, 4), (2.0, 3), (0.0, 5)])
def test_the_propagation_bound_is_a_geometric_sum(factor, depth):
    expected = 0.1 * (1 - factor**depth) / (1 - factor)
    found = approximation.propagation_bound(0.1, factor, depth)
    assert found == pytest.approx(expected)
    assert approximation.propagation_bound(0.1, 1.0, depth) == pytest.approx(
        0.1 * depth
    )


@pytest.mark.parametrize(("inputs", "arity"), [(2, 2), (16, 2), (27, 3), (8, 8)])
def test_parameters_of_a_tree_are_those_of_its_nodes(inputs, arity):
    nodes = (inputs - 1) // (arity - 1)
    expected = nodes * 5 * (arity + 2)
    assert approximation.tree_parameters(5, inputs, arity) == expected


def test_the_units_of_a_polynomial_stay_below_the_power_of_the_degree():
    for degree, inputs in product(range(8), range(1, 6)):
        units = approximation.polynomial_units(degree, inputs)
        exponents = product(range(degree + 1), repeat=inputs)
        directions = sum(sum(each) == degree for each in exponents)
        assert units == (degree + 1) * directions <= (degree + 1) ** inputs


@pytest.mark.parametrize(("length", "beads"), [(1, 3), (4, 2), (5, 3), (6, 4)])
def test_necklaces_are_words_up_to_rotation(length, beads):
    words = product(range(beads), repeat=length)
    least = {min(w[s:] + w[:s] for s in range(length)) for w in words}
    assert approximation.necklaces(length, beads) == len(least)


def test_necklaces_are_counted_exactly_beyond_the_range_of_floats():
    assert approximation.necklaces(2, 10**200) == (10**400 + 10**200) // 2


def test_a_slope_is_that_of_the_line_through_the_logarithms():
    sizes = np.array([3.0, 10.0, 40.0, 200.0])
    errors = sizes**-1.5 * np.exp(RNG(0).standard_normal(4))
    expected = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert approximation.fit_slope(sizes, errors) == pytest.approx(expected)


# What is refused.


def refuses(message, function, *arguments, error=ValueError, **options):
    with refused(error, *message):
        function(*arguments, **options)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([[0.0, 1.1]], ValueError, ("x", 1.1, "numbers in [-1, 1]")),
        ([[0.0, np.nan]], ValueError, ("x", "nan", "numbers in [-1, 1]")),
        ([[0.0, -np.inf]], ValueError, ("x", "-inf", "numbers in [-1, 1]")),
        ([0.0, 0.5], ValueError, ("x", (2,), "(m, 2)")),
        ([[0.0, 0.5, 0.5]], ValueError, ("x", (1, 3), "(m, 2)")),
        ([[0.0, 1j]], TypeError, ("x", "complex128", "real numbers")),
        ([["a", "b"]], TypeError, ("x", "U1", "real numbers")),
        (np.ma.zeros((1, 2)), TypeError, ("x", "MaskedArray", "plain array")),
    ],
)
def test_points_outside_the_cube_or_of_another_shape_are_refused(x, error, message):
    tree = Tree([[Cosine(1.0, [1.0, 1.0], 0.0)]])
    table = interpolate(tree, 2, 2)
    for function in (tree, table, tree.nodes[0]):
        refuses(message, function, x, error=error)


def test_a_tensor_that_requires_a_gradient_is_taken_without_it():
    tree, x = Tree([[Cosine(1.0, [1.0, 1.0], 0.0)]]), torch.zeros(2, 2)
    np.testing.assert_array_equal(tree(x.requires_grad_()), [1.0, 1.0])


def test_no_points_give_no_values():
    assert Tree([[Cosine(1.0, [1.0, 1.0], 0.0)]])(np.zeros((0, 2))).shape == (0,)


def test_a_node_that_leaves_the_cube_is_noticed():
    steep = Cosine(2.0, [0.0, 0.0], 0.0)
    tree = Tree([[steep, steep], [steep]])
    refuses(("x", 2.0, "numbers in [-1, 1]"), tree, cube(4))


@pytest.mark.parametrize(
    ("levels", "error", "message"),
    [
        ([], ValueError, ("levels", "[] nodes", "[1]")),
        ([[abs, abs]], ValueError, ("levels", "[2] nodes", "arity 2, [1]")),
        ([[abs], [abs]], ValueError, ("levels", "[1, 1] nodes", "arity 2, [2, 1]")),
        ([[3]], TypeError, ("a node", "not callable", "functions")),
        (None, TypeError, ("levels", None, "list of lists")),
        ([abs], TypeError, ("levels", "[<built-in function abs>]", "list of lists")),
    ],
)
def test_levels_that_make_no_tree_are_refused(levels, error, message):
    refuses(message, Tree, levels, error=error)


def test_what_is_no_tree_is_not_interpolated():
    refuses(
        ("tree", "builtin_function_or_method", "Tree"),
        approximation.interpolate_tree,
        abs,
        3,
        error=TypeError,
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((3, 4)), ("values", (3, 4), "k + 1, k >= 1")),
        (np.zeros(1), ("values", (1,), "k + 1, k >= 1")),
        (np.float64(1.0), ("values", (), "k + 1, k >= 1")),
        (np.array([0.0, np.nan]), ("values", "not all finite", "finite numbers")),
    ],
)
def test_tables_that_are_no_cube_of_finite_numbers_are_refused(values, message):
    refuses(message, Interpolant, values)


def test_a_function_must_give_one_finite_number_a_point():
    refuses(
        ("function", (9, 2), "one number a point, (9,)"),
        interpolate,
        lambda x: x,
        2,
        2,
    )
    refuses(
        ("values", "complex", "real numbers"),
        interpolate,
        lambda x: x[:, 0] * 1j,
        2,
        2,
        error=TypeError,
    )
    refuses(
        ("values", "not all finite", "finite numbers"),
        interpolate,
        lambda x: x[:, 0] * np.nan,
        2,
        3,
    )


def test_a_grid_that_is_too_large_is_refused_before_the_function_is_called(monkeypatch):
    def never(x):
        raise AssertionError

    monkeypatch.setattr(_interpolation, "MOST_VALUES", 100)
    refuses(
        (
            "a grid of 10 cells an axis in 2 variables",
            "11^2 values",
            "fewer, up to 100",
        ),
        interpolate,
        never,
        2,
        10,
    )
    assert interpolate(lambda x: x[:, 0], 2, 9).num_parameters == 100


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("interpolate", (abs, 0, 3), ("arity", 0, "integer of at least 1")),
        ("interpolate", (abs, 2, 0), ("cells", 0, "integer of at least 1")),
        (
            "interpolation_bound",
            ([1.0, -1.0], 3),
            ("curvatures", "[ 1. -1.]", "finite numbers of at least 0"),
        ),
        (
            "interpolation_bound",
            ([np.nan], 3),
            ("curvatures", "[nan]", "finite numbers of at least 0"),
        ),
        ("interpolation_bound", ([], 3), ("curvatures", (0,), "vector")),
        ("propagation_bound", (-1.0, 0.5, 2), ("error", -1.0, "finite, at least 0")),
        (
            "propagation_bound",
            (1.0, np.inf, 2),
            ("factor", "inf", "finite, at least 0"),
        ),
        ("propagation_bound", (1.0, 0.5, 0), ("depth", 0, "integer of at least 1")),
        ("shallow_parameters", (0, 2), ("units", 0, "integer of at least 1")),
        ("tree_parameters", (1, 6), ("inputs", 6, "power of the arity, 2")),
        ("tree_parameters", (1, 1), ("inputs", 1, "integer of at least 2")),
        ("polynomial_units", (-1, 2), ("degree", -1, "integer of at least 0")),
        ("necklaces", (0, 2), ("length", 0, "integer of at least 1")),
        (
            "fit_slope",
            ([1.0], [1.0]),
            ("sizes errors", "(1,) (1,)", "one length of at least 2"),
        ),
        (
            "fit_slope",
            ([1.0, 2.0], [1.0]),
            ("sizes errors", "(2,) (1,)", "one length of at least 2"),
        ),
        (
            "fit_slope",
            ([1.0, 2.0], [1.0, 0.0]),
            ("errors", "[1. 0.]", "finite, above 0"),
        ),
        (
            "fit_slope",
            ([1.0, np.nan], [1.0, 1.0]),
            ("sizes", "[ 1. nan]", "finite, above 0"),
        ),
        (
            "fit_slope",
            ([2.0, 2.0], [1.0, 3.0]),
            ("sizes", "all 2.0", "slope needs two"),
        ),
        ("draw_tree", (RNG(0), 0), ("depth", 0, "integer of at least 1")),
        ("draw_wave", (RNG(0), 0), ("arity", 0, "integer of at least 1")),
    ],
)
def test_numbers_out_of_range_are_named(function, arguments, message):
    refuses(message, getattr(approximation, function), *arguments)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("draw_wave", {"frequency": 0.0}, ("frequency", 0, "number above 0")),
        ("draw_constituent", {"norm": -1.0}, ("norm", -1.0, "finite, above 0")),
        ("draw_constituent", {"order": -1}, ("order", -1, "integer of at least 0")),
    ],
)
def test_draws_with_impossible_sizes_are_refused(function, options, message):
    refuses(message, getattr(approximation, function), RNG(0), **options)


def test_a_cosine_takes_finite_numbers_and_a_vector():
    refuses(("amplitude", "nan", "finite"), Cosine, np.nan, [1.0], 0.0)
    refuses(("phase", "'a'", "number"), Cosine, 1.0, [1.0], "a", error=TypeError)
    refuses(("frequencies", "[[1.0]]", "vector"), Cosine, 1.0, [[1.0]], 0.0)
    refuses(("frequencies", "[]", "vector"), Cosine, 1.0, [], 0.0)
    refuses(("frequencies", "[inf]", "finite numbers"), Cosine, 1.0, [np.inf], 0.0)
