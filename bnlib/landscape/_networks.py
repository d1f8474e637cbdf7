"""Bias-free ReLU networks under the exponential loss."""

from itertools import pairwise

import array_api_compat as compat
import numpy as np

from bnlib import _arrays
from bnlib.implicit_bias import max_l1_margin
from bnlib.landscape._checks import numpy_array


def margins(weights, X, y):
    r"""Return y_n f(x_n) of a bias-free ReLU network with a linear last layer.

    :math:`f(x)=W_K\,\mathrm{relu}(W_{K-1}\cdots\mathrm{relu}(W_1x))`: a positive
    margin is a right answer.

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
    Chapter 13, "No minimum".
    """
    xp = _check_network(weights, X, y)
    hidden = X
    with _arrays.silently():
        for layer in weights[:-1]:
            hidden = hidden @ layer.T
            hidden = xp.where(hidden > 0, hidden, xp.zeros_like(hidden))
        return y * (hidden @ weights[-1].T)[:, 0]


def exponential_loss(weights, X, y):
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
    Poggio, Banburski and Liao 2020; chapter 13, "No minimum".
    """
    found = margins(weights, X, y)
    with _arrays.silently():  # a margin below -709 gives inf
        return compat.array_namespace(found).exp(-found).sum()


def radial_slope(weights, X, y):
    r"""Return the slope of the exponential loss along each of its layers.

    That is :math:`\langle W_k,\partial L/\partial W_k\rangle
    =-\sum_nm_ne^{-m_n}` with the margins m, the same for every layer. It is below 0
    where the network separates the data, which is what this function takes: such
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
    Poggio, Banburski and Liao 2020; chapter 13, claim p-nosep-crit.
    """
    found = margins(weights, X, y)
    _check_two_classes(y)
    for number, layer in enumerate(weights, 1):
        if not bool((layer != 0).any()):
            raise ValueError(
                f"layer {number} is zero: then f is zero, and separates nothing"
            )
    # NaN compares as False, and separates nothing.
    wrong = len(found) - int((found > 0).sum())
    if wrong:
        raise ValueError(
            f"the network does not separate the data: {wrong} of {len(found)} margins "
            f"are not above 0, the smallest is {float(found.min()):.3g}"
        )
    found = _arrays.upcast(found)
    xp = compat.array_namespace(found)
    return float(-(found * xp.exp(-found)).sum())


def exponential_hessian(w, X, y):
    r"""Return the Hessian of the exponential loss of a linear classifier.

    It is :math:`\sum_ne^{-y_nw^\top x_n}x_nx_n^\top`: each example has its own weight.

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
    Chapter 13, claim p-hess-linear.
    """
    _arrays.check_arrays(w=w, X=X)
    if w.ndim != 1:
        raise ValueError(f"w has shape {tuple(w.shape)}: give (d,)")
    found = margins([w[None, :]], X, y)
    with _arrays.silently():
        weight = compat.array_namespace(found).exp(-found)
    return X.T @ (weight[:, None] * X)


def separating_direction(X, y):
    """Return a direction that separates the data through the origin.

    Of all weights whose absolute values have one sum, those with the largest least
    margin: see `bnlib.implicit_bias.max_l1_margin`.

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
    Boyd and Vandenberghe 2004, section 8.6; chapter 13, "No minimum".
    """
    _check_data(numpy_array("X", X), numpy_array("y", y))
    _check_two_classes(y)
    try:
        w = max_l1_margin(y[:, None] * X).direction
    except ValueError:
        raise ValueError(
            f"no direction separates the {len(y)} examples through the origin, as far "
            "as a linear program can tell"
        ) from None
    return w / np.linalg.norm(w)


def rescaling_directions(weights):
    """Return, for every hidden unit, the direction that rescales it.

    A unit's incoming weights times s and its outgoing ones over s leave a bias-free
    ReLU network's function as it is, for every s > 0. The derivative at s = 1 is one
    row; the rows are linearly independent.

    Parameters
    ----------
    weights : sequence of NumPy arrays
        Layer by layer, shapes (units, inputs).

    Returns
    -------
    array, shape (hidden units, parameters)
        The parameters layer after layer, each row by row.

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
    Chapter 13, claim land-rescaling.
    """
    for name, layer in _check_layers(weights).items():
        numpy_array(name, layer)
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


def _check_layers(weights):
    """Raise unless the layers are matrices of one library that fit each other."""
    if not isinstance(weights, (list, tuple)) or len(weights) == 0:
        raise TypeError(f"weights is {type(weights).__name__}: give a list of layers")
    named = {f"layer {number}": layer for number, layer in enumerate(weights, 1)}
    _arrays.check_arrays(**named)
    for name, layer in named.items():
        if layer.ndim != 2 or 0 in layer.shape:
            raise ValueError(
                f"{name} has shape {tuple(layer.shape)}: give (units, inputs)"
            )
        if not bool((abs(layer) < np.inf).all()):
            raise ValueError(f"{name} has a weight that is not finite")
    for number, (below, above) in enumerate(pairwise(weights), 1):
        if above.shape[1] != below.shape[0]:
            raise ValueError(
                f"layer {number + 1} takes {above.shape[1]} inputs, layer {number} has "
                f"{below.shape[0]} units"
            )
    return named


def _check_network(weights, X, y):
    named = _check_layers(weights)
    xp = _arrays.namespace(X=X, y=y, **named)
    _check_data(X, y)
    if weights[-1].shape[0] != 1:
        raise ValueError(
            f"the last layer has {weights[-1].shape[0]} rows: give one, f is a number"
        )
    if weights[0].shape[1] != X.shape[1]:
        raise ValueError(
            f"layer 1 takes {weights[0].shape[1]} inputs, X has {X.shape[1]} features"
        )
    return xp


def _check_data(X, y):
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X has shape {tuple(X.shape)}: give (N, d)")
    if tuple(y.shape) != (len(X),):
        raise ValueError(f"y has shape {tuple(y.shape)} for {len(X)} rows of X")
    if not bool((abs(X) < np.inf).all()):
        raise ValueError("X has a number that is not finite")
    if not bool(((y == 1) | (y == -1)).all()):
        raise ValueError("y has labels other than 1 and -1")


def _check_two_classes(y):
    if bool((y == y[0]).all()):
        raise ValueError(
            f"all labels are {float(y[0]):g}: give examples of both classes"
        )
