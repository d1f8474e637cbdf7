"""Gaussian expectations of functions of one number, for any mean and spread."""

import numpy as np

from bnlib import _quadrature

_DENSITY = 1 / np.sqrt(2 * np.pi)
# Beyond 39 standard deviations the density is below the smallest float.
_REACH, _FARTHEST = 9.0, 39.0
_SHORTEST = 1e-12
_TOO_FAST = (
    "the loss varies too fast to be integrated: give one that is smooth but for a few "
    "kinks, or name them in its attribute breaks"
)


def gauss_rule(mean, spread, breaks, functions=()):
    """Return t and weights with E f(mean + spread X) close to weights @ f(t), X normal.

    t has full relative precision near the first break. The rule is Gauss-Legendre on
    panels no longer than 1.5 standard deviations, which halve towards each break down
    to length 1 of t. The panels also reach breaks that lie in a tail: an exponentially
    small expectation has its mass there. With breaks None the panels are halved until
    the integrals of the functions no longer change.
    """
    breaks = np.asarray((0.0,) if breaks is None else breaks)
    # mean + spread x would cancel near a break, so y = x - origin is measured from the
    # break; but not from one out of reach, where x itself would cancel.
    near = abs(breaks[0] - mean) < _FARTHEST * spread
    base, origin = (breaks[0], (breaks[0] - mean) / spread) if near else (mean, 0.0)
    edges = _edges(origin, spread, breaks - base)
    panels = _quadrature.panels_between(edges)

    def integrals(panels):
        y, weights = _points(panels, origin)
        t = base + spread * y
        return np.stack([(weights * f(t)).sum(axis=1) for f in functions])

    if functions:
        panels = _quadrature.refined(
            edges, integrals, shortest=_SHORTEST, refusal=_TOO_FAST
        )
    y, weights = (part.ravel() for part in _points(panels, origin))
    return base + spread * y, weights


def _edges(origin, spread, offsets):
    centres = offsets / spread
    low = max(-_FARTHEST, -_REACH + min(0.0, origin + centres.min())) - origin
    high = min(_FARTHEST, _REACH + max(0.0, origin + centres.max())) - origin
    # A sum of logarithms does not overflow where the product would.
    halvings = int(np.ceil(max(np.log2(2 * _FARTHEST) + np.log2(spread), 0.0))) + 1
    steps = 2.0 ** np.arange(halvings) / spread
    near = (centres[:, None] + np.concatenate([-steps, [0.0], steps])).ravel()
    even = np.linspace(low, high, int(np.ceil((high - low) / 1.5)) + 1)
    return np.unique(np.concatenate([even, near[(near > low) & (near < high)]]))


def _points(panels, origin):
    """Return nodes, and weights that include the normal density."""
    y, weights = _quadrature.points(panels)
    return y, weights * (_DENSITY * np.exp(-0.5 * (origin + y) ** 2))
