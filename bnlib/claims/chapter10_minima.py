"""The claims of chapter 10 on minima off the line, with error bounds."""

import functools
from typing import NamedTuple

import numpy as np
import torch
from scipy import optimize

from bnlib.claims._instances_hidden_layer import (
    WEIGHTS,
    coefficients,
    critical_point,
    elsewhere,
    grid,
    off_line,
    plain_layer,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(
    claim, chapter="10-gdnp-networks", kind="theorem", source="kohler2019"
)


#: The weights of the two minima, and both units' weight where they are equal.
MINIMA = (
    ((-0.516644, 0.057675), (-0.516644, -0.057675)),
    ((-1.787734, 0.382770), (-1.622700, -0.057667)),
)
ON_LINE = (-0.515060, -1.616691)
_COUNT, _REACH = 601, 9.0
_SPACING = 2 * _REACH / (_COUNT - 1)
_X, _WEIGHTS = (part.numpy() for part in grid(_COUNT, reach=_REACH))
# A term and NumPy's pairwise sum together stay far below 200 roundings.
_ROUNDING = 200 * 2.0**-53


class Certificate(NamedTuple):
    """Bounds that prove a strict minimum, for S = I and two dimensions.

    Attributes
    ----------
    error : float
        The largest error of an expectation, rounding included.
    value : float
        The loss at the point, up to this error.
    slope : float
        The norm of the gradient at the point is at most this.
    curvature : float
        The smallest eigenvalue of the Hessian there is at least this.
    lipschitz : float
        A Lipschitz constant of the Hessian.
    radius : float
        A minimum lies within this distance of the point.
    remaining : float
        The smallest eigenvalue within the radius is at least this.
    """

    error: float
    value: float
    slope: float
    curvature: float
    lipschitz: float
    radius: float
    remaining: float


def certificate(layer, W):
    """Bound all that may be wrong with a minimum of a tanh layer, logistic loss."""
    u, theta, W = layer.gaussian.u.numpy(), layer.theta.numpy(), W.numpy()
    value, slope, hessian = _derivatives(u, theta, W)
    error = _error(theta, W)
    slope = np.linalg.norm(slope) + np.sqrt(slope.size) * error
    curvature = np.linalg.eigvalsh(hessian)[0] - len(hessian) * error
    # The derivatives of the loss are at most 1, 1/4, 0.1; of tanh 1, 0.77, 2.
    size, largest = np.linalg.norm(theta), np.abs(theta).max()
    third = 0.1 * size**3 + 3 * 0.25 * size * 0.77 * largest + 2 * largest
    lipschitz = third * 8**0.75  # E |z|^3 is at most (E |z|^4)^(3/4), E |z|^4 at most 8
    radius = 5 * slope / curvature
    remaining = curvature - lipschitz * radius
    return Certificate(error, value, slope, curvature, lipschitz, radius, remaining)


def _derivatives(u, theta, W):
    """Return value, gradient and Hessian by the trapezoidal rule and by formulas."""
    z = u + _X * np.sqrt([1 - u @ u, 1.0])
    hidden = np.tanh(z @ W.T)
    slope = 1 - hidden**2
    first = 1 / (1 + np.exp(-hidden @ theta))
    second = first * (1 - first)
    value = (_WEIGHTS * np.logaddexp(0, hidden @ theta)).sum()
    m = len(theta)
    gradient, hessian = np.zeros((m, 2)), np.zeros((m, 2, m, 2))
    for i in range(m):
        for a in range(2):
            residual = theta[i] * first * slope[:, i] * z[:, a]
            gradient[i, a] = (_WEIGHTS * residual).sum()
            for j, b in np.ndindex(m, 2):
                c = theta[i] * theta[j] * second * slope[:, i] * slope[:, j]
                if i == j:
                    c = c - 2 * theta[i] * first * hidden[:, i] * slope[:, i]
                hessian[i, a, j, b] = (_WEIGHTS * c * z[:, a] * z[:, b]).sum()
    return value, gradient.ravel(), hessian.reshape(2 * m, 2 * m)


def _error(theta, W):
    """Bound the error of an expectation by the rule's theorem for analytic functions.

    In the strip of half width b of either coordinate of x the units' inputs have
    imaginary parts up to y, the output up to pi / 2.
    """
    y = np.arctan(np.pi / (2 * np.abs(theta).sum()))
    b = y / np.linalg.norm(W, axis=1).max()
    largest = np.abs(theta).max()
    factor = largest**2 / np.cos(y) ** 4 + 2 * largest / np.cos(y) ** 2
    size = factor * (1 + 2 * ((1 + b) ** 2 + 1.6 * (1 + b) + 1))
    rule = 6 * size * np.exp(b**2 / 2) / np.expm1(2 * np.pi * b / _SPACING)
    return rule + 1e-15 * factor + _ROUNDING * size


def on_line(layer, case):
    """Return the critical point on the line with both units equal."""
    near = torch.tensor([[ON_LINE[case], 0.0]] * 2, dtype=torch.float64)
    return critical_point(layer, near)


def _strict(rng, on):
    """Check a certified minimum: six digits, and its value in other coordinates."""
    case = int(rng.integers(2))
    layer, W = off_line(case)
    merged = on_line(layer, case)
    stated = np.array(MINIMA[case])
    if on:
        W, stated = merged, np.array(2 * [[ON_LINE[case], 0.0]])
    proved, other = certificate(layer, W), certificate(layer, merged)
    gap = other.value - proved.value
    there, moved = elsewhere(rng, layer, W)
    checks = [
        Check(W, stated, "==", allowed=5.1e-7, scale=1),
        Check(proved.remaining, proved.curvature / 2, ">=", allowed=0.0),
        Check(proved.remaining, 1e-4, ">=", allowed=0.0),
        Check(proved.radius, 1e-7, "<=", allowed=0.0),
        Check(gap, other.error + proved.error, ">=", allowed=0.0),
        Check(proved.value, layer.ours.value(W.numpy()), "==", allowed=1e-9),
    ]
    if not on:  # torch's quadrature cannot factor two parallel units
        value = there.value(moved).item()
        checks.append(Check(value, layer.ours.value(W.numpy()), "==", allowed=1e-9))
    return Check.worst(*checks)


@chapter_claim(
    id="k-nn-offline",
    verdict="holds",
    source="book",
    statement=r"Let $S=I$, $\ell(t)=\log(1+e^t)$ and $\varphi=\tanh$. For $u=(0.6,0)$ "
    r"and $\theta=(2,2)$ there is a strict local minimum at "
    r"$w_{1,2}=(-0.516644,\pm0.057675)$, and for $u=(0.8,0)$ and $\theta=(0.5,3)$ one "
    "at $w_1=(-1.787734,0.382770)$, $w_2=(-1.622700,-0.057667)$, to six decimals: off "
    "the line of $S^{-1}u$, and lower than the critical point with both units equal "
    "on it.",
)
def k_nn_offline(rng):
    return _strict(rng, on=False)


@k_nn_offline.control
def _(rng):
    return _strict(rng, on=True)


def _merged(rng, share):
    """Check the curvatures at two equal units, at this share of the best length."""
    # Best lengths stay short, because torch's quadrature needs it.
    lambda_1, theta = rng.uniform(0.05, 0.5), rng.uniform(0.75, 2.5, 2)
    layer = plain_layer(lambda_1, theta)

    def slope(c):
        return layer.ours.gradient(np.array(2 * [[c, 0.0]]))[:, 0].sum()

    c = share * optimize.brentq(slope, -20, 0, xtol=1e-12)
    W = torch.tensor(2 * [[c, 0.0]], dtype=torch.float64)
    there, moved = elsewhere(rng, layer, W)
    t = there.inputs(moved)
    _, beta = coefficients(there, t, WEIGHTS, moved)
    _, straight = coefficients(there, t, WEIGHTS, moved, bend=False)
    across = np.array([0.0, theta[1], 0.0, -theta[0]])
    hessian = layer.ours.hessian(W.numpy())
    curvature = across @ hessian @ across
    along = np.linalg.eigvalsh(hessian[::2, ::2])[0]
    bend = float((beta - straight)[0, 0])
    formula = bend * float(theta @ np.square([theta[1], theta[0]]))
    return Check.worst(
        Check(formula, curvature, "==", allowed=1e-5),
        Check(bend, -1e-6, "<=", allowed=0.0),
        Check(along, 1e-6, ">=", allowed=0.0),
    )


@chapter_claim(
    id="k-nn-merged",
    verdict="holds",
    source="book",
    statement=r"Let $z\sim N(u,S-uu^\top)$ with $S$ positive definite, $u\ne0$ and "
    r"$\lambda_1<1$. Let $\ell(t)=\log(1+e^t)$, $\varphi=\tanh$, all $\theta_i>0$, "
    r"$m\ge2$ and $d\ge2$. At a critical point with all units equal, $\mathbb "
    r"E[\ell'\varphi'']<0$, and it is a saddle: a strict minimum along the line, and "
    "no local minimum.",
)
def k_nn_merged(rng):
    return _merged(rng, share=1.0)


@k_nn_merged.control
def _(rng):
    return _merged(rng, share=0.2)
