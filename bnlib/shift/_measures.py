"""How far the layers below a layer move its gradient and its inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from bnlib import _arrays, _checks
from bnlib._arrays import Array
from bnlib._differentiable import Differentiable, flat


@dataclass(frozen=True, eq=False)
class GradientShift:
    """How far the layers below each layer move its gradient.

    The fields are NumPy arrays with an entry for each layer from the second up.
    ``norms`` holds the length of its gradient G; ``distances``, the distance from G to
    the gradient G' after the layers below took their step; ``cosines``, the cosine of
    the angle between G and G', NaN if one of them is 0.
    """

    norms: np.ndarray
    distances: np.ndarray
    cosines: np.ndarray

    @property
    def relative(self) -> np.ndarray:
        """The distances in units of the gradients' lengths."""
        with _arrays.silently():
            return self.distances / self.norms


def gradient_shift(
    network: nn.Module,
    loss: Callable[[nn.Module], torch.Tensor],
    step: float | Callable[..., Any],
    *,
    layers: Sequence[Any] | None = None,
) -> GradientShift:
    """Measure internal covariate shift as Santurkar et al. define it.

    For each layer, compare its gradient before the step with its gradient after the
    layers below it, and only they, took the step. The batch is the same. The first
    layer is left out: no layer is below it, so its two gradients are equal.

    Parameters
    ----------
    network : torch.nn.Module
        Not changed; its mode stays. Parameters that do not require a gradient stay
        fixed.
    loss : callable
        Takes a copy of your network and returns a tensor of one number. The same
        network must give the same loss: repeat the draws of dropout or noise.
    step : float above 0, or callable
        A learning rate of gradient descent; or a function that takes the copy, whose
        parameters hold their gradients in ``.grad``, and updates the parameters in
        place, as an optimiser's ``step`` does.
    layers : sequence, optional
        The layers from the input up, each a module of the network or a sequence of
        its parameters; other parameters stay fixed. By default each module that holds
        parameters directly is a layer; one whose parameters are all vectors, such as
        BN, belongs to the layer before it.

    Returns
    -------
    GradientShift
        If a step makes a gradient infinite or NaN, its entries are not finite.

    Raises
    ------
    TypeError, ValueError
        If ``network`` is no module, ``loss`` no function, ``step`` neither a positive
        number nor a function, or ``layers`` no layers of the network; if no parameter
        requires a gradient, there are fewer than two layers, or two of them share a
        parameter; or if the loss is not finite or not the same twice.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False),
    ...                               torch.nn.Linear(1, 1, bias=False))
    >>> for layer in network:
    ...     _ = torch.nn.init.constant_(layer.weight, 2.0)
    >>> x = torch.ones(1, 1)
    >>> shift = gradient_shift(network, lambda n: n(x).square().sum() / 2, 0.125)
    >>> shift.norms.tolist(), shift.distances.tolist(), shift.cosines.tolist()
    ([8.0], [6.0], [1.0])

    References
    ----------
    Chapter 01, "Covariate shift"; Santurkar et al. 2018, definition 2.1.
    """
    if not callable(step):
        _checks.check_positive("step", step)
    copied = Differentiable(network, loss)
    groups = _layers(network, copied, layers)
    before = dict(zip(copied.parameters, copied.gradients(copied.start())))
    after = _stepped(copied, before, step)
    found = []
    for group in groups:
        again = torch.autograd.grad(
            copied.value(), group, allow_unused=True, materialize_grads=True
        )
        found.append(_compared([before[p] for p in group], again))
        with torch.no_grad():
            for parameter in group:
                parameter.copy_(after[parameter])
    norm, distance, _ = found[0]
    # Nothing has moved below the first layer, so any change there is chance. The
    # margin allows for devices that add in no fixed order.
    if distance > 1e-3 * norm:
        raise ValueError(
            "loss has two gradients at one network: repeat its random draws (dropout, "
            "noise) in every call"
        )
    return GradientShift(*np.array(found[1:]).T)


def _layers(network, copied, given):
    """Return the layers as lists of the copy's parameters; raise unless valid."""
    twins = dict(zip(network.parameters(), copied.network.parameters()))
    own = _own_layers(network) if given is None else _given_layers(given)
    for place, group in enumerate(own, 1):
        if any(parameter not in twins for parameter in group):
            raise ValueError(f"layer {place} has a parameter that is not the network's")
    groups = [[twins[p] for p in group if p.requires_grad] for group in own]
    if len(groups) < 2:
        raise ValueError(f"network has {len(groups)} layer: give two or more")
    seen = {}
    for place, group in enumerate(groups, 1):
        if not group:
            raise ValueError(f"layer {place} has no parameter that requires a gradient")
        for parameter in group:
            if parameter in seen:
                raise ValueError(
                    f"layers {seen[parameter]} and {place} share a parameter: which "
                    "of them moves it is not defined"
                )
            seen[parameter] = place
    return groups


def _own_layers(network):
    groups = []
    for module in network.modules():
        own = [p for p in module.parameters(recurse=False) if p.requires_grad]
        if groups and own and all(p.ndim == 1 for p in own):
            groups[-1] += own
        elif own:
            groups.append(own)
    return groups


def _given_layers(layers):
    try:
        layers = list(layers)
    except TypeError:
        raise TypeError(f"layers is {layers!r}: give a sequence of layers") from None
    groups = []
    for layer in layers:
        group = layer.parameters() if isinstance(layer, nn.Module) else layer
        lists = isinstance(layer, nn.Module | list | tuple)
        groups.append(list(group) if lists else [None])
        if not all(isinstance(p, nn.Parameter) for p in groups[-1]):
            kind = type(layer).__name__
            raise TypeError(f"a layer is a {kind}: give a module or its parameters")
    return groups


def _stepped(copied, gradients, step):
    """Return the parameters after the step; the copy keeps its parameters."""
    start = {p: p.detach().clone() for p in copied.parameters}
    with torch.no_grad():
        for parameter, gradient in gradients.items():
            if callable(step):
                parameter.grad = gradient.clone()
            else:
                parameter -= step * gradient
    if callable(step):
        step(copied.network)
    after = {p: p.detach().clone() for p in copied.parameters}
    with torch.no_grad():
        for parameter, value in start.items():
            parameter.copy_(value)
    return after


def _compared(before, after):
    """Return the first gradient's length, and the distance and cosine of both."""
    a, b = (_arrays.upcast(flat(tensors)) for tensors in (before, after))
    lengths = a.norm() * b.norm()
    return [v.item() for v in (a.norm(), (b - a).norm(), (a @ b) / lengths)]


def distribution_distance(before: Array, after: Array) -> np.ndarray:
    """Return how far each unit's values have moved, as a distribution.

    This is the 2-Wasserstein distance: the root mean square of the values' moves when
    the smallest value goes to the smallest, and so on.

    Parameters
    ----------
    before, after : arrays of the same shape (m, C), NumPy or torch
        Values of C units for m examples; the examples need not be the same.

    Returns
    -------
    numpy.ndarray, shape (C,)
        In the units of the values.

    Raises
    ------
    TypeError, ValueError
        If the arguments are not two such arrays, are empty, or have values that are not
        finite.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 4.0]])
    >>> distribution_distance(x, 3 + x[::-1]).tolist()
    [3.0, 3.0]

    References
    ----------
    Chapter 01, "Covariate shift".
    """
    _arrays.check_arrays(before=before, after=after)
    wide = []
    for name, values in (("before", before), ("after", after)):
        if values.ndim != 2 or 0 in values.shape or values.shape != before.shape:
            shapes = f"{tuple(before.shape)} and {tuple(after.shape)}"
            raise ValueError(f"shapes are {shapes}: give (m, C) twice, not empty")
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu().double().numpy()
        array = np.asarray(values, dtype=np.float64)
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds values that are not finite")
        wide.append(np.sort(array, axis=0))
    return np.sqrt(np.square(wide[1] - wide[0]).mean(axis=0))
