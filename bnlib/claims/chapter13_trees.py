"""The claims of chapter 13 on composed functions, and what locality buys."""

import functools
from functools import partial
from itertools import product

import numpy as np
from numpy.polynomial import polynomial

from bnlib import approximation
from bnlib.approximation import (
    Tree,
    draw_constituent,
    draw_tree,
    draw_wave,
    fit_slope,
    interpolate_tree,
)
from bnlib.claims._instances_cube import cube
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(
    claim, chapter="13-approximation", kind="theorem", source="poggio2019"
)


def _propagated(rng, terms):
    """Check that equal errors in a tree of averages add up as the bound says."""
    depth, arity = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    factor, error = rng.uniform(0.3, 0.95), rng.uniform(0.001, 0.05)
    shares = rng.dirichlet(np.ones(arity)) * factor
    counts = [arity**height for height in reversed(range(depth))]

    def tree(shift):
        return Tree([[lambda x: x @ shares + shift] * n for n in counts], arity)

    x = cube(rng, arity**depth, 50)
    bound = approximation.propagation_bound(error, factor, terms(depth))
    exact = Check(tree(error)(x) - tree(0)(x), bound, "==", allowed=1e-11)
    waves = draw_tree(rng, depth, arity, draw=partial(draw_constituent, norm=0.9))
    moved = _shifted(waves, error)
    largest = max(node.lipschitz.sum() for node in waves.nodes)
    bound = approximation.propagation_bound(error, largest, depth)
    miss = np.abs(moved(x) - waves(x)).max()
    return Check.worst(exact, Check(miss, bound, "<=", allowed=1e-12))


def _shifted(tree, error):
    """Return the tree with its nodes moved by the error, up and down by turns."""
    levels = [
        [
            lambda x, h=node, s=(-1) ** place: h(x) + s * error
            for place, node in enumerate(level)
        ]
        for level in tree.levels
    ]
    return Tree(levels, tree.arity)


@chapter_claim(
    id="approx-propagation",
    verdict="holds",
    source="book",
    statement=r"Let $f$ be a tree of depth $D$ of functions $h_v:[-1,1]^d\to[-1,1]$ "
    r"whose Lipschitz constants, one a variable, sum to at most $\lambda$, and $g$ "
    r"the same tree of functions $g_v:[-1,1]^d\to[-1,1]$ with $\lVert "
    r"g_v-h_v\rVert_\infty\le\epsilon$. Then $\lVert "
    r"g-f\rVert_\infty\le\epsilon\,(1+\lambda+\dots+\lambda^{D-1})$, with equality "
    r"for a full tree of affine $h_v$ with nonnegative slopes of sum $\lambda$, and "
    r"$g_v=h_v+\epsilon$.",
)
def approx_propagation(rng):
    return _propagated(rng, terms=lambda depth: depth)


@approx_propagation.control
def _(rng):
    return _propagated(rng, terms=lambda depth: depth - 1)


def _norms(coefficients):
    """Return the sup norms of a polynomial's derivatives up to the second, by kind."""
    arity, axis = coefficients.ndim, np.linspace(-1, 1, 61)
    value = polynomial.polyval if arity == 1 else polynomial.polygrid2d

    def largest(kind):
        c = coefficients
        for place, times in enumerate(kind):
            c = polynomial.polyder(c, times, axis=place)
        return np.abs(value(*[axis] * arity, c)).max()

    kinds = [k for k in product(range(3), repeat=arity) if sum(k) <= 2]
    return {kind: largest(kind) for kind in kinds}


def _contraction(rng, share):
    """Compare first derivatives with the norm in W_2, for random and extremal cases.

    In one variable (x + 1)^2 / 8 - 1 / 4 and its mirror image attain the bound.
    """
    side = rng.choice([-1, 1])
    steepest = rng.uniform(0.1, 1) * np.array([-1, 2 * side, 1]) / 8
    checks = []
    for each in (rng.standard_normal(6), rng.standard_normal((6, 6)), steepest):
        sizes = _norms(each)
        first = sum(size for kind, size in sizes.items() if sum(kind) == 1)
        bound = share * each.ndim / (each.ndim + 1) * sum(sizes.values())
        checks.append(Check(first, bound, "<=", allowed=1e-12))
    return Check.worst(*checks)


@chapter_claim(
    id="approx-contraction",
    verdict="holds",
    source="book",
    statement=r"For $m\ge2$ and $h\in W_m^d$, "
    r"$\sum_i\lVert\partial_ih\rVert_\infty\le\frac d{d+1}$. So the error of "
    "a tree of such functions, of any size and depth, is at most $d+1$ times that of "
    "its nodes, if the approximations too have values in $[-1,1]$.",
)
def approx_contraction(rng):
    return _contraction(rng, share=1.0)


@approx_contraction.control
def _(rng):
    return _contraction(rng, share=0.99)


def _tree_error(rng, tree, cells):
    """Return the largest miss of composed interpolation, and how many values it has."""
    found = interpolate_tree(tree, cells)
    x = cube(rng, tree.inputs)
    return np.abs(found(x) - tree(x)).max(), found.num_parameters


def _deep(rng, draw):
    depth, cells = int(rng.integers(1, 6)), int(rng.integers(2, 9))
    tree = draw_tree(rng, depth, draw=draw)
    error, values = _tree_error(rng, tree, cells)
    return Check.worst(
        Check(error, 3 / (2 * cells**2), "<=", allowed=1e-12),
        Check(values, (tree.inputs - 1) * (cells + 1) ** 2, "==", allowed=0.0),
    )


@chapter_claim(
    id="p-thm2",
    verdict="holds",
    statement=r"Let $\sigma$ be infinitely differentiable and not a polynomial, and "
    r"$m\ge2$. For every $f\in W_m^{n,2}$ and $0<\epsilon<1$ there is a network along "
    r"the same binary tree with $N=O((n-1)\epsilon^{-2/m})$ units whose error on "
    r"$[-1,1]^n$ is at most $\epsilon$; the constant depends on $m$ alone. (Checked: "
    "composed interpolation with $(n-1)(k+1)^2$ values has an error of at most "
    r"$\frac3{2k^2}$ for $f\in W_2^{n,2}$.)",
)
def p_thm2(rng):
    return _deep(rng, draw_constituent)


@p_thm2.control
def _(rng):
    return _deep(rng, partial(draw_wave, frequency=8.0))


def _general(rng, exponent):
    arity = int(rng.integers(1, 4))
    smooth, cells = draw_tree(rng, 2, arity), int(rng.integers(2, 9))
    error, _ = _tree_error(rng, smooth, cells)
    # In the unit ball the upper node sees only a fraction of one cell, too little to
    # measure a slope; waves fill the cube.
    waves, sizes = draw_tree(rng, 2, arity, draw=draw_wave), np.array([8, 16, 32])
    x = cube(rng, waves.inputs)
    misses = [interpolate_tree(waves, k)(x) - waves(x) for k in sizes]
    roots = np.sqrt(np.square(misses).mean(axis=1))
    slope = fit_slope(len(waves.nodes) * sizes**arity, roots)
    return Check.worst(
        Check(error, (arity + 1) / (2 * cells**2), "<=", allowed=1e-12),
        Check(slope, exponent(arity), "==", allowed=0.05),
    )


@chapter_claim(
    id="p-general-d",
    verdict="holds",
    statement=r"Let $\sigma$ be infinitely differentiable and not a polynomial, and "
    r"$f$ be composed along a directed acyclic graph of functions $h_v\in "
    r"W_{m_v}^{d_v}$, $m_v\ge2$. Then for $0<\epsilon<1$ "
    r"$N=O\big(\sum_v\epsilon^{-d_v/m_v}\big)$ units suffice for an error of "
    r"$\epsilon$ along the same graph, where the constant depends on the $d_v$ and "
    r"$m_v$ that occur, not on the number of nodes; with $d$ variables and order $m$ "
    r"at every node, $N=O(\lvert V\rvert\,\epsilon^{-d/m})$. (Checked: "
    r"composed interpolation for $d=1,2,3$, $m=2$: the bound $\frac{d+1}{2k^2}$, and "
    "a measured slope of $-2/d$ in the number of values.)",
)
def p_general_d(rng):
    return _general(rng, exponent=lambda arity: -2 / arity)


@p_general_d.control
def _(rng):
    return _general(rng, exponent=lambda arity: -2 / (arity + 1))


def _orbits(inputs, cells):
    """Count the grid's points up to cyclic shifts, by listing them."""
    points = product(range(cells + 1), repeat=inputs)
    turns = (tuple(p[s:] + p[:s] for s in range(inputs)) for p in points)
    return len({min(each) for each in turns})


def _locality(rng, below):
    depth, inputs = int(rng.integers(2, 5)), int(rng.integers(3, 5))
    cells = int(rng.integers(4, 8))
    tree, x = draw_tree(rng, depth, shared=True), cube(rng, 2**depth, 500)
    own, one = (interpolate_tree(tree, cells, shared=s) for s in (False, True))
    counts = [own.num_parameters, one.num_parameters]
    expected = np.array([tree.inputs - 1, 1]) * (cells + 1) ** 2
    orbits = _orbits(inputs, cells)
    by_level = [draw_tree(rng, 1).levels[0] * len(level) for level in tree.levels]
    tables = {id(node) for level in by_level for node in level}
    return Check.worst(
        Check(len(tables), np.log2(tree.inputs), "==", allowed=0.0),
        Check(own(x), one(x), "==", allowed=1e-12),
        Check(np.abs(own(x) - tree(x)).max(), 1.5 / cells**2, "<=", allowed=1e-12),
        Check(counts, expected, "==", allowed=0.0),
        Check(orbits, approximation.necklaces(inputs, cells + 1), "==", allowed=0.0),
        Check(orbits, below(inputs, cells), ">=", allowed=0.0),
    )


@chapter_claim(
    id="p-locality",
    verdict="holds",
    statement="Composed interpolation along a binary tree of functions in $W_2^2$ "
    r"has an error of at most $\frac3{2k^2}$ with $(n-1)(k+1)^2$ values, one table a "
    "node, and, if all nodes are one function, with $(k+1)^2$ values, one table in "
    "all: locality gives the exponent; sharing among all nodes divides by $n-1$, "
    r"within the levels of a full tree, $\log_2n$ tables, by $(n-1)/\log_2n$. A grid "
    "of $k$ cells an axis, shared over all cyclic shifts of $n$ variables but not "
    "local, has at least $(k+1)^n/n$ values.",
)
def p_locality(rng):
    return _locality(rng, below=lambda n, k: (k + 1) ** n / n)


@p_locality.control
def _(rng):
    return _locality(rng, below=lambda n, k: (k + 1) ** n / (n - 1))
