"""How a loss changes along its gradient, and what BN layers do to the gradient."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bnlib import _arrays, _checks, _modules
from bnlib._differentiable import Differentiable, flat
from bnlib.smoothness._identities import GradientTerms, gradient_terms
from bnlib.transform import batch_norm_forward


@dataclass(frozen=True, eq=False)
class Probe:
    """The loss and its gradient at steps along the negative gradient.

    ``steps``, ``losses``, ``gradient_changes`` and ``distances`` are NumPy arrays with
    one entry per step: the step, the loss after it, the length of the gradient's
    change, and the distance covered. ``start`` is the loss before the steps, and
    ``gradient_norm`` the length of the gradient there. If a step makes the loss
    infinite or NaN, its entries are not finite either.
    """

    steps: np.ndarray
    losses: np.ndarray
    gradient_changes: np.ndarray
    distances: np.ndarray
    start: float
    gradient_norm: float

    @property
    def loss_range(self) -> np.ndarray:
        """The smallest and the largest loss over the steps."""
        return float(self.losses.min()), float(self.losses.max())

    @property
    def largest_change(self) -> float:
        """The largest change of the gradient over the steps."""
        return float(self.gradient_changes.max())

    @property
    def effective_smoothness(self) -> float:
        """The largest change of the gradient per distance covered."""
        return float((self.gradient_changes / self.distances).max())


def probe_gradient(
    network: nn.Module,
    loss: Callable[[nn.Module], torch.Tensor],
    steps: Sequence[float],
) -> Probe:
    """Measure the loss and its gradient at steps along the negative gradient.

    Parameters
    ----------
    network : torch.nn.Module
        Not changed. Its mode stays: in training mode BN uses batch statistics.
        Parameters that do not require a gradient are held fixed.
    loss : callable
        Takes a copy of your network and returns a tensor of one number. If the network
        draws random numbers, draw the same ones in each call.
    steps : sequence of floats above 0
        Multiples of the gradient, such as learning rates.

    Returns
    -------
    Probe

    Raises
    ------
    TypeError, ValueError
        If ``network`` is no module, ``loss`` no function, or ``steps`` empty or not
        positive numbers; if no parameter requires a gradient; if the loss is no scalar,
        does not depend on the network or is not finite at the start; or if the gradient
        is 0.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Linear(1, 1, bias=False)
    >>> probe = probe_gradient(network, lambda n: 3 * n.weight.square().sum(), [0.1])
    >>> round(probe.effective_smoothness, 4)
    6.0

    References
    ----------
    Chapter 06, "Smoothness"; Santurkar et al. 2018, figure 4.
    """
    steps = _checked_steps(steps)
    copied = Differentiable(network, loss)
    value = copied.start()
    gradients = copied.gradients(value)
    gradient = _arrays.upcast(flat(gradients))
    norm = gradient.norm().item()
    if norm == 0 or not math.isfinite(norm):
        raise ValueError(f"the gradient's length is {norm}: it gives no direction")
    starts = [parameter.detach().clone() for parameter in copied.parameters]
    losses, changes = [], []
    for step in steps:
        with torch.no_grad():
            for parameter, begin, change in zip(copied.parameters, starts, gradients):
                parameter.copy_(begin - float(step) * change)
        moved = copied.value()
        losses.append(moved.item())
        change = _arrays.upcast(flat(copied.gradients(moved))) - gradient
        changes.append(change.norm().item())
    arrays = (steps, np.array(losses), np.array(changes), steps * norm)
    return Probe(*arrays, value.item(), norm)


def _checked_steps(steps):
    """Return the steps as an array; raise unless there are some, all positive."""
    try:
        given = list(steps.tolist() if hasattr(steps, "tolist") else steps)
    except TypeError:
        raise TypeError(f"steps is {steps!r}: give a sequence of numbers") from None
    if not given:
        raise ValueError("steps is empty: give at least one")
    for step in given:
        _checks.check_positive("a step", step)
    return np.array(given, dtype=float)


def _recorder(calls):
    def record(layer, inputs, output):
        calls.append((inputs[0], output))
        # A later in-place activation must not change the recorded output.
        return output.clone()

    return record


def layer_terms(
    network: nn.Module, loss: Callable[[nn.Module], torch.Tensor]
) -> dict[str, GradientTerms]:
    """Split the gradient's squared norm before every BN layer of a network into terms.

    Parameters
    ----------
    network : torch.nn.Module
        In training mode, with BN layers of torch or `bnlib.nn`. Not changed.
    loss : callable
        As in `probe_gradient`.

    Returns
    -------
    dict of str to GradientTerms
        The terms by layer name, as tensors with one number per unit.

    Raises
    ------
    TypeError, ValueError
        As `probe_gradient`; also if the network has no BN layer, a BN layer normalises
        with running statistics, or the loss does not call each of them exactly once.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.BatchNorm1d(3)
    >>> x = torch.randn(8, 3)
    >>> terms = layer_terms(layer, lambda n: n(x).square().sum())[""]
    >>> bool((terms.squared_norm < 0.01 * terms.upstream).all())
    True

    References
    ----------
    Chapter 06, "Smoothness".
    """
    copied = Differentiable(network, loss)
    layers = _modules.batch_norm_layers(copied.network, own_name="")
    if not layers:
        raise ValueError("network has no batch normalization layer")
    seen = {name: [] for name in layers}
    for name, layer in layers.items():
        if not layer.training and layer.running_mean is not None:
            raise ValueError(
                f"layer {name!r} normalises with running statistics: call "
                "network.train()"
            )
        layer.register_forward_hook(_recorder(seen[name]))
    value = copied.start()
    for name, calls in seen.items():
        if len(calls) != 1:
            raise ValueError(f"loss calls layer {name!r} {len(calls)} times, not once")
    outputs = [calls[0][1] for calls in seen.values()]
    upstream = torch.autograd.grad(
        value, outputs, allow_unused=True, materialize_grads=True
    )
    found = {}
    for (name, layer), delta in zip(layers.items(), upstream):
        x, scale = seen[name][0][0].detach(), layer.weight
        _, cache = batch_norm_forward(x, scale, eps=layer.eps)
        found[name] = gradient_terms(delta, cache)
    return found
