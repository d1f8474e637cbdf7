"""Networks with counted parameters: shallow networks, and trees of small networks."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import factorial
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import nn

from bnlib import _checks, _modules
from bnlib.approximation._counts import level_counts, polynomial_units


class Layer(NamedTuple):
    """A network with one hidden layer: activation(x @ weights + biases) @ outputs.

    Attributes
    ----------
    weights : array of shape (n, N)
    biases, outputs : arrays of shape (N,)
    """

    weights: np.ndarray
    biases: np.ndarray
    outputs: np.ndarray

    def __call__(self, x: np.ndarray, activation) -> np.ndarray:
        """Return the values, shape (m,), at points of shape (m, n)."""
        return activation(x @ self.weights + self.biases) @ self.outputs


def polynomial_layer(
    polynomial: Mapping[tuple[int, ...], float],
    derivatives: Sequence[float],
    *,
    point: float,
    step: float,
    rng: np.random.Generator,
) -> Layer:
    """Build a shallow network close to a polynomial, for a smooth activation.

    For each of binomial(n - 1 + K, K) directions w it has K + 1 units, whose weights
    are small multiples of w. Finite differences in the size of the weights approximate
    the powers of w.x, which span all polynomials of degree K.

    Parameters
    ----------
    polynomial : dict
        Coefficients by tuples of n exponents: {(2, 0): 1.0} is x_1^2.
    derivatives : sequence of K + 1 floats
        The derivatives of the activation at `point`, from order 0 to the degree K of
        the polynomial; none of them is 0.
    point : float
        The bias of every unit.
    step : float above 0
        The size of the weights. The error is of order step^2, until rounding dominates,
        which grows as step^-K.
    rng : numpy.random.Generator
        The generator of the directions.

    Returns
    -------
    Layer

    Raises
    ------
    TypeError, ValueError
        If ``polynomial`` is no dict of coefficients by tuples of exponents of one
        length, a derivative is missing, not finite or 0, or another number is not
        finite.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> e = np.exp(0.0) * np.ones(3)
    >>> layer = polynomial_layer({(1, 1): 1.0}, e, point=0.0, step=1e-3, rng=rng)
    >>> layer.biases.shape, layer(np.array([[0.5, 0.5]]), np.exp).round(2)
    ((9,), array([0.25]))

    References
    ----------
    Mhaskar 1996; Pinkus 1999, section 6.
    """
    n, degree = _checked_degree(polynomial)
    derivatives = np.asarray(derivatives, dtype=np.float64)
    if derivatives.shape != (degree + 1,):
        raise ValueError(
            f"derivatives have shape {derivatives.shape}: a polynomial of degree "
            f"{degree} takes ({degree + 1},)"
        )
    if not (np.isfinite(derivatives) & (derivatives != 0)).all():
        raise ValueError(
            f"derivatives are {derivatives}: give a point where none is 0, all finite"
        )
    _checks.check_positive("step", step)
    _checks.check_number("point", point, -np.inf)
    count = polynomial_units(degree, n) // (degree + 1)
    directions = rng.standard_normal((count, n))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    sizes = step * (np.arange(degree + 1) - degree / 2)
    # Row s holds the units' coefficients of (w.x)^s.
    orders = np.arange(degree + 1)[:, None]
    factorials = np.array([factorial(s) for s in range(degree + 1)])
    taylor = sizes**orders * (derivatives / factorials)[:, None]
    ridges = _ridge_coefficients(polynomial, directions, degree)
    outputs = ridges @ np.linalg.inv(taylor).T
    weights = (directions[:, None, :] * sizes[:, None]).reshape(-1, n).T
    return Layer(weights, np.full(weights.shape[1], float(point)), outputs.ravel())


def _checked_degree(polynomial):
    """Check a polynomial; return its number of variables and its degree."""
    if not isinstance(polynomial, dict):
        raise TypeError(f"the polynomial is {polynomial!r}: give a dict")
    if not polynomial or not all(isinstance(e, tuple) for e in polynomial):
        raise ValueError(
            f"the polynomial has the exponents {list(polynomial)}: give tuples, at "
            "least one"
        )
    if len({len(e) for e in polynomial}) > 1 or () in polynomial:
        raise ValueError(
            f"the polynomial has the exponents {list(polynomial)}: give tuples of one "
            "length, at least 1"
        )
    for exponents, coefficient in polynomial.items():
        _checks.check_number("a coefficient", coefficient, -np.inf)
        for exponent in exponents:
            _checks.check_integer("an exponent", exponent, 0)
    return len(next(iter(polynomial))), max(map(sum, polynomial))


def _ridge_coefficients(polynomial, directions, degree):
    """Return c such that polynomial(x) = sum over j and r of c[j, r] (w_j.x)^r."""
    count, n = directions.shape
    found = np.zeros((count, degree + 1))
    for r in range(degree + 1):
        kinds = [e for e in product(range(r + 1), repeat=n) if sum(e) == r]
        ways = [factorial(r) / np.prod([factorial(k) for k in e]) for e in kinds]
        powers = [way * np.prod(directions**e, axis=1) for way, e in zip(ways, kinds)]
        wanted = [polynomial.get(e, 0.0) for e in kinds]
        found[:, r] = np.linalg.lstsq(np.array(powers), wanted)[0]
    return found


class TreeNetwork(nn.Module):
    """A tree of networks with one hidden layer of tanh units: the deep D_{N,d}.

    Each node reads `arity` outputs of the level below and returns one number. If arity
    equals inputs, there is one node, the shallow network S_{N,n}.

    Parameters
    ----------
    inputs, arity : int, at least 2
        The number of variables at the bottom, a power of `arity`; and the number of
        variables of a node.
    units : int, at least 1
        The number of hidden units of a node.
    shared : bool
        If True, all nodes have the same parameters.
    generator : torch.Generator
        The generator of the parameters, which are float64.

    Raises
    ------
    TypeError, ValueError
        If inputs is no power of arity, or a number is out of range.

    Examples
    --------
    >>> import torch
    >>> tree = TreeNetwork(8, 5, generator=torch.Generator())
    >>> tree(torch.zeros(3, 8, dtype=torch.float64)).shape
    torch.Size([3])
    >>> sum(p.numel() for p in tree.parameters())
    140

    References
    ----------
    Poggio et al. 2017: the class D_{N,2}, for arity 2.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        arity: int = 2,
        *,
        shared: bool = False,
        generator: torch.Generator,
    ):
        super().__init__()
        _checks.check_integer("units", units, 1)
        self.counts, self.arity = level_counts(inputs, arity), int(arity)
        nodes = 1 if shared else sum(self.counts)

        def draw(*shape):
            values = torch.randn(shape, generator=generator, dtype=torch.float64)
            return nn.Parameter(values)

        # For inputs of size 1, pre-activations have size 1 to 2 and outputs size 1.
        self.weights = draw(nodes, arity, units)
        self.biases = draw(nodes, units)
        self.outputs = draw(nodes, units)
        with torch.no_grad():
            self.weights *= (2 / arity) ** 0.5
            self.outputs /= units**0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the values, shape (m,), at points of shape (m, inputs)."""
        inputs = self.counts[0] * self.arity
        if x.ndim != 2 or x.shape[1] != inputs:
            raise ValueError(f"x has shape {tuple(x.shape)}: give (m, {inputs})")
        first = 0
        for count in self.counts:
            weights, biases, outputs = self._nodes(first, count)
            blocks = x.reshape(len(x), count, self.arity).transpose(0, 1)
            hidden = torch.tanh(torch.baddbmm(biases[:, None], blocks, weights))
            x = (hidden @ outputs[:, :, None])[:, :, 0].T
            first += count
        return x[:, 0]

    def _nodes(self, first, count):
        every = (self.weights, self.biases, self.outputs)
        if len(self.biases) == 1:
            return [p.expand(count, *p.shape[1:]) for p in every]
        return [p[first : first + count] for p in every]


def fit(network: nn.Module, x: torch.Tensor, y: torch.Tensor, *, steps: int) -> float:
    """Fit a network in place: minimise the mean squared error on all points by L-BFGS.

    Parameters
    ----------
    network : torch.nn.Module
        With parameters in float64; returns shape (m,).
    x, y : Tensors, shapes (m, n) and (m,)
        In float64, finite.
    steps : int, at least 1
        The largest number of iterations.

    Returns
    -------
    float
        The root of the remaining mean squared error.

    Raises
    ------
    TypeError, ValueError
        If x or y is no float64 tensor or not finite, or their lengths differ; if the
        network's parameters are not all float64, or it returns another shape or values
        whose squared errors are not finite. The network has then not changed.

    Examples
    --------
    >>> import torch
    >>> x = torch.linspace(-1, 1, 40, dtype=torch.float64)[:, None].repeat(1, 2)
    >>> network = TreeNetwork(2, 4, generator=torch.Generator().manual_seed(0))
    >>> fit(network, x, torch.sin(3 * x[:, 0]), steps=200) < 0.01
    True
    """
    _checks.check_integer("steps", steps, 1)
    for name, tensor in (("x", x), ("y", y)):
        if not torch.is_tensor(tensor) or tensor.dtype != torch.float64:
            raise TypeError(f"{name} must be a float64 tensor")
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{name} holds numbers that are not finite")
    if len(x) != len(y) or y.ndim != 1 or not len(y):
        raise ValueError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}: give (m, n) and (m,)"
        )
    _modules.check_module("network", network)
    parameters = list(network.parameters())
    _check_network(network, parameters, x, y)

    def objective(flat):
        nn.utils.vector_to_parameters(torch.from_numpy(flat), parameters)
        loss = (network(x) - y).square().mean()
        gradients = torch.autograd.grad(loss, parameters)
        return loss.item(), nn.utils.parameters_to_vector(gradients).numpy()

    start = nn.utils.parameters_to_vector(parameters).detach().numpy().copy()
    options = {"maxiter": steps, "maxfun": 4 * steps, "ftol": 0, "gtol": 1e-12}
    options["maxcor"] = 20
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return objective(best.x)[0] ** 0.5


def _check_network(network, parameters, x, y):
    """Raise unless the network is float64 and returns one finite number per point."""
    kinds = {str(p.dtype) for p in parameters}
    if kinds != {"torch.float64"}:
        found = ", ".join(sorted(kinds)) or "no parameters"
        raise TypeError(f"the network has {found}: give parameters in torch.float64")
    with torch.no_grad():
        values = network(x)
    if tuple(values.shape) != (len(x),):
        raise ValueError(
            f"the network returns shape {tuple(values.shape)}: it must give one number "
            f"a point, shape ({len(x)},)"
        )
    if not torch.isfinite((values - y).square().sum()):
        raise ValueError("the squared errors are not finite before the first step")
