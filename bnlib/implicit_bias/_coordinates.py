"""The two coordinate systems in which gradient flows are followed.

Both hold the layers W_1, ..., W_K in one vector, the state. A linear model has one
layer.
"""

import itertools

import numpy as np

from bnlib.implicit_bias import _norms


class Plain:
    """The weights themselves, for the flow of gradient descent."""

    def __init__(self, layers):
        self.start = np.concatenate([W.ravel() for W in layers])
        self._shapes = [W.shape for W in layers]
        ends = np.cumsum([0, *(W.size for W in layers)])
        self._slices = [slice(*pair) for pair in itertools.pairwise(ends)]

    def split(self, state):
        """Return the entries of each layer."""
        return [state[part] for part in self._slices]

    def layers(self, state):
        """Return the layers of a state."""
        return [W.reshape(s) for W, s in zip(self.split(state), self._shapes)]

    def slopes(self, state, slopes):
        """Return slopes in the layers as slopes in the state."""
        return np.concatenate([slope.ravel() for slope in slopes])

    def change(self, state, slope, change):
        """Return the derivative of `slopes` for one layer from that of its slope."""
        return change

    def drift(self, states):
        """Return the largest change of a difference of squared norms."""
        parts = [self.split(state) for state in states]
        return _unbalance([[_norms.lengths(W) for W in part] for part in parts])


class Normalised:
    """Weight normalization: lengths rho_k, then V_k, with W_k = rho_k V_k / |V_k|."""

    def __init__(self, layers):
        self._plain, self._count = Plain(layers), len(layers)
        flat = [W.ravel() for W in layers]
        lengths = [_norms.lengths(W) for W in flat]
        self.start = np.concatenate([lengths, *(_norms.directions(W) for W in flat)])

    def _parts(self, state):
        """Return the lengths, the norms of the V_k, and the unit vectors along them."""
        vectors = self._plain.split(state[self._count :])
        norms = [np.sqrt(V @ V) for V in vectors]
        return (
            state[: self._count],
            norms,
            [V / norm for V, norm in zip(vectors, norms)],
        )

    def layers(self, state):
        """Return the layers of a state."""
        lengths, _, units = self._parts(state)
        return self._plain.layers(np.concatenate([*map(np.multiply, lengths, units)]))

    def slopes(self, state, slopes):
        """Return slopes in the layers as slopes in the state."""
        lengths, norms, units = self._parts(state)
        along, across = [], []
        for length, norm, unit, slope in zip(lengths, norms, units, slopes):
            slope = slope.ravel()
            along.append(unit @ slope)
            across.append(length / norm * (slope - along[-1] * unit))
        return np.concatenate([along, *across])

    def change(self, state, slope, change):
        """Return the derivative of `slopes` for one layer, given the slope's own."""
        (length,), (norm,), (unit,) = self._parts(state)
        along, tangent = unit @ slope, np.eye(len(unit)) - np.outer(unit, unit)
        across = tangent @ slope / norm
        # The derivative of the layer by the state, and the change of that derivative.
        moved = np.column_stack([unit, length / norm * tangent])
        turned = np.zeros((len(state), len(state)))
        turned[0, 1:] = turned[1:, 0] = across
        pair = np.outer(across, unit)
        turned[1:, 1:] = -length / norm * (pair + pair.T + along / norm * tangent)
        return moved.T @ change @ moved + turned

    def drift(self, states):
        """Return the largest change of the norm of a V_k, or of the same difference."""
        norms = np.array([self._parts(state)[1] for state in states])
        changed = float(np.abs(norms - norms[0]).max())
        return max(changed, _unbalance(states[:, : self._count]))


def _unbalance(lengths):
    """Return the largest change over time (rows) of a difference of squared lengths."""
    lengths = np.array(lengths)
    first = lengths[:, :1]
    apart = (lengths - first) * (lengths + first)
    return float(np.abs(apart - apart[0]).max())


COORDINATES = {"gd": Plain, "wn": Normalised}
