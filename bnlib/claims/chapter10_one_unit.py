"""The claims of chapter 10 on one unit at a time: its direction, its rate, sweeps."""

import functools

import numpy as np
import torch
from scipy import optimize

from bnlib.claims._instances_gaussian import PHI, Gaussian, gradient
from bnlib.claims._instances_hidden_layer import (
    WEIGHTS,
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
    """What multiplies u in the gradient of the unit, from torch's alpha and beta."""
    line = layer.gaussian.best
    pair = layer.inputs(torch.stack([line, w]))
    t = pair[:, :1] * others
    t[:, index] = pair[:, 1]
    W = torch.outer(others, line)
    W[index] = w
    alpha, beta = coefficients(layer, t, WEIGHTS, W)
    return float(layer.theta[index] * (alpha[index] + beta[index] @ others))


def _unit_step(rng, off):
    """GDNP's step on one unit against the step on rho, both by torch and by bnlib."""
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
    """Rows that no Gaussian draws, and what it takes to handle them as one."""
    mix = rng.standard_normal((d, d)) + 2 * np.eye(d)
    rows = torch.from_numpy((rng.exponential(size=(100, d)) - 0.6) @ mix)
    S, u = rows.T @ rows / len(rows), rows.mean(dim=0)
    return rows, Gaussian(u, S, "logistic", 0, 0)


def _best_angles(rng, gaussian_data):
    """The angle to the line at which f is least at a fixed length, for two theta."""
    layer = random_layer(rng, losses=("logistic",))
    rows, skewed = _skewed(rng, len(layer.gaussian.u))
    if not gaussian_data:
        layer = layer._replace(gaussian=skewed)
    gaussian, length = layer.gaussian, rng.uniform(0.5, 1)
    others = lengths_on_line(rng, layer, 0)
    line = gaussian.best / np.sqrt(gaussian.lambda_1)

    def value(angle, theta, q):
        changed = layer._replace(theta=torch.stack([theta, layer.theta[1]]))
        w = -torch.sign(theta) * length * (np.cos(angle) * line + np.sin(angle) * q)
        if gaussian_data:
            return changed.value_of_unit(w, 0, others).item()
        t = torch.stack([rows @ w, others[1] * rows @ gaussian.best], dim=1)
        return PHI["logistic"](changed.output(t)).mean().item()

    found = []
    for theta in torch.tensor([0.5, -2.0], dtype=torch.float64):
        q = torch.from_numpy(rng.standard_normal(len(line)))
        q = q - (q @ gaussian.u) / gaussian.lambda_1 * gaussian.best
        options = {"bounds": (-1.2, 1.3), "args": (theta, q / gaussian.norm(q))}
        least = optimize.minimize_scalar(value, options={"xatol": 1e-7}, **options)
        found.append(least.x)
    return Check(found, 0.0, "==", allowed=1e-5, scale=1)


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
    return _best_angles(rng, gaussian_data=True)


@k_nn_output_weight.control
def _(rng):
    return _best_angles(rng, gaussian_data=False)


def _blocks(rng, gaussian_data):
    """Second derivatives by autograd, all units on the line, at random g and theta."""
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
    own = second_derivatives(value, w, w).abs().max().item()
    return Check.worst(
        *(
            Check(second_derivatives(value, k, w), 0.0, "==", allowed=1e-9, scale=own)
            for k in (g, theta)
        )
    )


@chapter_claim(
    id="k-hessian-blocks",
    verdict="holds",
    statement=r"Let $z\sim N(u,S-uu^\top)$ with $S$ positive definite, $u\ne0$, "
    r"$\lambda_1<1$ and smooth $\ell$, $\varphi$ of moderate growth. Let all units be "
    r"on the line. Then the blocks $\partial^2f/\partial w_i\partial g_k$ and "
    r"$\partial^2f/\partial w_i\partial\theta_k$ are 0 for all $i$, $k$, at all "
    r"lengths $g$ and output weights $\theta$. The block of two directions is in "
    "general not 0.",
)
def k_hessian_blocks(rng):
    return _blocks(rng, gaussian_data=True)


@k_hessian_blocks.control
def _(rng):
    return _blocks(rng, gaussian_data=False)
