"""The Hessian of a network's loss: as a whole matrix, or as products with vectors."""

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import nn

from bnlib import _checks
from bnlib._differentiable import Differentiable, flat

#: The most parameters for which `hessian` makes the whole matrix.
MOST_PARAMETERS = 4000


class HessianOperator(LinearOperator):
    """The Hessian of a loss with respect to a network's parameters, as a product.

    A product costs one backward pass through the gradient; the graph is made once and
    kept. A vector holds the entries of all parameters that require a gradient, in the
    order of ``network.parameters()``.

    Parameters
    ----------
    network : torch.nn.Module
        Not changed. Its mode stays: in training mode BN uses batch statistics.
    loss : callable
        Takes a copy of your network and returns a tensor of one number.

    Attributes
    ----------
    value : float
        The loss.
    gradient : array, shape (n,)
        Its gradient, in float64.

    Raises
    ------
    TypeError, ValueError
        If ``network`` is no module or ``loss`` no function, no parameter requires a
        gradient, or the loss is no scalar, does not depend on the network or is not
        finite.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> network = torch.nn.Linear(2, 1, bias=False, dtype=torch.float64)
    >>> operator = HessianOperator(network, lambda n: 3 * n.weight.square().sum())
    >>> (operator @ np.array([1.0, 2.0])).tolist()
    [6.0, 12.0]

    References
    ----------
    Chapter 06, "Smoothness".
    """

    def __init__(self, network: nn.Module, loss: Callable[[nn.Module], torch.Tensor]):
        self._copied = Differentiable(network, loss)
        value = self._copied.start()
        with torch.enable_grad():
            self._graph = flat(self._copied.gradients(value, create_graph=True))
        self.value = value.item()
        self.gradient = _to_numpy(self._graph)
        super().__init__(np.float64, (self._copied.size,) * 2)

    def _matvec(self, vector):
        if not self._graph.requires_grad:  # the gradient is constant
            return np.zeros(self.shape[0])
        given = torch.from_numpy(np.asarray(vector, dtype=float).reshape(-1).copy())
        product = torch.autograd.grad(
            self._graph,
            self._copied.parameters,
            grad_outputs=given.to(self._graph),
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        return _to_numpy(flat(product))

    def _rmatvec(self, vector):
        return self._matvec(vector)


def _to_numpy(tensor):
    return tensor.detach().cpu().double().numpy()


def hessian(
    network: nn.Module, loss: Callable[[nn.Module], torch.Tensor]
) -> np.ndarray:
    """Return the whole Hessian of a loss, for a small network.

    Parameters
    ----------
    network, loss
        As `HessianOperator`. For eigenvalues to full precision, use a network in
        float64.

    Returns
    -------
    array, shape (n, n)
        Symmetric, in float64.

    Raises
    ------
    TypeError, ValueError
        As `HessianOperator`; also if n is above 4000: the matrix takes n backward
        passes, and 128 MB at n = 4000.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Linear(2, 1, bias=False)
    >>> hessian(network, lambda n: n.weight.sum().square()).tolist()
    [[2.0, 2.0], [2.0, 2.0]]

    References
    ----------
    Chapter 06, "Smoothness".
    """
    operator = HessianOperator(network, loss)
    size = operator.shape[0]
    if size > MOST_PARAMETERS:
        raise ValueError(
            f"the network has {size} parameters that require a gradient: give at most "
            f"{MOST_PARAMETERS}, or use extreme_eigenvalues and hessian_trace"
        )
    matrix = np.stack([operator.matvec(row) for row in np.eye(size)])
    return (matrix + matrix.T) / 2


def extreme_eigenvalues(
    network: nn.Module, loss: Callable[[nn.Module], torch.Tensor], *, seed: int = 0
) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of the Hessian, by Lanczos.

    Parameters
    ----------
    network, loss
        As `HessianOperator`, of any size.
    seed : int
        The seed of the first vector.

    Returns
    -------
    smallest, largest : float

    Raises
    ------
    TypeError, ValueError
        As `HessianOperator`.
    scipy.sparse.linalg.ArpackNoConvergence
        If the iteration does not converge.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Linear(2, 1, bias=False, dtype=torch.float64)
    >>> [round(e, 6) for e in extreme_eigenvalues(network, lambda n: n.weight.prod())]
    [-1.0, 1.0]

    References
    ----------
    Chapter 06, "Smoothness".
    """
    _checks.check_integer("seed", seed, 0)
    operator = HessianOperator(network, loss)
    size = operator.shape[0]
    first = np.random.default_rng(seed).standard_normal(size)
    if size < 3:  # Lanczos needs more dimensions than eigenvalues
        eigenvalues = np.linalg.eigvalsh(operator @ np.eye(size))
    elif not (operator @ first).any():  # Lanczos cannot start on a zero matrix
        return 0.0, 0.0
    else:
        options = {"which": "BE", "v0": first, "return_eigenvectors": False}
        eigenvalues = np.sort(eigsh(operator, k=2, **options))
    return float(eigenvalues[0]), float(eigenvalues[-1])


def hessian_trace(
    network: nn.Module,
    loss: Callable[[nn.Module], torch.Tensor],
    *,
    samples: int = 100,
    seed: int = 0,
) -> tuple[float, float]:
    """Estimate the trace of the Hessian from random signs (Hutchinson).

    Parameters
    ----------
    network, loss
        As `HessianOperator`, of any size.
    samples : int, at least 2
        The number of products with the Hessian.
    seed : int
        The seed of the signs.

    Returns
    -------
    mean, standard_error : float

    Raises
    ------
    TypeError, ValueError
        As `HessianOperator`; also if there are fewer than two samples.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Linear(4, 1, bias=False, dtype=torch.float64)
    >>> hessian_trace(network, lambda n: 3 * n.weight.square().sum(), samples=2)
    (24.0, 0.0)

    References
    ----------
    Chapter 06, "Smoothness".
    """
    _checks.check_integer("samples", samples, 2)
    _checks.check_integer("seed", seed, 0)
    operator = HessianOperator(network, loss)
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=(samples, operator.shape[0]))
    draws = np.array([row @ operator.matvec(row) for row in signs])
    return float(draws.mean()), float(draws.std(ddof=1) / np.sqrt(samples))
