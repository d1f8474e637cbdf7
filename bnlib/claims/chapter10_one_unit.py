"""The claims of chapter 10 on one unit at a time: its direction, its rate, sweeps."""

import functools

import numpy as np
import torch

from bnlib.claims._instances_gaussian import PHI, Gaussian, gradient
from bnlib.claims._instances_hidden_layer import (
    WEIGHTS,
    Layer,
    coefficients,
    grid,
    lengths_on_line,
    random_layer,
    random_unit,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.optim import gdnp
from bnlib.smoothness import second_derivatives

chapter_claim = functools.partial(
    claim, chapter="10-gdnp-networks", kind="theorem", source="kohler2019"
)


_SPACE, _SPACE_WEIGHTS = grid(41, dimensions=3)


def along_u(layer, w, index, others):
    """Return u's factor in the gradient of the unit, from torch's alpha and beta."""
    line = layer.gaussian.best
    pair = layer.inputs(torch.stack([line, w]))
    t = pair[:, :1] * others
    t[:, index] = pair[:, 1]
    W = torch.outer(others, line)
    W[index] = w
    alpha, beta = coefficients(layer, t, WEIGHTS, W)
    return float(layer.theta[index] * (alpha[index] + beta[index] @ others))


def _unit_step(rng, off):
    """Compare GDNP's step on one unit with the step on rho, by torch and by bnlib."""
    layer = random_layer(rng, m=int(rng.integers(2, 4)))
    gaussian, index = layer.gaussian, int(rng.integers(2))
    others = lengths_on_line(rng, layer, index)
    w = random_unit(rng, gaussian)
    W = torch.outer(others, gaussian.best)
    W[index] = w
    if off:
        W[1 - index] = random_unit(rng, gaussian)
        W = W[:2]
        layer = layer._replace(theta=layer.theta[:2])
    g = float(rng.choice([-1, 1]) * rng.uniform(0.3, 1))
    norm = gaussian.norm(w)

    def value(v):
        v = g * v / gaussian.norm(v)
        if off:
            return layer.value(torch.stack([v, W[1]] if index == 0 else [W[0], v]))
        return layer.value_of_unit(v, index, others)

    slope = gradient(value, w)
    along = gradient(gaussian.rho, w)
    parallel = torch.cosine_similarity(slope, along, dim=0).abs()
    h = along_u(layer, g * w / norm, index, others[: len(W)]) * (gaussian.u @ w)
    moved = norm**3 / (gaussian.L * g * h) * slope
    rate = norm**2 / (2 * gaussian.L * gaussian.rho(w).abs())
    ours = gdnp(
        layer.ours.unit(W.numpy(), index), w.numpy(), g, steps=1, length="newton"
    )
    return Check.worst(
        Check(parallel, 1.0, "==", allowed=1e-9),
        Check(moved, -rate * along, "==", allowed=1e-7),
        Check(torch.from_numpy(ours.w[1]) - w, -rate * along, "==", allowed=1e-7),
    )


@chapter_claim(
    id="k-nn-alg2",
    kind="algorithm",
    verdict="conditional",
    statement=r"Let $z\sim N(u,S-uu^\top)$ with $S$ positive definite, $u\ne0$, "
    r"$\lambda_1<1$ and smooth $\ell$, $\varphi$ of moderate growth. Let every other "
    r"unit be on the line, $w_j=c_jS^{-1}u$, or 0 ($c_j=0$). With $g\ne0$, $\tilde "
    r"w_i=g\,w_i/\lVert w_i\rVert_S$, $\alpha$ and $\beta$ taken at $\tilde w_i$, "
    r"$h_i=\theta_i\big(\alpha_i+\sum_{j\ne i}\beta_{ij}c_j\big)\,u^\top w_i\ne0$ and "
    r"$s=-\lVert w_i\rVert_S^3/(L\,g\,h_i)$, the step $w_i-s\nabla_{w_i}f$ is the step "
    r"on $\rho$ of chapter 09. So, as long as $h_i\ne0$ and $g\ne0$ at every step, "
    r"GDNP on the unit has $\rho(w_t)-\rho^*\le(1-\frac\mu L)^{2t}(\rho(w_0)-\rho^*)$.",
    printed="GDNP is run for each hidden unit in turn and has the rate of a halfspace, "
    "with no word on where the other units are.",
    printed_in="wikipedia-bn",
)
def k_nn_alg2(rng):
    return _unit_step(rng, off=False)


@k_nn_alg2.control
def _(rng):
    return _unit_step(rng, off=True)


@k_nn_alg2.printed
def _():
    return _unit_step(np.random.default_rng(0), off=True)


def _skewed(rng, d):
    """Draw rows that are not Gaussian, and the Gaussian of the same moments."""
    mix = rng.standard_normal((d, d)) + 2 * np.eye(d)
    rows = torch.from_numpy((rng.exponential(size=(100, d)) - 0.6) @ mix)
    S, u = rows.T @ rows / len(rows), rows.mean(dim=0)
    return rows, Gaussian(u, S, "logistic", 0, 0)


def _turning(rng, gaussian_data):
    """Check the gradient in a unit's direction, for two output weights.

    On the line it is 0. Off the line it is not 0, and it lies along a vector that does
    not depend on theta.
    """
    layer = random_layer(rng, losses=("logistic",))
    rows, skewed = _skewed(rng, len(layer.gaussian.u))
    if not gaussian_data:
        layer = layer._replace(gaussian=skewed)
    gaussian, g = layer.gaussian, float(rng.uniform(0.5, 1))
    others = lengths_on_line(rng, layer, 0)
    w = random_unit(rng, gaussian)
    norm = gaussian.norm(w)
    along = gaussian.u - gaussian.u @ w / norm**2 * (gaussian.S @ w)
    line = gaussian.best / np.sqrt(gaussian.lambda_1)
    q = w - (gaussian.u @ w) / gaussian.lambda_1 * gaussian.best
    pair = torch.stack([line, q / gaussian.norm(q)])
    nodes, weights = layer.inputs(pair), WEIGHTS
    if not gaussian_data:
        nodes, weights = rows @ pair.T, torch.full((len(rows),), 1 / len(rows)).double()
    held = others[1] * nodes[:, 0] * np.sqrt(gaussian.lambda_1)
    checks = []
    for theta in torch.tensor([0.5, -2.0], dtype=torch.float64):
        changed = layer._replace(theta=torch.stack([theta, layer.theta[1]]))

        def value(v, changed=changed):
            """Return f at the direction with these coordinates in the pair's plane."""
            t = torch.stack([nodes @ (g * v / v.norm()), held], dim=1)
            return weights @ PHI["logistic"](changed.output(t))

        on_line = gradient(value, torch.tensor([1.0, 0.0]).double())
        slope = gradient(value, pair @ gaussian.S @ w)
        expected = g / norm * along_u(changed, g * w / norm, 0, others) * (pair @ along)
        size = float(slope.norm())
        checks.append(Check(on_line, 0.0, "==", allowed=1e-9, scale=size))
        checks.append(Check(slope, expected, "==", allowed=1e-7))
    return Check.worst(*checks)


@chapter_claim(
    id="k-nn-output-weight",
    verdict="holds",
    statement=r"Let $z\sim N(u,S-uu^\top)$ with $S$ positive definite, $u\ne0$, "
    r"$\lambda_1<1$ and smooth $\ell$, $\varphi$ of moderate growth. Let every other "
    r"unit be on the line or 0, and let $\theta_i\ne0$ and $g_i\ne0$. Where "
    r"$\alpha_i+\sum_{j\ne i}\beta_{ij}c_j\ne0$, $\nabla_{w_i}f(w_i,g_i)=0$ exactly if "
    "$w_i$ is on the line. So where this number is not 0 the output weight has no say "
    "in which directions are critical.",
)
def k_nn_output_weight(rng):
    return _turning(rng, gaussian_data=True)


@k_nn_output_weight.control
def _(rng):
    return _turning(rng, gaussian_data=False)


def _blocks(rng, gaussian_data):
    """Check second derivatives, by autograd, with all units on the line."""
    mix = torch.from_numpy(rng.standard_normal((3, 3)) + 2 * np.eye(3))
    rows, skewed = _skewed(rng, 3)
    if gaussian_data:
        shift = torch.from_numpy(rng.standard_normal(3))
        shift *= np.sqrt(rng.uniform(0.2, 0.7)) / shift.norm()
        covariance = torch.eye(3, dtype=torch.float64) - torch.outer(shift, shift)
        rows = (shift + _SPACE @ torch.linalg.cholesky(covariance).T) @ mix
        data = Gaussian(shift @ mix, mix.T @ mix, "logistic", 0, 0)
        weights = _SPACE_WEIGHTS
    else:
        data, weights = skewed, torch.full((len(rows),), 1 / len(rows)).double()
    line = data.best / np.sqrt(data.lambda_1)
    w = torch.outer(torch.from_numpy(rng.uniform(0.5, 2, 2)), line).requires_grad_()
    g = torch.from_numpy(rng.choice([-1, 1], 2) * rng.uniform(0.3, 0.5, 2))
    theta = torch.from_numpy(rng.uniform(0.5, 1, 2))
    g, theta = g.requires_grad_(), theta.requires_grad_()
    lengths = torch.sqrt(((w @ data.S) * w).sum(dim=1, keepdim=True))
    hidden = torch.tanh(rows @ (g[:, None] * w / lengths).T)
    value = weights @ PHI["logistic"](hidden @ theta)
    lengths = lengths.detach()
    between = second_derivatives(value, w, w)[:3, 3:]
    # beta at the units, from torch's derivatives point by point.
    W = (g[:, None] * w / lengths).detach()
    layer = Layer(data, theta.detach(), "tanh")
    _, beta = coefficients(layer, rows @ W.T, weights, W)
    factor = (g[0] * g[1] * theta[0] * beta[0, 1] / lengths.prod()).detach()
    lambda_1 = data.u @ data.best
    formula = factor * (data.S - torch.outer(data.u, data.u) / lambda_1)
    own = between.abs().max().item()
    return Check.worst(
        Check(between, formula, "==", allowed=1e-7),
        *(
            Check(second_derivatives(value, k, w), 0.0, "==", allowed=1e-9, scale=own)
            for k in (g, theta)
        ),
    )


@chapter_claim(
    id="k-hessian-blocks",
    verdict="holds",
    statement=r"Let $z\sim N(u,S-uu^\top)$ with $S$ positive definite, $u\ne0$, "
    r"$\lambda_1<1$ and smooth $\ell$, $\varphi$ of moderate growth. Let all units be "
    r"on the line. Then the blocks $\partial^2f/\partial w_i\partial g_k$ and "
    r"$\partial^2f/\partial w_i\partial\theta_k$ are 0 for all $i$, $k$, at all "
    r"lengths $g$ and output weights $\theta$. For two units $i\ne j$ the block of "
    r"their directions is $\frac{\partial^2f}{\partial w_i\,\partial w_j}="
    r"\frac{g_ig_j}{\lVert w_i\rVert_S\lVert w_j\rVert_S}\,\theta_i\beta_{ij}\,"
    r"\big(S-\frac{uu^\top}{\lambda_1}\big)$, in general not 0.",
)
def k_hessian_blocks(rng):
    return _blocks(rng, gaussian_data=True)


@k_hessian_blocks.control
def _(rng):
    return _blocks(rng, gaussian_data=False)
