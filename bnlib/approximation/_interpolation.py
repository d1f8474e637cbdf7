"""Multilinear interpolation on even grids, of a function or of a tree's nodes."""

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import RegularGridInterpolator

from bnlib import _checks
from bnlib.approximation._trees import Tree, check_points

#: The largest number of values on a grid: 80 MB of float64.
MOST_VALUES = 10**7


class Interpolant:
    """The multilinear interpolant of values on an even grid over [-1, 1]^d.

    Parameters
    ----------
    values : array of shape (k + 1, ..., k + 1), one axis per variable
        Finite numbers; the grid has k cells per axis.

    Attributes
    ----------
    num_parameters : int
        The number of values.

    Raises
    ------
    TypeError, ValueError
        If the values have another shape, are complex or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> Interpolant(np.array([1.0, 0.0, 1.0]))(np.array([[-0.5], [1.0]]))
    array([0.5, 1. ])
    """

    def __init__(self, values: ArrayLike):
        values = np.asarray(values)
        if np.iscomplexobj(values):
            raise TypeError("values are complex: give real numbers")
        values = values.astype(np.float64)
        if not values.ndim or set(values.shape) != {len(values)} or len(values) < 2:
            raise ValueError(
                f"values have shape {values.shape}: give (k + 1, ..., k + 1), k >= 1"
            )
        if not np.isfinite(values).all():
            raise ValueError("values are not all finite: give finite numbers")
        self.num_parameters = values.size
        axis = np.linspace(-1, 1, len(values))
        self._interpolate = RegularGridInterpolator([axis] * values.ndim, values)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the values, shape (m,), at points of shape (m, d)."""
        return self._interpolate(check_points(x, len(self._interpolate.grid)))


def interpolate(
    function: Callable[[np.ndarray], np.ndarray], arity: int, cells: int
) -> Interpolant:
    """Interpolate a function multilinearly on an even grid over [-1, 1]^arity.

    Parameters
    ----------
    function : callable
        Takes points of shape (m, arity), returns values of shape (m,).
    arity, cells : int, at least 1
        The number of variables, and the number of cells per axis.

    Returns
    -------
    Interpolant
        With (cells + 1)^arity parameters.

    Raises
    ------
    TypeError, ValueError
        If arity or cells is no integer of at least 1, the grid has more than
        `MOST_VALUES` values, or the function returns another shape or values that are
        not finite.

    Examples
    --------
    >>> import numpy as np
    >>> found = interpolate(lambda x: x[:, 0] * x[:, 1], arity=2, cells=3)
    >>> found.num_parameters, found(np.array([[0.5, 0.5]])).round(12)
    (16, array([0.25]))

    References
    ----------
    Chapter 13, its theorem on multilinear interpolation.
    """
    _checks.check_integer("arity", arity, 1)
    _checks.check_integer("cells", cells, 1)
    if (cells + 1) ** arity > MOST_VALUES:
        raise ValueError(
            f"a grid of {cells} cells an axis in {arity} variables has "
            f"{cells + 1}^{arity} values: give fewer, up to {MOST_VALUES}"
        )
    axis = np.linspace(-1, 1, cells + 1)
    grid = np.stack(np.meshgrid(*[axis] * arity, indexing="ij"), axis=-1)
    values = np.asarray(function(grid.reshape(-1, arity)))
    if values.shape != ((cells + 1) ** arity,):
        raise ValueError(
            f"the function returns shape {values.shape}: it must give one number a "
            f"point, shape ({(cells + 1) ** arity},)"
        )
    return Interpolant(values.reshape([cells + 1] * arity))


def interpolate_tree(tree: Tree, cells: int, *, shared: bool = False) -> Tree:
    """Interpolate every node of a tree, and compose the interpolants.

    Parameters
    ----------
    tree : Tree
        Its nodes have values in [-1, 1].
    cells : int, at least 1
        The number of cells per axis in each node's grid.
    shared : bool
        If True, a function at several nodes gets one table instead of one per node.

    Returns
    -------
    Tree
        A tree of `Interpolant`, with (cells + 1)^arity parameters per table.

    Raises
    ------
    TypeError, ValueError
        As `interpolate`; also if ``tree`` is no Tree.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.approximation import draw_tree
    >>> tree = draw_tree(np.random.default_rng(0), depth=2, shared=True)
    >>> [interpolate_tree(tree, 4, shared=s).num_parameters for s in (False, True)]
    [75, 25]
    """
    if not isinstance(tree, Tree):
        raise TypeError(f"tree is a {type(tree).__name__}: give a Tree")

    def table(node):
        return interpolate(node, tree.arity, cells)

    if shared:
        table = functools.cache(table)
    return Tree([[table(node) for node in level] for level in tree.levels], tree.arity)
