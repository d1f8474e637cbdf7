"""The claims of chapter 06 on the curvature in front of batch normalization."""

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
from bnlib.smoothness import curvature_terms, hessian_product
from bnlib.transform import batch_norm_forward

chapter_claim = functools.partial(claim, chapter="06-smoothness", kind="theorem")


def curved(function, at):
    """Return autograd's product of a function's Hessian with a direction."""
    at = torch.from_numpy(at).requires_grad_()
    (slope,) = torch.autograd.grad(function(at), at, create_graph=True)

    def product(v):
        along = torch.as_tensor(v)
        (found,) = torch.autograd.grad(slope, at, along, retain_graph=True)
        return found.numpy()

    return product


def whole(function, at):
    """Return autograd's Hessian of a function of one unit's values, as a matrix."""
    product = curved(function, at)
    columns = np.eye(at.size).reshape(-1, *at.shape)
    return np.stack([product(column).ravel() for column in columns])


def _one_unit(rng, with_sides):
    """Check the Hessian of one unit, and its quadratic form along the gradient."""
    shape = (int(rng.integers(4, 10)), 1)
    layer = random_layer(rng, shape, random_share(rng))
    m, x_hat, delta = layer.count, layer.cache.x_hat[:, 0], layer.delta[:, 0]
    gamma, inv_std = layer.gamma[0], layer.cache.inv_std[0]
    P = np.eye(m) - 1 / m - np.outer(x_hat, x_hat) / m
    H = whole(layer.loss, layer.y)
    sides = np.outer(x_hat, P @ delta)
    bend = with_sides * (sides + sides.T) + (delta @ x_hat) * P
    factor = gamma**2 * inv_std**2
    formula = factor * P @ H @ P - gamma * inv_std**2 / m * bend
    found = whole(layer.composed, layer.x)
    v = rng.standard_normal(m)
    v -= v.mean()
    v -= (v @ x_hat) / (x_hat @ x_hat) * x_hat
    directions = [v] if layer.eps else [v, layer.dx[:, 0]]
    checks = [Check(formula, found, "==", allowed=1e-10)]
    for v in directions:
        by_scale = gamma * inv_std**2 / m * (delta @ x_hat) * (v @ v)
        form = factor * v @ H @ v - by_scale
        size = abs(factor * v @ H @ v) + abs(by_scale)
        checks.append(Check(form, v @ found @ v, "==", allowed=1e-10, scale=size))
    return Check.worst(*checks)


def _whole_layer(rng):
    """Compare bnlib's product and its two terms with autograd, for a layer of units."""
    layer = random_layer(rng, eps_share=random_share(rng))
    v = rng.standard_normal(layer.x.shape)
    behind = curved(layer.loss, layer.y)
    arguments = (v, layer.delta, layer.cache, behind)
    product, terms = hessian_product(*arguments), curvature_terms(*arguments)
    found = curved(layer.composed, layer.x)(v)
    size = abs(terms.downstream) + np.abs(terms.by_scale).sum()
    return Check.worst(
        Check(product, found, "==", allowed=1e-10),
        Check(terms.total, (v * found).sum(), "==", allowed=1e-10, scale=size),
    )


@chapter_claim(
    id="sant-hessian",
    verdict="ambiguous",
    source="santurkar2018",
    statement=r"For every $\epsilon\ge0$ and twice differentiable $\ell$, with "
    r"$H=\nabla_y^2\ell$, "
    r"$\displaystyle\nabla_x^2\ell=\frac{\gamma^2}{s^2}PHP-\frac"
    r"\gamma{ms^2}\big[\hat x(P\delta)^\top+(P\delta)\hat "
    r"x^\top+\langle\delta,\hat x\rangle P\big]$. For $v\perp\mathbf 1,\hat "
    r"x$: $\displaystyle v^\top\nabla_x^2\ell\,v=\frac{\gamma^2}{s^2}v^\top "
    r"Hv-\frac\gamma{ms^2}\langle\delta,\hat x\rangle\lVert v\rVert^2$; at "
    r"$\epsilon=0$ the gradient $v=\nabla_x\ell$ is such a $v$. Between two "
    "units $j$, $k$ of a layer the Hessian is "
    r"$\frac{\gamma_j\gamma_k}{s_js_k}P_jH_{jk}P_k$.",
    printed=r"The form along the gradient, as an inequality, $\le$, with gradient "
    "and Hessian of the network without batch normalization, and with "
    r"$\partial\hat L/\partial y_j\partial y_j$ for the Hessian, a square "
    "missing; {cite:t}`santurkar2018` print the same as theorem 4.2. It is true if "
    "gradient and Hessian are those that come in from above, and false of two whole "
    "networks: the counterexample.",
    printed_in="wikipedia-bn",
)
def sant_hessian(rng):
    return Check.worst(_one_unit(rng, with_sides=1), _whole_layer(rng))


@sant_hessian.control
def _(rng):
    return _one_unit(rng, with_sides=0)


@sant_hessian.printed
def _():
    x = small_layer(weighted_square(0.0)).x
    # The loss is flat to third order at the plain network's outputs.
    layer = small_layer(weighted_square(x, power=4))
    v, x_hat = layer.dx[:, 0], layer.cache.x_hat[:, 0]
    plain = gradient(layer.loss, layer.x)[:, 0]
    H = whole(layer.loss, layer.x)
    inv_var = layer.cache.inv_std[0] ** 2
    bound = inv_var * (v @ H @ v - (plain @ x_hat) * (v @ v) / layer.count)
    form = v @ whole(layer.composed, layer.x) @ v
    return Check(form, bound, "<=", allowed=1e-9)


def _convex(rng, m, centre):
    """Return a convex loss that is least where all outputs are the centre."""
    mix = torch.from_numpy(rng.standard_normal((m, m)))
    return lambda y: torch.log(torch.cosh(mix @ (y[:, 0] - centre))).sum()


def _separable(rng):
    """Return the sum of one convex function over all outputs."""
    draws = rng.standard_normal((3, 3)) * [[1], [1], [2]]
    size, slope, place = torch.from_numpy(draws)
    pieces = torch.nn.functional.softplus
    return lambda y: (size.abs() * pieces(slope * y + place)).sum()


def _sign_terms(rng, loss, shifts):
    """Return gamma <delta, x_hat> and <1, delta> of a unit at several shifts."""
    m = int(rng.integers(4, 20))
    spread = rng.uniform(0.1, 10)
    x = spread * rng.standard_normal((m, 1)) + rng.uniform(-5, 5)
    eps = random_share(rng) * spread**2
    gamma = np.array([rng.choice([-1, 1]) * rng.uniform(0.3, 3)])
    made = loss(rng, m)
    layers = [layer_at(x, gamma, np.array([b]), eps, made) for b in shifts]
    along = [gamma[0] * (at.delta * at.cache.x_hat).sum() for at in layers]
    lengths = [abs(gamma[0]) * np.linalg.norm(at.delta) * np.sqrt(m) for at in layers]
    sums = [at.delta.sum() for at in layers]
    return np.array(along) / np.array(lengths), np.array(sums)


@chapter_claim(
    id="sant-hessian-sign",
    verdict="conditional",
    source="book",
    statement=r"$\gamma\langle\delta,\hat x\rangle\ge0$ if $\ell$ is convex in $y$, "
    r"least at $y=c\mathbf 1$, and $(\beta-c)\langle\mathbf "
    r"1,\delta\rangle\le0$; also if $\ell=\sum_i\psi(y_i)$ with one convex "
    r"$\psi$. Where $\gamma$ is stationary it is 0.",
    printed=r"$\langle\delta,\hat x\rangle$ is positive if $\hat g_j$ is in the "
    r"direction towards the minimum; three formulas later $\hat g_j$ is defined, as "
    "something else. We read it as the gradient of a convex loss.",
    printed_in="wikipedia-bn",
)
def sant_hessian_sign(rng):
    centre = rng.standard_normal()
    shifts = np.append(rng.uniform(-3, 3, 10), centre)
    along, sums = _sign_terms(rng, lambda r, m: _convex(r, m, centre), shifts)
    # At the centre itself the product is 0 for every sum.
    taken = along[(shifts - centre) * sums <= 0]
    separable, _ = _sign_terms(rng, lambda r, _: _separable(r), shifts)
    return Check.worst(
        Check(taken, 0.0, ">=", allowed=1e-12, scale=1.0),
        Check(separable, 0.0, ">=", allowed=1e-12, scale=1.0),
    )


def _convex_alone(x, gamma, beta, stretch, weights):
    """Return a convex loss that is least at the outputs, stretched about beta."""
    y, cache = batch_norm_forward(x, gamma, beta, 0.0)
    target = torch.from_numpy(beta + stretch * (y - beta))
    weights = torch.from_numpy(weights)
    layer = layer_at(
        x, gamma, beta, 0.0, lambda y: (weights * (y - target).square()).sum()
    )
    return gamma[0] * (layer.delta * cache.x_hat).sum(), np.linalg.norm(layer.delta)


@sant_hessian_sign.control
def _(rng):
    x = rng.standard_normal((int(rng.integers(4, 20)), 1)) + rng.uniform(-5, 5)
    gamma = np.array([rng.choice([-1, 1]) * rng.uniform(0.3, 3)])
    weights = rng.uniform(0.1, 2, x.shape)
    along, length = _convex_alone(x, gamma, rng.standard_normal(1), 1.5, weights)
    scale = abs(gamma[0]) * length * np.sqrt(len(x))
    return Check(along, 0.0, ">=", allowed=1e-12, scale=scale)


@sant_hessian_sign.printed
def _():
    x_hat = small_layer(weighted_square(0.0)).cache.x_hat
    # Orthogonal to 1 and x_hat: without it the gradient in front would be 0.
    aside = np.array([[1.0], [-1.0], [-1.0], [1.0], [0.0]])
    target = torch.from_numpy(2 * x_hat + aside)
    layer = small_layer(lambda y: (y - target).square().sum())
    along = (layer.delta * x_hat).sum()
    return Check(along, 0.0, ">=", allowed=1e-9, scale=1.0)


def _ridge(loss, y, u, size):
    """Return the loss plus a parabola along u that is least at y."""
    at, along = torch.from_numpy(y), torch.from_numpy(u)[:, None]
    return lambda z: loss(z) + size / 2 * (along * (z - at)).sum() ** 2


def _raised(rng, mixed_in):
    """Check curvatures, along the gradient and the largest, with a parabola added."""
    layer = random_layer(rng, (int(rng.integers(4, 13)), 1))
    v, x_hat, m = layer.dx[:, 0], layer.cache.x_hat[:, 0], layer.count
    removed = np.linalg.qr(np.stack([np.ones(m), x_hat, v], axis=1))[0]
    u = rng.standard_normal(m)
    u -= removed @ (removed.T @ u)
    unit = v / np.linalg.norm(v)
    u = u / np.linalg.norm(u) + mixed_in * unit
    size = 10 ** rng.uniform(1, 4)
    loss = _ridge(layer.loss, layer.y, u, size)
    other = layer_at(layer.x, layer.gamma, layer.beta, 0.0, loss)
    before, after = (whole(at.composed, at.x) for at in (layer, other))
    added = size * (layer.gamma[0] * layer.cache.inv_std[0]) ** 2
    largest = np.linalg.eigvalsh(after)[-1]
    return Check.worst(
        Check(other.delta, layer.delta, "==", allowed=1e-10),
        Check(unit @ after @ unit, unit @ before @ unit, "==", 1e-10, scale=added),
        Check(u @ after @ u, u @ before @ u + added, "==", 1e-10, scale=added),
        Check(largest, u @ before @ u + added, ">=", allowed=1e-10, scale=added),
    )


@chapter_claim(
    id="sant-one-direction",
    verdict="ambiguous",
    source="book",
    statement=r"Let $\epsilon=0$, $v=\nabla_x\ell$ at $y_0$, and $u$ of length 1 "
    r"orthogonal to $\mathbf 1$, $\hat x$ and $v$ (there is one if $m\ge4$). Adding "
    r"$\frac K2\langle u,y-y_0\rangle^2$, $K>0$, to $\ell$ changes neither $\delta$ "
    r"nor $v^\top\nabla_x^2\ell\,v$. It adds $K\gamma^2/\sigma^2$ to "
    r"$u^\top\nabla_x^2\ell\,u$, and the largest eigenvalue is at least that sum.",
    printed="The analysis is said to concern “the largest eigenvalue” of the "
    "Hessian. Read so, the bound along the gradient would bound that eigenvalue.",
    printed_in="wikipedia-bn",
)
def sant_one_direction(rng):
    return _raised(rng, mixed_in=0.0)


@sant_one_direction.control
def _(rng):
    return _raised(rng, mixed_in=1.0)


@sant_one_direction.printed
def _():
    layer = small_layer(weighted_square(0.5))
    v = layer.dx[:, 0] / np.linalg.norm(layer.dx)
    hessian = whole(layer.composed, layer.x)
    return Check(np.linalg.eigvalsh(hessian)[-1], v @ hessian @ v, "<=", allowed=1e-9)
