"""The gradient noise of a network: one gradient for every example."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from bnlib import _checks, _modules


def example_gradients(
    network: nn.Module,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    y: torch.Tensor,
) -> np.ndarray:
    """Return the gradient of the loss of each single example.

    Parameters
    ----------
    network : torch.nn.Module
        Not changed. It must not couple the examples of a batch: with batch norm in
        training mode there is no gradient of a single example.
    loss : callable
        Takes outputs and targets of a batch of one and returns a number, such as
        ``torch.nn.functional.cross_entropy``.
    x, y : Tensors, shapes (n, ...) and (n, ...)

    Returns
    -------
    array, shape (n, parameters)
        In float64; the parameters in the order of ``network.parameters()``, without
        those that do not require a gradient.

    Raises
    ------
    TypeError, ValueError
        If ``network`` is no module or ``x`` or ``y`` no tensor, there is no example, x
        and y differ in number, no parameter requires a gradient, or a batch norm layer
        uses the statistics of its batch.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Linear(1, 1, bias=False)
    >>> x, y = torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)
    >>> _ = torch.nn.init.ones_(network.weight)
    >>> example_gradients(network, torch.nn.functional.mse_loss, x, y).tolist()
    [[2.0], [8.0]]

    References
    ----------
    Chapter 14, "The noise of SGD".
    """
    _modules.check_module("network", network)
    for name, tensor in (("x", x), ("y", y)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}: give a Tensor")
    if len(x) == 0 or len(x) != len(y):
        raise ValueError(f"x has {len(x)} rows and y {len(y)}: give as many, not 0")
    for name, layer in _modules.batch_norm_layers(network).items():
        if layer.training or layer.running_mean is None:
            raise ValueError(
                f"layer {name!r} normalises by its batch: put the network in eval mode"
            )
    names = [n for n, p in network.named_parameters() if p.requires_grad]
    if not names:
        raise ValueError("no parameter of the network requires a gradient")
    parameters = {n: p.detach() for n, p in network.named_parameters()}
    free = {name: parameters[name] for name in names}
    rest = {n: p for n, p in parameters.items() if n not in free}
    rest |= {n: b.detach() for n, b in network.named_buffers()}

    def one(chosen, example, target):
        outputs = torch.func.functional_call(network, (chosen, rest), (example[None],))
        return loss(outputs, target[None])

    each = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))
    gradients = each(free, x, y)
    columns = [gradients[name].reshape(len(x), -1) for name in names]
    return torch.cat(columns, dim=1).double().cpu().numpy()


def participation(covariance: np.ndarray) -> float:
    r"""Return the effective number of directions of a covariance.

    That is :math:`(\mathrm{tr}\,C)^2/\mathrm{tr}\,C^2`: p for p equal eigenvalues, 1
    for a single direction.

    Parameters
    ----------
    covariance : NumPy array, shape (p, p)
        Symmetric.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        If it is no square NumPy matrix of finite numbers, or its trace is not above 0.

    Examples
    --------
    >>> participation(np.diag([2.0, 2.0, 0.0]))
    2.0

    References
    ----------
    Chapter 14, "The noise of SGD".
    """
    _checks.check_numpy(covariance=covariance)
    C = covariance.astype(np.float64)
    if C.ndim != 2 or C.shape[0] != C.shape[1]:
        raise ValueError(f"covariance has shape {C.shape}: give a square matrix")
    if not (np.isfinite(C).all() and np.trace(C) > 0):
        raise ValueError("covariance has a trace that is not finite and above 0")
    C = C / np.trace(C)
    return float(1 / np.square(C).sum())
