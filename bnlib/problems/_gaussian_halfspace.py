"""The problem over a Gaussian, by quadrature."""

import math
from typing import Any

import numpy as np

from bnlib import _arrays, _checks
from bnlib._arrays import Array
from bnlib.problems._checks import zeta_of
from bnlib.problems._gauss_rule import gauss_rule
from bnlib.problems._losses import resolve_loss
from bnlib.problems._ray import Moments, RayProblem, s_norm


class GaussianHalfspace(RayProblem):
    """The problem f(w) = E phi(z.w) for z ~ N(u, S - u u^T), without sampling.

    By Stein's lemma the gradient is ``c1(w) u + c2(w) S w``. c1 and c2 are expectations
    over one number, which quadrature computes to about 1e-12 at any length of w. The
    quadrature runs on the CPU; u and S may lie elsewhere.

    Parameters
    ----------
    u : array, shape (d,), any real floating dtype
        The mean of z. u and S are converted to float64.
    S : array, shape (d, d)
        The second moment E z z^T; symmetric, positive definite.
    loss : str or object
        A name from `bnlib.losses.LOSSES`, or an object with methods value, d1 and
        d2 on NumPy arrays.

    Attributes
    ----------
    dim : int
        d.
    u, S : arrays, shapes (d,) and (d, d)
    mu, L : float
        The smallest and the largest eigenvalue of S.
    lambda_1 : float
        u.S^-1 u, below 1; the least value of rho is -lambda_1.
    loss : object
    gradient_lipschitz : float
        ``loss.zeta * L``, if the loss has zeta.

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit, a value is not finite, S is not symmetric positive
        definite, u is 0, lambda_1 is not below 1 (no Gaussian has these moments), or
        the loss is unknown, lacks a method, or has a wrong derivative.

    Examples
    --------
    >>> import numpy as np
    >>> problem = GaussianHalfspace(np.array([0.6, 0.0]), np.eye(2))
    >>> best = np.array([-2 / (1 - problem.lambda_1) * 0.6, 0.0])
    >>> round(problem.lambda_1, 6), float(abs(problem.gradient(best)).max()) < 1e-14
    (0.36, True)

    References
    ----------
    Kohler et al. 2019, section 4; chapter 09, "Learning halfspaces".
    """

    def __init__(self, u: Array, S: Array, loss: Any = "logistic"):
        xp = _arrays.namespace(u=u, S=S)
        if u.ndim != 1 or tuple(S.shape) != 2 * tuple(u.shape) or len(u) == 0:
            raise ValueError(
                f"u has shape {tuple(u.shape)} and S {tuple(S.shape)}: give (d,) and "
                "(d, d), d at least 1"
            )
        u, S = (_arrays.double(array) + 0 for array in (u, S))
        for name, array in (("u", u), ("S", S)):
            _checks.check_finite(name, array)
        if not bool(xp.any(u != 0)):
            raise ValueError("u is 0: no direction is better than another")
        if bool(xp.max(xp.abs(S - S.T)) > 1e-10 * xp.max(xp.abs(S))):
            raise ValueError("S is not symmetric")
        self.dim, self.u, self.S = len(u), u, (S + S.T) / 2
        eigenvalues = xp.linalg.eigvalsh(self.S)
        self.mu, self.L = float(eigenvalues[0]), float(eigenvalues[-1])
        if not self.mu > self.dim * np.finfo(float).eps * self.L:
            raise ValueError(
                f"S has the eigenvalue {self.mu:.3g} beside {self.L:.3g}: give a "
                "positive definite S"
            )
        self.lambda_1 = float(u @ xp.linalg.solve(self.S, u[:, None])[:, 0])
        if not self.lambda_1 < 1:
            raise ValueError(
                f"u.S^-1 u is {self.lambda_1:.6g}, not below 1: no Gaussian has these "
                "moments, because S - u u^T is no covariance"
            )
        self.loss = resolve_loss(loss, np.zeros(1))

    @property
    def gradient_lipschitz(self) -> float:
        """A Lipschitz constant of the gradient."""
        return zeta_of(self.loss) * self.L

    def _ray(self, w):
        return _GaussianRay(self, w, self.S @ w, float(self.u @ w))


class _GaussianRay:
    """f along a ray, from S w and u.w."""

    def __init__(self, problem, w, Sw, uw):
        self._problem = problem
        self.w, self.Sw, self.uw = w, Sw, uw
        self.norm = s_norm(w, Sw)
        cosine = uw / self.norm if self.norm > 0 else 0.0
        self._spread = self.norm * math.sqrt(max(1 - cosine * cosine, 0.0))
        self._moments = None

    def value(self, scale=1.0):
        t, _, weights = self._rule(scale)
        return float(weights @ self._problem.loss.value(t))

    def slope(self, scale=1.0):
        t, direction, weights = self._rule(scale)
        return float(weights @ (self._problem.loss.d1(t) * direction))

    def moments(self, scale=1.0):
        if self._moments is None or self._moments[0] != scale:
            self._moments = scale, self._measure(scale)
        return self._moments[1]

    def _measure(self, scale):
        t, direction, weights = self._rule(scale)  # (nodes,) each
        loss = self._problem.loss
        first, second = loss.d1(t), loss.d2(t)
        c2 = float(weights @ second)
        return Moments(
            float(weights @ (first * direction)),
            float(weights @ (second * direction**2)),
            float(weights @ first) - scale * self.uw * c2,
            c2,
        )

    def gradient(self, scale=1.0):
        moments = self.moments(scale)
        return moments.c1 * self._problem.u + (moments.c2 * scale) * self.Sw  # (d,)

    def along(self, other, scale=1.0):
        moments = self.moments(scale)
        return moments.c1 * other.uw + moments.c2 * scale * self.inner(other)

    def inner(self, other):
        return float(self.Sw @ other.w)

    def minus(self, step, other):
        return _GaussianRay(
            self._problem,
            self.w - step * other.w,
            self.Sw - step * other.Sw,
            self.uw - step * other.uw,
        )

    def _rule(self, scale):
        """Return nodes t = scale z.w, the values z.w there, and the weights."""
        loss = self._problem.loss
        mean, spread = scale * self.uw, abs(scale) * self._spread
        if spread < 1e-300:
            one = np.ones(1)
            return mean * one, self.uw * one, one
        if not math.isfinite(mean + spread):
            return 3 * (np.full(1, math.nan),)
        breaks = getattr(loss, "breaks", None) or None
        own = () if breaks else (loss.value, loss.d1, loss.d2)
        t, weights = gauss_rule(mean, spread, breaks, own)
        return t, t / scale, weights
