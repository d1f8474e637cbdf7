"""Odd activations of hidden units, with the two derivatives that gradients need."""

import math

import numpy as np
from scipy import special

from bnlib import _arrays
from bnlib.problems._trial import PROBES, check_derivatives


class Tanh:
    """The hyperbolic tangent."""

    lipschitz, zeta = 1.0, 4 / (3 * math.sqrt(3))

    def value(self, t):
        return np.tanh(t)

    def d1(self, t):
        # 1 - tanh^2 would lose digits for large t.
        decay = np.exp(-2 * np.abs(t))
        return 4 * decay / (1 + decay) ** 2

    def d2(self, t):
        return -2 * np.tanh(t) * self.d1(t)


class Erf:
    """The error function."""

    lipschitz = 2 / math.sqrt(math.pi)
    zeta = lipschitz * math.sqrt(2 / math.e)

    def value(self, t):
        return special.erf(t)

    def d1(self, t):
        with _arrays.silently():
            return self.lipschitz * np.exp(-t * t)

    def d2(self, t):
        # The clip only prevents 0 times infinity.
        return -2 * np.clip(t, -1e3, 1e3) * self.d1(t)


#: The activations by name.
ODD = {"tanh": Tanh(), "erf": Erf()}


def resolve(activation):
    """Return the odd activation of that name, or one of your own after checking it."""
    if isinstance(activation, str):
        if activation in ODD:
            return ODD[activation]
        raise ValueError(
            f"activation is {activation!r}: give one of {', '.join(ODD)}, or an odd "
            "one of your own; the theorem needs an odd one"
        )
    check_derivatives("activation", activation, ODD, PROBES)
    _check_odd(activation)
    return activation


def _check_odd(activation):
    values, mirrored = activation.value(PROBES), activation.value(-PROBES)
    if not np.allclose(mirrored, -values, rtol=1e-9, atol=1e-12):
        kind = "even" if np.allclose(mirrored, values, rtol=1e-9) else "not odd"
        raise ValueError(
            f"the activation is {kind}: the theorem needs an odd one, for only then "
            "is -y F(x) the output F(z) at z = -y x"
        )
