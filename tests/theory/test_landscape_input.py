"""Landscapes: what they refuse, and what they say then."""

import re

import numpy as np
import pytest
import torch
from common import randn
from torch.nn.functional import cross_entropy

import bnlib
from bnlib import landscape

X = np.array([[1.0, 0.0], [-1.0, 0.2]])
Y = np.array([1.0, -1.0])
LAYERS = [np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[1.0, -1.0]])]


def refused(error, message, function, *arguments):
    with pytest.raises(error, match=message):
        function(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("round",), ValueError, "kind is 'round': give one of flat, quartic"),
        (("flat", 0), ValueError, "k is 0"),
        (("flat", 1.5), TypeError, "k is 1.5"),
        (("flat", 1, 0.0), ValueError, "stiffness is 0"),
        (("flat", 1, 1.0, -1.0), ValueError, "barrier is -1"),
        (("flat", 1, 4.0, 0.4, 0.5), ValueError, "lift is 0.5"),
        (("flat", 1, 4.0, 0.4, np.nan), ValueError, "lift is nan"),
    ],
    ids=str,
)
def test_wells_out_of_range(arguments, error, message):
    refused(error, message, landscape.Wells, *arguments)


@pytest.mark.parametrize("temperature", [0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("method", ["log_masses", "log_ratio", "occupancy"])
def test_a_temperature_that_is_not_above_zero(method, temperature):
    function = getattr(landscape.Wells("flat"), method)
    refused(ValueError, f"temperature is {temperature}", function, temperature)


def test_points_of_another_dimension():
    message = r"points has shape \(3, 3\): the last axis takes 2"
    refused(ValueError, message, landscape.Wells("flat").value, np.zeros((3, 3)))


def test_the_network_of_these_tests_separates():
    assert landscape.radial_slope(LAYERS, X, Y) < 0


@pytest.mark.parametrize(
    ("layers", "inputs", "labels", "error", "message"),
    [
        (LAYERS, X, -Y, ValueError, "2 of 2 margins are not above 0"),
        (LAYERS, -X, Y, ValueError, "does not separate the data: 2 of 2"),
        (LAYERS, X, np.ones(2), ValueError, "all labels are 1: give examples of both"),
        ([0 * LAYERS[0], LAYERS[1]], X, Y, ValueError, "layer 1 is zero"),
        ([LAYERS[0], 0 * LAYERS[1]], X, Y, ValueError, "layer 2 is zero"),
        ([1e200 * w for w in LAYERS], 1e200 * X, -Y, ValueError, "not above 0"),
        (LAYERS, X, np.array([0.0, 1.0]), ValueError, "labels other than 1 and -1"),
        (LAYERS, X, np.array([1, -1]), TypeError, "y has dtype int64"),
        (LAYERS, X, Y[:1], ValueError, r"y has shape \(1,\) for 2 rows"),
        (LAYERS, X[:0], Y[:0], ValueError, r"X has shape \(0, 2\)"),
        (LAYERS, np.nan * X, Y, ValueError, "X has a number that is not finite"),
        ([np.nan * LAYERS[0], LAYERS[1]], X, Y, ValueError, "layer 1 has a weight"),
        ([LAYERS[0][:1], LAYERS[1]], X, Y, ValueError, "layer 2 takes 2 inputs"),
        ([LAYERS[0][:, :1], LAYERS[1]], X, Y, ValueError, "X has 2 features"),
        (LAYERS[:1], X, Y, ValueError, "the last layer has 2 rows"),
        ([], X, Y, TypeError, "weights is list: give a list of layers"),
        (LAYERS[1], X, Y, TypeError, "weights is ndarray"),
        (None, X, Y, TypeError, "weights is NoneType"),
        ([torch.eye(2), LAYERS[1]], X, Y, TypeError, "from one library"),
    ],
)
def test_a_slope_is_refused(layers, inputs, labels, error, message):
    refused(error, message, landscape.radial_slope, layers, inputs, labels)


@pytest.mark.parametrize(
    ("inputs", "labels", "error", "message"),
    [
        (np.array([[1.0], [2.0]]), Y, ValueError, "no direction separates the 2"),
        (0 * X, Y, ValueError, "no direction separates"),
        (X, np.ones(2), ValueError, "all labels are 1"),
        (X, -np.ones(2), ValueError, "all labels are -1"),
        (torch.from_numpy(X), Y, TypeError, "X is a Tensor: give a NumPy array"),
        (X.tolist(), Y, TypeError, "X is a list"),
        (X + np.inf, Y, ValueError, "X has a number that is not finite"),
    ],
)
def test_data_that_nothing_separates(inputs, labels, error, message):
    refused(error, message, landscape.separating_direction, inputs, labels)


def test_a_linear_hessian_takes_a_vector():
    message = r"w has shape \(1, 2\): give \(d,\)"
    refused(ValueError, message, landscape.exponential_hessian, X[:1], X, Y)


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        (LAYERS[:1], ValueError, "give two or more, with hidden units"),
        ([0 * LAYERS[0], LAYERS[1]], ValueError, "unit 1 of hidden layer 1 has no"),
        ([torch.eye(2), torch.eye(2)], TypeError, "layer 1 is a Tensor"),
        (None, TypeError, "weights is NoneType"),
        ([np.eye(3), LAYERS[1]], ValueError, "layer 2 takes 2 inputs"),
    ],
)
def test_layers_without_directions(layers, error, message):
    refused(error, message, landscape.rescaling_directions, layers)


def network(batch_norm):
    generator = torch.Generator().manual_seed(0)
    return bnlib.networks.mlp((2, 3, 2), batch_norm=batch_norm, generator=generator)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"network": 3}, TypeError, "network is 3"),
        ({"network": network(True)}, ValueError, "layer '1' normalises by its batch"),
        (
            {"network": network(False).requires_grad_(False)},
            ValueError,
            "no parameter of the network requires a gradient",
        ),
        ({"x": X}, TypeError, "x is a ndarray: give a Tensor"),
        ({"y": torch.tensor([0])}, ValueError, "x has 4 rows and y 1"),
        ({"x": torch.zeros(0, 2), "y": torch.zeros(0)}, ValueError, "0 rows and y 0"),
    ],
    ids=["no module", "batch norm", "frozen", "array", "lengths", "empty"],
)
def test_examples_without_gradients(changed, error, message):
    given = {"network": network(False), "x": randn(4, 2, dtype=torch.float32)}
    given |= {"y": torch.tensor([0, 1, 1, 0])} | changed
    with pytest.raises(error, match=message):
        landscape.example_gradients(
            given["network"], cross_entropy, given["x"], given["y"]
        )


@pytest.mark.parametrize(
    ("covariance", "error", "message"),
    [
        (np.ones(3), ValueError, r"shape \(3,\): give a square matrix"),
        (np.ones((2, 3)), ValueError, r"shape \(2, 3\)"),
        (np.zeros((2, 2)), ValueError, "trace that is not finite and above 0"),
        (np.nan * np.eye(2), ValueError, "trace that is not finite"),
        (torch.eye(2), TypeError, "covariance is a Tensor"),
    ],
)
def test_a_covariance_that_is_none(covariance, error, message):
    refused(error, message, landscape.participation, covariance)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([b"1"], ["a"], (1, 1), "x"), "1 frames and 1 captions"),
        (([b"1", b"2"], ["a"], (1, 1), "x"), "2 frames and 1 captions"),
        (([b"1", b"2"], ["a", "b"], (0, 1), "x"), "a length of size is 0"),
        (([b"1", b"2"], ["a", "b"], (1, 1), " "), "alt is empty"),
        (([b"1", b"2"], ["a", "b"], (1, 1), "x", 0), "seconds is 0"),
    ],
)
def test_a_film_without_frames_captions_or_words(arguments, message):
    refused(ValueError, re.escape(message), landscape.Player, *arguments)
