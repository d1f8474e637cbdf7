"""The claims of chapter 12 on what networks with one hidden layer can do."""

import functools
from itertools import product

import numpy as np

from bnlib.approximation import polynomial_layer
from bnlib.claims._instances_cube import cube
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(
    claim, chapter="12-approximation", kind="theorem", source="poggio2019"
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
    # The last unit does not see x: it is the constant.
    biases = np.append(-knots[:-1], 1.0)
    return weights, biases, np.append(np.diff(slopes, prepend=0), values[0])


def _universal(rng, activation=_relu):
    """A sum of cosines, and networks with one and two hidden layers close to it."""
    inputs, ridges, pieces = int(rng.integers(1, 4)), 3, 60
    turns = rng.standard_normal((ridges, inputs))
    turns *= rng.uniform(4, 6, (ridges, 1)) / np.linalg.norm(turns, axis=1)[:, None]
    phases, sizes = rng.uniform(0, 6, ridges), rng.uniform(0.5, 1, ridges)
    parts = [_ridge_units(a, b, pieces) for a, b in zip(turns, phases)]
    weights, biases = (np.concatenate([p[i] for p in parts], axis=-1) for i in (0, 1))
    outputs = np.concatenate([c * p[2] for c, p in zip(sizes, parts)])
    steps = 2 * np.abs(turns).sum(axis=1) / pieces
    x = cube(rng, inputs, 600)
    target = np.cos(x @ turns.T + phases) @ sizes
    hidden = activation(x @ weights + biases)
    if activation is not _relu:
        # These outputs are for ReLU: any other activation gets its best ones.
        outputs = np.linalg.lstsq(hidden, target)[0]
    below = _relu(np.hstack([x, -x]))
    deep = activation(below @ np.vstack([weights, -weights]) + biases) @ outputs
    miss = np.abs(hidden @ outputs - target).max()
    return Check.worst(
        Check(miss, (sizes * steps**2).sum() / 8, "<=", allowed=1e-9),
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
    return _universal(rng)


@p_universal.control
def _(rng):
    return _universal(rng, activation=np.square)


def _sine(order, t):
    return np.sin(t + order * np.pi / 2)


def _exponential(order, t):
    return np.exp(t)


def _polynomial(rng, activation=None):
    """A random polynomial, and a shallow network of the theorem's size for it."""
    inputs, degree = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    kinds = [e for e in product(range(degree + 1), repeat=inputs) if sum(e) <= degree]
    sizes = rng.uniform(0.5, 1, len(kinds)) * rng.choice([-1, 1], len(kinds))
    sigma, point = (_sine, 0.7) if rng.integers(2) else (_exponential, 0.0)
    derivatives = [sigma(order, point) for order in range(degree + 1)]
    layer = polynomial_layer(
        dict(zip(kinds, sizes)), derivatives, point=point, step=2e-3, rng=rng
    )
    x = cube(rng, inputs, 300)
    target = sum(c * np.prod(x**e, axis=1) for c, e in zip(sizes, kinds))
    if activation is None:
        found = layer(x, lambda t: sigma(0, t))
    else:
        hidden = activation(x @ layer.weights / 2e-3 + 1, degree)
        found = hidden @ np.linalg.lstsq(hidden, target)[0]
    return Check.worst(
        Check(found, target, "==", allowed=1e-2),
        Check(len(layer.outputs), (degree + 1) ** inputs, "<=", allowed=0.0),
    )


@chapter_claim(
    id="p-thm1",
    verdict="holds",
    statement=r"Let $\sigma$ be infinitely differentiable and not a polynomial. For "
    r"every $f\in W_m^n$ and $0<\epsilon<1$ there is a shallow network with "
    r"$N=O(\epsilon^{-n/m})$ units whose error on $[-1,1]^n$ is at most $\epsilon$; "
    "the constant depends on $m$ and $n$. (Checked: a polynomial of degree $K$ takes "
    "at most $(K+1)^n$ units, to any accuracy.)",
)
def p_thm1(rng):
    return _polynomial(rng)


@p_thm1.control
def _(rng):
    return _polynomial(rng, activation=lambda t, degree: t ** (degree - 1))
