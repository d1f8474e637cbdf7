"""Second-derivative blocks between the layers of a network: exact, and estimated."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bnlib import _arrays, _checks
from bnlib._differentiable import Differentiable
from bnlib.smoothness._linear_layers import (
    checked_layers,
    in_coordinates,
    parameter_of,
)
from bnlib.smoothness._spectra import MOST_PARAMETERS


@dataclass(frozen=True, eq=False)
class BlockNorms:
    """Estimates of squared Frobenius norms, with their standard errors.

    ``layers`` is a list of numbers of layers; ``squares`` and ``errors`` are arrays
    with an entry for each. ``squares`` is unbiased; its root ``norms`` is slightly
    biased.
    """

    layers: list[int]
    squares: np.ndarray
    errors: np.ndarray

    @property
    def norms(self) -> np.ndarray:
        """The estimated norms."""
        return np.sqrt(self.squares)

    @property
    def norm_errors(self) -> np.ndarray:
        """Their standard errors, to first order in those of the squares."""
        double = 2 * self.norms
        return np.divide(self.errors, double, np.zeros_like(double), where=double > 0)


def second_derivatives(
    value: torch.Tensor, first: torch.Tensor, second: torch.Tensor
) -> torch.Tensor:
    """Return the matrix of second derivatives of a number with respect to two tensors.

    Parameters
    ----------
    value : Tensor of one element
        It is computed from both tensors, with gradients; its graph is kept.
    first, second : Tensors
        They have a and b entries, and may be the same tensor.

    Returns
    -------
    Tensor, shape (a, b)
        Rows and columns in the order of ``flatten()``; 0 where ``value`` does not
        depend on both. It costs ``a`` backward passes.

    Raises
    ------
    TypeError, ValueError
        If an argument is no tensor, does not require a gradient, or ``value`` has
        more than one element.

    Examples
    --------
    >>> import torch
    >>> a, b = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    >>> second_derivatives((a[0] * b ** 2).sum(), a, b).tolist()
    [[2.0], [0.0]]

    References
    ----------
    Chapter 10, "GDNP on networks".
    """
    named = {"value": value, "first": first, "second": second}
    for name, tensor in named.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}: give a tensor")
        if not tensor.requires_grad:
            raise ValueError(f"{name} does not require a gradient")
    if value.numel() != 1:
        raise ValueError(f"value has shape {tuple(value.shape)}: give one element")
    gradient = torch.autograd.grad(
        value.reshape(()),
        first,
        create_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )[0]
    rows = [
        _product(gradient, [second], unit)[0].flatten() for unit in _units_of(first)
    ]
    return torch.stack(rows) if rows else second.new_zeros(0, second.numel())


def _units_of(tensor):
    """Yield each tensor of this shape with a single 1, in the order of the entries."""
    for entry in range(tensor.numel()):
        unit = torch.zeros_like(tensor, requires_grad=False).flatten()
        unit[entry] = 1
        yield unit.reshape(tensor.shape)


def _product(gradient, others, vector):
    """Return the derivative of <gradient, vector> by each of the other tensors."""
    if not gradient.requires_grad:  # the gradient is constant
        return [torch.zeros_like(other) for other in others]
    return torch.autograd.grad(
        gradient,
        others,
        grad_outputs=vector,
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )


class _Blocks:
    """The gradient of a layer, ready to be differentiated by the other layers."""

    def __init__(self, network, loss, layer, others, coordinates):
        name, names, self.others = checked_layers(network, layer, others)
        moved = in_coordinates(network, loss, {name, *names}, coordinates)
        copied = Differentiable(moved, loss)
        self.first = parameter_of(copied.network, name)
        self.seconds = [parameter_of(copied.network, other) for other in names]
        value = copied.start()
        gradients = copied.gradients(value, create_graph=True)
        # Tensors compare entry by entry, so list.index cannot find one.
        at = [p is self.first for p in copied.parameters].index(True)
        self.gradient = gradients[at]

    def products(self, vector):
        """Return each block's transpose times a vector of the layer's shape."""
        return _product(self.gradient, self.seconds, vector)

    def check_size(self):
        if self.first.numel() > MOST_PARAMETERS:
            raise ValueError(
                f"the layer has {self.first.numel()} weights: give one of at most "
                f"{MOST_PARAMETERS}, or use estimate_block_norms"
            )


def hessian_block(
    network: nn.Module,
    loss: Callable[[nn.Module], torch.Tensor],
    first: int,
    second: int,
    *,
    coordinates: str = "weights",
) -> np.ndarray:
    """Return the exact second derivatives of a loss by the weights of two layers.

    Parameters
    ----------
    network, loss, coordinates
        As `block_norms`.
    first, second : int
        Numbers of layers in `linear_layers`; they may be the same.

    Returns
    -------
    array, shape (a, b)
        In float64; rows and columns in the order of ``weight.flatten()``. It costs
        ``a`` backward passes.

    Raises
    ------
    TypeError, ValueError
        As `block_norms`; also if the block has more than 4000^2 entries.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(2)))
    >>> x = torch.ones(1, 1)
    >>> hessian_block(network, lambda n: n(x).sum(), 0, 1).tolist()
    [[1.0]]

    References
    ----------
    Chapter 10, "GDNP on networks".
    """
    blocks = _Blocks(network, loss, first, [second], coordinates)
    blocks.check_size()
    (other,) = blocks.seconds
    if other.numel() * blocks.first.numel() > MOST_PARAMETERS**2:
        raise ValueError(
            f"the block has {blocks.first.numel()} x {other.numel()} entries: use "
            "block_norms or estimate_block_norms"
        )
    rows = [blocks.products(unit)[0].flatten() for unit in _units_of(blocks.first)]
    return torch.stack(rows).double().numpy(force=True)


def block_norms(
    network: nn.Module,
    loss: Callable[[nn.Module], torch.Tensor],
    layer: int,
    others: Sequence[int] | None = None,
    *,
    coordinates: str = "weights",
) -> np.ndarray:
    """Return how strongly a layer's gradient depends on each other layer, exactly.

    This is the Frobenius norm of the second derivatives of the loss by the weights of
    the layer and by those of each other layer.

    Parameters
    ----------
    network : torch.nn.Module
        Not changed. Its mode stays: in training mode BN uses batch statistics.
    loss : callable
        Takes a copy of your network and returns a tensor of one number. If the network
        draws random numbers, draw the same ones in each call.
    layer : int
        Its number in `linear_layers`, from 0.
    others : sequence of int, optional
        The numbers of the other layers; the default is every later layer.
    coordinates : {"weights", "directions", "bn_directions"}
        The variables to differentiate by. Each row of a layer is ``w = g v / |v|``.
        "weights" takes w itself; "directions" takes v at length 1 with g held fixed,
        as in weight normalization. "bn_directions" uses batch normalization's length,
        ``|v|^2 = v.S v`` with the covariance S of the layer's inputs. S is held fixed,
        which makes no difference if BN follows the layer.

    Returns
    -------
    array, shape (number of others,)
        In float64. It costs a backward pass for each weight of the layer.

    Raises
    ------
    TypeError, ValueError
        If ``network`` is no module, ``loss`` no function, ``coordinates`` unknown, or
        ``others`` empty or no list of integers; if a layer does not exist or has more
        than 4000 weights, there is no linear layer or no later one, two share their
        weights, or a row has no direction; or if the loss is no scalar, does not
        depend on the layers or is not finite.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(3)))
    >>> with torch.no_grad():
    ...     for number, layer in enumerate(network):
    ...         _ = layer.weight.fill_(number + 1.0), layer.bias.fill_(0.0)
    >>> x = torch.ones(1, 1)
    >>> block_norms(network, lambda n: n(x).sum(), 0).tolist()
    [3.0, 2.0]

    References
    ----------
    Kohler et al. 2019, figure 3; chapter 10, "GDNP on networks".
    """
    blocks = _Blocks(network, loss, layer, others, coordinates)
    blocks.check_size()
    squares = sum(_squares(blocks.products(u)) for u in _units_of(blocks.first))
    return np.sqrt(squares)


def _squares(tensors):
    """Return the squared length of each tensor, as an array."""
    return np.array([_arrays.upcast(t).square().sum().item() for t in tensors])


def estimate_block_norms(
    network: nn.Module,
    loss: Callable[[nn.Module], torch.Tensor],
    layer: int,
    others: Sequence[int] | None = None,
    *,
    coordinates: str = "weights",
    samples: int = 20,
    seed: int = 0,
) -> BlockNorms:
    """Estimate `block_norms` from random signs, for layers of any size.

    For a block B and a vector z of independent signs, the mean of ``|B z|^2`` is the
    squared Frobenius norm of B, because the mean of ``z z^T`` is the identity.

    Parameters
    ----------
    network, loss, layer, others, coordinates
        As `block_norms`, with layers of any size.
    samples : int, at least 2
        The number of vectors of signs; each costs one backward pass for all the others.
    seed : int
        The seed of the signs.

    Returns
    -------
    BlockNorms

    Raises
    ------
    TypeError, ValueError
        As `block_norms`; also if there are fewer than two samples.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(2)))
    >>> x = torch.ones(1, 1)
    >>> estimate_block_norms(network, lambda n: n(x).sum(), 0).norms.tolist()
    [1.0]

    References
    ----------
    Chapter 10, "GDNP on networks".
    """
    _checks.check_integer("samples", samples, 2)
    _checks.check_integer("seed", seed, 0)
    blocks = _Blocks(network, loss, layer, others, coordinates)
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(samples):
        signs = rng.choice([-1.0, 1.0], size=tuple(blocks.first.shape))
        vector = torch.from_numpy(signs).to(blocks.first)
        draws.append(_squares(blocks.products(vector)))
    with _arrays.silently():
        error = np.std(draws, axis=0, ddof=1) / math.sqrt(samples)
    return BlockNorms(blocks.others, np.mean(draws, axis=0), error)
