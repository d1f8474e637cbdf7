"""The claims of chapter 11 on how lengths grow."""

import functools

import numpy as np
import torch

from bnlib.claims._instances_flows import (
    labelled_network,
    lengths_and_directions,
    quotients,
    slopes_of,
)
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
    deep_growth,
    linear_flow,
    one_sample_flow,
    relu_net,
)

chapter_claim = functools.partial(
    claim, chapter="11-margins", kind="theorem", source="poggio2019"
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


def _growth(rng, of_norms):
    """Compare the rates of the layers' norms under both flows with the formula."""
    layers, x, y = labelled_network(rng)
    lengths, units = lengths_and_directions(layers)
    plain = slopes_of(layers, x, y, list)
    normalised = slopes_of([*lengths, *units], x, y, quotients)
    rates = np.array(
        [
            [-2 * (W * G).sum() for W, G in zip(layers, plain)],
            [-2 * c * slope for c, slope in zip(lengths, normalised)],
        ]
    )
    margins = y * relu_net(layers, x)
    terms = 2 * margins * np.exp(-margins)
    if of_norms:
        rates = rates / (2 * lengths)
    return Check(rates, terms.sum(), "==", allowed=1e-11, scale=np.abs(terms).sum())


@chapter_claim(
    id="p-balanced",
    verdict="holds",
    statement=r"Gradient flow of $\ell=\sum_ne^{-y_nf(x_n)}$ on a ReLU network "
    "without biases, away from its kinks, has "
    r"$\frac{d}{dt}\rho_k^2=2\sum_ny_nf(x_n)\,e^{-y_nf(x_n)}$ in every layer, "
    r"$\rho_k=\lVert W_k\rVert_2$: all $\rho_k^2-\rho_j^2$ are constant. The squares "
    "of the norms change alike; the norms do so only where they are equal or stand "
    "still. The weight-normalised flow keeps the same differences.",
)
def p_balanced(rng):
    return _growth(rng, of_norms=False)


@p_balanced.control
def _(rng):
    return _growth(rng, of_norms=True)


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
