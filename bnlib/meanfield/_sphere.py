"""The distribution of one normalised value of a batch, and its polynomials.

A batch of B with mean 0 and mean square 1 lies on a sphere of radius sqrt(B) in
B - 1 dimensions. If it is uniform on it, one of its values is sqrt(B - 1) sin(a),
where a has a density proportional to cos(a)^(B - 3). For infinite B the value is
standard normal; the code writes None for this B.
"""

from typing import NamedTuple

import numpy as np

from bnlib import _arrays, _quadrature
from bnlib.meanfield._activations import check_elementwise, values_and_slopes

# Beyond 38 standard deviations the density is below the smallest float.
_FARTHEST = 38.0
_HIGHEST_DEGREE = 2048
_TOO_FAST = (
    "the activation varies too fast to be integrated, or autograd does not give its "
    "derivative: give one that is smooth but for a few kinks"
)


class Sampled(NamedTuple):
    """An activation on a quadrature rule for one normalised value.

    ``weights @ f(y)`` is the mean of f; ``values`` have mean 0.
    """

    y: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    mean: float

    @property
    def variance(self):
        """The variance of the activation."""
        return self.weights @ self.values**2


@_arrays.silently()
def sample(function, batch_size, finest=np.inf):
    """Return the activation on a quadrature rule that is fine enough for its kinks.

    No panel of the rule is longer than ``finest``; panels are halved until this changes
    no integral.
    """
    edges = _edges(batch_size, finest)
    check_elementwise(function, _value(edges, batch_size))
    panels = _quadrature.refined(
        edges,
        lambda panels: _integrals(function, batch_size, panels),
        shortest=1e-13 * _spread(batch_size),
        refusal=_TOO_FAST,
        # A kink beyond the last node of a panel shows only at the panel's ends.
        missed=lambda panels: (
            _missed(function, batch_size, panels) * _spread(batch_size)
        ),
    )
    return _sampled(function, batch_size, panels)


def _sampled(function, batch_size, panels):
    y, weights, values, slopes = _on_panels(function, batch_size, panels)
    total = weights.sum()
    mean = (weights * values).sum() / total
    found = Sampled(
        *(array.ravel() for array in (y, weights / total, values - mean, slopes)), mean
    )
    _check_slopes(function, batch_size, panels, np.sqrt(found.variance))
    if found.variance == 0 or not slopes.any():
        low, high = y.min(), y.max()
        raise ValueError(
            f"the activation is constant on the numbers that reach it, {low:.3g} to "
            f"{high:.3g}: batch normalization of a constant has no gradient"
        )
    _check_mass(batch_size, panels, (weights * (slopes**2 + values**2)).sum(axis=1))
    return found


def _check_mass(batch_size, panels, mass):
    """Raise if a mean square overflows, or most of it comes from around one point."""
    tiny = np.diff(panels, axis=0)[0] < 1e-9 * _spread(batch_size)
    total = mass.sum()
    if not np.isfinite(total) or mass[tiny].sum() > 1e-6 * total:
        raise ValueError(
            "the activation, or its derivative, grows too fast in the tails or at a "
            "point: its square has no mean, or one that cannot be computed"
        )


def _missed(function, batch_size, panels):
    """Return, per panel, how far the slopes' integral misses the values' change.

    The difference is weighted by the density.
    """
    values, _ = values_and_slopes(function, _value(panels, batch_size))
    a, weights = _quadrature.points(panels)
    _, slopes = values_and_slopes(function, _value(a, batch_size))
    gained = (slopes * _speed(a, batch_size) * weights).sum(axis=1)
    missed = np.abs(values[1] - values[0] - gained)
    return missed * _density(panels, batch_size).max(axis=0)


def _check_slopes(function, batch_size, panels, deviation):
    """Raise unless the values are the slopes' integral on every panel that has mass."""
    missed = _missed(function, batch_size, panels)
    if missed.max() > 1e-7 * deviation:
        place = _value(panels[0, missed.argmax()], batch_size)
        raise ValueError(
            f"the activation's values do not follow its derivative near {place:.4g}: "
            "it jumps there, which makes the growth infinite, or autograd does not "
            "give its derivative"
        )


def _spread(batch_size):
    """Return roughly the standard deviation of the coordinate a."""
    return 1.0 if batch_size is None else (batch_size - 3) ** -0.5


def _edges(batch_size, finest):
    spread = _spread(batch_size)
    reach = _FARTHEST * spread
    if batch_size is not None:
        reach = min(reach, np.pi / 2)
    # The number is odd, so a kink at 0 is not on an edge and is found.
    panels = 2 * int(np.ceil(reach / min(finest, 1.5 * spread))) + 1
    return np.linspace(-reach, reach, panels + 1)


def _value(a, batch_size):
    return a if batch_size is None else np.sqrt(batch_size - 1) * np.sin(a)


def _speed(a, batch_size):
    """Return the derivative of the value with respect to the coordinate a."""
    return 1.0 if batch_size is None else np.sqrt(batch_size - 1) * np.cos(a)


def _density(a, batch_size):
    """Return the density of the coordinate a, scaled to 1 at 0."""
    if batch_size is None:
        return np.exp(-(a**2) / 2)
    # The power cos(a)^(B - 3) would magnify the rounding of the cosine.
    square = np.minimum(np.sin(a) ** 2, 1 - 2.0**-53)
    return np.exp((batch_size - 3) / 2 * np.log1p(-square))


def _on_panels(function, batch_size, panels):
    a, weights = _quadrature.points(panels)
    y = _value(a, batch_size)  # (panels, 16)
    return y, weights * _density(a, batch_size), *values_and_slopes(function, y)


def _integrals(function, batch_size, panels):
    _, weights, values, slopes = _on_panels(function, batch_size, panels)
    terms = (values, values**2, slopes, slopes**2)
    return np.stack([(weights * term).sum(axis=1) for term in terms])


class Expansion(NamedTuple):
    """The squared coefficients of an activation, degree by degree from 1.

    The polynomials are orthonormal under the distribution of one value: Gegenbauer's,
    or Hermite's in the limit. ``pair`` holds each polynomial at the correlation of two
    values of a batch, divided by its value at 1: 0 in the limit, where they are
    independent. ``energy`` is the sum over all degrees k, also those left out, of
    k (k + B - 3) times the square of degree k; in the limit, of k times that square.
    """

    squares: np.ndarray
    pair: np.ndarray
    energy: float

    @property
    def degrees(self):
        """The degrees 1, 2, ... of the entries."""
        return np.arange(1, len(self.squares) + 1)


def expand(function, batch_size, degrees=None):
    """Return the activation's `Sampled` and its `Expansion`.

    The expansion stops at the given degree, or where the rest hardly adds to the
    product of two values of a batch.
    """
    if batch_size is None:
        pair = np.zeros(degrees or 1)
        rule = sample(function, None, finest=2 * np.pi / np.sqrt(len(pair)))
        t, couplings = rule.y, np.sqrt(np.arange(1, len(pair) + 1))
        energy = rule.weights @ rule.slopes**2
    else:
        pair = _pair(batch_size)[:degrees]
        # Two waves of the highest polynomial on each panel of 16 nodes.
        rule = sample(function, batch_size, finest=4 * np.pi / len(pair))
        t, couplings = rule.y / np.sqrt(batch_size - 1), _couplings(batch_size, pair)
        energy = rule.weights @ ((batch_size - 1 - rule.y**2) * rule.slopes**2)
    squares = _squares(rule, t, couplings, batch_size, energy)
    return rule, Expansion(squares, pair[: len(squares)], energy)


def _pair(batch_size):
    """Return the values of `Expansion.pair` that are not negligible."""
    r = -1 / (batch_size - 1)
    found = [1.0, r]
    for k in range(1, _HIGHEST_DEGREE):
        ahead = (2 * k + batch_size - 3) * r * found[k] - k * found[k - 1]
        found.append(ahead / (k + batch_size - 3))
        if max(abs(found[k]), abs(found[k + 1])) < 1e-15:
            break
    return np.array(found[1:])


def _couplings(batch_size, pair):
    """Return the coefficients of the polynomials' three-term recurrence."""
    alpha, k = (batch_size - 3) / 2, np.arange(1, len(pair) + 1)
    return np.sqrt(k * (k + 2 * alpha - 1) / (k + alpha) / (k + alpha - 1)) / 2


def _squares(rule, t, couplings, batch_size, energy):
    """Return the squared coefficients from degree 1, until they hold all the energy."""
    weighted = rule.weights * rule.values  # (nodes,)
    before, now, previous = np.zeros_like(t), np.ones_like(t), 0.0
    found, left = [], energy
    for k, coupling in enumerate(couplings, 1):
        before, now = now, (t * now - previous * before) / coupling
        previous = coupling
        found.append((weighted @ now) ** 2)
        left -= found[-1] * (k if batch_size is None else k * (k + batch_size - 3))
        if left < 1e-15 * energy:
            break
    return np.array(found)
