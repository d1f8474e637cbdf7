"""How fast gradients grow with depth, measured in random networks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from bnlib import _checks
from bnlib.functional import batch_norm
from bnlib.meanfield import _activations
from bnlib.meanfield._activations import Activation


class Growth(NamedTuple):
    """Squared gradient norms through a random network, layer by layer.

    ``log_squared_norms``, of shape (depth + 1,), holds natural logarithms: of the
    squared norm at the input of each layer, the lowest first, and at the network's
    output, where it is 0. ``factor`` is the mean growth per layer, without the top one,
    and ``spread`` the standard deviation of the growth over the layers.
    """

    log_squared_norms: np.ndarray
    factor: float
    spread: float


def simulate_growth(
    activation: Activation,
    batch_size: int = 128,
    width: int = 512,
    depth: int = 50,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> Growth:
    """Measure the growth of gradients in one random network.

    The input is the activation of normalised Gaussian numbers, so even the first layer
    has an input as the theory has it deep in the network. A random gradient, of the
    same distribution for every example, enters at the top. The top layer removes its
    mean over the batch and does not count. Everything is float64: rounding errors grow
    like the gradients, and float32 would give other numbers on every machine, though
    about the same mean.

    Parameters
    ----------
    activation : str or callable
        As in `growth_factor`.
    batch_size : int of at least 4
        Up to 5, the variance of the growth per layer is infinite.
    width : int of at least 2
        The theory is the limit of infinite width: the factor's error is of the order
        of the batch size divided by the width.
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
        If the activation is unknown or not differentiable by autograd, a number is out
        of range, or the gradient does not stay finite and above 0.

    Examples
    --------
    >>> from bnlib.meanfield import growth_factor
    >>> growth = simulate_growth("relu", batch_size=16, width=128, depth=40)
    >>> abs(growth.factor - growth_factor("relu", 16)) < 0.1
    True

    References
    ----------
    Chapter 07, "Gradient explosion"; Yang et al. 2019.
    """
    if batch_size is None:
        raise TypeError("batch_size is None: give a simulation an integer")
    function, batch_size = _activations.checked(activation, batch_size)
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


def gradient_norms(
    layers: Sequence[Callable[[torch.Tensor], torch.Tensor]],
    x: torch.Tensor,
    upstream: torch.Tensor,
) -> np.ndarray:
    """Send a batch up through layers and a gradient down; measure the gradient.

    The gradient is rescaled at each layer, so it overflows at no depth.

    Parameters
    ----------
    layers : sequence of callables
        Each takes the output of the one before it.
    x : Tensor
        The input of the first layer.
    upstream : Tensor
        The gradient at the output of the last layer, of that output's shape.

    Returns
    -------
    ndarray, shape (len(layers) + 1,)
        Logarithms of the squared norm of the gradient at the input of each layer,
        and of ``upstream``.

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
