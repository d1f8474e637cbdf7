"""The claims of chapter 11 on homogeneous networks and the norms of their layers."""

import functools
import itertools

import numpy as np
import torch

from bnlib.claims._instances_margins import network, random_inputs, random_layers
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.implicit_bias import euler_sums

chapter_claim = functools.partial(
    claim, chapter="11-margins", kind="theorem", source="poggio2019"
)


def _nonnegative(rng, last):
    """Check margins of examples with label -1, and a linear function as a network."""
    x = random_inputs(rng, count=20)
    nets = [random_layers(rng, x.shape[1]) for _ in range(5)]
    margins = torch.stack([-last(network(layers, x)) for layers in nets])
    w = torch.from_numpy(rng.standard_normal((1, x.shape[1])))
    pair = [torch.cat([w, -w]), torch.tensor([[1.0, -1.0]], dtype=torch.float64)]
    return Check.worst(
        Check(margins, 0.0, "<=", allowed=0.0),
        Check(network(pair, x), x @ w[0], "==", allowed=1e-13),
    )


@chapter_claim(
    id="p-outer-relu",
    verdict="wrong",
    statement=r"A network $f=\sigma(W_K\sigma(\cdots\sigma(W_1x)))$ that ends in a "
    r"ReLU has $f\ge0$: it gives an example with the label $-1$ no positive margin, "
    r"and never separates two classes with labels $\pm1$. With a linear last layer it "
    r"can: $\sigma(w^\top x)-\sigma(-w^\top x)=w^\top x$.",
    printed=r"A classifier for labels $\pm1$ may be "
    r"$f=\sigma(W_K\sigma(\cdots\sigma(W_1x)))$, with a ReLU at its output.",
    printed_in="poggio2019",
)
def p_outer_relu(rng):
    return _nonnegative(rng, torch.relu)


@p_outer_relu.control
def _(rng):
    return _nonnegative(rng, lambda outputs: outputs)


@p_outer_relu.printed
def _():
    rng = np.random.default_rng(0)
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    nets = [random_layers(rng, 1, depth=2) for _ in range(200)]
    outputs = torch.stack([torch.relu(network(layers, x)) for layers in nets])
    best = (outputs * x[:, 0]).min(dim=1).values.max()
    return Check(best, 1e-9, ">=", allowed=0.0)


def _euler(rng, bias):
    x = random_inputs(rng)
    layers = [layer.requires_grad_() for layer in random_layers(rng, x.shape[1])]
    hidden = bias * torch.from_numpy(rng.choice([-1.0, 1.0], len(layers[0])))
    outputs = network(layers, x, hidden)
    sums = torch.zeros(len(layers), len(x), dtype=torch.float64)
    for n, output in enumerate(outputs):
        slopes = torch.autograd.grad(output, layers, retain_graph=True)
        sums[:, n] = torch.stack([(w * s).sum() for w, s in zip(layers, slopes)])
    depth, arrays = len(layers), [layer.detach().numpy() for layer in layers]
    return Check.worst(
        Check(sums, outputs.expand(depth, -1), "==", allowed=1e-12),
        Check(euler_sums(arrays, x), sums, "==", allowed=1e-12),
        Check(sums.sum(dim=0), depth * outputs, "==", allowed=1e-12),
    )


@chapter_claim(
    id="p-homog",
    verdict="holds",
    statement=r"Let $f=W_K\sigma(W_{K-1}\cdots\sigma(W_1x))$ without biases. Where it "
    r"is differentiable, $\sum_{i,j}W_k^{ij}\,\partial f/\partial W_k^{ij}=f$ for "
    "every layer $k$. Summed over the layers that is $Kf$.",
)
def p_homog(rng):
    return _euler(rng, bias=0.0)


@p_homog.control
def _(rng):
    return _euler(rng, bias=1.0)


def _own_slope(rng, activation):
    z = np.append(rng.standard_normal(20) * 10 ** rng.uniform(-2, 2, 20), 0.0)
    leaf = torch.tensor(z, requires_grad=True)
    (slope,) = torch.autograd.grad(activation(leaf).sum(), leaf)
    return Check(slope.numpy() * z, activation(leaf.detach()), "==", allowed=1e-15)


@chapter_claim(
    id="p-sigma",
    verdict="holds",
    statement=r"$\sigma(z)=\sigma'(z)\,z$ for the ReLU $\sigma$, at $z=0$ for every "
    r"value given to $\sigma'(0)$.",
)
def p_sigma(rng):
    return _own_slope(rng, torch.relu)


@p_sigma.control
def _(rng):
    return _own_slope(rng, torch.nn.functional.softplus)


def entrywise(matrix, p):
    """Return the entrywise p-norm."""
    return (matrix.abs() ** p).sum() ** (1 / p)


def complexity(outputs):
    """Return the exact empirical Rademacher complexity of a finite class.

    ``outputs`` has a row for each function and a column for each point.
    """
    signs = torch.tensor(
        list(itertools.product((-1.0, 1.0), repeat=outputs.shape[1])),
        dtype=torch.float64,
    )
    return (outputs @ signs.T).max(dim=0).values.mean() / outputs.shape[1]


def _lengths(rng, product):
    """Check a network in lengths and directions, and a class of its shape."""
    p = float(rng.choice([1.0, 1.5, 2.0, 3.0]))
    x = random_inputs(rng)
    layers = random_layers(rng, x.shape[1])
    lengths = torch.stack([entrywise(layer, p) for layer in layers])
    family = [layers]
    for _ in range(4):
        family.append([torch.from_numpy(rng.standard_normal(w.shape)) for w in layers])
    family = [[w / entrywise(w, p) for w in member] for member in family]

    def scaled(member, lengths):
        return network([length * w for length, w in zip(lengths, member)], x)

    leaf = lengths.clone().requires_grad_()
    slopes = torch.autograd.functional.jacobian(lambda r: scaled(family[0], r), leaf)
    unit = torch.stack([network(member, x) for member in family])
    grown = torch.stack([scaled(member, lengths) for member in family])
    rho = product(lengths)
    return Check.worst(
        Check(network(layers, x), rho * unit[0], "==", allowed=1e-12),
        Check(slopes, rho * unit[0][:, None] / lengths, "==", allowed=1e-12),
        Check(complexity(grown), rho * complexity(unit), "==", allowed=1e-12),
    )


@chapter_claim(
    id="p-rho-product",
    verdict="misprint",
    statement=r"With $\rho_k=\lVert W_k\rVert_p$, no $W_k$ being 0, $W_k=\rho_kV_k$, "
    r"$\rho=\prod_k\rho_k$ and $\tilde f$ the network with the weights $V_k$: "
    r"$f=\rho\tilde f$ and $\partial f/\partial\rho_k=\frac\rho{\rho_k}\tilde f$, for "
    r"every $p\ge1$. For the class $\mathbb F$ of all such $f$ at one $\rho$, "
    r"$\mathbb R_N(\mathbb F)=\rho\,\mathbb R_N(\tilde{\mathbb F})$.",
    printed=r"$\rho=\rho_1\prod_{k=1}^K\rho_k$. A few lines on the text has it right: "
    r"$\rho=\prod_{k=1}^K\rho_k$.",
    printed_in="poggio2019",
)
def p_rho_product(rng):
    return _lengths(rng, torch.prod)


@p_rho_product.control
def _(rng):
    return _lengths(rng, lambda lengths: torch.prod(lengths[:-1]))


@p_rho_product.printed
def _():
    rng = np.random.default_rng(0)
    return _lengths(rng, lambda lengths: lengths[0] * torch.prod(lengths))


def _operator(matrix):
    """Return the norms max |Ax|_p / |x|_p for p = 1, 2 and infinity."""
    norms = [torch.linalg.matrix_norm(matrix, p) for p in (1, 2, torch.inf)]
    return torch.stack(norms)


def _products(rng, p):
    n = int(rng.integers(3, 7))
    ones = torch.ones(n, n, dtype=torch.float64)
    ratio = entrywise(ones @ ones, p) / entrywise(ones, p) ** 2
    pairs = [(ones, ones)]
    for _ in range(20):
        rows, inner, columns = rng.integers(1, 7, 3)
        a, b = rng.standard_normal((rows, inner)), rng.standard_normal((inner, columns))
        pairs.append((torch.from_numpy(a) ** 3, torch.from_numpy(b) ** 3))
    left = torch.stack([entrywise(a @ b, p) for a, b in pairs])
    right = torch.stack([entrywise(a, p) * entrywise(b, p) for a, b in pairs])
    induced = torch.stack(
        [_operator(a @ b) / _operator(a) / _operator(b) for a, b in pairs]
    )
    return Check.worst(
        Check(induced, 1.0, "<=", allowed=1e-12),
        Check(left / right, 1.0, "<=", allowed=1e-12),
        Check(ratio, n ** (1 - 2 / p), "==", allowed=1e-12),
    )


@chapter_claim(
    id="p-submult",
    verdict="ambiguous",
    statement=r"For the entrywise norm $\lVert A\rVert_p=(\sum\lvert "
    r"a_{ij}\rvert^p)^{1/p}$ and $1\le p\le2$: $\lVert AB\rVert_p\le\lVert "
    r"A\rVert_p\lVert B\rVert_p$. For $p>2$ not: with $n\times n$ matrices of ones, "
    r"$n\ge2$, the left-hand side is $n^{1-2/p}$ times the right-hand side. The "
    r"operator norms $\max_x\lVert Ax\rVert_p/\lVert x\rVert_p$ have "
    r"$\lVert AB\rVert\le\lVert A\rVert\lVert B\rVert$ for every $p$.",
    printed=r"Constraints on the layers' norms imply one on the norm of their product, "
    r'"for any $p$ norm (because any induced operator norm is a sub-multiplicative '
    r'matrix norm)". The norms that the text constrains are entrywise ones, not '
    "induced ones.",
    printed_in="poggio2019",
)
def p_submult(rng):
    return _products(rng, rng.uniform(1, 2))


@p_submult.control
def _(rng):
    return _products(rng, rng.uniform(2.05, 2.5))


@p_submult.printed
def _():
    ones = torch.ones(4, 4, dtype=torch.float64)
    bound = entrywise(ones, 3) ** 2
    return Check(entrywise(ones @ ones, 3), bound, "<=", allowed=1e-12)


SURROGATES = {
    "exponential": lambda m: torch.exp(-m),
    "logistic, base 2": lambda m: torch.log2(1 + torch.exp(-m)),
    "logistic": lambda m: torch.nn.functional.softplus(-m),
}


def _above_mistakes(rng, names):
    """Compare surrogates with the 0-1 loss, which counts a margin of 0 as a mistake."""
    m = torch.from_numpy(np.append(rng.standard_normal(50) * 3, 0.0))
    mistakes = (m <= 0).double()
    return [Check(SURROGATES[name](m), mistakes, ">=", allowed=0.0) for name in names]


def _every_sample(rng, factor):
    """Check the bound's three steps and its probability on a finite population.

    The points are orthonormal and the class is the corners of a cube, which fits
    every labelling: the first step is then nearly an equality.
    """
    points, count = int(rng.integers(4, 6)), int(rng.integers(2, 4))
    basis, _ = np.linalg.qr(rng.standard_normal((points, points)))
    half = rng.uniform(0.1, 2)
    slope = 1 / (half * rng.uniform(0.7, 1.5))
    corners = list(itertools.product((-half, half), repeat=points))
    labels = torch.from_numpy(rng.choice([-1.0, 1.0], points))
    weights = np.array(corners) @ basis.T
    outputs = torch.from_numpy(weights @ basis)  # the points are basis's columns
    losses = torch.clip(1 - slope * labels * outputs, 0.0, 1.0)
    samples = [list(s) for s in itertools.product(range(points), repeat=count)]
    gaps = torch.stack(
        [(losses.mean(dim=1) - losses[:, s].mean(dim=1)).max() for s in samples]
    )
    of_losses = torch.stack([complexity(losses[:, s]) for s in samples])
    of_class = torch.stack([complexity(outputs[:, s]) for s in samples])
    in_ball = half * np.sqrt(points) / np.sqrt(count)  # unit inputs
    deltas = rng.uniform(0.01, 1, 10)
    edges = 2 * slope * in_ball + np.sqrt(np.log(1 / deltas) / (2 * count))
    exceeded = [(gaps > edge).double().mean() for edge in edges]
    return [
        Check(gaps.mean(), factor * of_losses.mean(), "<=", allowed=1e-12),
        Check(of_losses, slope * of_class, "<=", allowed=1e-12),
        Check(of_class, in_ball, "<=", allowed=1e-12),
        Check(torch.tensor(exceeded), deltas, "<=", allowed=0.0),
    ]


@chapter_claim(
    id="p-genbound",
    verdict="conditional",
    statement=r"$e^{-m}$ and $\log_2(1+e^{-m})$ lie above the 0-1 loss $[m\le0]$; "
    r"$\ln(1+e^{-m})$ does not. Let $\varphi$ be a loss between $[m\le0]$ and 1, "
    r"$\Lambda$-Lipschitz, such as $\min(1,e^{-m})$ with $\Lambda=1$. With probability "
    r"at least $1-\delta$ over $N$ independent draws of $(x,y)$, for all $f\in\mathbb "
    r"F$ at once, $\Pr[yf(x)\le0]\le\frac1N\sum_n\varphi(y_nf(x_n))+2\Lambda\,\mathbb "
    r"R_N(\mathbb F)+\sqrt{\frac{\ln(1/\delta)}{2N}}$. For linear functions with "
    r"$\lVert w\rVert\le\rho$ on inputs with $\lVert x\rVert\le X$, "
    r"$\mathbb R_N(\mathbb F)\le\rho X/\sqrt N$.",
    printed="Surrogate losses such as the logistic are upper bounds on the 0-1 loss. "
    r"The text gives its logarithm no base; with base 2 that is so, with the natural "
    "one not.",
    printed_in="poggio2019",
)
def p_genbound(rng):
    above = _above_mistakes(rng, ("exponential", "logistic, base 2"))
    return Check.worst(*above, *_every_sample(rng, factor=2))


@p_genbound.control
def _(rng):
    return Check.worst(*_every_sample(rng, factor=1))


@p_genbound.printed
def _():
    return _above_mistakes(np.random.default_rng(0), ("logistic",))[0]
