"""How fast gradients grow with depth, in the limit of wide networks."""

from typing import NamedTuple

import numpy as np

from bnlib import _checks
from bnlib.meanfield import _activations, _sphere
from bnlib.meanfield._activations import Activation


def growth_factor(activation: Activation, batch_size: int | None = None) -> float:
    """Return the growth of the squared gradient norm per layer, in wide networks.

    In batches of B, the normalised values of a unit are uniform on a sphere, and the
    growth is B / (B - 3) times a Rayleigh quotient on it. It is computed from
    one-dimensional integrals, with closed forms for "relu" and "identity". For a
    smooth activation the relative error is about 1e-12. With kinks it is up to 1e-6
    at B = 4, and about 1e-12 again from B = 8.

    Parameters
    ----------
    activation : str or callable
        "identity", "relu", "leaky_relu", "elu", "gelu", "silu", "softplus",
        "sigmoid", "tanh"; or an elementwise function of a float64 tensor, written in
        torch's operations, which autograd differentiates.
    batch_size : int of at least 4, optional
        None is the limit of large batches.

    Returns
    -------
    float
        At least (B - 2) / (B - 3), and at least 1 in the limit.

    Raises
    ------
    TypeError, ValueError
        If the activation is unknown, not elementwise, not finite, constant, jumps, or
        grows too fast for its Gaussian mean to exist; if the batch size is below 4 or
        no integer.

    Examples
    --------
    >>> round(growth_factor("relu"), 4), round(growth_factor("relu", 8), 4)
    (1.4669, 1.7882)
    >>> import torch
    >>> round(growth_factor(lambda x: torch.tanh(0.1 * x)), 4)
    1.0001

    References
    ----------
    Chapter 07, "Gradient explosion"; Yang et al. 2019.
    """
    function, batch_size = _activations.checked(activation, batch_size)
    if function is _activations.NAMED["identity"]:
        return 1.0 if batch_size is None else (batch_size - 2) / (batch_size - 3)
    if function is _activations.NAMED["relu"]:
        return _relu_growth(batch_size)
    rule, expansion = _sphere.expand(function, batch_size)
    if batch_size is None:
        return float(expansion.energy / rule.variance)
    k, shared = expansion.degrees, expansion.squares * expansion.pair
    energy = expansion.energy - (k * (k + batch_size - 3) * shared).sum()
    return float(energy / (batch_size - 3) / (rule.variance - shared.sum()))


def _relu_growth(batch_size):
    """Return the closed form, from the arc-cosine means of two values of a batch."""
    if batch_size is None:
        return float(np.pi / (np.pi - 1))
    c, both = _relu_pair(-1 / (batch_size - 1))
    return float((batch_size - 2 + 2 * both + 2 * c) / (batch_size - 3) / (1 - 2 * c))


def _relu_pair(r):
    """Return the mean product of two ReLUs at correlation r, and P(both are active)."""
    c = (np.sqrt(1 - r**2) + r * (np.pi - np.arccos(r))) / (2 * np.pi)
    return c, 0.25 + np.arcsin(r) / (2 * np.pi)


class FixedPoint(NamedTuple):
    """Second moments of an activation over a batch: the same in every layer.

    ``q`` is the mean square of one value, ``c`` the mean product of two values of a
    batch.
    """

    q: float
    c: float


def fixed_point(activation: Activation, batch_size: int | None = None) -> FixedPoint:
    """Return the second moments of the activation that do not change with depth.

    Parameters
    ----------
    activation, batch_size
        As in `growth_factor`, and with the same errors.

    Returns
    -------
    FixedPoint

    Examples
    --------
    >>> q, c = fixed_point("relu")
    >>> round(c / q, 4), round(1 / 3.141592653589793, 4)
    (0.3183, 0.3183)

    References
    ----------
    Chapter 07, "Gradient explosion".
    """
    function, batch_size = _activations.checked(activation, batch_size)
    if function is _activations.NAMED["relu"]:
        r = 0.0 if batch_size is None else -1 / (batch_size - 1)
        return FixedPoint(0.5, float(_relu_pair(r)[0]))
    rule, expansion = _sphere.expand(function, batch_size)
    shared = expansion.squares @ expansion.pair
    squared_mean = rule.mean**2
    return FixedPoint(float(rule.variance + squared_mean), float(shared + squared_mean))


def degree_shares(
    activation: Activation, batch_size: int | None = None, degrees: int = 8
) -> np.ndarray:
    """Return the share of each polynomial degree in an activation's variation.

    The growth factor is the mean of k + k^2 / (B - 3) over the degrees k, weighted by
    their shares; in the limit it is the mean of k.

    Parameters
    ----------
    activation, batch_size
        As in `growth_factor`, and with the same errors.
    degrees : int of at least 1
        The number of shares to return.

    Returns
    -------
    ndarray, shape (degrees,)
        The shares of the degrees 1, 2, ...; higher degrees have the rest of 1.

    Examples
    --------
    >>> import torch
    >>> degree_shares(torch.square, degrees=3).round(6).tolist()
    [0.0, 1.0, 0.0]

    References
    ----------
    Chapter 07, "Gradient explosion".
    """
    function, batch_size = _activations.checked(activation, batch_size)
    _checks.check_integer("degrees", degrees, 1)
    highest = degrees if batch_size is None else None
    rule, expansion = _sphere.expand(function, batch_size, highest)
    shares = expansion.squares * (1 - expansion.pair)
    shares /= rule.variance - expansion.squares @ expansion.pair
    found = np.zeros(max(degrees, len(shares)))
    found[: len(shares)] = shares
    return found[:degrees]


def residual_growth(
    activation: Activation,
    batch_size: int | None = None,
    *,
    depth: int,
    variance: float = 1.0,
) -> float:
    """Return the growth of the squared gradient norm through residual layers.

    A layer adds W activation(batch norm(h)) to h, where W has independent entries of
    variance 1 / width. The growth is a power of the depth, with `growth_factor` as its
    exponent.

    Parameters
    ----------
    activation, batch_size
        As in `growth_factor`, and with the same errors.
    depth : int of at least 1
    variance : float above 0
        The variance of an input unit over many batches.

    Returns
    -------
    float
        The squared gradient norm at the input, divided by that at the output.

    Examples
    --------
    >>> once, twice = (residual_growth("relu", depth=d) for d in (8192, 16384))
    >>> round(float(np.log2(twice / once)), 3), round(growth_factor("relu"), 3)
    (1.467, 1.467)

    References
    ----------
    Chapter 07, "Gradient explosion".
    """
    _checks.check_integer("depth", depth, 1)
    _checks.check_positive("variance", variance)
    factor = growth_factor(activation, batch_size)
    q, c = fixed_point(activation, batch_size)
    # The variance of a unit, in units of the variance that a layer adds.
    variances = variance / (q - c) + np.arange(depth)  # (depth,)
    return float(np.exp(np.log1p(factor / variances).sum()))
