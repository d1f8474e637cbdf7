"""Gaussian expectations of functions of one number, for any mean and spread."""

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_DENSITY = 1 / np.sqrt(2 * np.pi)
# Beyond 39 standard deviations the density is below the smallest float.
_REACH, _FARTHEST = 9.0, 39.0


def gauss_rule(mean, spread, breaks, functions=()):
    """Return t and weights: E f(mean + spread X), X normal, is near weights @ f(t).

    Near the first break t has full relative precision. Gauss-Legendre on panels no
    longer than 1.5 standard deviations, halving towards each break in geometric
    progression down to length 1 of t. If the breaks lie out in a tail the panels
    reach them: there an exponentially small expectation has its mass. With breaks
    None the panels are halved until the integrals of the functions no longer change.
    """
    breaks = np.asarray((0.0,) if breaks is None else breaks)
    # Near a break t = mean + spread x would cancel, so y = x - origin is measured from
    # it; not from one out of reach, where x would cancel.
    near = abs(breaks[0] - mean) < _FARTHEST * spread
    base, origin = (breaks[0], (breaks[0] - mean) / spread) if near else (mean, 0.0)
    edges = _edges(origin, spread, breaks - base)
    if functions:
        moved = [lambda y, f=f: f(base + spread * y) for f in functions]
        edges = _refined(edges, origin, moved)
    y, weights = (part.ravel() for part in _panels(edges, origin))
    return base + spread * y, weights


def _edges(origin, spread, offsets):
    centres = offsets / spread
    low = max(-_FARTHEST, -_REACH + min(0.0, origin + centres.min())) - origin
    high = min(_FARTHEST, _REACH + max(0.0, origin + centres.max())) - origin
    # The logarithms apart: their sum does not overflow where the product would.
    halvings = int(np.ceil(max(np.log2(2 * _FARTHEST) + np.log2(spread), 0.0))) + 1
    steps = 2.0 ** np.arange(halvings) / spread
    near = (centres[:, None] + np.concatenate([-steps, [0.0], steps])).ravel()
    even = np.linspace(low, high, int(np.ceil((high - low) / 1.5)) + 1)
    return np.unique(np.concatenate([even, near[(near > low) & (near < high)]]))


def _panels(edges, origin):
    half = np.diff(edges)[:, None] / 2
    y = (edges[:-1, None] + half) + half * _NODES
    return y, half * _WEIGHTS * (_DENSITY * np.exp(-0.5 * (origin + y) ** 2))


def _refined(edges, origin, functions):
    """Halve the panels whose integrals change by it."""
    for _ in range(40):
        middles = (edges[:-1] + edges[1:]) / 2
        whole = _integrals(edges, origin, functions)
        halves = _integrals(np.sort([*edges, *middles]), origin, functions)
        change = np.abs(whole - halves[:, ::2] - halves[:, 1::2])
        bad = (change > 1e-14 * np.abs(whole).sum(axis=1, keepdims=True)).any(axis=0)
        if not bad.any():
            break
        edges = np.sort([*edges, *middles[bad]])
    return edges


def _integrals(edges, origin, functions):
    y, weights = _panels(edges, origin)
    return np.stack([(weights * function(y)).sum(axis=1) for function in functions])
