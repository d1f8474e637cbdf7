"""One hidden layer: f(W) = E l(F(z)), F(z) = sum_i theta_i phi(w_i.z)."""

from typing import Any, NamedTuple

import numpy as np

from bnlib import _arrays, _checks
from bnlib.problems import _one_hidden_activations
from bnlib.problems._finite_halfspace import FiniteHalfspace
from bnlib.problems._gaussian_halfspace import GaussianHalfspace
from bnlib.problems._one_hidden_plane import Plane, plane_means
from bnlib.problems._one_hidden_unit import HiddenUnit, Joint
from bnlib.problems._ray import NormalisedProblem, Problem


class Coefficients(NamedTuple):
    """The coefficients of the gradient by Stein's lemma.

    For Gaussian z the gradient with respect to unit i is
    ``theta_i (alpha_i u + S sum_j beta_ij w_j)``.

    Attributes
    ----------
    alpha : array, shape (m,)
    beta : array, shape (m, m)
        theta_i beta_ij is symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> layer = OneHiddenLayer(np.array([0.6, 0.0]), np.eye(2), np.ones(1))
    >>> alpha, beta = layer.coefficients(np.zeros((1, 2)))
    >>> alpha.tolist(), beta.tolist()
    ([0.5], [[0.25]])

    References
    ----------
    Chapter 10, "The gradient of a unit".
    """

    alpha: np.ndarray
    beta: np.ndarray


class _Layer:
    """The common base of the Gaussian and the finite problem.

    ``moments`` is a halfspace problem with the same z. A subclass defines
    ``_means(W, integrands)``, ``_gradient(W)`` and ``_hessian(W)``.
    """

    def __init__(self, moments, theta, activation):
        _check_theta(theta, moments.u)
        self.u, self.S, self.mu, self.L = moments.u, moments.S, moments.mu, moments.L
        self.lambda_1, self.loss = moments.lambda_1, moments.loss
        self.theta = np.array(theta, dtype=np.float64)
        self.activation = _one_hidden_activations.resolve(activation)
        self.units, self.dim = len(theta), moments.dim
        self.line = np.linalg.lstsq(self.S, self.u, rcond=None)[0]

    def value(self, W: np.ndarray) -> float:
        """Return f(W), a float, at the weights W, shape (m, d), one unit a row."""
        return self._value(self._checked(W))

    def gradient(self, W: np.ndarray) -> np.ndarray:
        """Return the gradient at W, shape (m, d)."""
        W = self._checked(W)
        with _arrays.silently():
            return self._gradient(W)

    def hessian(self, W: np.ndarray) -> np.ndarray:
        """Return the second derivatives at W, shape (m d, m d), unit by unit."""
        W = self._checked(W)
        with _arrays.silently():
            return self._hessian(W)

    def coefficients(self, W: np.ndarray) -> Coefficients:
        """Return alpha, shape (m,), and beta, shape (m, m), as `Coefficients`."""
        W = self._checked(W)
        with _arrays.silently():
            return self._coefficients(W)

    def angles(self, W: np.ndarray) -> np.ndarray:
        """Return each unit's angle to the line of S^-1 u, in the metric of S.

        Shape (m,), radians in [0, pi / 2]; NaN for a unit of length 0.
        """
        W = self._checked(W)
        self._check_line()
        along = W @ self.u / self.lambda_1  # (m,)
        across = W - np.outer(along, self.line)  # (m, d)
        lengths = (
            np.sqrt(np.maximum(0, ((V @ self.S) * V).sum(axis=1)))
            for V in (across, np.outer(along, self.line))
        )
        angles = np.arctan2(*lengths)
        return np.where((W != 0).any(axis=1), angles, np.nan)

    def unit(self, W: np.ndarray, index: int) -> NormalisedProblem:
        """Return the problem of one unit, with the others held as they are in W.

        Parameters
        ----------
        W : array, shape (m, d)
            Row ``index`` is not used.
        index : int
            From 0.

        Returns
        -------
        bnlib.optim.NormalisedProblem
            ``bnlib.optim.gdnp`` takes it. If z is Gaussian and the other units are 0
            or on the line of S^-1 u, a step of GDNP is one of gradient descent on rho.
        """
        W = self._checked(W)
        _checks.check_integer("index", index, 0)
        if index >= self.units:
            raise ValueError(f"index is {index}: the units are 0 to {self.units - 1}")
        self._check_line()
        return HiddenUnit(self, W, int(index))

    @property
    def joint(self) -> Problem:
        """The problem in all weights at once, over ``W.ravel()``.

        `bnlib.optim.gradient_descent` and `bnlib.optim.lbfgs` take it.
        """
        return Joint(self)

    def _check_line(self):
        if not self.u.any():
            raise ValueError("u is 0: there is no line of S^-1 u")

    def _checked(self, W):
        _checks.check_numpy(W=W)
        if W.shape != (self.units, self.dim):
            raise ValueError(
                f"W has shape {W.shape}: give ({self.units}, {self.dim}), a unit a row"
            )
        return W.astype(np.float64)

    def _value(self, W):
        def integrands(t, _):
            yield self.loss.value(self._output(t))

        with _arrays.silently():
            return self._means(W, integrands)[0]

    def _output(self, t):
        """Return F, shape (...), for units' inputs t, shape (m, ...)."""
        return np.tensordot(self.theta, self.activation.value(t), 1)

    def _coefficients(self, W):
        theta, m = self.theta, self.units

        def integrands(t, _):
            for own, residual in zip(theta, self._residuals(t)):
                yield residual / own
            for i, j, c in self._curvatures(t):
                yield c / theta[i] / theta[j]

        means = np.array(self._means(W, integrands))
        slopes, pairs, beta = means[:m], means[m:], np.zeros((m, m))
        i, j = np.tril_indices(m)
        beta[i, j], beta[j, i] = theta[j] * pairs, theta[i] * pairs
        return Coefficients(slopes - beta @ (W @ self.u), beta)

    def _residuals(self, t):
        """Return d l(F) / d t for inputs t, both of shape (m, ...)."""
        first = self.loss.d1(self._output(t)) * self.activation.d1(t)
        return self.theta.reshape(-1, *(first.ndim - 1) * [1]) * first

    def _curvatures(self, t):
        """Yield i, j and d2 l(F) / d t_i d t_j for j up to i."""
        output, slope = self._output(t), self.activation.d1(t)
        first, second = self.loss.d1(output), self.loss.d2(output)
        bend = self.activation.d2(t)
        for i, own in enumerate(self.theta):
            for j in range(i + 1):
                c = own * self.theta[j] * second * slope[i] * slope[j]
                if i == j:
                    c = c + own * first * bend[i]
                yield i, j, c

    def _assembled(self, block):
        """Return the matrix of the blocks ``block(i, j)``, j up to i."""
        m, d = self.units, self.dim
        full = np.zeros((m, d, m, d))
        for i in range(m):
            for j in range(i + 1):
                full[i, :, j] = block(i, j)
                full[j, :, i] = full[i, :, j].T
        return full.reshape(m * d, m * d)


class OneHiddenLayer(_Layer):
    """The problem f(W) = E l(F(z)) for z ~ N(u, S - u u^T), without sampling.

    ``F(z) = sum_i theta_i phi(w_i.z)`` depends on z through the m numbers w_i.z alone,
    whatever d is. Their expectations are computed by quadrature over the space that
    the units span, a point, a line or a plane, to about 1e-13. This covers one or two
    units, and more if they lie in one plane: any units in two dimensions, or units on
    one line and one other. Otherwise value, gradient and Hessian raise a ValueError;
    `FiniteOneHiddenLayer` then takes a sample. Three or more units may be longer than
    about 100 only if all but one lie on one line.

    Parameters
    ----------
    u : NumPy array, shape (d,), any real floating dtype
        The mean of z. All arrays are converted to float64.
    S : NumPy array, shape (d, d)
        The second moment E z z^T; symmetric, positive definite.
    theta : NumPy array, shape (m,)
        The output weights, none of them 0.
    activation : str or object
        "tanh", "erf", or an object with methods value, d1 and d2 on NumPy arrays. It
        must be odd, and smooth.
    loss : str or object
        A smooth one of `bnlib.losses.LOSSES`, or an object with methods value, d1 and
        d2 on NumPy arrays.

    Attributes
    ----------
    units, dim : int
        m and d.
    u, S, mu, L, lambda_1, loss
        As in `bnlib.halfspaces.GaussianHalfspace`.
    theta, activation
        The output weights in float64; the activation, with value, d1 and d2.
    line : array, shape (d,)
        S^-1 u.
    joint : bnlib.optim.Problem

    Raises
    ------
    TypeError, ValueError
        If `GaussianHalfspace` refuses u (also 0), S or the loss, an output weight is 0
        or not finite, or the activation is unknown, lacks a method, or is not odd.

    Examples
    --------
    >>> import numpy as np
    >>> layer = OneHiddenLayer(np.array([0.6, 0.0]), np.eye(2), np.array([2.0, 2.0]))
    >>> W = np.array([[-0.516644, 0.057675], [-0.516644, -0.057675]])
    >>> round(layer.value(W), 9), bool(abs(layer.gradient(W)).max() < 1e-6)
    (0.472887848, True)
    >>> layer.angles(W).round(3).tolist()
    [0.111, 0.111]

    References
    ----------
    Kohler et al. 2019, section 5; chapter 10, "The data enter by z".
    """

    def __init__(
        self,
        u: np.ndarray,
        S: np.ndarray,
        theta: np.ndarray,
        activation: Any = "tanh",
        loss: Any = "logistic",
    ):
        _checks.check_numpy(u=u, S=S)
        super().__init__(GaussianHalfspace(u, S, loss), theta, activation)
        covariance = self.S - np.outer(self.u, self.u)
        eigenvalues, vectors = np.linalg.eigh(covariance)
        self._root = vectors * np.sqrt(np.maximum(eigenvalues, 0))

    def _means(self, W, integrands):
        return plane_means(Plane(W, self.u, self._root), integrands)

    def _gradient(self, W):
        # Not from the coefficients: they lose digits if W is long.
        plane = Plane(W, self.u, self._root)
        count = 1 + plane.basis.shape[1]

        def integrands(t, x):
            for residual in self._residuals(t):
                yield residual
                yield from (residual * along for along in x)

        means = np.reshape(plane_means(plane, integrands), (self.units, count))
        across = means[:, 1:] @ (self._root @ plane.basis).T
        return np.outer(means[:, 0], self.u) + across

    def _hessian(self, W):
        plane = Plane(W, self.u, self._root)

        def integrands(t, x):
            for _, _, c in self._curvatures(t):
                yield c
                for a in range(len(x)):
                    yield c * x[a]
                    for b in range(a + 1):
                        yield c * x[a] * x[b]

        means = iter(plane_means(plane, integrands))
        blocks = {
            (i, j): self._block(plane.basis, means)
            for i in range(self.units)
            for j in range(i + 1)
        }
        return self._assembled(lambda i, j: blocks[i, j])

    def _block(self, basis, means):
        """Return E c z z^T from the next means."""
        r = basis.shape[1]
        mean, first, second = next(means), np.zeros(r), np.zeros((r, r))
        for a in range(r):
            first[a] = next(means)
            for b in range(a + 1):
                second[a, b] = second[b, a] = next(means)
        # Across the basis, x is independent of c and has the identity as covariance.
        inner = mean * np.eye(self.dim)
        inner += basis @ (second - mean * np.eye(r)) @ basis.T
        cross = np.outer(self.u, self._root @ (basis @ first))
        spread = self._root @ inner @ self._root.T
        return mean * np.outer(self.u, self.u) + cross + cross.T + spread


class FiniteOneHiddenLayer(_Layer):
    """The problem f(W) = mean(l(F(z))) over the rows z of Z.

    It takes any number of units. If the rows are no sample of a Gaussian, nothing is
    proved: `coefficients` are then those of Stein's lemma, but not the gradient's.

    Parameters
    ----------
    Z : NumPy array, shape (n, d), any real floating dtype
        Rows ``z_i = -(label_i) x_i``. Converted to float64.
    theta, activation, loss
        As in `OneHiddenLayer`.

    Attributes
    ----------
    units, dim : int
        m and d.
    u, S, theta, mu, L, lambda_1, loss, activation, line, joint
        As in `OneHiddenLayer`, with means over the rows.

    Raises
    ------
    TypeError, ValueError
        If `bnlib.halfspaces.FiniteHalfspace` refuses Z or the loss, an output weight is
        0 or not finite, or the activation is unknown, lacks a method, or is not odd.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.array([[-1.0, 0.5], [0.4, 1.0], [-0.7, -0.2]])
    >>> layer = FiniteOneHiddenLayer(Z, np.array([1.0, 2.0]))
    >>> layer.gradient(np.zeros((2, 2))).round(3).tolist()
    [[-0.217, 0.217], [-0.433, 0.433]]

    References
    ----------
    Kohler et al. 2019, section 5; chapter 10, "The data enter by z".
    """

    def __init__(
        self,
        Z: np.ndarray,
        theta: np.ndarray,
        activation: Any = "tanh",
        loss: Any = "logistic",
    ):
        _checks.check_numpy(Z=Z)
        super().__init__(FiniteHalfspace(Z, loss), theta, activation)
        self._Z = Z.astype(np.float64)

    def _means(self, W, integrands):
        return [float(v.mean()) for v in integrands(W @ self._Z.T, self._Z.T)]

    def _gradient(self, W):
        return self._residuals(W @ self._Z.T) @ self._Z / len(self._Z)

    def _hessian(self, W):
        curvatures = {(i, j): c for i, j, c in self._curvatures(W @ self._Z.T)}
        return self._assembled(
            lambda i, j: (self._Z.T * curvatures[i, j]) @ self._Z / len(self._Z)
        )


def _check_theta(theta, u):
    _arrays.check_arrays(theta=theta, u=u)
    if theta.ndim != 1 or len(theta) == 0:
        raise ValueError(f"theta has shape {theta.shape}: give (m,), m at least 1")
    _checks.check_finite("theta", theta)
    if (theta == 0).any():
        raise ValueError(
            f"theta[{int(np.argmin(theta != 0))}] is 0: that unit never reaches the "
            "output, and every weight of it is critical; leave it out"
        )
