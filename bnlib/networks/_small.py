"""The small networks that chapters and experiments train."""

import functools
import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

from bnlib import _checks
from bnlib.nn import BatchNorm1d


def feed_forward(
    widths: Sequence[int],
    *,
    norm: Callable[[int], nn.Module] | None = None,
    activation: Callable[[], nn.Module] = nn.ReLU,
    scale: Callable[[int], float] | None = None,
    dropout: float = 0.0,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> nn.Sequential:
    """Build a network of linear layers with Gaussian weights and zero biases.

    Parameters
    ----------
    widths : sequence of int
        The numbers of inputs, of hidden units layer by layer, and of outputs; at least
        two numbers.
    norm : callable, optional
        Takes the number of units and returns the layer to put between each hidden layer
        and its activation.
    activation : callable
        Returns the layer after each hidden layer.
    scale : callable, optional
        Takes a layer's number of inputs and returns the standard deviation of its
        weights. The default is He's: sqrt(2 / inputs).
    dropout : float in [0, 1]
        If not 0, dropout with this probability follows each activation.
    generator : torch.Generator
        The generator of the weights, which are the same with and without a norm.
    dtype : torch.dtype
        The dtype of the linear layers' parameters.

    Returns
    -------
    torch.nn.Sequential

    Raises
    ------
    TypeError, ValueError
        If widths are not at least two integers of at least 1, or dropout is not in
        [0, 1].

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> network = feed_forward(
    ...     (64, 32, 10), norm=nn.LayerNorm, activation=nn.Tanh,
    ...     generator=torch.Generator(),
    ... )
    >>> [type(layer).__name__ for layer in network]
    ['Linear', 'LayerNorm', 'Tanh', 'Linear']

    References
    ----------
    Ioffe and Szegedy 2015, section 3.2, for the place of the norm.
    """
    if len(widths) < 2:
        raise ValueError(f"widths is {widths!r}: give inputs and outputs at least")
    for width in widths:
        _checks.check_integer("a width", width, 1)
    _checks.check_number("dropout", dropout, 0, 1)
    layers = []
    for inputs, outputs in pairwise(widths):
        if layers:
            layers += ([norm(inputs)] if norm else []) + [activation()]
            layers += [nn.Dropout(dropout)] if dropout else []
        # torch's own initial weights would advance its global generator.
        linear = nn.utils.skip_init(nn.Linear, inputs, outputs, dtype=dtype)
        deviation = math.sqrt(2) / math.sqrt(inputs) if scale is None else scale(inputs)
        nn.init.normal_(linear.weight, std=deviation, generator=generator)
        nn.init.zeros_(linear.bias)
        layers.append(linear)
    return nn.Sequential(*layers)


def mlp(
    widths: Sequence[int],
    *,
    batch_norm: bool,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> nn.Sequential:
    """Build the ReLU network of the chapters, with bnlib's batch norm or without.

    Parameters
    ----------
    widths : sequence of int
        Inputs, hidden units layer by layer, outputs; at least two numbers.
    batch_norm : bool
        Whether to put a `bnlib.nn.BatchNorm1d` between each hidden layer and its ReLU.
    generator : torch.Generator
        The generator of He's initial weights, the same with and without batch norm.
    dtype : torch.dtype
        Of the parameters.

    Returns
    -------
    torch.nn.Sequential

    Raises
    ------
    TypeError, ValueError
        If widths are not at least two integers of at least 1.

    Examples
    --------
    >>> import torch
    >>> network = mlp((64, 32, 10), batch_norm=True, generator=torch.Generator())
    >>> [type(layer).__name__ for layer in network]
    ['Linear', 'BatchNorm1d', 'ReLU', 'Linear']

    References
    ----------
    Ioffe and Szegedy 2015, section 3.2, for the place of batch norm.
    """
    norm = functools.partial(BatchNorm1d, dtype=dtype) if batch_norm else None
    return feed_forward(widths, norm=norm, generator=generator, dtype=dtype)


def train_classifier(
    network: nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    learning_rate: float,
    epochs: int,
    batch_size: int,
    generator: torch.Generator,
) -> bool:
    """Train a classifier in place: minimise the cross entropy by plain minibatch SGD.

    Each epoch goes through the rows in a new random order; an incomplete last minibatch
    is left out.

    Parameters
    ----------
    network : torch.nn.Module
    x, y : Tensors, shapes (n, d) and (n,)
        Inputs and integer labels.
    learning_rate : float above 0
    epochs, batch_size : int, at least 1
    generator : torch.Generator
        The generator of the rows' order.

    Returns
    -------
    bool
        True if every epoch ended with a finite loss; training stops after the first
        epoch that did not.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range, or ``batch_size`` is above the number of rows; the
        network has then not changed.

    Examples
    --------
    >>> import torch
    >>> generator = torch.Generator().manual_seed(0)
    >>> network = mlp((2, 8, 2), batch_norm=True, generator=generator)
    >>> x = torch.randn(64, 2, generator=generator)
    >>> train_classifier(network, x, (x[:, 0] > 0).long(), learning_rate=0.1,
    ...                  epochs=20, batch_size=16, generator=generator)
    True
    >>> accuracy(network, x, (x[:, 0] > 0).long()) > 0.9
    True

    References
    ----------
    Chapter 02, "The transform".
    """
    _checks.check_positive("learning_rate", learning_rate)
    _checks.check_integer("epochs", epochs, 1)
    _checks.check_integer("batch_size", batch_size, 1)
    if batch_size > len(x):
        raise ValueError(f"batch_size is {batch_size}: give at most {len(x)}, the rows")
    network.train()
    optimizer = torch.optim.SGD(network.parameters(), lr=learning_rate)
    whole = len(x) // batch_size * batch_size
    for _ in range(epochs):
        rows = torch.randperm(len(x), generator=generator)[:whole].to(x.device)
        for batch in rows.split(batch_size):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
        if not torch.isfinite(loss):
            return False
    return True


@torch.no_grad()
def accuracy(network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the share of rows that the network labels right in eval mode.

    Every layer is back in its previous mode when this returns or raises.

    Parameters
    ----------
    network : torch.nn.Module
    x, y : Tensors, shapes (n, d) and (n,)

    Returns
    -------
    float

    Examples
    --------
    >>> import torch
    >>> accuracy(torch.nn.Identity(), torch.eye(2), torch.tensor([0, 0]))
    0.5

    References
    ----------
    Chapter 02, "The transform".
    """
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        right = (network(x).argmax(dim=1) == y).sum().item()
    finally:
        for module, mode in modes:
            module.training = mode
    return right / len(y)
