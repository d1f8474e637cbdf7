"""ReLU networks without biases: consequences of homogeneity, and their flows."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import DOP853

from bnlib import _checks, _relu_networks
from bnlib.implicit_bias import _arguments, _norms
from bnlib.implicit_bias._coordinates import COORDINATES
from bnlib.implicit_bias._integrate import MOST_EVALUATIONS, follow_descent
from bnlib.implicit_bias._margins import log_sum


@dataclass(frozen=True, eq=False)
class NetworkFlow:
    """The weights of a network's flow at those of ``log_times`` that it reached.

    Attributes
    ----------
    log_times : array, shape (T,)
    weights : list of arrays, shapes (T, out, in)
        Layer by layer.
    log_losses : array, shape (T,)
    drift : float
        The largest change of a quantity that is constant exactly: log L minus the
        integral of its derivative; the differences of the layers' squared norms; and,
        with weight normalization, the norms of the V_k.
    stop_reason : str
        "reached", or where and why the integration gave up.

    References
    ----------
    Chapter 11, "Margins".
    """

    log_times: np.ndarray
    weights: list[np.ndarray]
    log_losses: np.ndarray
    drift: float
    stop_reason: str

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of the layers, shape (T, K)."""
        norms = [np.linalg.norm(layers, axis=(1, 2)) for layers in self.weights]
        return np.stack(norms, axis=-1)


def gaussian_weights(
    widths: Sequence[int], seed: int | np.random.Generator
) -> list[np.ndarray]:
    """Return random layers with entries of variance 2 / (number of inputs).

    Parameters
    ----------
    widths : sequence of int
        The widths of the input, the hidden layers and the output: one more than the
        number of layers.
    seed : int or numpy.random.Generator

    Returns
    -------
    list of arrays, shapes (widths[k + 1], widths[k])

    Raises
    ------
    TypeError, ValueError
        If there are fewer than two widths, or one is no integer of at least 1.

    Examples
    --------
    >>> [W.shape for W in gaussian_weights((4, 8, 1), seed=0)]
    [(8, 4), (1, 8)]

    References
    ----------
    Chapter 11, "Margins".
    """
    widths = list(widths)
    if len(widths) < 2:
        raise ValueError(f"widths is {widths}: give at least those of input and output")
    for width in widths:
        _checks.check_integer("a width", width, 1)
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal((fan_out, fan_in)) * np.sqrt(2 / fan_in)
        for fan_in, fan_out in itertools.pairwise(widths)
    ]


def relu_net(weights: Sequence[ArrayLike], X: ArrayLike) -> np.ndarray:
    """Return ``W_K relu(... relu(W_1 x))`` for each row x.

    Parameters
    ----------
    weights : list of arrays, shapes (out, in)
        Each takes the output of the one before it; the last has one row.
    X : array, shape (n, d)

    Returns
    -------
    array, shape (n,)

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit or a value is not finite.

    Examples
    --------
    >>> relu_net([[[1.0], [-1.0]], [[1.0, -1.0]]], [[2.0], [-3.0]]).tolist()
    [2.0, -3.0]

    References
    ----------
    Chapter 11, "Margins".
    """
    weights, X = _network(weights, X)
    return _relu_networks.forward(weights, X)[0]


def relu_net_gradients(
    weights: Sequence[ArrayLike], X: ArrayLike, upstream: ArrayLike
) -> list[np.ndarray]:
    """Return the sums over n of ``upstream_n`` times the gradient of ``f(x_n)``.

    Parameters
    ----------
    weights, X
        As for `relu_net`.
    upstream : array, shape (n,)

    Returns
    -------
    list of arrays, the shapes of the weights
        At a kink, where a unit's input is 0, its slope counts as 0.

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit or a value is not finite.

    Examples
    --------
    >>> relu_net_gradients([[[1.0, 1.0]], [[3.0]]], [[1.0, 2.0]], [1.0])
    [array([[3., 6.]]), array([[3.]])]

    References
    ----------
    Chapter 11, "Margins".
    """
    weights, X = _network(weights, X)
    upstream = _checks.finite_array("upstream", upstream, 1)
    if len(upstream) != len(X):
        raise ValueError(f"upstream has {len(upstream)} entries for {len(X)} rows of X")
    _, inputs = _relu_networks.forward(weights, X)
    return _relu_networks.gradients(weights, inputs, upstream)


def euler_sums(weights: Sequence[ArrayLike], X: ArrayLike) -> np.ndarray:
    """Return, for each layer, the sum of each weight times the derivative of f by it.

    Parameters
    ----------
    weights, X
        As for `relu_net`.

    Returns
    -------
    array, shape (K, n)
        Every row is ``relu_net(weights, X)``: f is homogeneous in each layer.

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit or a value is not finite.

    Examples
    --------
    >>> euler_sums([[[1.0, 1.0]], [[3.0]]], [[1.0, 2.0]]).tolist()
    [[9.0], [9.0]]

    References
    ----------
    Chapter 11, "Margins".
    """
    weights, X = _network(weights, X)
    _, inputs = _relu_networks.forward(weights, X)
    signals = _relu_networks.backward(weights, inputs, np.ones(len(X)))
    return np.array(
        [
            np.einsum("ij,ni,nj->n", *parts)
            for parts in zip(weights, signals, inputs, strict=True)
        ]
    )


def layer_lengths(weights: Sequence[ArrayLike], p: float = 2) -> np.ndarray:
    """Return the entrywise p-norm of each layer.

    Parameters
    ----------
    weights : list of arrays
    p : float, at least 1

    Returns
    -------
    array, shape (K,)

    Raises
    ------
    TypeError, ValueError
        If there is no layer, a value is not finite, or p is below 1.

    Examples
    --------
    >>> layer_lengths([[[3.0, 4.0]], [[-2.0]]]).tolist()
    [5.0, 2.0]

    References
    ----------
    Chapter 11, "Margins".
    """
    _arguments.exponent(p)
    layers = _layers(weights)
    return np.array([_norms.lengths(layer.ravel(), p) for layer in layers])


def layer_directions(weights: Sequence[ArrayLike], p: float = 2) -> list[np.ndarray]:
    """Return each layer divided by its entrywise p-norm.

    Parameters
    ----------
    weights : list of arrays
    p : float, at least 1

    Returns
    -------
    list of arrays, the shapes of the weights

    Raises
    ------
    TypeError, ValueError
        As `layer_lengths`; also if a layer is zero.

    Examples
    --------
    >>> layer_directions([[[3.0, 4.0]], [[-2.0]]])
    [array([[0.6, 0.8]]), array([[-1.]])]

    References
    ----------
    Chapter 11, "Margins".
    """
    _arguments.exponent(p)
    layers = _layers(weights)
    _relu_networks.check_nonzero(layers)
    return [_norms.directions(W.ravel(), p).reshape(W.shape) for W in layers]


def network_flow(
    weights: Sequence[ArrayLike],
    X: ArrayLike,
    y: ArrayLike,
    log_times: ArrayLike,
    method: str = "gd",
    *,
    max_evaluations: int = MOST_EVALUATIONS,
) -> NetworkFlow:
    """Follow the flow of a network's ``sum(exp(-y f(x)))`` to ``exp(log_times)``.

    Parameters
    ----------
    weights : list of arrays
        The layers at time 0, as for `relu_net`; none zero.
    X : array, shape (n, d)
    y : array, shape (n,)
        Labels -1 and 1, both present.
    log_times : array, shape (T,)
        Increasing logarithms of times.
    method : str
        "gd" is the gradient flow of the layers; "wn" is that of ``rho_k`` and ``V_k``,
        with layers ``rho_k V_k / |V_k|`` and V_k of norm 1 at the start.
    max_evaluations : int
        The number of evaluations of the gradient after which the integration gives up.
        This happens if the network never separates the data, because the loss then does
        not fall; and if a ReLU's kink attracts the flow from both sides, because the
        flow then slides along the kink and has no gradient to follow.

    Returns
    -------
    NetworkFlow

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit, a value is not finite, a layer is zero, the labels are
        not of both signs, the method is unknown, or the times do not increase.

    Examples
    --------
    >>> X, y = [[1.0, 0.5], [-1.0, 0.5]], [1, -1]
    >>> flow = network_flow(gaussian_weights((2, 3, 1), 2), X, y, [0.0, 60.0])
    >>> flow.stop_reason, flow.lengths.shape, flow.drift < 1e-8
    ('reached', (2, 2), True)

    References
    ----------
    Poggio, Banburski and Liao 2019; chapter 11, "Margins".
    """
    X, y = _arguments.examples(X, y)
    weights, X = _network(weights, X)
    _relu_networks.check_nonzero(weights)
    log_times = _arguments.increasing("log_times", log_times)
    _arguments.method(method)
    _checks.check_integer("max_evaluations", max_evaluations, 1)

    def log_loss(layers):
        outputs, inputs = _relu_networks.forward(layers, X)
        value, shares = log_sum(y * outputs)
        return value, _relu_networks.gradients(layers, inputs, shares * y)

    coordinates = COORDINATES[method](weights)
    path, drift = follow_descent(
        log_loss, coordinates, log_times, max_evaluations, solver=DOP853
    )
    states = [coordinates.layers(state) for state in path.states]
    layers = [
        np.reshape([layers[k] for layers in states], (-1, *W.shape))
        for k, W in enumerate(weights)
    ]
    return NetworkFlow(path.log_times, layers, path.log_losses, drift, path.reason)


def _layers(weights):
    """Return the layers as arrays; raise unless each has two axes."""
    layers = [
        _checks.finite_array(f"weights[{k}]", layer, 2)
        for k, layer in enumerate(weights)
    ]
    if not layers:
        raise ValueError("weights is empty: give at least one layer")
    return layers


def _network(weights, X):
    """Return layers and examples as arrays; raise unless they fit each other."""
    layers, X = _layers(weights), _checks.finite_array("X", X, 2)
    _relu_networks.check_network(layers, X)
    return layers, X
