"""The claims of chapter 10 on the problem: its gradient and where that vanishes."""

import functools

import numpy as np
import torch
from scipy import optimize

from bnlib.claims._instances_gaussian import PHI, gradient, random_gaussian
from bnlib.claims._instances_hidden_layer import (
    ACTIVATIONS,
    CONVEX,
    WEIGHTS,
    Layer,
    coefficients,
    critical_point,
    elsewhere,
    off_line,
    plain_layer,
    random_layer,
    random_unit,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.networks import FiniteOneHiddenLayer

chapter_claim = functools.partial(
    claim, chapter="10-gdnp-networks", kind="theorem", source="kohler2019"
)


def _odd(rng, activation):
    n, d, m = (int(rng.integers(2, 9)) for _ in range(3))
    x, W = torch.from_numpy(rng.standard_normal((n, d))), rng.standard_normal((m, d))
    y = torch.from_numpy(rng.choice([-1.0, 1.0], n))
    theta = rng.choice([-1, 1], m) * rng.uniform(0.5, 1.5, m)
    hidden = activation(x @ torch.from_numpy(W).T)
    of_x = torch.nn.functional.softplus(-y * (hidden @ torch.from_numpy(theta))).mean()
    layer = FiniteOneHiddenLayer((-y[:, None] * x).numpy(), theta)
    return Check(layer.value(W), of_x, "==", allowed=1e-12)


@chapter_claim(
    id="k-nn-odd",
    verdict="holds",
    statement=r"Let $F_x=\sum_i\theta_i\varphi(x^\top w_i)$ with an odd activation "
    r"$\varphi$, and let $y=\pm1$. With $z=-yx$: $-yF_x=F_z$. So "
    r"$\mathbb E\,\ell(-yF_x)=\mathbb E\,\ell(F_z)$ depends on the data by $z$ alone.",
)
def k_nn_odd(rng):
    return _odd(rng, torch.tanh)


@k_nn_odd.control
def _(rng):
    return _odd(rng, lambda t: torch.tanh(t + 0.5))


def _stein(rng, bend):
    layer = random_layer(rng)
    W = torch.stack([random_unit(rng, layer.gaussian) for _ in range(2)])
    expected = gradient(layer.value, W)
    alpha, beta = coefficients(layer, layer.inputs(W), WEIGHTS, W, bend)
    u, S = layer.gaussian.u, layer.gaussian.S
    formula = layer.theta[:, None] * (torch.outer(alpha, u) + beta @ W @ S)
    ours = layer.ours.coefficients(W.numpy())
    return Check.worst(
        Check(formula, expected, "==", allowed=1e-9),
        Check(layer.ours.gradient(W.numpy()), expected, "==", allowed=1e-9),
        Check(ours.alpha, alpha, "==", allowed=1e-9),
        Check(ours.beta, beta, "==", allowed=1e-9),
    )


@chapter_claim(
    id="k-nn-stein",
    verdict="holds",
    statement=r"For $z\sim N(u,S-uu^\top)$ and smooth $\ell$, $\varphi$ of moderate "
    r"growth, $f(W)=\mathbb E\,\ell(F_z)$ has "
    r"$\nabla_{w_i}f=\theta_i\big(\alpha_iu+S\sum_j\beta_{ij}w_j\big)$ with "
    r"$\beta_{ij}=\theta_j\,\mathbb E[\ell''\varphi_i'\varphi_j']+\delta_{ij}\,"
    r"\mathbb E[\ell'\varphi_i'']$ and $\alpha_i=\mathbb E[\ell'\varphi_i']-u^\top"
    r"\sum_j\beta_{ij}w_j$. Here $\varphi_i'=\varphi'(w_i^\top z)$, and $\ell'$, "
    r"$\ell''$ are taken at $F_z$.",
)
def k_nn_stein(rng):
    return _stein(rng, bend=True)


@k_nn_stein.control
def _(rng):
    return _stein(rng, bend=False)


def minimum(layer, start):
    """Return a minimum that SciPy finds from the start."""
    joint = layer.ours.joint
    found = optimize.minimize(joint.value, start.ravel(), jac=joint.gradient)
    return torch.from_numpy(found.x.reshape(start.shape))


def _critical(layer, W, bend):
    """Check what the theorem says at a critical point W, with torch's coefficients."""
    alpha, beta = coefficients(layer, layer.inputs(W), WEIGHTS, W, bend)
    line = layer.gaussian.best
    across = W - torch.outer(W @ line, line) / (line @ line)
    size = float(beta.norm() * W.norm())
    checks = [Check(beta @ across, 0.0, "==", allowed=1e-8, scale=size)]
    if torch.linalg.cond(beta) < 1e4:
        formula = -torch.outer(torch.linalg.solve(beta, alpha), line)
        checks.append(Check(W, formula, "==", allowed=1e-7))
    return checks


def found_minimum(rng, m, losses=CONVEX):
    """Return a minimum of a random layer with S = I and short weights, for speed."""
    theta, loss = rng.uniform(1, 3, m), str(rng.choice(losses))
    layer = plain_layer(rng.uniform(0.1, 0.5), theta, loss)
    return layer, critical_point(
        layer, minimum(layer, 0.1 * rng.standard_normal((m, 2)))
    )


def _line(rng, bend):
    """Check an off-line minimum, another of two units, and one of a single unit."""
    checks = []
    for found in (off_line(int(rng.integers(2))), found_minimum(rng, m=2)):
        checks += _critical(*elsewhere(rng, *found), bend)
    one, W = elsewhere(rng, *found_minimum(rng, m=1, losses=("logistic",)))
    cosine = torch.cosine_similarity(W[0], one.gaussian.best, dim=0).abs()
    return Check.worst(*checks, Check(cosine, 1.0, "==", allowed=1e-9))


@chapter_claim(
    id="k-nn-critline",
    verdict="wrong",
    statement=r"Let $z\sim N(u,S-uu^\top)$ with $S$ positive definite, $u\ne0$, "
    r"$\lambda_1<1$ and smooth $\ell$, $\varphi$ of moderate growth. Let all "
    r"$\theta_i\ne0$, and $W$ be a critical point of $f$. If the matrix $\beta$ is "
    "nonsingular there, all units lie on the line: "
    r"$W=-\beta^{-1}\alpha\,(S^{-1}u)^\top$. If a unit is off the line, $\beta Wq=0$ "
    r"for a $q$ with $q^\top S^{-1}u=0$ and $Wq\ne0$. For one unit with $\ell'>0$ and "
    r"$\varphi'>0$, $\beta\ne0$ at every critical point.",
    printed="The critical points of all hidden units lie on the line of $S^{-1}u$ (so "
    "the article, and the summary of the paper that we read, which speaks of the "
    "assumptions of the halfspace and of no condition on $\\beta$).",
    printed_in="wikipedia-bn,kohler2019",
)
def k_nn_critline(rng):
    return _line(rng, bend=True)


@k_nn_critline.control
def _(rng):
    return _line(rng, bend=False)


@k_nn_critline.printed
def _():
    layer, W = off_line(1)
    slope = gradient(layer.value, W).norm().item()
    # A point that is not critical shows nothing, and a NaN is no failure.
    cosines = torch.cosine_similarity(W, layer.gaussian.best[None], dim=1).abs()
    found = cosines if slope < 1e-12 else float("nan") * cosines
    return Check(found, 1.0, "==", allowed=1e-3)


def _across(rng, bend):
    """Compare the second derivative across the line, by torch, with beta's form."""
    layer = random_layer(rng, m=int(rng.integers(2, 5)))
    gaussian, m = layer.gaussian, len(layer.theta)
    line = gaussian.best / np.sqrt(gaussian.lambda_1)
    q = torch.from_numpy(rng.standard_normal(len(line)))
    q = q - (q @ gaussian.u) / (gaussian.u @ gaussian.u) * gaussian.u
    pair = layer.inputs(torch.stack([line, q / gaussian.norm(q)]))
    checks = []
    for merged in (False, True):
        lengths = torch.from_numpy(rng.uniform(-0.6, 0.6, 1 if merged else m)).expand(m)
        a = torch.from_numpy(rng.standard_normal(m))
        if merged:
            a = a - layer.theta * (layer.theta @ a) / (layer.theta @ layer.theta)

        def value(step, lengths=lengths, a=a):
            t = pair[:, :1] * lengths + step * pair[:, 1:] * a
            return WEIGHTS @ PHI[gaussian.loss](layer.output(t))

        second = torch.autograd.functional.hessian(value, torch.zeros_like(line[0]))
        W = torch.outer(lengths, line)
        _, beta = coefficients(layer, pair[:, :1] * lengths, WEIGHTS, W, bend)
        form = (layer.theta * a) @ beta @ a
        if merged and bend:
            _, straight = coefficients(layer, pair[:, :1] * lengths, WEIGHTS, W, False)
            form = (beta - straight)[0, 0] * (layer.theta @ a**2)
        checks.append(Check(form, second, "==", allowed=1e-9, scale=float(a @ a)))
        direction = torch.outer(a, q / gaussian.norm(q)).numpy().ravel()
        ours = direction @ layer.ours.hessian(W.numpy()) @ direction
        checks.append(Check(ours, second, "==", allowed=1e-9, scale=float(a @ a)))
    return Check.worst(*checks)


@chapter_claim(
    id="k-nn-across",
    verdict="holds",
    source="book",
    statement=r"Let $z\sim N(u,S-uu^\top)$ with $S$ positive definite, $u\ne0$, "
    r"$\lambda_1<1$ and smooth $\ell$, $\varphi$ of moderate growth. Let all units lie "
    r"on the line. Moving them by $a_iq$ with $q^\top u=0$, the second derivative of "
    r"$f$ is $q^\top Sq\,\sum_{ij}a_i\theta_i\beta_{ij}a_j$. Where $w_1=\dots=w_m=w$ "
    r"and $\sum_i\theta_ia_i=0$ it is $q^\top Sq\;\mathbb E[\ell'\varphi''(w^\top "
    r"z)]\,\sum_i\theta_ia_i^2$. So for $m\ge2$, $d\ge2$, all $\theta_i>0$ and a "
    "negative expectation, $w$ is no local minimum.",
)
def k_nn_across(rng):
    return _across(rng, bend=True)


@k_nn_across.control
def _(rng):
    return _across(rng, bend=False)


def _zero_mean(rng, theta):
    """Compare values with u = 0, at (w, -w) and random weights, with the loss at 0."""
    gaussian = random_gaussian(rng, losses=CONVEX)
    gaussian = gaussian._replace(u=0 * gaussian.u)
    layer = Layer(gaussian, torch.from_numpy(theta), str(rng.choice(list(ACTIVATIONS))))
    least = PHI[gaussian.loss](torch.zeros(1, dtype=torch.float64))
    w, v = (random_unit(rng, gaussian) for _ in range(2))
    t = layer.inputs(torch.stack([w, v]))[:, :1]
    opposed = WEIGHTS @ PHI[gaussian.loss](layer.output(torch.cat([t, -t], dim=1)))
    return Check.worst(
        Check(opposed, least, "==", allowed=1e-12),
        Check(layer.value(torch.stack([w, v])), least, ">=", allowed=1e-12),
    )


@chapter_claim(
    id="k-nn-u0",
    verdict="holds",
    source="book",
    statement=r"Let $z\sim N(0,S)$, $\varphi$ odd, $\ell$ convex, $\mathbb E\lvert "
    r"F_z\rvert$ finite, $m=2$ and $\theta_1=\theta_2$. Then $f\ge\ell(0)$, and every "
    "$(w,-w)$ attains it: there are global minima in every direction.",
)
def k_nn_u0(rng):
    return _zero_mean(rng, np.full(2, rng.uniform(0.5, 1.5)))


@k_nn_u0.control
def _(rng):
    return _zero_mean(rng, rng.uniform(0.5, 1.5) * np.array([1.0, 1.5]))
