"""The claims of chapter 06 on the gradient in front of batch normalization."""

import functools

import numpy as np
import torch

from bnlib.claims._instances_smoothness import (
    gradient,
    layer_at,
    random_layer,
    random_share,
    small_layer,
    weighted_square,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.smoothness import gradient_terms

chapter_claim = functools.partial(claim, chapter="06-smoothness", kind="theorem")


def _sigma(rng, deviation):
    """Compare gradient length times standard deviation, before and after a stretch."""
    layer = random_layer(rng, shape=(int(rng.integers(4, 20)), 1))
    c = 10 ** (rng.choice([-1, 1]) * rng.uniform(0.5, 1.5))
    stretched = layer_at(c * layer.x, layer.gamma, layer.beta, 0.0, layer.loss)
    sides = (
        np.linalg.norm(at.dx) * deviation(at.x, at.cache.x_hat)
        for at in (layer, stretched)
    )
    return Check(*sides, "==", allowed=1e-10)


@chapter_claim(
    id="sant-setup",
    kind="definition",
    verdict="misprint",
    source="santurkar2018",
    statement=r"One unit at a time: $x\in\mathbb R^m$ holds its inputs over the "
    r"batch, $\mu$ and $\sigma$ are the mean and the standard deviation of $x$, "
    r"$\sigma^2+\epsilon>0$, $\hat x$ its normalised values and $y=\gamma\hat "
    r"x+\beta\mathbf 1$ its outputs. The loss $\ell$ is a differentiable function of "
    r"$y$, and through $y$ of $x$; $\delta=\nabla_y\ell$ is the upstream gradient, "
    "taken at $y$.",
    printed="Batch normalization stands in the second of two networks, though the "
    r"loss with it is the first one's; $\sigma_j$ is the standard deviation "
    r"of the normalised $\hat y_j$, which is 1; the indices $i$ and $j$ are "
    "mixed.",
    printed_in="wikipedia-bn",
)
def sant_setup(rng):
    return _sigma(rng, lambda x, x_hat: x.std())


@sant_setup.control
def _(rng):
    return _sigma(rng, lambda x, x_hat: x_hat.std())


def printed_bound(delta, x_hat, gamma, deviation):
    """Return the encyclopedia's bound on the gradient of one unit."""
    m = delta.size
    less = (delta.sum() ** 2 + (delta * x_hat).sum() ** 2) / m
    return (gamma / deviation) ** 2 * ((delta**2).sum() - less)


@sant_setup.printed
def _():
    layer = small_layer(weighted_square(0.5), spread=0.1)
    x_hat = layer.cache.x_hat
    bound = printed_bound(layer.delta, x_hat, 1.0, x_hat.std())
    return Check((layer.dx**2).sum(), bound, "<=", allowed=1e-9)


def _squared_norm(rng, eps_share, along_x_hat):
    """Compare autograd's squared norms with the formula's and bnlib's, by unit."""
    layer = random_layer(rng, eps_share=eps_share)
    delta, x_hat, share = layer.delta, layer.cache.x_hat, layer.eps_share
    parts = layer.inner(delta, delta) - delta.sum(axis=layer.axes) ** 2 / layer.count
    parts = parts - along_x_hat(share) * layer.inner(delta, x_hat) ** 2 / layer.count
    formula = (layer.gamma * layer.cache.inv_std) ** 2 * parts
    found = layer.inner(layer.dx, layer.dx)
    ours = gradient_terms(delta, layer.cache).squared_norm
    return Check.worst(
        *(Check(a, b, "==", allowed=1e-10) for a, b in zip(formula, found)),
        *(Check(a, b, "==", allowed=1e-10) for a, b in zip(ours, found)),
    )


@chapter_claim(
    id="sant-lipschitz",
    verdict="ambiguous",
    source="santurkar2018",
    statement=r"For every $\epsilon\ge0$, with $s^2=\sigma^2+\epsilon$, "
    r"$\displaystyle\lVert\nabla_x\ell\rVert^2=\frac{\gamma^2}{s^2}\Big("
    r"\lVert\delta\rVert^2-\frac1m\langle\mathbf "
    r"1,\delta\rangle^2-\frac1m\Big(1+\frac\epsilon{s^2}\Big)\langle\delta,"
    r"\hat x\rangle^2\Big)$. In a layer this holds for each unit.",
    printed=r"An inequality, $\le$, at $\epsilon=0$, with the gradient of an "
    "identical network without batch normalization in the place of "
    r"$\delta$; {cite:t}`santurkar2018` print the same as theorem 4.1. It is true if "
    "the networks are identical above the layer and the gradient that comes in is one, "
    "and false of two whole networks: the counterexample.",
    printed_in="wikipedia-bn",
)
def sant_lipschitz(rng):
    return _squared_norm(rng, random_share(rng), lambda share: 1 + share)


@sant_lipschitz.control
def _(rng):
    return _squared_norm(rng, 10 ** rng.uniform(-1, 1), lambda share: 1)


@sant_lipschitz.printed
def _():
    x = small_layer(weighted_square(0.0)).x
    layer = small_layer(weighted_square(x))  # the plain network is at its minimum
    plain = gradient(layer.loss, layer.x)
    bound = printed_bound(plain, layer.cache.x_hat, 1.0, layer.x.std())
    return Check((layer.dx**2).sum(), bound, "<=", allowed=1e-9)


def _parameter_gradients(rng, off_optimum):
    """Check the two inner products, and a squared loss at the best gamma and beta."""
    layer = random_layer(rng, (int(rng.integers(4, 20)), 1), random_share(rng))
    m, x_hat = layer.count, layer.cache.x_hat
    parameters = np.concatenate([layer.gamma, layer.beta])
    d_gamma, d_beta = gradient(
        lambda p: layer.loss(p[0] * torch.from_numpy(x_hat) + p[1]), parameters
    )
    mix, target = rng.standard_normal((m, m)), rng.standard_normal(m)
    design = mix @ np.stack([x_hat[:, 0], np.ones(m)], axis=1)
    gamma, beta = np.linalg.lstsq(design, target)[0]

    def square(y):
        return (
            (torch.from_numpy(mix) @ y[:, 0] - torch.from_numpy(target)).square().sum()
        )

    best = layer_at(
        layer.x, np.array([gamma + off_optimum]), np.array([beta]), layer.eps, square
    )
    factor = (best.gamma * best.cache.inv_std) ** 2
    terms = gradient_terms(layer.delta, layer.cache)
    along_x_hat = (1 + layer.eps_share) * d_gamma**2 / m
    return Check.worst(
        Check(layer.delta.sum(), d_beta, "==", 1e-10),
        Check((layer.delta * x_hat).sum(), d_gamma, "==", 1e-10),
        Check(terms.along_ones, np.array([d_beta**2 / m]), "==", 1e-10),
        Check(terms.along_x_hat, along_x_hat, "==", 1e-10),
        Check((best.dx**2).sum(), (factor * (best.delta**2).sum())[0], "==", 1e-10),
    )


@chapter_claim(
    id="sant-lipschitz-gammabeta",
    verdict="holds",
    source="book",
    statement=r"$\langle\mathbf 1,\delta\rangle=\partial\ell/\partial\beta$ and "
    r"$\langle\delta,\hat x\rangle=\partial\ell/\partial\gamma$. Where "
    r"$\gamma$ and $\beta$ are stationary nothing is subtracted: "
    r"$\lVert\nabla_x\ell\rVert=\frac{\lvert\gamma\rvert}s\lVert\delta\rVert$.",
)
def sant_lipschitz_gammabeta(rng):
    return _parameter_gradients(rng, off_optimum=0.0)


@sant_lipschitz_gammabeta.control
def _(rng):
    return _parameter_gradients(rng, off_optimum=1.0)


def _correlation(rng, of):
    """Check the gradient's parts along 1 and x_hat; its length from a correlation."""
    layer = random_layer(rng, (int(rng.integers(4, 20)), 1), random_share(rng))
    dx, x_hat, delta = layer.dx[:, 0], layer.cache.x_hat[:, 0], layer.delta[:, 0]
    share, factor = layer.eps_share[0], layer.gamma[0] * layer.cache.inv_std[0]
    r = np.corrcoef(of(layer)[:, 0], x_hat)[0, 1]
    length = np.linalg.norm
    left = share * factor * (delta @ x_hat)
    arrives = abs(factor) * length(delta)
    squared = factor**2 * len(dx) * delta.var() * (1 - (1 - share**2) * r**2)
    return Check.worst(
        Check(dx.sum(), 0.0, "==", allowed=1e-10, scale=arrives),
        Check(dx @ x_hat, left, "==", 1e-10, scale=arrives * length(x_hat)),
        Check(dx @ dx, squared, "==", allowed=1e-10),
    )


@chapter_claim(
    id="sant-correlates",
    verdict="wrong",
    source="book",
    statement=r"$\langle\mathbf 1,\nabla_x\ell\rangle=0$ and $\langle\hat "
    r"x,\nabla_x\ell\rangle=\frac{\gamma\epsilon}{s^3}\langle\delta,\hat "
    r"x\rangle$, which is 0 at $\epsilon=0$. If $\sigma>0$ and $\delta$ has a "
    r"variance $v_\delta>0$, then with the correlation $r$ of $\delta$ and $\hat x$ "
    r"over the batch and $\kappa=\epsilon/s^2$, "
    r"$\lVert\nabla_x\ell\rVert^2=\frac{\gamma^2}{s^2}\,m\,v_\delta\,(1-(1-"
    r"\kappa^2)\,r^2)$.",
    printed="The bound gets tighter when the gradient with batch normalization, "
    r"here $\nabla_x\ell$, correlates with the normalised values.",
    printed_in="wikipedia-bn",
)
def sant_correlates(rng):
    return _correlation(rng, lambda layer: layer.delta)


@sant_correlates.control
def _(rng):
    return _correlation(rng, lambda layer: layer.dx)


@sant_correlates.printed
def _():
    layer = small_layer(weighted_square(0.5))
    x_hat, m, std = layer.cache.x_hat, layer.count, layer.x.std()
    reduction = m * layer.delta.var() - std**2 * (layer.dx**2).sum()
    by_gradient = (std * layer.dx * x_hat).sum() ** 2 / m
    return Check(by_gradient, reduction, "==", allowed=1e-9)
