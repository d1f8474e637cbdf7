"""The claims of chapter 11 on growth and on rates."""

import functools

import numpy as np
import torch

from bnlib.claims._instances_margins import (
    hard_margin,
    network,
    random_inputs,
    random_layers,
    separable_rows,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.implicit_bias import (
    angle,
    deep_growth,
    linear_flow,
    one_sample_flow,
)

chapter_claim = functools.partial(
    claim, chapter="11-weight-normalization", kind="theorem", source="poggio2019"
)


def _logarithmic(rng, factor):
    """Check the bounds on the length, with the margin or with a multiple of it."""
    rows = separable_rows(rng)
    start = rng.standard_normal(rows.shape[1])
    flow = linear_flow(rows, start, np.linspace(-2.0, 300.0, 16))
    gamma = factor * hard_margin(rows)[0]
    first = np.log(np.exp(-rows @ start).sum())
    longest = np.linalg.norm(rows, axis=1).max()
    above = np.logaddexp(0, 2 * np.log(longest) + first + flow.log_times)
    above += gamma * np.linalg.norm(start)
    below = np.logaddexp(2 * np.log(gamma) + flow.log_times, -first)
    lengths = gamma * flow.lengths
    return Check([*below, *lengths], [*lengths, *above], "<=", allowed=1e-7)


@chapter_claim(
    id="p-logt",
    verdict="conditional",
    statement=r"Let a linear model separate the data, with largest margin $\gamma$; "
    r"$R=\max\lVert x_n\rVert$. Gradient flow of the exponential loss has "
    r"$\log(\gamma^2t+1/\ell(0))\le\gamma\lVert w(t)\rVert\le\gamma\lVert "
    r"w(0)\rVert+\log(1+R^2\ell(0)\,t)$ for all $t\ge0$: $\lVert w\rVert/\log "
    r"t\to1/\gamma$, which is 1 only if $\gamma=1$.",
    printed=r"For one layer, $\rho\approx\log t$.",
    printed_in="poggio2019",
)
def p_logt(rng):
    return _logarithmic(rng, factor=1.0)


@p_logt.control
def _(rng):
    return _logarithmic(rng, factor=1.5)


@p_logt.printed
def _():
    flow = one_sample_flow(0.5, 1.0, 1.0, [500.0])
    return Check(flow.lengths / 500.0, 1.0, "==", allowed=0.05)


def _product_rate(depth, margin, rho):
    """Return the rate of the product of norms under gradient flow, by autograd.

    There is one unit a layer, all weights are equal, and the one sample is ``margin``.
    """
    layers = [
        torch.full((1, 1), rho ** (1 / depth), dtype=torch.float64, requires_grad=True)
        for _ in range(depth)
    ]
    product = torch.stack(layers).prod()
    loss = torch.exp(-network(layers, torch.full((1, 1), margin, dtype=torch.float64)))
    slopes = torch.autograd.grad(loss.sum(), layers)
    parts = torch.autograd.grad(product, layers)
    return -sum(float(a * b) for a, b in zip(slopes, parts, strict=True))


def _deep(rng, loglog):
    depth, margin = int(rng.integers(2, 7)), rng.uniform(0.2, 2)
    rho = rng.uniform(0.5, 2)
    power = 2 - 2 / depth
    formula = depth * rho**power * margin * np.exp(-margin * rho)
    log_times = np.array([1000.0, 2000.0])
    grown = margin * deep_growth(depth, margin, log_times, rho)
    expected = log_times + loglog * power * np.log(log_times)
    expected += np.log(depth * margin ** (2 / depth))
    return Check.worst(
        Check(_product_rate(depth, margin, rho), formula, "==", allowed=1e-12),
        Check(grown, expected, "==", allowed=0.05, scale=1.0),
    )


def _labelled(rng, count, depth):
    """Draw a network and examples that it separates with a loss below 1."""
    x = random_inputs(rng, count)
    layers = random_layers(rng, x.shape[1], depth)
    f = network(layers, x)
    keep = f.abs() > 0.1 * f.abs().max()
    x, f = x[keep], f[keep]
    # Each layer's part of the factor that makes the least margin this large.
    wanted = np.log(len(x)) + 1 + rng.uniform(0, 1)
    factor = (wanted / float(f.abs().min())) ** (1 / depth)
    return [factor * W for W in layers], x, torch.sign(f)


def _lengthening(rng, share):
    """Check the bounds on the rates of the layers' lengths and of the loss.

    With one example both bounds on the lengths are equalities; with one unit a layer,
    all weights alike, that on the loss is one, too.
    """
    depth = int(rng.integers(2, 5))
    many = _labelled(rng, 12, depth)
    one = [part[:1] if torch.is_tensor(part) else part for part in many]
    weight = torch.full((1, 1), rng.uniform(1, 1.2), dtype=torch.float64)
    line = [weight] * depth, torch.full((1, 1), 1.5, dtype=torch.float64), 1.0
    checks = []
    for layers, x, y in (many, one, line):
        leaves = [W.clone().requires_grad_() for W in layers]
        loss = torch.exp(-y * network(leaves, x)).sum()
        slopes = torch.autograd.grad(loss, leaves)
        along = -torch.stack([(W * G).sum() for W, G in zip(layers, slopes)])
        loss = float(loss.detach())
        psi = -np.log(loss)
        squares = sum(float((W**2).sum()) for W in layers)
        falling = sum(float((G**2).sum()) for G in slopes) / loss
        checks += [
            Check(along, share * psi * loss, ">=", allowed=1e-12),
            Check(along, len(x) * psi * loss / share, "<=", allowed=1e-12),
            Check(falling, share * (depth * psi) ** 2 * loss / squares, ">=", 1e-12),
        ]
    return Check.worst(*checks)


@chapter_claim(
    id="p-lengths-diverge",
    verdict="holds",
    statement=r"Let gradient flow of $\ell=\sum_{n\le N}e^{-y_nf(x_n)}$ on a ReLU "
    r"network of $K$ layers without biases, away from its kinks, come to $\ell<1/e$. "
    r"From then on, with $\psi=-\log\ell$, $\ell\psi\le\rho_k\dot\rho_k\le N\ell\psi$ "
    r"in every layer, and $\dot\psi\ge K^2\psi^2\ell/\sum_k\rho_k^2$. So $\ell\to0$; "
    r"every $\rho_k$ grows beyond all bounds, and $\dot\rho_k\to0$.",
)
def p_lengths_diverge(rng):
    return _lengthening(rng, share=1.0)


@p_lengths_diverge.control
def _(rng):
    return _lengthening(rng, share=1.01)


@chapter_claim(
    id="p-deep-growth",
    verdict="ambiguous",
    statement="Let $K$ layers have equal norms and directions that stand still, with "
    r"$m=y\tilde f(x)>0$ for the one sample. Gradient flow of the exponential loss "
    r"then has $\dot\rho=K\rho^{2-2/K}\,m\,e^{-m\rho}$, so that $m\rho=\log "
    r"t+(2-\frac2K)\log\log t+\log(Km^{2/K})+o(1)$. The product $\rho$ exceeds "
    r"$\frac1m\log t$ by $\frac1m(2-\frac2K)\log\log t+O(1)$; each layer grows as "
    r"$(\frac1m\log t)^{1/K}$.",
    printed=r"The product of the norms diverges faster than logarithmically, each "
    r"layer more slowly than with one layer. Read of the excess $m\rho-\log t$ that is "
    r"the theorem; read of the ratio $m\rho/\log t$, that it is larger at $\log "
    "t=2000$ than at 20, it is false.",
    printed_in="poggio2019",
)
def p_deep_growth(rng):
    return _deep(rng, loglog=1.0)


@p_deep_growth.control
def _(rng):
    return _deep(rng, loglog=0.9)


@p_deep_growth.printed
def _():
    log_times = np.array([20.0, 2000.0])
    early, late = deep_growth(3, 1.0, log_times) / log_times
    return Check(late, early, ">=", allowed=0.0)


def _one_sample(rng, size, factor):
    """Check what both flows keep, and the second's angle at log t = 60 to 240."""
    length, theta = rng.uniform(0.3, 2), rng.uniform(0.2, 1.5)
    x = rng.standard_normal(3)
    x *= size / np.linalg.norm(x)
    side = np.cross(x, rng.standard_normal(3))
    side /= np.linalg.norm(side)
    start = length * (np.cos(theta) * x / size + np.sin(theta) * side)
    log_times = np.array([0.0, 60.0, 120.0, 240.0])
    plain = linear_flow(x[None], start, log_times)
    kept = plain.lengths * np.sin(angle(plain.weights, x))
    flow = one_sample_flow(size, length, theta, log_times, "wn")
    constant = np.log(np.sin(theta)) + length**2 / 2
    law = constant - ((log_times + 2 * np.log(size)) / (factor * size)) ** 2 / 2
    return Check.worst(
        Check(kept, length * np.sin(theta), "==", allowed=1e-8),
        Check(flow.log_sines + flow.lengths**2 / 2, constant, "==", 1e-8, scale=1.0),
        Check(flow.log_sines[1:], law[1:], "==", allowed=1e-6, scale=1.0),
    )


@chapter_claim(
    id="p-rate-1",
    verdict="conditional",
    statement=r"One sample, exponential loss: $c=\lVert x\rVert$, $\rho=\lVert "
    r"w\rVert$, $\theta$ the angle between $w$ and $yx$, $0<\theta(0)<\frac\pi2$. "
    r"Gradient flow keeps $\rho\sin\theta$, so $\theta\log t\to "
    r"c\,\rho(0)\sin\theta(0)$. The weight-normalised flow, $\lVert v\rVert=1$, keeps "
    r"$\kappa=\log\sin\theta+\frac12\rho^2$, so "
    r"$\log\sin\theta=\kappa-\frac1{2c^2}(\log t+2\log c)^2+o(1)$.",
    printed=r"Weight normalization converges as $t^{-\frac12\log t}$: $\log\sin\theta$ "
    r"over $\log^2t$ tends to $-\frac12$.",
    printed_in="poggio2019",
)
def p_rate_1(rng):
    return _one_sample(rng, rng.uniform(0.5, 1.5), factor=1.0)


@p_rate_1.control
def _(rng):
    return _one_sample(rng, rng.uniform(0.5, 1.5), factor=1.01)


@p_rate_1.printed
def _():
    flow = one_sample_flow(0.5, 1.0, 1.0, [500.0], "wn")
    return Check(flow.log_sines / 500.0**2, -0.5, "==", allowed=0.01)


def _two_rows(a, b):
    return np.array([[1.0, a], [1.0, -b]])


def _turned(flow):
    """Return the angle to (1, 0), times log t."""
    return angle(flow.weights, [1.0, 0.0]) * flow.log_times


def _two_vectors(rng, both):
    """Compare both flows' constant with a formula; check the case of equal duals."""
    a, b = rng.permutation([rng.uniform(0.2, 0.5), rng.uniform(0.9, 1.4)])
    kappa = np.log(a / b) / ((a + b) if both else max(a, b))
    plain = linear_flow(_two_rows(a, b), rng.standard_normal(2), [60.0])
    start, log_times = [1 + abs(kappa), 0.0], np.linspace(30.0, 75.0, 7)
    normalised = linear_flow(_two_rows(a, b), start, log_times, "wn")
    line = np.polynomial.Polynomial.fit(1 / log_times, _turned(normalised), 1)
    equal = linear_flow(_two_rows(a, a), [0.5, 0.3], [6.0, 9.0])
    slope = np.diff(np.log(equal.weights[:, 1])) / 3
    return Check.worst(
        Check(plain.weights[0, 1], kappa, "==", allowed=1e-3),
        Check(_turned(plain), abs(kappa), "==", allowed=0.02),
        Check(line(0.0), abs(kappa), "==", allowed=0.02),
        Check(slope, -(a**2), "==", allowed=0.02),
    )


@chapter_claim(
    id="p-rate-general",
    verdict="wrong",
    statement="Exponential loss: let the $y_nx_n$ be $(1,a)$ and $(1,-b)$, $a,b>0$, "
    r"and $\kappa=\frac{\log(a/b)}{a+b}$. Gradient flow from any start, and the "
    r"weight-normalised flow from $(r,0)$, $r>\max(1,\lvert\kappa\rvert)$, both have "
    r"$w_2\to\kappa$ and $w_1=\log t+O(1)$: their angle to the limit $(1,0)$, times "
    r"$\log t$, tends to the same $\lvert\kappa\rvert$. For $a=b$ it is 0, and "
    r"gradient flow has an angle of order $t^{-a^2}/\log t$ (or 0).",
    printed=r"In the linear case the direction converges as $1/\log t$ under gradient "
    r"descent and as $t^{-\frac12\log t}$ with weight normalization.",
    printed_in="poggio2019",
)
def p_rate_general(rng):
    return _two_vectors(rng, both=True)


@p_rate_general.control
def _(rng):
    return _two_vectors(rng, both=False)


@p_rate_general.printed
def _():
    flow = linear_flow(_two_rows(0.3, 1.2), [1.0, 0.0], [60.0], "wn")
    log_sine = np.log(np.sin(angle(flow.weights, [1.0, 0.0])))
    return Check(log_sine, -0.5 * 60.0**2, "==", allowed=0.1)
