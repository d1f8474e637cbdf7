"""Two minima, one of them degenerate, with exact Boltzmann masses."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from bnlib import _checks

KINDS = ("flat", "quartic")
# Boltzmann weights below e^-TAIL do not change a mass in float64.
TAIL = 50.0
FAR = 1e8


@dataclass(frozen=True)
class Wells:
    r"""A landscape with a degenerate minimum at x = -1 and a sharp one at x = 1.

    A point is (x, y) with one number x and ``k`` numbers y. With r = max(x, 0)^2 and
    s falling from 1 at x = -1 to 0 at x = 1,

    .. math:: U = b(x^2-1)^2 + \delta s(x) + \sum_i V(y_i)

    where V is c r (1 - cos y), with an angle y, if the kind is "flat", and
    c r y^2 / 2 + y^4 / 4 if it is "quartic". At x = 1 every y has curvature c. At
    x = -1 the curvature is 0: the minimum is a whole torus, or of fourth order.

    Parameters
    ----------
    kind : str
        "flat" or "quartic".
    k : int, at least 1
        Number of degenerate directions.
    stiffness : float above 0
        The curvature c.
    barrier : float above 0
        The height b between the minima.
    lift : float from 0 to the barrier
        The height delta of the degenerate minimum above the sharp one.

    Raises
    ------
    TypeError, ValueError
        If the kind is unknown or a number is out of range.

    Examples
    --------
    >>> wells = Wells("flat", k=2)
    >>> wells.value(np.array([[-1.0, 0.3, 2.0], [1.0, 0.0, 0.0]])).tolist()
    [0.0, 0.0]
    >>> wells.occupancy(0.1) > wells.occupancy(0.5) > 0.5
    True

    References
    ----------
    Chapter 14, "Landscape".
    """

    kind: str
    k: int = 1
    stiffness: float = 4.0
    barrier: float = 0.4
    lift: float = 0.0

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}: give one of {', '.join(KINDS)}")
        _checks.check_integer("k", self.k, 1)
        _checks.check_positive("stiffness", self.stiffness)
        _checks.check_positive("barrier", self.barrier)
        _checks.check_number("lift", self.lift, 0, self.barrier)

    @property
    def dim(self) -> int:
        """The number of coordinates, 1 + k."""
        return 1 + self.k

    def value(self, points: np.ndarray) -> np.ndarray:
        """Return U of each point: shape (..., 1 + k) to (...)."""
        x, y = self._split(points)
        if self.kind == "flat":
            across = self._pull(x) * 2 * np.sin(y / 2) ** 2
        else:
            across = self._pull(x) * y**2 / 2 + y**4 / 4
        return self._along(x[..., 0]) + across.sum(axis=-1)

    def gradient(self, points: np.ndarray) -> np.ndarray:
        """Return the gradient of U at each point, in the points' shape."""
        x, y = self._split(points)
        if self.kind == "flat":
            shape, slope = 2 * np.sin(y / 2) ** 2, self._pull(x) * np.sin(y)
        else:
            shape, slope = y**2 / 2, self._pull(x) * y + y**3
        inside = np.clip(x, -1, 1)
        along = 4 * self.barrier * x * (x**2 - 1)
        along -= 0.75 * self.lift * (1 - inside**2)
        pull_slope = 2 * self.stiffness * np.maximum(x, 0)
        along += pull_slope * shape.sum(axis=-1, keepdims=True)
        return np.concatenate([along, slope], axis=-1)

    def log_masses(self, temperature: float) -> tuple[float, float]:
        r"""Return the logarithms of the two masses, at x < 0 and at x > 0.

        A mass is the integral of exp(-U / T). The integral over each y is a Bessel
        function of x; the integral over x is computed by Gauss-Legendre quadrature on
        panels that narrow towards the minimum and towards x = 0.

        Parameters
        ----------
        temperature : float above 0

        Returns
        -------
        tuple of float
        """
        _checks.check_positive("temperature", temperature)
        return self._log_mass(temperature, -1), self._log_mass(temperature, 1)

    def log_ratio(self, temperature: float) -> float:
        """Return log(degenerate mass / sharp mass).

        Parameters
        ----------
        temperature : float above 0

        Returns
        -------
        float
        """
        left, right = self.log_masses(temperature)
        return left - right

    def occupancy(self, temperature: float) -> float:
        """Return the share of the mass at x < 0, the degenerate minimum's.

        Parameters
        ----------
        temperature : float above 0

        Returns
        -------
        float
        """
        return float(special.expit(self.log_ratio(temperature)))

    def _split(self, points):
        points = np.asarray(points, dtype=np.float64)
        if points.ndim == 0 or points.shape[-1] != self.dim:
            raise ValueError(
                f"points has shape {points.shape}: the last axis takes {self.dim}, "
                "x and every y"
            )
        return points[..., :1], points[..., 1:]

    def _pull(self, x):
        return self.stiffness * np.maximum(x, 0) ** 2

    def _along(self, x):
        inside = np.clip(x, -1, 1)
        step = (2 + inside) * (1 - inside) ** 2 / 4
        return self.barrier * (x**2 - 1) ** 2 + self.lift * step

    def _log_across(self, x, temperature):
        """Return log of the integral over one y."""
        pull = self._pull(x)
        if self.kind == "flat":
            z = pull / temperature
            # Beyond FAR SciPy gives NaN, and a series is exact up to rounding.
            near = special.ive(0, np.minimum(z, FAR))
            far = (1 + 1 / (8 * np.maximum(z, FAR))) / np.sqrt(2 * np.pi)
            far = far / np.sqrt(np.maximum(z, FAR))
            return np.log(2 * np.pi * np.where(z < FAR, near, far))
        # Below this value the limit at 0 is reached, up to rounding.
        z = np.maximum(pull**2 / (8 * temperature), 1e-30)
        near = special.kve(0.25, np.minimum(z, FAR))
        far = (1 - 3 / (32 * z)) * np.sqrt(np.pi / (2 * z))
        power = (np.log(2 * z) + math.log(temperature)) / 4
        return power + np.log(np.where(z < FAR, near, far))

    def _log_mass(self, temperature, side):
        """Integrate over x < 0 (side -1) or x > 0 (side 1)."""
        outward, weights = self._rule(temperature)
        x = side * (1 + outward)
        # Written in the distance from the minimum, to lose no digits near it.
        energy = self.barrier * (outward * (2 + outward)) ** 2
        inward = np.maximum(-outward, 0)
        raised = (3 - inward) * inward**2 / 4
        energy += self.lift * (1 - raised if side < 0 else raised)
        exponent = self.k * self._log_across(x, temperature) - energy / temperature
        return float(special.logsumexp(exponent, b=weights))

    def _rule(self, temperature):
        """Return nodes, as distances outward from the minimum, and weights."""
        squared = math.sqrt(TAIL * temperature / self.barrier)
        reach = squared / (1 + math.sqrt(1 + squared))  # sqrt(1 + squared) - 1
        width = math.sqrt(temperature / (8 * self.barrier))
        # At this distance from x = 0 the integral over y begins to change.
        onset = math.sqrt(temperature / self.stiffness)
        doubled = 2.0 ** np.arange(-2, 60)
        cuts = np.concatenate([width * doubled, -width * doubled, onset * doubled - 1])
        cuts = cuts[(cuts > -1) & (cuts < reach)]
        cuts = np.unique(np.concatenate([cuts, [-1.0, 0.0, reach]]))
        nodes, weights = np.polynomial.legendre.leggauss(24)
        half = np.diff(cuts)[:, None] / 2
        middle = (cuts[:-1, None] + cuts[1:, None]) / 2
        return (middle + half * nodes).ravel(), (half * weights).ravel()
