"""How fast gradients grow with depth in networks with batch normalization.

A layer here is linear, then batch normalization (scale 1, shift 0, eps 0), then an
activation, at random initialisation. The growth factor is that of the *squared*
norm of the gradient, a layer, from the top down.
"""

from typing import NamedTuple

import numpy as np
import torch

from bnlib import _activations, _checks, _sphere
from bnlib.functional import batch_norm


def growth_factor(activation, batch_size=None):
    """Growth of the squared gradient norm a layer, in wide networks.

    With batches of B the normalised values of a unit are uniform on a sphere, and
    the growth is B / (B - 3) times a Rayleigh quotient there. It is computed from
    one-dimensional integrals, with closed forms for "relu" and "identity". For a
    smooth activation the relative error is about 1e-12. Kinks make it up to 1e-6
    at B = 4, and 1e-12 again from B = 8.

    Parameters
    ----------
    activation : str or callable
        "identity", "relu", "leaky_relu", "elu", "gelu", "silu", "softplus",
        "sigmoid", "tanh"; or a function of a float64 tensor, elementwise, in
        torch's operations: autograd takes its derivative.
    batch_size : int of at least 4, optional
        None is the limit of large batches.

    Returns
    -------
    float
        At least (B - 2) / (B - 3), and at least 1 in the limit.

    Raises
    ------
    TypeError, ValueError
        If the activation is unknown, not elementwise, not finite, constant, jumps,
        or grows too fast for its Gaussian mean; if the batch size is below 4.

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
    function, batch_size = _checked(activation, batch_size)
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
    """The closed form, from the arc-cosine means of two values of a batch."""
    if batch_size is None:
        return float(np.pi / (np.pi - 1))
    c, both = _relu_pair(-1 / (batch_size - 1))
    return float((batch_size - 2 + 2 * both + 2 * c) / (batch_size - 3) / (1 - 2 * c))


def _relu_pair(r):
    """Mean product of two ReLUs at correlation r, and the chance that both are on."""
    c = (np.sqrt(1 - r**2) + r * (np.pi - np.arccos(r))) / (2 * np.pi)
    return c, 0.25 + np.arcsin(r) / (2 * np.pi)


class FixedPoint(NamedTuple):
    """Second moments of an activation over a batch: the same in every layer.

    ``q`` is the mean square of one value, ``c`` the mean product of two of a batch.
    """

    q: float
    c: float


def fixed_point(activation, batch_size=None):
    """Second moments of the activation where they no longer change with depth.

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
    function, batch_size = _checked(activation, batch_size)
    if function is _activations.NAMED["relu"]:
        r = 0.0 if batch_size is None else -1 / (batch_size - 1)
        return FixedPoint(0.5, float(_relu_pair(r)[0]))
    rule, expansion = _sphere.expand(function, batch_size)
    shared = expansion.squares @ expansion.pair
    squared_mean = rule.mean**2
    return FixedPoint(float(rule.variance + squared_mean), float(shared + squared_mean))


def degree_shares(activation, batch_size=None, degrees=8):
    """Shares of an activation's variation by the degree of its polynomials.

    The growth factor is the mean of k + k^2 / (B - 3) under the shares of the
    degrees k, and of k itself in the limit.

    Parameters
    ----------
    activation, batch_size
        As in `growth_factor`, and with the same errors.
    degrees : int of at least 1
        How many shares to return.

    Returns
    -------
    ndarray, shape (degrees,)
        Of the degrees 1, 2, ...; what is missing to 1 is in higher ones.

    Examples
    --------
    >>> import torch
    >>> degree_shares(torch.square, degrees=3).round(6).tolist()
    [0.0, 1.0, 0.0]

    References
    ----------
    Chapter 07, "Gradient explosion".
    """
    function, batch_size = _checked(activation, batch_size)
    _checks.check_integer("degrees", degrees, 1)
    highest = degrees if batch_size is None else None
    rule, expansion = _sphere.expand(function, batch_size, highest)
    shares = expansion.squares * (1 - expansion.pair)
    shares /= rule.variance - expansion.squares @ expansion.pair
    found = np.zeros(max(degrees, len(shares)))
    found[: len(shares)] = shares
    return found[:degrees]


def residual_growth(activation, batch_size=None, *, depth, variance=1.0):
    """Growth of the squared gradient norm through a stack of residual layers.

    A layer adds W activation(batch norm(h)) to h, where W has independent entries
    of variance 1 / width. The growth is a power of the depth: its exponent is
    `growth_factor`.

    Parameters
    ----------
    activation, batch_size
        As in `growth_factor`, and with the same errors.
    depth : int of at least 1
    variance : float above 0
        Of a unit of the input over many batches.

    Returns
    -------
    float
        The squared gradient norm at the input over that at the output.

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
    # The variance of a unit, in units of what a layer adds to it.
    variances = variance / (q - c) + np.arange(depth)
    return float(np.exp(np.log1p(factor / variances).sum()))


class Growth(NamedTuple):
    """Squared gradient norms through a random network, layer by layer.

    ``log_squared_norms``, of shape (depth + 1,), holds natural logarithms: of the
    gradient at the input of each layer, the lowest first, and at the network's
    output, where it is 0. ``factor`` is the mean growth a layer, without the
    topmost, and ``spread`` the standard deviation of the growth over the layers.
    """

    log_squared_norms: np.ndarray
    factor: float
    spread: float


def simulate_growth(
    activation, batch_size=128, width=512, depth=50, seed=0, device=None
):
    """Measure the growth of gradients in one random network.

    The input is the activation of Gaussian numbers, normalised, so that already
    the first layer is as deep as the theory has it. A random gradient, the same
    in distribution for every example, comes in at the top. The topmost layer takes
    away its mean over the batch and does not count. All is float64: the growth
    that is measured also blows up rounding errors, and float32 would give other
    numbers on every machine, though about the same mean.

    Parameters
    ----------
    activation : str or callable
        As in `growth_factor`.
    batch_size : int of at least 4
        Up to 5 the variance of the growth a layer is infinite.
    width : int of at least 2
        The theory is its limit: the factor's error is of the order of the batch
        size over the width.
    depth : int of at least 3
    seed : int
    device : str or torch.device, optional
        None is the CPU. All random numbers are drawn there.

    Returns
    -------
    Growth

    Raises
    ------
    TypeError, ValueError
        If the activation is unknown or the gradient does not stay finite, or if
        a number is out of range.

    Examples
    --------
    >>> growth = simulate_growth("relu", batch_size=16, width=128, depth=40)
    >>> abs(growth.factor - growth_factor("relu", 16)) < 0.1
    True

    References
    ----------
    Chapter 07, "Gradient explosion"; Yang et al. 2019.
    """
    if batch_size is None:
        raise TypeError("batch_size is None: give a simulation an integer")
    function, batch_size = _checked(activation, batch_size)
    for name, value, low in (("width", width, 2), ("depth", depth, 3)):
        _checks.check_integer(name, value, low)
    _checks.check_integer("seed", seed, 0)
    generator = torch.Generator().manual_seed(int(seed))
    device = torch.device("cpu" if device is None else device)

    def gaussian(*shape):
        return torch.randn(*shape, generator=generator).to(device, torch.float64)

    def layer(weights):
        return lambda x: _activations.applied(function, _normalised(x @ weights))

    x = _activations.applied(function, _normalised(gaussian(batch_size, width)))
    layers = [layer(gaussian(width, width) / width**0.5) for _ in range(depth)]
    logs = gradient_norms(layers, x, gaussian(batch_size, width))
    growth = np.exp(logs[:-2] - logs[1:-1])
    spread = float(growth.std(ddof=1))
    return Growth(logs - logs[-1], float(growth.mean()), spread)


def gradient_norms(layers, x, upstream):
    """Send a batch up through layers and a gradient down; measure it on its way.

    The gradient is rescaled at each layer, so that no depth makes it overflow.

    Parameters
    ----------
    layers : sequence of callables
        Each takes the output of the one before it.
    x : Tensor
        The input of the first.
    upstream : Tensor
        The gradient at the output of the last, of that output's shape.

    Returns
    -------
    ndarray, shape (len(layers) + 1,)
        Logarithms of the squared norm of the gradient at the input of each layer,
        and of upstream.

    Raises
    ------
    ValueError
        If a gradient is 0 or not finite, upstream has another shape than the
        output, or autograd does not follow a layer.

    Examples
    --------
    >>> import torch
    >>> layers = [lambda x: 2 * x, lambda x: 3 * x]
    >>> logs = gradient_norms(layers, torch.ones(4, 5), torch.ones(4, 5))
    >>> np.exp(logs).round(3).tolist()
    [720.0, 180.0, 20.0]

    References
    ----------
    Chapter 07, "Gradient explosion".
    """
    passed = []
    for place, layer in enumerate(layers):
        below = x.detach().requires_grad_()
        x = layer(below)
        if not x.requires_grad:
            raise ValueError(f"autograd does not follow layer {place}, {layer!r}")
        passed.append((below, x))
    if upstream.shape != x.shape:
        raise ValueError(
            f"upstream has shape {tuple(upstream.shape)}: give that of the output, "
            f"{tuple(x.shape)}"
        )
    gradient, logs = upstream, [0.0]
    for place in range(len(passed), -1, -1):
        squared = float(gradient.double().square().sum())
        if not (np.isfinite(squared) and squared > 0):
            raise ValueError(
                f"the gradient at layer {place} of {len(passed)} has squared norm "
                f"{squared}: its growth is not defined"
            )
        logs.append(logs[-1] + np.log(squared))
        if place:
            below, above = passed[place - 1]
            (gradient,) = torch.autograd.grad(above, below, gradient / squared**0.5)
    return np.array(logs[:0:-1])


def _normalised(x):
    return batch_norm(x, None, None, training=True, eps=0.0)


def _checked(activation, batch_size):
    """Return the activation as a function and the batch size as int or None."""
    function = _activations.as_function(activation)
    if batch_size is None:
        return function, None
    _checks.check_integer("batch_size", batch_size, -np.inf)
    reasons = {
        1: "one value has no variance",
        2: "two normalised values are -1 and 1, and no gradient gets through",
        3: "the mean of 1 / variance over three Gaussian values diverges, and with "
        "it the growth",
    }
    if batch_size < 4:
        reason = reasons.get(int(batch_size), "there is no such batch")
        raise ValueError(f"batch_size is {batch_size}: {reason}; give at least 4")
    return function, int(batch_size)
