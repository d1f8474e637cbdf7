"""Bias-free ReLU networks under the exponential loss."""

from collections.abc import Sequence
from itertools import pairwise

import array_api_compat as compat
import numpy as np

from bnlib import _arrays, _checks, _relu_networks
from bnlib._arrays import Array
from bnlib.implicit_bias import max_l1_margin, signed_rows


def margins(weights: Sequence[Array], X: Array, y: Array) -> Array:
    r"""Return the margins y_n f(x_n) of a bias-free ReLU network.

    With :math:`f(x)=W_K\,\mathrm{relu}(W_{K-1}\cdots\mathrm{relu}(W_1x))`, whose last
    layer is linear, a positive margin is a right answer.

    Parameters
    ----------
    weights : sequence of arrays
        Layer by layer, shapes (units, inputs); the last has one row.
    X : array, shape (N, d)
    y : array, shape (N,)
        Labels, 1.0 or -1.0.

    Returns
    -------
    array, shape (N,)

    Raises
    ------
    TypeError, ValueError
        If the arrays are not of one floating library, the shapes do not fit, a number
        is not finite, or a label is neither 1 nor -1.

    Examples
    --------
    >>> first, last = np.eye(2), np.array([[1.0, -1.0]])
    >>> margins([first, last], np.array([[3.0, 1.0]]), np.array([-1.0])).tolist()
    [-2.0]

    References
    ----------
    Chapter 14, "No minimum".
    """
    _check_library(weights, X=X, y=y)
    _check_data(X, y)
    _relu_networks.check_network(weights, X)
    outputs, _ = _relu_networks.forward(weights, X)
    return y * outputs


def exponential_loss(weights: Sequence[Array], X: Array, y: Array) -> Array:
    """Return the sum over the examples of exp(-margin), as an array of one number.

    Parameters
    ----------
    weights : sequence of arrays
        As in `margins`; torch tensors may require a gradient.
    X, y : arrays
        As in `margins`.

    Returns
    -------
    array, shape ()

    Raises
    ------
    TypeError, ValueError
        As in `margins`.

    Examples
    --------
    >>> float(exponential_loss([np.zeros((1, 2))], np.ones((3, 2)), np.ones(3)))
    3.0

    References
    ----------
    Poggio, Banburski and Liao 2019; chapter 14, "No minimum".
    """
    found = margins(weights, X, y)
    with _arrays.silently():  # a margin below -709 gives inf
        return compat.array_namespace(found).exp(-found).sum()


def radial_slope(weights: Sequence[Array], X: Array, y: Array) -> float:
    r"""Return the slope of the exponential loss along each of its layers.

    That is :math:`\langle W_k,\partial L/\partial W_k\rangle
    =-\sum_nm_ne^{-m_n}` with the margins m, the same for every layer. This function
    takes networks that separate the data: for them the slope is below 0, so their
    weights are not critical.

    Parameters
    ----------
    weights, X, y
        As in `margins`.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        As in `margins`; and if all labels are equal, a layer is zero, or the network
        does not separate the data.

    Examples
    --------
    >>> X, y = np.array([[1.0], [-2.0]]), np.array([1.0, -1.0])
    >>> round(radial_slope([np.array([[1.0]])], X, y), 4)
    -0.6386

    References
    ----------
    Poggio, Banburski and Liao 2019; chapter 14, claim p-nosep-crit.
    """
    found = margins(weights, X, y)
    _check_two_classes(y)
    _relu_networks.check_nonzero(weights)
    # NaN compares as False, so it counts as a wrong answer.
    wrong = len(found) - int((found > 0).sum())
    if wrong:
        raise ValueError(
            f"the network does not separate the data: {wrong} of {len(found)} margins "
            f"are not above 0, the smallest is {float(found.min()):.3g}"
        )
    found = _arrays.upcast(found)
    xp = compat.array_namespace(found)
    return float(-(found * xp.exp(-found)).sum())


def exponential_hessian(w: Array, X: Array, y: Array) -> Array:
    r"""Return the Hessian of the exponential loss of a linear classifier.

    It is :math:`\sum_ne^{-y_nw^\top x_n}x_nx_n^\top`, a weighted sum over the examples.

    Parameters
    ----------
    w : array, shape (d,)
    X : array, shape (N, d)
    y : array, shape (N,)
        Labels, 1.0 or -1.0.

    Returns
    -------
    array, shape (d, d)

    Raises
    ------
    TypeError, ValueError
        As in `margins`.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, -2.0]]), np.array([1.0, -1.0])
    >>> exponential_hessian(np.zeros(2), X, y).tolist()
    [[1.0, 0.0], [0.0, 4.0]]

    References
    ----------
    Chapter 14, claim p-hess-linear.
    """
    _arrays.check_arrays(w=w, X=X)
    if w.ndim != 1:
        raise ValueError(f"w has shape {tuple(w.shape)}: give (d,)")
    found = margins([w[None, :]], X, y)
    with _arrays.silently():
        weight = compat.array_namespace(found).exp(-found)
    return X.T @ (weight[:, None] * X)


def separating_direction(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a direction that separates the data through the origin.

    It has the largest smallest margin of all weights with the same sum of absolute
    values: see `bnlib.implicit_bias.max_l1_margin`.

    Parameters
    ----------
    X : NumPy array, shape (N, d)
    y : NumPy array, shape (N,)
        Labels, 1.0 or -1.0.

    Returns
    -------
    array, shape (d,)
        Of length 1.

    Raises
    ------
    TypeError, ValueError
        As in `margins`; and if all labels are equal, or no direction separates the
        data by more than rounding.

    Examples
    --------
    >>> X, y = np.array([[2.0, 1.0], [-1.0, 0.0]]), np.array([1.0, -1.0])
    >>> separating_direction(X, y).tolist()
    [1.0, 0.0]

    References
    ----------
    Boyd and Vandenberghe 2004, section 8.6; chapter 14, "No minimum".
    """
    _checks.check_numpy(X=X, y=y)
    _check_data(X, y)
    _check_two_classes(y)
    try:
        w = max_l1_margin(signed_rows(X, y)).direction
    except ValueError:
        raise ValueError(
            f"no direction separates the {len(y)} examples through the origin, as far "
            "as a linear program can tell"
        ) from None
    return w / np.linalg.norm(w)


def rescaling_directions(weights: Sequence[np.ndarray]) -> np.ndarray:
    """Return, for every hidden unit, the direction that rescales it.

    Multiplying a unit's incoming weights by s and dividing its outgoing weights by s
    does not change the function of a bias-free ReLU network, for any s > 0. The
    derivative at s = 1 is one row; the rows are linearly independent.

    Parameters
    ----------
    weights : sequence of NumPy arrays
        Layer by layer, shapes (units, inputs).

    Returns
    -------
    array, shape (hidden units, parameters)
        The parameters in order: layer after layer, and row by row within a layer.

    Raises
    ------
    TypeError, ValueError
        If a layer is no floating NumPy array of finite numbers, the shapes do not
        fit, there is no hidden layer, or all incoming weights of a hidden unit are
        zero.

    Examples
    --------
    >>> rescaling_directions([np.array([[2.0]]), np.array([[3.0]])]).tolist()
    [[2.0, -3.0]]

    References
    ----------
    Chapter 14, claim land-rescaling.
    """
    _check_library(weights)
    _checks.check_numpy(**_named(weights))
    _relu_networks.check_layers(weights)
    if len(weights) < 2:
        raise ValueError("there is one layer: give two or more, with hidden units")
    rows = []
    for number, (into, out) in enumerate(pairwise(weights)):
        for unit in range(len(into)):
            if not np.any(into[unit]):
                raise ValueError(
                    f"unit {unit + 1} of hidden layer {number + 1} has no incoming "
                    "weight: rescaling may move nothing"
                )
            moved = [np.zeros_like(layer, dtype=np.float64) for layer in weights]
            moved[number][unit] = into[unit]
            moved[number + 1][:, unit] = -out[:, unit]
            rows.append(np.concatenate([layer.ravel() for layer in moved]))
    return np.array(rows)


def _check_library(weights, **others):
    """Raise unless the layers and the others are floating arrays of one library."""
    if not isinstance(weights, list | tuple) or not weights:
        raise TypeError(f"weights is {type(weights).__name__}: give a list of layers")
    _arrays.check_arrays(**_named(weights), **others)


def _named(weights):
    return {f"weights[{k}]": layer for k, layer in enumerate(weights)}


def _check_data(X, y):
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X has shape {tuple(X.shape)}: give (N, d)")
    if tuple(y.shape) != (len(X),):
        raise ValueError(f"y has shape {tuple(y.shape)} for {len(X)} rows of X")
    _checks.check_finite("X", X)
    if not bool(((y == 1) | (y == -1)).all()):
        raise ValueError("y has labels other than 1 and -1")


def _check_two_classes(y):
    if bool((y == y[0]).all()):
        raise ValueError(
            f"all labels are {float(y[0]):g}: give examples of both classes"
        )
