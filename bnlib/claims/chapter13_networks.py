"""The claims of chapter 13 on what networks with one hidden layer can do."""

import functools
from itertools import product
from math import comb

import numpy as np

from bnlib.approximation import polynomial_layer
from bnlib.claims._instances_cube import cube
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(
    claim, chapter="13-approximation", kind="theorem", source="poggio2019"
)


def _relu(t):
    return np.maximum(t, 0)


def _ridge_units(direction, phase, pieces):
    """Interpolate cos(direction . x + phase) linearly: weights, biases, outputs."""
    reach = np.abs(direction).sum()
    knots = np.linspace(-reach, reach, pieces + 1)
    values = np.cos(knots + phase)
    slopes = np.diff(values) / np.diff(knots)
    weights = np.outer(direction, np.append(np.ones(pieces), 0))
    # The last unit does not see x, so it gives the constant.
    biases = np.append(-knots[:-1], 1.0)
    return weights, biases, np.append(np.diff(slopes, prepend=0), values[0])


def _universal(rng, share, ridges):
    """Compare a sum of cosines with networks of one and two hidden layers.

    One cosine alone has an error close to the bound.
    """
    inputs, pieces = int(rng.integers(1, 4)), 60
    turns = rng.standard_normal((ridges, inputs))
    turns *= rng.uniform(4, 6, (ridges, 1)) / np.linalg.norm(turns, axis=1)[:, None]
    phases, sizes = rng.uniform(0, 6, ridges), rng.uniform(0.5, 1, ridges)
    parts = [_ridge_units(a, b, pieces) for a, b in zip(turns, phases)]
    weights, biases = (np.concatenate([p[i] for p in parts], axis=-1) for i in (0, 1))
    outputs = np.concatenate([c * p[2] for c, p in zip(sizes, parts)])
    steps = 2 * np.abs(turns).sum(axis=1) / pieces
    x = cube(rng, inputs, 3000)
    target = np.cos(x @ turns.T + phases) @ sizes
    hidden = _relu(x @ weights + biases)
    below = _relu(np.hstack([x, -x]))
    deep = _relu(below @ np.vstack([weights, -weights]) + biases) @ outputs
    miss = np.abs(hidden @ outputs - target).max()
    return Check.worst(
        Check(miss, share * (sizes * steps**2).sum() / 8, "<=", allowed=1e-9),
        Check(deep, hidden @ outputs, "==", allowed=1e-11),
    )


@chapter_claim(
    id="p-universal",
    verdict="holds",
    statement=r"On a compact set $X\subset\mathbb R^n$ the networks with one hidden "
    "layer of ReLU units are dense in $C(X)$, and so are those with any fixed number "
    "of hidden layers, if the layers may be as wide as needed. (For one hidden layer "
    "it is so for every continuous activation that is not a polynomial.)",
)
def p_universal(rng):
    return Check.worst(*(_universal(rng, 1.0, ridges) for ridges in (1, 3)))


@p_universal.control
def _(rng):
    return _universal(rng, 0.9, ridges=1)


def _sine(order, t):
    return np.sin(t + order * np.pi / 2)


def _exponential(order, t):
    return np.exp(t)


def _polynomial(rng, wrong=0.0):
    """Compare a random polynomial with a shallow network of the theorem's size."""
    inputs, degree = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    kinds = [e for e in product(range(degree + 1), repeat=inputs) if sum(e) <= degree]
    sizes = rng.uniform(0.5, 1, len(kinds)) * rng.choice([-1, 1], len(kinds))
    sigma, point = (_sine, 0.7) if rng.integers(2) else (_exponential, 0.0)
    derivatives = [sigma(order, point) for order in range(degree + 1)]
    derivatives[-1] *= 1 + wrong
    layer = polynomial_layer(
        dict(zip(kinds, sizes)), derivatives, point=point, step=2e-3, rng=rng
    )
    x = cube(rng, inputs, 300)
    target = sum(c * np.prod(x**e, axis=1) for c, e in zip(sizes, kinds))
    powers = comb(inputs - 1 + degree, degree)
    return Check.worst(
        Check(layer(x, lambda t: sigma(0, t)), target, "==", allowed=1e-2),
        Check(len(layer.outputs), (degree + 1) * powers, "==", allowed=0.0),
        Check(len(layer.outputs), (degree + 1) ** inputs, "<=", allowed=0.0),
    )


@chapter_claim(
    id="p-thm1",
    verdict="conditional",
    statement=r"Let $\sigma$ be infinitely differentiable and not a polynomial. For "
    r"every $f\in W_m^n$ and $0<\epsilon<1$ there is a shallow network with "
    r"$N=O(\epsilon^{-n/m})$ units whose error on $[-1,1]^n$ is at most $\epsilon$; "
    r"the constant depends on $m$ and $n$. For some such $\sigma$ "
    r"$O(\epsilon^{-(n-1)/m})$ units do, for $n=1$ one. (Checked: a polynomial of "
    r"degree $K$ takes $(K+1)\binom{n-1+K}K\le(K+1)^n$ units, to any accuracy.)",
    printed=r'The rate $\epsilon^{-n/m}$ "is the best possible", with no word that the '
    "parameters have to depend continuously on the function.",
    printed_in="poggio2019",
)
def p_thm1(rng):
    return _polynomial(rng)


@p_thm1.control
def _(rng):
    return _polynomial(rng, wrong=0.1)


@p_thm1.printed
def _():
    # All sums of four bumps, of either sign, side by side make one activation.
    signs = np.array(list(product((-1, 1), repeat=4)))

    def bumps(row, x):
        cell = np.clip(np.floor(2 * x + 2), 0, 3).astype(int)
        t = 4 * x + 3 - 2 * cell  # from -1 to 1 in each cell
        inside = np.abs(t) < 1
        heights = np.exp(1 - 1 / (1 - np.where(inside, t, 0) ** 2))
        return signs[row, cell] * np.where(inside, heights, 0)

    def sigma(t):
        row = np.round(t / 4).astype(int)
        return bumps(row, t - 4 * row)

    x = np.linspace(-1, 1, 401)
    # Each function gets one unit of three numbers. If these are chosen continuously,
    # they miss one of the sums by the height of a bump (approx-selection).
    errors = [np.abs(sigma(x + 4 * row) - bumps(row, x)).max() for row in range(16)]
    return Check(max(errors), 1.0, ">=", allowed=0.5)
