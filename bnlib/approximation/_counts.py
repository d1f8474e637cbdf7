"""The cost of accuracy: bounds on errors, numbers of parameters, measured slopes."""

from math import comb, gcd

import numpy as np
from numpy.typing import ArrayLike

from bnlib import _checks


def interpolation_bound(curvatures: ArrayLike, cells: int) -> float:
    """Bound the error of multilinear interpolation on [-1, 1]^d.

    Parameters
    ----------
    curvatures : array of shape (d,)
        Bounds on the pure second derivatives, at least 0.
    cells : int, at least 1
        The number of cells per axis.

    Returns
    -------
    float
        sum(curvatures) / (2 cells^2), in the sup norm.

    Raises
    ------
    TypeError, ValueError
        If cells is no integer of at least 1, curvatures is no vector, or a curvature is
        negative or not finite.

    Examples
    --------
    >>> interpolation_bound([2.0, 2.0], cells=10)
    0.02

    References
    ----------
    Chapter 13, its theorem on multilinear interpolation.
    """
    _checks.check_integer("cells", cells, 1)
    curvatures = np.asarray(curvatures, dtype=np.float64)
    if curvatures.ndim != 1 or not curvatures.size:
        raise ValueError(f"curvatures have shape {curvatures.shape}: give a vector")
    if not (np.isfinite(curvatures) & (curvatures >= 0)).all():
        raise ValueError(
            f"curvatures is {curvatures}: give finite numbers of at least 0"
        )
    return float(curvatures.sum() / (2 * cells**2))


def propagation_bound(error: float, factor: float, depth: int) -> float:
    """Bound the error of a composition by the error of its parts.

    Parameters
    ----------
    error : float, at least 0
        Sup norm of the error at every node.
    factor : float, at least 0
        A bound on the sum of a node's Lipschitz constants, one per variable.
    depth : int, at least 1
        The number of nodes on the longest path.

    Returns
    -------
    float
        error * (1 + factor + ... + factor^(depth - 1)).

    Raises
    ------
    TypeError, ValueError
        If a number is negative or not finite, or depth no integer of at least 1.

    Examples
    --------
    >>> round(propagation_bound(0.1, factor=0.5, depth=3), 12)
    0.175

    References
    ----------
    Chapter 13, its theorem on the propagation of errors.
    """
    _checks.check_number("error", error, 0)
    _checks.check_number("factor", factor, 0)
    _checks.check_integer("depth", depth, 1)
    return float(error * sum(factor**j for j in range(depth)))


def shallow_parameters(units: int, inputs: int) -> int:
    """Count the parameters of a network with one hidden layer.

    Parameters
    ----------
    units, inputs : int, at least 1

    Returns
    -------
    int
        (inputs + 2) * units: a unit has a weight for each input, a bias and an output
        weight.

    Raises
    ------
    TypeError, ValueError
        If units or inputs is no integer of at least 1.

    Examples
    --------
    >>> shallow_parameters(units=10, inputs=8)
    100
    """
    _checks.check_integer("units", units, 1)
    _checks.check_integer("inputs", inputs, 1)
    return (inputs + 2) * units


def tree_parameters(units: int, inputs: int, arity: int = 2) -> int:
    """Count the parameters of a tree with a small network at each of its nodes.

    Parameters
    ----------
    units : int, at least 1
        Hidden units of a node.
    inputs : int
        Variables at the bottom: a power of `arity` above 1.
    arity : int, at least 2
        Variables of a node.

    Returns
    -------
    int
        (arity + 2) * units for each of (inputs - 1) / (arity - 1) nodes.

    Raises
    ------
    TypeError, ValueError
        If units, inputs or arity is out of range, or inputs no power of arity.

    Examples
    --------
    >>> tree_parameters(units=5, inputs=8)
    140
    """
    _checks.check_integer("units", units, 1)
    return shallow_parameters(units, arity) * sum(level_counts(inputs, arity))


def level_counts(inputs: int, arity: int) -> list[int]:
    """Count the nodes of a full tree, level by level.

    Parameters
    ----------
    inputs : int, at least 2
        A power of the arity.
    arity : int, at least 2

    Returns
    -------
    list of int
        The lowest level first.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or inputs is no power of the arity.

    Examples
    --------
    >>> level_counts(8, 2)
    [4, 2, 1]

    References
    ----------
    Chapter 13, "Approximation".
    """
    _checks.check_integer("inputs", inputs, 2)
    _checks.check_integer("arity", arity, 2)
    counts, left = [], int(inputs)
    while left % arity == 0:
        left //= arity
        counts.append(left)
    if left != 1:
        raise ValueError(f"inputs is {inputs}: give a power of the arity, {arity}")
    return counts


def polynomial_units(degree: int, inputs: int) -> int:
    """Count the hidden units that suffice for one layer to equal any polynomial.

    Parameters
    ----------
    degree : int, at least 0
    inputs : int, at least 1

    Returns
    -------
    int
        (degree + 1) * binomial(inputs - 1 + degree, degree), at most
        (degree + 1)^inputs.

    Raises
    ------
    TypeError, ValueError
        If degree or inputs is out of range.

    Examples
    --------
    >>> polynomial_units(degree=3, inputs=2)
    16

    References
    ----------
    Mhaskar 1996; chapter 13, its theorem on shallow networks.
    """
    _checks.check_integer("degree", degree, 0)
    _checks.check_integer("inputs", inputs, 1)
    return (degree + 1) * comb(inputs - 1 + degree, degree)


def necklaces(length: int, beads: int) -> int:
    """Count the words of a length, with all rotations of a word as one.

    This is the number of values on a grid of a function that does not change under
    cyclic shifts of its variables.

    Parameters
    ----------
    length, beads : int, at least 1
        Letters of a word (variables), and the size of the alphabet (grid points).

    Returns
    -------
    int
        The mean, over all rotations, of the number of words that the rotation does not
        change (Burnside's lemma).

    Raises
    ------
    TypeError, ValueError
        If length or beads is no integer of at least 1.

    Examples
    --------
    >>> necklaces(length=4, beads=2)
    6
    """
    _checks.check_integer("length", length, 1)
    _checks.check_integer("beads", beads, 1)
    return sum(int(beads) ** gcd(shift, length) for shift in range(length)) // length


def fit_slope(sizes: ArrayLike, errors: ArrayLike) -> float:
    """Fit the exponent s of errors = constant * sizes^s, by least squares of logs.

    Parameters
    ----------
    sizes, errors : arrays of shape (k,), k at least 2
        Numbers above 0; the sizes are not all equal.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the arrays are no vectors of one length of at least 2, a number is not finite
        and above 0, or all sizes are equal.

    Examples
    --------
    >>> round(fit_slope([1, 2, 4], [3, 12, 48]), 12)
    2.0
    """
    sizes, errors = (np.asarray(a, dtype=np.float64) for a in (sizes, errors))
    if sizes.ndim != 1 or sizes.shape != errors.shape or len(sizes) < 2:
        raise ValueError(
            f"sizes have shape {sizes.shape} and errors {errors.shape}: give two "
            "vectors of one length of at least 2"
        )
    for name, values in (("sizes", sizes), ("errors", errors)):
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"{name} are {values}: give finite numbers above 0")
    logs = np.log(sizes) - np.log(sizes).mean()
    if not logs.any():
        raise ValueError(f"sizes are all {sizes[0]}: a slope needs two sizes")
    return float(logs @ np.log(errors) / (logs @ logs))
