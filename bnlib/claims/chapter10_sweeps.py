"""The claims of chapter 10 on what GDNP reaches, unit by unit and in sweeps."""

import functools

import numpy as np
import torch
from scipy import optimize

from bnlib.claims._instances_gaussian import (
    LIPSCHITZ,
    NODES,
    PHI,
    WEIGHTS,
    ZETA,
    Gaussian,
    dual_square,
    gradient,
    tightest_gaussian,
)
from bnlib.claims._instances_hidden_layer import (
    CONVEX,
    WEIGHTS as PLANE,
    Layer,
    elsewhere,
    lengths_on_line,
    plain_layer,
    random_layer,
    random_unit,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.optim import gdnp, gdnp_sweeps

chapter_claim = functools.partial(
    claim, chapter="10-gdnp-networks", kind="theorem", source="kohler2019"
)


#: The largest absolute first and second derivatives of the activations.
SLOPE = {"tanh": 1.0, "erf": 2 / np.sqrt(np.pi)}
BEND = {"tanh": 4 / (3 * np.sqrt(3)), "erf": 2 / np.sqrt(np.pi) * np.sqrt(2 / np.e)}


def constants(layer, index, others):
    """Return C and zeta of the bound on one unit."""
    loss, own = layer.gaussian.loss, float(layer.theta[index].abs())
    slope, bend = SLOPE[layer.activation], BEND[layer.activation]
    spread = 2 * layer.gaussian.lambda_1 / (np.pi * (1 - layer.gaussian.lambda_1))
    coupling = ZETA[loss] * slope**2 * float((layer.theta * others).abs().sum())
    largest = LIPSCHITZ[loss] * slope * (1 + np.sqrt(spread)) + coupling
    zeta = own * (own * ZETA[loss] * slope**2 + LIPSCHITZ[loss] * bend)
    return (own * largest) ** 2, zeta * layer.gaussian.L


def bracket(slope):
    """Return lengths, one of them 0, between which the slope turns positive."""
    side = -float(np.sign(slope(0.0)))
    far = side
    while slope(far) * side < 0:
        far *= 2
    return sorted((0.0, far))


def lower_end(slope, ends, halvings):
    """Return the lower end of the bracket after this many halvings."""
    low, high = ends
    if not slope(low) < 0 < slope(high):
        raise ValueError(f"no change of sign between {low} and {high}")
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return low


def slope_in_length(layer, w, index, others):
    """Return the function g -> df/dg at the unit's direction w, by torch."""
    pair = layer.inputs(torch.stack([layer.gaussian.best, w / layer.gaussian.norm(w)]))

    def value(g):
        t = pair[:, :1] * others
        t = torch.cat([t[:, :index], g * pair[:, 1:], t[:, index + 1 :]], dim=1)
        return PLANE @ PHI[layer.gaussian.loss](layer.output(t))

    return lambda g: gradient(value, torch.tensor(g, dtype=torch.float64)).item()


def bound_of_unit(layer, index, others, w, steps, width=None, power=2, halvings=12):
    """Compare a unit's squared gradient, after GDNP and halvings, with the bound.

    The bracket is found from 0; given a width, it has that width about the best length.
    """
    gaussian = layer.gaussian
    W = torch.outer(others, gaussian.best).numpy()
    trace = gdnp(layer.ours.unit(W, index), w.numpy(), steps=steps, length="newton")
    last = torch.from_numpy(trace.w[-1])
    slope = slope_in_length(layer, last, index, others)
    ends = bracket(slope)
    if width:
        near = optimize.brentq(slope, *ends, xtol=1e-12) - 0.4 * width
        ends = (near, near + width)
    g = lower_end(slope, ends, halvings)
    left = gradient(
        lambda v: layer.value_of_unit(v, index, others), g * last / gaussian.norm(last)
    )
    largest, zeta = constants(layer, index, others)
    rate = (1 - gaussian.mu / gaussian.L) ** (power * steps)
    bound = rate * largest * (gaussian.rho(w) + gaussian.lambda_1)
    bound += (2.0**-halvings * zeta * (ends[1] - ends[0]) / gaussian.mu) ** 2
    return dual_square(gaussian, left), float(bound)


def _bound(rng, power):
    """Bound runs from a random start, and from the slowest start on a tight case."""
    layer = random_layer(rng, losses=CONVEX, condition=10 ** rng.uniform(0.3, 0.5))
    # Best lengths stay short, because torch's quadrature needs it.
    gaussian = layer.gaussian._replace(u=0.7 * layer.gaussian.u)
    layer = layer._replace(gaussian=gaussian, theta=2 * layer.theta)
    start = random_unit(rng, layer.gaussian)
    tight, far = tightest_gaussian(layer.gaussian)
    index = int(rng.integers(2))
    others = lengths_on_line(rng, layer, index)
    any_start = bound_of_unit(layer, index, others, start, steps=4, power=power)
    layer = layer._replace(gaussian=tight, activation="tanh")
    slowest = bound_of_unit(layer, index, 0 * others, far, 13, 1e-5, power, halvings=20)
    return Check.worst(
        Check(*any_start, "<=", allowed=1e-9), Check(*slowest, "<=", allowed=1e-9)
    )


@chapter_claim(
    id="k-nn-bound",
    verdict="wrong",
    statement=r"Under the conditions of GDNP on a unit, after $T_d$ steps and with "
    r"$g_i\ne0$ an end of a bracket $[a,b]$ halved $T_s$ times at the last iterate: "
    r"$\lVert\nabla_{\tilde w_i}f\rVert_{S^{-1}}^2\le(1-\frac\mu L)^{2T_d}\,C_i\,"
    r"(\rho(w_0)-\rho^*)+4^{-T_s}\zeta_i^2\lvert b-a\rvert^2/\mu^2$ with "
    r"$\sqrt{C_i}=\lvert\theta_i\rvert\big(\sup\lvert\ell'\rvert\sup\lvert\varphi'"
    r"\rvert\,\big(1+\sqrt{2\lambda_1/(\pi(1-\lambda_1))}\big)+\sup\lvert\ell''\rvert"
    r"\sup\varphi'^2\sum_{j\ne i}\lvert\theta_jc_j\rvert\big)$ and "
    r"$\zeta_i=\lvert\theta_i\rvert\big(\lvert\theta_i\rvert\sup\lvert\ell''\rvert\sup"
    r"\varphi'^2+\sup\lvert\ell'\rvert\sup\lvert\varphi''\rvert\big)L$.",
    printed=r"$\lVert\nabla_{\tilde w_i}f\rVert_{S^{-1}}^2\le(1-\frac\mu L)^{2t}\,C\,"
    r"(\rho(w_0)-\rho^*)+2^{-T_s}\zeta\lvert b-a\rvert/\mu^2$.",
    printed_in="wikipedia-bn",
)
def k_nn_bound(rng):
    return _bound(rng, power=2)


@k_nn_bound.control
def _(rng):
    return _bound(rng, power=4)


@k_nn_bound.printed
def _():
    # Large data, a start on the line: the first term is 0, the second 1e-4 of its size.
    S = 1e4 * torch.diag(torch.tensor([1.0, 2.0], dtype=torch.float64))
    u = torch.tensor([60.0, 40.0], dtype=torch.float64)
    theta = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    layer = Layer(Gaussian(u, S, "logistic", 1e4, 2e4), theta, "tanh")
    others = torch.tensor([0.0, -0.5], dtype=torch.float64)
    slope = slope_in_length(layer, layer.gaussian.best, 0, others)
    _, zeta = constants(layer, 0, others)
    bound = 2.0**-2 * zeta * 16 / layer.gaussian.mu**2
    reached = slope(lower_end(slope, (0.0, 16.0), halvings=2))
    return Check(reached**2, bound, "<=", allowed=0.1)


def _line_hessian(layer, lengths):
    """Return second derivatives of f in the coefficients of S^-1 u, by torch."""
    lambda_1 = layer.gaussian.lambda_1
    s = lambda_1 + np.sqrt(lambda_1 * (1 - lambda_1)) * NODES

    def value(c):
        return WEIGHTS @ PHI[layer.gaussian.loss](layer.output(s[:, None] * c))

    return torch.autograd.functional.hessian(value, lengths)


def _sweeps(rng, power):
    """Check how fast exact sweeps on the line converge, and the slope after one."""
    theta = rng.uniform(0.8, 1.6, 2)
    layer = plain_layer(rng.uniform(0.35, 0.5), theta)
    layer, start = elsewhere(rng, layer, torch.tensor([[-1.0, 0.0]] * 2).double())
    options = {"steps": 0, "length": "newton"}
    trace = gdnp_sweeps(layer.ours, start.numpy(), sweeps=9, **options)
    u, lambda_1 = layer.gaussian.u.numpy(), layer.gaussian.lambda_1
    lengths = trace.W @ u / lambda_1
    changes = np.diff(lengths[:, 1])
    seen = np.flatnonzero(np.abs(changes) > 1e-6)[-1]
    hessian = _line_hessian(layer, torch.from_numpy(lengths[-1]))
    factor = hessian[0, 1] ** 2 / (hessian[0, 0] * hessian[1, 1])
    slopes = np.linalg.norm(layer.ours.gradient(trace.W[1]), axis=1)
    return Check.worst(
        Check(changes[seen] / changes[seen - 1], factor ** (power / 2), "==", 1e-2),
        Check(slopes[1], 0.0, "==", allowed=1e-9, scale=slopes[0]),
        Check(np.diff(trace.values), 0.0, "<=", allowed=1e-14, scale=1),
    )


@chapter_claim(
    id="k-nn-overall",
    verdict="wrong",
    statement=r"Let $z\sim N(u,S-uu^\top)$ with $S$ positive definite, $u\ne0$, "
    r"$\lambda_1<1$ and smooth $\ell$, $\varphi$ of moderate growth. Let all units be "
    "on the line or 0, and let a sweep give one unit after the other a length of "
    "least loss on the line, where there is one. The loss never rises. After a sweep "
    "the gradient in the last unit is 0, those in the others in general not. Near a "
    "critical point on the line with a positive definite Hessian $H$ in the "
    r"coefficients $c_1,\dots,c_m$, sweeps that follow the minimiser converge linearly "
    "(from near enough), at the factor of Gauss–Seidel on $H$; for $m=2$ it is "
    "$H_{12}^2/(H_{11}H_{22})$.",
    printed="Since the parameters of each hidden unit converge linearly, the whole "
    "problem has a linear rate of convergence: one run for each unit (the article). A "
    "critical point is reached if each unit is optimised exactly (the paper, as "
    "summarised).",
    printed_in="wikipedia-bn,kohler2019",
)
def k_nn_overall(rng):
    return _sweeps(rng, power=2)


@k_nn_overall.control
def _(rng):
    return _sweeps(rng, power=1)


@k_nn_overall.printed
def _():
    layer = plain_layer(0.36, (2.0, 2.0))
    start = np.array([[-1.0, 0.5], [-1.0, -2.0]])
    trace = gdnp_sweeps(layer.ours, start, steps=60, length="newton")
    return Check(trace.grad_norms[-1], 0.0, "==", allowed=1e-6, scale=1)
