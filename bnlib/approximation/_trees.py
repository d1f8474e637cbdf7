"""Functions of many variables, composed of functions of few variables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from bnlib import _arrays, _checks

# Rounding may move a value out of [-1, 1] by as much as this.
_ROUNDING = 1e-9


def check_points(x, inputs):
    """Return x as a float array (m, inputs); raise unless all are in [-1, 1]."""
    points = _checks.plain_array("x", _arrays.detached(x))
    if points.ndim != 2 or points.shape[1] != inputs:
        raise ValueError(f"x has shape {points.shape}: give (m, {inputs})")
    # Written so that NaN raises too.
    outside = ~(np.abs(points) <= 1 + _ROUNDING)
    if outside.any():
        raise ValueError(f"x holds {points[outside][0]}: give numbers in [-1, 1]")
    return np.clip(points, -1, 1)


@dataclass(frozen=True, eq=False)
class Cosine:
    """The function amplitude * cos(frequencies . x + phase) on the cube [-1, 1]^d.

    Parameters
    ----------
    amplitude : float
    frequencies : array of shape (d,)
    phase : float

    Raises
    ------
    TypeError, ValueError
        If the frequencies are no vector of numbers, or a number is not finite.

    Examples
    --------
    >>> h = Cosine(0.5, [1.0, 2.0], 0.0)
    >>> h([[0.0, 0.0]])
    array([0.5])
    >>> h.sobolev_norm(1)
    2.0
    """

    amplitude: float
    frequencies: np.ndarray
    phase: float

    def __post_init__(self):
        for name in ("amplitude", "phase"):
            _checks.check_number(name, getattr(self, name), -np.inf)
        frequencies = np.asarray(self.frequencies, dtype=np.float64)
        if frequencies.ndim != 1 or not frequencies.size:
            raise ValueError(f"frequencies are {self.frequencies!r}: give a vector")
        if not np.isfinite(frequencies).all():
            raise ValueError(f"frequencies are {frequencies}: give finite numbers")
        object.__setattr__(self, "frequencies", frequencies)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the values, shape (m,), at points of shape (m, d)."""
        x = check_points(x, len(self.frequencies))
        return self.amplitude * np.cos(x @ self.frequencies + self.phase)

    @property
    def lipschitz(self) -> float:
        """Bounds on the first derivatives, one per variable: shape (d,)."""
        return np.abs(self.amplitude * self.frequencies)

    @property
    def curvatures(self) -> np.ndarray:
        """Bounds on the pure second derivatives, one per variable: shape (d,)."""
        return np.abs(self.amplitude) * self.frequencies**2

    def sobolev_norm(self, order: int) -> float:
        """Bound the sum of the sup norms of all derivatives up to an order.

        The function counts as its derivative of order 0. The bound is exact if every
        sine and cosine reaches 1 on the cube.
        """
        _checks.check_integer("order", order, 0)
        sizes = np.abs(self.frequencies)
        kinds = product(range(order + 1), repeat=len(sizes))
        total = sum(np.prod(sizes**kind) for kind in kinds if sum(kind) <= order)
        return float(np.abs(self.amplitude) * total)


def draw_constituent(
    rng: np.random.Generator, arity: int = 2, *, order: int = 2, norm: float = 1.0
) -> Cosine:
    """Draw a cosine whose derivatives up to an order sum to a given norm.

    Parameters
    ----------
    rng : numpy.random.Generator
    arity : int, at least 1
        Number of variables.
    order : int, at least 0
        The m of the class W_m.
    norm : float above 0
        At most 1 puts the function in the unit ball of W_m: see
        `Cosine.sobolev_norm`.

    Returns
    -------
    Cosine

    Raises
    ------
    TypeError, ValueError
        If arity, order or norm is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> h = draw_constituent(np.random.default_rng(0), arity=3)
    >>> round(h.sobolev_norm(2), 12)
    1.0
    """
    _checks.check_integer("arity", arity, 1)
    _checks.check_positive("norm", norm)
    draft = Cosine(1.0, rng.standard_normal(arity), rng.uniform(0, 2 * np.pi))
    return Cosine(norm / draft.sobolev_norm(order), draft.frequencies, draft.phase)


def draw_wave(
    rng: np.random.Generator, arity: int = 2, *, frequency: float = 2.0
) -> Cosine:
    """Draw a cosine of amplitude 1, which is in the unit ball of no W_m.

    Parameters
    ----------
    rng : numpy.random.Generator
    arity : int, at least 1
    frequency : float above 0
        The length of its frequency vector, whose direction is random.

    Returns
    -------
    Cosine

    Raises
    ------
    TypeError, ValueError
        If arity or frequency is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> h = draw_wave(np.random.default_rng(0), frequency=3.0)
    >>> round(float(np.linalg.norm(h.frequencies)), 12)
    3.0
    """
    _checks.check_integer("arity", arity, 1)
    _checks.check_positive("frequency", frequency)
    direction = rng.standard_normal(arity)
    direction *= frequency / np.linalg.norm(direction)
    return Cosine(1.0, direction, rng.uniform(0, 2 * np.pi))


class Tree:
    """A function composed of functions of few variables, along a tree.

    Parameters
    ----------
    levels : sequence of sequences of callables
        The nodes, lowest level first; the last level has one node. Each node reads the
        next `arity` outputs of the level below: it takes points of shape (m, arity) and
        returns values of shape (m,). If one object stands at several nodes, its
        parameters count once.
    arity : int, at least 1

    Attributes
    ----------
    levels : tuple of tuples
    arity, depth, inputs : int
        `inputs` is the number of variables, arity^depth.

    Raises
    ------
    TypeError, ValueError
        If ``levels`` is no list of lists of functions, a level does not have `arity`
        times as many nodes as the next level, or the last level not one node.

    Examples
    --------
    >>> import numpy as np
    >>> mean = lambda x: x.mean(axis=1)
    >>> tree = Tree([[mean, mean], [mean]])
    >>> tree(np.array([[0.0, 0.2, 0.4, 0.6]])).round(12)
    array([0.3])

    References
    ----------
    Poggio et al. 2017, the class W_m^{n,2} for arity 2.
    """

    def __init__(
        self,
        levels: Sequence[Sequence[Callable[[np.ndarray], np.ndarray]]],
        arity: int = 2,
    ):
        _checks.check_integer("arity", arity, 1)
        try:
            self.levels = tuple(tuple(level) for level in levels)
        except TypeError:
            raise TypeError(f"levels is {levels!r}: give a list of lists") from None
        self.arity, self.depth = arity, len(self.levels)
        self.inputs = arity**self.depth
        counts = [len(level) for level in self.levels]
        expected = [arity**height for height in reversed(range(self.depth))]
        if not counts or counts != expected:
            raise ValueError(
                f"the levels have {counts} nodes: with arity {arity} give "
                f"{expected or [1]}, lowest first"
            )
        if not all(callable(node) for node in self.nodes):
            raise TypeError("a node is not callable: give functions")

    @property
    def nodes(self):
        """All nodes, lowest level first, as a list."""
        return [node for level in self.levels for node in level]

    @property
    def num_parameters(self) -> int:
        """The number of parameters of all nodes; a node at two places counts once."""
        return sum(node.num_parameters for node in set(self.nodes))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the values, shape (m,), at points of shape (m, inputs)."""
        values = check_points(x, self.inputs)
        for level in self.levels:
            blocks = np.split(values, len(level), axis=1)
            values = np.stack([h(block) for h, block in zip(level, blocks)], axis=1)
        return values[:, 0]


def draw_tree(
    rng: np.random.Generator,
    depth: int,
    arity: int = 2,
    *,
    draw: Callable[..., Cosine] = draw_constituent,
    shared: bool = False,
) -> Tree:
    """Draw a tree of random functions.

    Parameters
    ----------
    rng : numpy.random.Generator
    depth : int, at least 1
    arity : int, at least 1
    draw : callable
        Takes (rng, arity) and returns a node: `draw_constituent`, `draw_wave` or a
        function of your own.
    shared : bool
        If True, all nodes are the same function.

    Returns
    -------
    Tree

    Raises
    ------
    TypeError, ValueError
        If depth or arity is no integer of at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> tree = draw_tree(np.random.default_rng(0), depth=3)
    >>> tree.inputs, len(tree.nodes)
    (8, 7)
    """
    _checks.check_integer("depth", depth, 1)
    _checks.check_integer("arity", arity, 1)
    one = draw(rng, arity) if shared else None
    counts = [arity**height for height in reversed(range(depth))]
    return Tree([[one or draw(rng, arity) for _ in range(n)] for n in counts], arity)
