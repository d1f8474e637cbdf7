"""Losses of one number t = z.w, where z = -(label) x: t below 0 is a right answer."""

import math
from abc import ABC, abstractmethod
from typing import Any

import array_api_compat as compat

from bnlib import _arrays
from bnlib._arrays import Array
from bnlib.problems._trial import check_derivatives


class Loss(ABC):
    """The interface of a loss of one number; any object with value, d1 and d2 will do.

    Attributes
    ----------
    lipschitz, zeta : float
        The largest absolute first and second derivative. A loss of your own may lack
        `zeta`; then give the optimiser its step.
    breaks : tuple of float
        Points where the loss has a kink or bends most: away from them it varies over
        lengths of about 1, or over its distance to them. A loss of your own without
        breaks is integrated adaptively, which takes longer.
    strictly_increasing : bool
        Whether the first derivative is positive everywhere: there is then no finite
        minimum on separable data.

    Examples
    --------
    >>> import numpy as np
    >>> loss = LOSSES["logistic"]
    >>> loss.d1(np.zeros(1)).tolist(), loss.zeta
    ([0.5], 0.25)

    References
    ----------
    Chapter 09, "Learning halfspaces".
    """

    breaks = (0.0,)
    strictly_increasing = False

    @abstractmethod
    def value(self, t: Array) -> Array:
        """Return the loss, elementwise."""

    @abstractmethod
    def d1(self, t: Array) -> Array:
        """Return the first derivative, elementwise."""

    @abstractmethod
    def d2(self, t: Array) -> Array:
        """Return the second derivative, elementwise; at a kink that of either side."""

    def d1_d2(self, t: Array) -> tuple[Array, Array]:
        """Return both derivatives, to about 1e-16; a subclass may share their work."""
        return self.d1(t), self.d2(t)


def _sigmoid(t):
    """Return 1 / (1 + e^-t), to full precision at both ends; e^-t may be inf."""
    with _arrays.silently():
        return 1 / (1 + compat.array_namespace(t).exp(-t))


def _sigmoid_slope(t):
    """Return the derivative of the sigmoid, to full precision at both ends."""
    xp = compat.array_namespace(t)
    decay = xp.exp(-xp.abs(t))
    return decay / (1 + decay) ** 2


class Logistic(Loss):
    """log(1 + e^t).

    Examples
    --------
    >>> import numpy as np
    >>> Logistic().value(np.array([0.0, 800.0])).round(3).tolist()
    [0.693, 800.0]
    """

    lipschitz, zeta = 1.0, 0.25
    strictly_increasing = True

    def value(self, t: Array) -> Array:
        xp = compat.array_namespace(t)
        size = xp.abs(t)
        return 0.5 * (t + size) + xp.log1p(xp.exp(-size))

    def d1(self, t: Array) -> Array:
        return _sigmoid(t)

    def d2(self, t: Array) -> Array:
        return _sigmoid_slope(t)

    def d1_d2(self, t: Array) -> tuple[Array, Array]:
        first = _sigmoid(t)
        return first, first - first * first


class Sigmoid(Loss):
    """1 / (1 + e^(shift - t)): bounded and not convex.

    Examples
    --------
    >>> import numpy as np
    >>> Sigmoid(shift=1.0).value(np.array([1.0])).tolist()
    [0.5]
    """

    lipschitz, zeta = 0.25, 1 / (6 * math.sqrt(3))
    strictly_increasing = True

    def __init__(self, shift: float = 0.0):
        self._shift = shift
        self.breaks = (shift,)

    def value(self, t: Array) -> Array:
        return _sigmoid(t - self._shift)

    def d1(self, t: Array) -> Array:
        return _sigmoid_slope(t - self._shift)

    def d2(self, t: Array) -> Array:
        return self.d1_d2(t)[1]

    def d1_d2(self, t: Array) -> tuple[Array, Array]:
        first = _sigmoid_slope(t - self._shift)
        return first, -first * compat.array_namespace(t).tanh((t - self._shift) / 2)


class SmoothedHinge(Loss):
    """The hinge max(0, 1 + t), its corner rounded to (1 + t)^2 / 2 on [-1, 0].

    Examples
    --------
    >>> import numpy as np
    >>> SmoothedHinge().value(np.array([-2.0, -0.5, 1.0])).tolist()
    [0.0, 0.125, 1.5]
    """

    lipschitz = zeta = 1.0
    breaks = (-1.0, 0.0)

    def value(self, t: Array) -> Array:
        xp = compat.array_namespace(t)
        return 0.5 * self.d1(t) ** 2 + xp.clip(t, 0.0, None)

    def d1(self, t: Array) -> Array:
        return compat.array_namespace(t).clip(1 + t, 0.0, 1.0)

    def d2(self, t: Array) -> Array:
        xp = compat.array_namespace(t)
        return xp.astype((t > -1) & (t < 0), t.dtype)


class PseudoHuber(Loss):
    """sqrt(1 + (1 + t)^2) - 1, where 1 + t is the residual of a label of size 1.

    Examples
    --------
    >>> import numpy as np
    >>> PseudoHuber().value(np.array([-1.0])).tolist()
    [0.0]
    """

    lipschitz = zeta = 1.0
    breaks = (-1.0,)

    def value(self, t: Array) -> Array:
        return (1 + t) * ((1 + t) / (1 + self._root(t)))

    def d1(self, t: Array) -> Array:
        return (1 + t) / self._root(t)

    def d2(self, t: Array) -> Array:
        return self._root(t) ** -3.0

    def _root(self, t):
        xp = compat.array_namespace(t)
        return xp.hypot(t + 1, xp.ones_like(t))


#: The losses by name.
LOSSES = {
    "logistic": Logistic(),
    "sigmoid": Sigmoid(),
    "shifted_sigmoid": Sigmoid(shift=1.0),
    "smoothed_hinge": SmoothedHinge(),
    "pseudo_huber": PseudoHuber(),
}


def resolve_loss(loss: Any, like: Array) -> Loss:
    """Return the loss of that name, or a loss of your own after checking it.

    Parameters
    ----------
    loss : str or object
        A name, or an object with methods value, d1 and d2 that act elementwise on
        arrays of the problem's library.
    like : array
        An array of the library and device on which to check the loss.

    Returns
    -------
    object

    Raises
    ------
    TypeError, ValueError
        If the name is unknown, a method is missing or not elementwise, or d1 is not
        the derivative of value, or d2 not that of d1.

    Examples
    --------
    >>> import numpy as np
    >>> resolve_loss("logistic", np.zeros(1)) is LOSSES["logistic"]
    True
    """
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(f"loss is {loss!r}: give one of {', '.join(LOSSES)}")
        return LOSSES[loss]
    check_derivatives("loss", loss, LOSSES, like)
    return loss
