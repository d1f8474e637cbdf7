"""Landscapes: what they refuse, and what the refusal names."""

import numpy as np
import pytest
import torch
from common import randn
from refusals import refused
from torch.nn.functional import cross_entropy

import bnlib
from bnlib import landscape

X = np.array([[1.0, 0.0], [-1.0, 0.2]])
Y = np.array([1.0, -1.0])
LAYERS = [np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[1.0, -1.0]])]


def refuses(error, message, function, *arguments):
    with refused(error, *message):
        function(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("round",), ValueError, ("kind", "'round'", "one of flat, quartic")),
        (("flat", 0), ValueError, ("k", 0, "integer of at least 1")),
        (("flat", 1.5), TypeError, ("k", 1.5, "integer")),
        (("flat", 1, 0.0), ValueError, ("stiffness", 0, "number above 0")),
        (("flat", 1, 1.0, -1.0), ValueError, ("barrier", -1.0, "finite, above 0")),
        (
            ("flat", 1, 4.0, 0.4, 0.5),
            ValueError,
            ("lift", 0.5, "finite number in [0, 0.4]"),
        ),
        (
            ("flat", 1, 4.0, 0.4, np.nan),
            ValueError,
            ("lift", "nan", "finite number in [0, 0.4]"),
        ),
    ],
    ids=str,
)
def test_wells_out_of_range(arguments, error, message):
    refuses(error, message, landscape.Wells, *arguments)


@pytest.mark.parametrize("temperature", [0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("method", ["log_masses", "log_ratio", "occupancy"])
def test_a_temperature_that_is_not_above_zero(method, temperature):
    function = getattr(landscape.Wells("flat"), method)
    refuses(
        ValueError,
        ("temperature", temperature, "finite, above 0"),
        function,
        temperature,
    )


def test_points_of_another_dimension():
    message = ("points", (3, 3), "last axis 2")
    refuses(ValueError, message, landscape.Wells("flat").value, np.zeros((3, 3)))


def test_the_network_of_these_tests_separates():
    assert landscape.radial_slope(LAYERS, X, Y) < 0


@pytest.mark.parametrize(
    ("layers", "inputs", "labels", "error", "message"),
    [
        (LAYERS, X, -Y, ValueError, ("network", "2 of 2 margins not above 0, -1")),
        (LAYERS, -X, Y, ValueError, ("network", "2 of 2 margins not above 0, -1")),
        (
            LAYERS,
            X,
            np.ones(2),
            ValueError,
            ("all labels", 1, "examples of both classes"),
        ),
        ([0 * LAYERS[0], LAYERS[1]], X, Y, ValueError, ("weights[0]", "zero")),
        ([LAYERS[0], 0 * LAYERS[1]], X, Y, ValueError, ("weights[1]", "zero")),
        (
            [1e200 * w for w in LAYERS],
            1e200 * X,
            -Y,
            ValueError,
            ("network", "2 of 2 margins not above 0, -inf"),
        ),
        (
            LAYERS,
            X,
            np.array([0.0, 1.0]),
            ValueError,
            ("y", "labels other than 1 and -1"),
        ),
        (
            LAYERS,
            X,
            np.array([1, -1]),
            TypeError,
            ("y", "int64", "real floating dtype"),
        ),
        (LAYERS, X, Y[:1], ValueError, ("y X", "(1,), 2 rows")),
        (LAYERS, X[:0], Y[:0], ValueError, ("X", (0, 2), "(N, d)")),
        (LAYERS, np.nan * X, Y, ValueError, ("X", "not finite")),
        (
            [np.nan * LAYERS[0], LAYERS[1]],
            X,
            Y,
            ValueError,
            ("weights[0]", "not finite"),
        ),
        (
            [LAYERS[0][:1], LAYERS[1]],
            X,
            Y,
            ValueError,
            ("weights[1]", "(1, 2) and gets 1 numbers", "(out, 1)"),
        ),
        (
            [LAYERS[0][:, :1], LAYERS[1]],
            X,
            Y,
            ValueError,
            ("weights[0]", "(2, 1) and gets 2 numbers", "(out, 2)"),
        ),
        (LAYERS[:1], X, Y, ValueError, ("last layer", "2 rows", "one")),
        ([], X, Y, TypeError, ("weights", "list", "list of layers")),
        (LAYERS[1], X, Y, TypeError, ("weights", "ndarray", "list of layers")),
        (None, X, Y, TypeError, ("weights", "NoneType", "list of layers")),
        ([torch.eye(2), LAYERS[1]], X, Y, TypeError, ("weights[0]", "", "one library")),
    ],
)
def test_a_slope_is_refused(layers, inputs, labels, error, message):
    refuses(error, message, landscape.radial_slope, layers, inputs, labels)


@pytest.mark.parametrize(
    ("inputs", "labels", "error", "message"),
    [
        (np.array([[1.0], [2.0]]), Y, ValueError, ("direction", "no", "2")),
        (0 * X, Y, ValueError, ("direction", "no", "2")),
        (X, np.ones(2), ValueError, ("all labels", 1, "examples of both classes")),
        (X, -np.ones(2), ValueError, ("all labels", -1, "examples of both classes")),
        (torch.from_numpy(X), Y, TypeError, ("X", "Tensor", "NumPy array")),
        (X.tolist(), Y, TypeError, ("X", "list", "NumPy array")),
        (X + np.inf, Y, ValueError, ("X", "not finite")),
    ],
)
def test_data_that_nothing_separates(inputs, labels, error, message):
    refuses(error, message, landscape.separating_direction, inputs, labels)


def test_a_linear_hessian_takes_a_vector():
    message = ("w", (1, 2), "(d,)")
    refuses(ValueError, message, landscape.exponential_hessian, X[:1], X, Y)


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        (
            LAYERS[:1],
            ValueError,
            ("there", "one layer", "two or more, with hidden units"),
        ),
        (
            [0 * LAYERS[0], LAYERS[1]],
            ValueError,
            ("unit 1 of hidden layer 1", "no incoming weight"),
        ),
        (
            [torch.eye(2), torch.eye(2)],
            TypeError,
            ("weights[0]", "Tensor", "NumPy array"),
        ),
        (None, TypeError, ("weights", "NoneType", "list of layers")),
        (
            [np.eye(3), LAYERS[1]],
            ValueError,
            ("weights[1]", "(1, 2) and gets 3 numbers", "(out, 3)"),
        ),
    ],
)
def test_layers_without_directions(layers, error, message):
    refuses(error, message, landscape.rescaling_directions, layers)


def network(batch_norm):
    generator = torch.Generator().manual_seed(0)
    return bnlib.networks.mlp((2, 3, 2), batch_norm=batch_norm, generator=generator)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"network": 3}, TypeError, ("network", "int", "torch.nn.Module")),
        (
            {"network": network(True)},
            ValueError,
            ("layer '1'", "batch", "eval mode"),
        ),
        (
            {"network": network(False).requires_grad_(False)},
            ValueError,
            ("network", "no parameter requires gradient"),
        ),
        ({"x": X}, TypeError, ("x", "ndarray", "Tensor")),
        (
            {"y": torch.tensor([0])},
            ValueError,
            ("x y", "4 1", "as many, not 0"),
        ),
        (
            {"x": torch.zeros(0, 2), "y": torch.zeros(0)},
            ValueError,
            ("x y", "0 0", "as many, not 0"),
        ),
    ],
    ids=["no module", "batch norm", "frozen", "array", "lengths", "empty"],
)
def test_examples_without_gradients(changed, error, message):
    given = {"network": network(False), "x": randn(4, 2, dtype=torch.float32)}
    given |= {"y": torch.tensor([0, 1, 1, 0])} | changed
    with refused(error, *message):
        landscape.example_gradients(
            given["network"], cross_entropy, given["x"], given["y"]
        )


@pytest.mark.parametrize(
    ("covariance", "error", "message"),
    [
        (np.ones(3), ValueError, ("covariance", (3,), "square matrix")),
        (np.ones((2, 3)), ValueError, ("covariance", (2, 3), "square matrix")),
        (
            np.zeros((2, 2)),
            ValueError,
            ("covariance", "trace", "finite, above 0"),
        ),
        (
            np.nan * np.eye(2),
            ValueError,
            ("covariance", "trace", "finite, above 0"),
        ),
        (torch.eye(2), TypeError, ("covariance", "Tensor", "NumPy array")),
    ],
)
def test_a_covariance_that_is_none(covariance, error, message):
    refuses(error, message, landscape.participation, covariance)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([b"1"], ["a"], (1, 1), "x"), ("1 frames, 1 captions", "", "two or more")),
        (([b"1", b"2"], ["a"], (1, 1), "x"), ("2 frames, 1 captions", "", "as many")),
        (
            ([b"1", b"2"], ["a", "b"], (0, 1), "x"),
            ("size", "length 0", "integer of at least 1"),
        ),
        (([b"1", b"2"], ["a", "b"], (1, 1), " "), ("alt", "empty")),
        (([b"1", b"2"], ["a", "b"], (1, 1), "x", 0), ("seconds", 0, "above 0")),
    ],
)
def test_a_film_without_frames_captions_or_words(arguments, message):
    refuses(ValueError, message, landscape.Player, *arguments)
