"""The claims of chapter 06 on a unit's weights: the worst case, and the start."""

import functools

import numpy as np
from scipy.optimize import minimize_scalar

from bnlib.claims._instances_smoothness import (
    random_layer,
    random_share,
    small_layer,
    weighted_square,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.smoothness import closest_optimum, worst_case
from bnlib.transform import batch_norm_forward

chapter_claim = functools.partial(claim, chapter="06-smoothness", kind="theorem")


def _largest(g, d, radius):
    """Return the maximum of |X^T g|^2 over |X|_F <= radius, by an eigenvalue problem.

    As a function of the entries of X it is a quadratic form of the matrix
    kron(g g^T, I).
    """
    return radius**2 * np.linalg.eigvalsh(np.kron(np.outer(g, g), np.eye(d)))[-1]


def _reached(rng, first, d, radius, dx):
    """Return |X^T dx|^2 for an X of spectral norm radius, with a given first column.

    Its d columns are orthogonal and as long as the radius, so its Frobenius norm is
    sqrt(d) times as large.
    """
    columns = np.column_stack([first, rng.standard_normal((len(first), d - 1))])
    return ((radius * np.linalg.qr(columns)[0].T @ dx) ** 2).sum()


def _worst_inputs(rng, last_factor):
    """Compare the two maxima by brute force, by the formula and by bnlib."""
    m, d, radius = (
        int(rng.integers(4, 10)),
        int(rng.integers(1, 5)),
        rng.uniform(0.2, 5),
    )
    layer = random_layer(rng, (m, 1), random_share(rng))
    delta, x_hat = layer.delta[:, 0], layer.cache.x_hat[:, 0]
    plain, normalised = (_largest(g, d, radius) for g in (delta, layer.dx[:, 0]))
    factor = (layer.gamma[0] * layer.cache.inv_std[0]) ** 2
    less = m * radius**2 * delta.mean() ** 2
    along = (1 + layer.eps_share[0]) * (delta @ x_hat) ** 2
    formula = factor * (plain - less - last_factor(m) * radius**2 * along)
    ours = worst_case(layer.delta, layer.cache, radius)
    dx = layer.dx[:, 0] / np.linalg.norm(layer.dx)
    near = dx + 0.1 * rng.standard_normal(m)
    best, other = (_reached(rng, g, d, radius, layer.dx) for g in (dx, near))
    return Check.worst(
        Check(formula, normalised, "==", allowed=1e-10),
        Check(ours.normalised[0], normalised, "==", allowed=1e-10),
        Check(ours.plain[0], plain, "==", allowed=1e-10),
        Check(best, ours.normalised[0], "==", allowed=1e-10),
        Check(other, ours.normalised[0], "<=", allowed=1e-10),
    )


@chapter_claim(
    id="sant-minmax",
    verdict="wrong",
    source="santurkar2018",
    statement=r"Let $g=\max\lVert X^\top\delta\rVert^2$ and $\hat g=\max\lVert "
    r"X^\top\nabla_x\ell\rVert^2$ over all $X$ with $\lVert "
    r"X\rVert\le\lambda$ (spectral or Frobenius norm), with $\delta$, $s$ "
    r"and $\hat x$ held fixed. Then $g=\lambda^2\lVert\delta\rVert^2$ and, "
    r"with the mean $\bar\delta$ of $\delta$, $\displaystyle\hat "
    r"g=\frac{\gamma^2}{s^2}\Big(g-m\lambda^2\bar\delta^2-\frac{\lambda^2}m"
    r"\Big(1+\frac\epsilon{s^2}\Big)\langle\delta,\hat x\rangle^2\Big)$.",
    printed=r"$\hat g\le\frac{\gamma^2}{\sigma^2}(g^2-m\bar\delta^2-\lambda^2\langle"
    r"\delta,\hat x\rangle^2)$, with $\mu_g$ for $\bar\delta$, which is not defined: "
    r"$g$, already a square, is squared again, $\frac1m$ is missing, and $\lambda^2$ "
    r"if $\mu_g$ is the mean. {cite:t}`santurkar2018` print the same as theorem 4.4.",
    printed_in="wikipedia-bn",
)
def sant_minmax(rng):
    return _worst_inputs(rng, lambda m: 1 / m)


@sant_minmax.control
def _(rng):
    return _worst_inputs(rng, lambda m: 1)


@sant_minmax.printed
def _():
    square = weighted_square(0.5)
    layer = small_layer(lambda y: square(y) / 1000)
    g, m = (layer.delta**2).sum(), layer.count
    along = (layer.delta * layer.cache.x_hat).sum() ** 2
    bound = (g**2 - m * layer.delta.mean() ** 2 - along) / layer.x.var()
    return Check(_largest(layer.dx[:, 0], 1, 1.0), bound, "<=", allowed=1e-9)


def _regression(rng):
    """Draw a least squares problem; return its minimiser and its loss with batch norm.

    The loss is a function of the weights and of the least scale allowed, at the best
    scale and shift. Inputs and target have mean 0, so the plain network needs no bias.
    A scale and a shift are enough to undo the normalisation, so both networks have the
    same minimiser.
    """
    n, d = int(rng.integers(10, 30)), int(rng.integers(2, 6))
    X = rng.standard_normal((n, d)) * rng.uniform(0.5, 2, d)
    target = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)
    X, target = X - X.mean(axis=0), target - target.mean()
    optimum = np.linalg.lstsq(X, target)[0]

    def loss(w, least):
        x_hat, _ = batch_norm_forward((X @ w)[:, None], eps=0.0)
        gamma = max((x_hat[:, 0] @ target) / n, least)
        return ((gamma * x_hat[:, 0] - target) ** 2).mean()

    return X, target, optimum, loss


def _start(rng, side, free):
    """Compare the distance to the optima: by a search, by the formula, by bnlib.

    If the scale is free, the optima are a line without 0; if it is kept positive,
    they are a ray.
    """
    X, target, optimum, loss = _regression(rng)
    start = rng.standard_normal(len(optimum))
    start *= side * np.sign(start @ optimum)
    size, inner = np.linalg.norm, start @ optimum
    longest, least = size(start) / size(optimum), -np.inf if free else 0.0
    found = minimize_scalar(
        lambda k: size(start - k * optimum) ** 2,
        bounds=(-longest if free else 0, longest),
        method="bounded",
        options={"xatol": 1e-9},
    ).fun
    less = (size(optimum) ** 2 - inner) ** 2 / size(optimum) ** 2
    formula = size(start - optimum) ** 2 - less
    shorter = size(start) ** 2 - inner**2 / size(optimum) ** 2
    checks = [
        Check(formula, found, "==", allowed=1e-9, scale=size(start) ** 2),
        Check(formula, shorter, "==", allowed=1e-10, scale=size(start) ** 2),
        Check(loss(start, least), loss(optimum, least), ">=", allowed=1e-10),
    ]
    lowest, turned = ((X @ optimum - target) ** 2).mean(), loss(-3 * optimum, least)
    checks.append(Check(loss(3 * optimum, least), lowest, "==", 1e-10))
    # If the scale is positive, the other side does no better than a constant.
    checks.append(Check(turned, lowest if free else target.var(), "==", 1e-10))
    if free or inner > 0:
        nearest = inner / size(optimum) ** 2 * optimum
        checks.append(Check(loss(nearest, least), lowest, "==", allowed=1e-10))
    if inner > 0:
        ours = closest_optimum(start, optimum)
        checks.append(Check(ours.squared, shorter, "==", 1e-10, scale=size(start) ** 2))
        checks.append(Check(ours.point, nearest, "==", allowed=1e-10))
    return Check.worst(*checks)


@chapter_claim(
    id="sant-init",
    verdict="conditional",
    source="santurkar2018",
    statement=r"Let $W^*$ be optimal with batch normalization too, at $\epsilon=0$, so "
    r"that $kW^*$ is for every $k>0$, and for every $k\ne0$ if $\gamma$ is free to "
    r"change its sign. Let $\langle W_0,W^*\rangle>0$, or $\ne0$ in the second case. "
    r"The closest of these to $W_0$ is $\hat W^*=kW^*$ with $k=\langle W_0,W^*\rangle/"
    r"\lVert W^*\rVert^2$, and $\displaystyle\lVert W_0-\hat W^*\rVert^2=\lVert W_0-W^*"
    r"\rVert^2-"
    r"\frac{(\lVert W^*\rVert^2-\langle W^*,W_0\rangle)^2}{\lVert W^*\rVert^2}$.",
    printed=r"The same, as $\le$, for local optima $W^*$, $\hat W^*$ of the two "
    "networks, without the conditions. The counterexample keeps the scale positive.",
    printed_in="wikipedia-bn",
)
def sant_init(rng):
    side = rng.choice([-1, 1])
    return Check.worst(
        _start(rng, side=1, free=False), _start(rng, side=side, free=True)
    )


@sant_init.control
def _(rng):
    return _start(rng, side=-1, free=False)


@sant_init.printed
def _():
    start, optimum = np.array([-1.0, 0.5]), np.array([2.0, 0.0])
    # The ray gets no closer than its end, the origin.
    nearest = (start**2).sum()
    inner, square = start @ optimum, optimum @ optimum
    bound = ((start - optimum) ** 2).sum() - (square - inner) ** 2 / square
    return Check(nearest, bound, "<=", allowed=1e-9)
