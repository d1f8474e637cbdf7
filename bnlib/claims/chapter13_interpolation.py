"""The claims of chapter 13 on counts of parameters and on interpolation."""

import functools
from itertools import product
from math import ceil

import numpy as np
import torch
from scipy.optimize import linprog

from bnlib.approximation import (
    TreeNetwork,
    draw_constituent,
    interpolate,
    interpolation_bound,
)
from bnlib.claims._instances_cube import cube
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(
    claim, chapter="13-approximation", kind="theorem", source="poggio2019"
)


def _built(inputs, units, arity=2):
    """Count the numbers in a network that is built."""
    generator = torch.Generator().manual_seed(0)
    network = TreeNetwork(inputs, units, arity, generator=generator)
    return sum(p.numel() for p in network.parameters())


def _counted(rng, per_unit):
    inputs, units = 2 ** int(rng.integers(1, 5)), int(rng.integers(1, 30))
    shallow, tree = _built(inputs, units, arity=inputs), _built(inputs, units)
    return Check.worst(
        Check(shallow, (inputs + 2) * units, "==", allowed=0.0),
        Check(tree, per_unit * (inputs - 1) * units, "==", allowed=0.0),
    )


@chapter_claim(
    id="p-4n",
    verdict="holds",
    statement="A shallow network of $N$ units in $n$ variables has $(n+2)N$ "
    r"parameters. A binary tree over $n$ variables has $\lvert V\rvert=n-1$ nodes; "
    "with a shallow network of $M$ units in two variables at each, it has $N=(n-1)M$ "
    "units and $4N$ parameters.",
)
def p_4n(rng):
    return _counted(rng, per_unit=4)


@p_4n.control
def _(rng):
    return _counted(rng, per_unit=3)


def _growth(rng, in_n):
    inputs, units = int(rng.integers(2, 20)), int(rng.integers(1, 30))
    one = _built(inputs, units, arity=inputs)
    wider = _built(2 * inputs, units, arity=2 * inputs)
    more = _built(inputs, 2 * units, arity=inputs)
    return Check.worst(
        Check(wider - one, in_n(inputs, units), "==", allowed=0.0),
        Check(more, 2 * one, "==", allowed=0.0),
    )


def _mean_square(x):
    return (x**2).mean(axis=1)


def _blind(rng, spare=0, tight=False):
    """Check the least error of too few units on two points that they cannot tell apart.

    There are fewer units than variables. The points are 0 and a corner of the part of
    the cube on which no unit changes. For units that see only the first variables, the
    bound is an equality.
    """
    inputs = int(rng.integers(3, 20))
    units = int(rng.integers(2, inputs))
    weights, biases = rng.standard_normal((inputs, units)), rng.standard_normal(units)
    weights[units:] *= not tight
    flat = {"A_eq": weights.T, "b_eq": np.zeros(units), "bounds": (-1, 1)}
    corner = linprog(rng.standard_normal(inputs), **flat, method="highs-ds").x
    points = np.array([np.zeros(inputs), corner])
    hidden, wanted = np.tanh(points @ weights + biases), _mean_square(points) / 5
    # The best output weights for these two points.
    miss = np.abs(hidden @ np.linalg.lstsq(hidden, wanted, rcond=1e-9)[0] - wanted)
    bound = (1 - (units - spare) / inputs) / 10
    return Check(miss.max(), bound, ">=", allowed=1e-6)


@chapter_claim(
    id="p-shallow-count",
    verdict="ambiguous",
    statement="The $(n+2)N$ parameters of a shallow network grow by $N$ with each "
    "variable at a fixed number of units, and in proportion to $N$ at a fixed number "
    r"of variables. At a fixed accuracy $\epsilon<\frac1{10}$ $N$ itself grows with "
    r"$n$: on $W_m^n$ it takes $N\ge(1-10\epsilon)\,n$ units.",
    printed=r"A shallow network has $(n+2)N\sim n$ parameters. Read without a fixed "
    "$N$, that is a count that does not depend on $N$.",
    printed_in="poggio2019",
)
def p_shallow_count(rng):
    growth = _growth(rng, in_n=lambda inputs, units: inputs * units)
    return Check.worst(growth, _blind(rng), _blind(rng, tight=True))


@p_shallow_count.control
def _(rng):
    # In print, or one unit more than the bound asks for.
    if rng.integers(2):
        return _growth(rng, in_n=lambda inputs, units: (inputs + 2) * units)
    return _blind(rng, spare=1, tight=True)


@p_shallow_count.printed
def _():
    return Check(_built(8, 20, arity=8), _built(8, 10, arity=8), "==", allowed=0.1)


# Interpolation.


def _on_centres(function, interpolant, inputs, cells):
    """Return the largest difference at the centres of the grid's cells."""
    middles = np.linspace(-1, 1, cells + 1)[:-1] + 1 / cells
    points = np.array(list(product(middles, repeat=inputs)))
    return np.abs(function(points) - interpolant(points)).max()


def _interpolation(rng, share):
    inputs, cells = int(rng.integers(1, 4)), int(rng.integers(1, 7))
    squares, slopes = rng.uniform(0.1, 1, inputs), rng.standard_normal(inputs)

    def quadratic(x):
        return (squares * x**2).sum(axis=1) + np.prod(1 + slopes * x, axis=1)

    found = interpolate(quadratic, inputs, cells)
    error = _on_centres(quadratic, found, inputs, cells)
    wave, points = draw_constituent(rng, inputs, norm=9.0), cube(rng, inputs, 500)
    miss = np.abs(wave(points) - interpolate(wave, inputs, cells)(points)).max()
    return Check.worst(
        Check(error, share * interpolation_bound(2 * squares, cells), "==", 1e-12),
        Check(miss, share * interpolation_bound(wave.curvatures, cells), "<=", 1e-12),
    )


@chapter_claim(
    id="approx-multilinear",
    verdict="holds",
    source="book",
    statement=r"Let $f:[-1,1]^n\to\mathbb R$ be twice continuously differentiable "
    r"with $\lvert\partial_i^2f\rvert\le M_i$. Its multilinear interpolant $I_kf$ on "
    r"the even grid of $k$ cells an axis, $(k+1)^n$ values, satisfies $\lVert "
    r"f-I_kf\rVert_\infty\le\frac1{2k^2}\sum_iM_i$, with equality, for $M_i=2c_i$, "
    r"if $f$ is $\sum_ic_ix_i^2$, $c_i\ge0$, plus a function that is affine in each "
    "variable.",
)
def approx_multilinear(rng):
    return _interpolation(rng, share=1)


@approx_multilinear.control
def _(rng):
    return _interpolation(rng, share=1 / 2)


def _least_values(inputs, accuracy):
    """Return the size of the coarsest grid with an error of at most the accuracy."""
    cells = 1
    while True:
        found = interpolate(_mean_square, inputs, cells)
        if _on_centres(_mean_square, found, inputs, cells) <= accuracy:
            return found.num_parameters
        cells += 1


def _complexity(rng, order):
    inputs, accuracy = int(rng.integers(1, 4)), rng.uniform(0.005, 0.05)
    predicted = (ceil(accuracy ** (-1 / order)) + 1) ** inputs
    return Check(_least_values(inputs, accuracy), predicted, "==", allowed=0.0)


@chapter_claim(
    id="p-typo-eps",
    verdict="misprint",
    statement=r"The number of parameters grows as $\epsilon^{-n/m}$, a power of the "
    "accuracy. Exactly so in an example with $m=2$: multilinear interpolation of "
    r"$\frac1n\sum_ix_i^2$ on even grids reaches the accuracy $\epsilon\in(0,1)$ "
    r"first with $(\lceil\epsilon^{-1/2}\rceil+1)^n$ values.",
    printed=r"The number grows as $e^{-n/m}$. That does not depend on the accuracy.",
    printed_in="poggio2019",
)
def p_typo_eps(rng):
    return _complexity(rng, order=2)


@p_typo_eps.control
def _(rng):
    return _complexity(rng, order=1)


@p_typo_eps.printed
def _():
    numbers = [_least_values(2, accuracy) for accuracy in (0.1, 0.001)]
    return Check(numbers[1], numbers[0], "==", allowed=0.5)
