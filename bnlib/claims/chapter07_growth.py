"""The claims of chapter 07 on the growth factor of a wide network."""

import functools

import numpy as np
import torch
from scipy import special

from bnlib.claims._instances_growth import jacobians, sampled_map
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.functional import batch_norm
from bnlib.meanfield import growth_factor

chapter_claim = functools.partial(claim, chapter="07-gradient-explosion")


def polynomial(coefficients):
    """Return the polynomial with these coefficients, constant first, for tensors."""

    def function(x):
        value = torch.zeros_like(x)
        for coefficient in coefficients[::-1]:
            value = value * x + coefficient
        return value

    return function


def bent(edge, slope):
    """Return the identity up to the edge on either side, steeper by slope beyond."""
    return lambda x: x + slope * x.sign() * torch.relu(x.abs() - edge)


def least(batch_size):
    """Return the growth of the identity."""
    return (batch_size - 2) / (batch_size - 3)


def _mapped(rng, lost):
    """Compare the sampled map T with its growth factor.

    ``lost`` is what the formula subtracts from the count of values.
    """
    size = int(rng.integers(8, 13))
    found, activation = jacobians(rng, size)
    factor = growth_factor(activation, size) * (size - 3) / (size - lost)
    C = np.eye(size) - 1 / size
    T = sampled_map(found)
    image = (T @ C.ravel()).reshape(size, size)
    apart = np.linalg.norm(image / factor - C) / np.linalg.norm(C)
    traces = (found @ C * found).sum(axis=(1, 2))
    noise = traces.std() / traces.mean() / np.sqrt(len(traces))
    radius = np.abs(np.linalg.eigvals(T)).max()
    return Check.worst(
        Check(traces.mean(), factor * (size - 1), "==", allowed=7 * noise),
        Check(apart, 0.0, "<=", allowed=0.15, scale=1.0),
        Check(radius, factor, "==", allowed=7 * noise),
    )


def _closed_forms(rng):
    size = int(rng.integers(20, 200))
    relu = growth_factor(lambda x: x.clamp(min=0), size)
    identity = growth_factor(lambda x: 3 * x + 1, size)
    return Check.worst(
        Check(growth_factor("relu", size), relu, "==", allowed=1e-9),
        Check(growth_factor("identity", size), identity, "==", allowed=1e-9),
    )


@chapter_claim(
    id="mf-finiteb",
    kind="theorem",
    verdict="holds",
    source="yang2019",
    statement=r"Let $B\ge4$, let $h=\sqrt{q-c}\,Cz$ with $z$ standard normal in "
    r"$\mathbb R^B$, $\hat y=\mathrm{BN}_0(h)$, $\sigma^2$ the variance of $h$, "
    r"$D=\mathrm{diag}(\varphi'(\hat y))$ and $P=C-\frac1B\hat y\hat y^\top$, with "
    r"$q=\mathbb E\varphi(\hat y_1)^2$ and $c=\mathbb E\varphi(\hat y_1)\varphi(\hat "
    r"y_2)$. Let $\varphi$ be weakly differentiable, $\mathbb E\varphi'(\hat "
    r"y_1)^2<\infty$ and $q>c$. The map $T(\Pi)=\mathbb E\,\sigma^{-2}PD\Pi DP$ has "
    r"$T(C)=\lambda_\varphi(B)\,C$ with $\lambda_\varphi(B)=\frac "
    r"B{(B-1)(B-3)(q-c)}\,\mathbb E\,\mathrm{tr}(PDCD)$, and that is its spectral "
    r"radius. For the identity it is $\frac{B-2}{B-3}$. For ReLU it is "
    r"$\frac{B-2+2p+2c}{(B-3)(1-2c)}$, where, with $r=-\frac1{B-1}$, "
    r"$c=\frac{\sqrt{1-r^2}+r(\pi-\arccos r)}{2\pi},\qquad p=\frac14+\frac{\arcsin "
    r"r}{2\pi}$.",
)
def mf_finiteb(rng):
    return Check.worst(_mapped(rng, lost=3), _closed_forms(rng))


@mf_finiteb.control
def _(rng):
    return _mapped(rng, lost=1)


def _gaussian_mean(coefficients):
    """Return E of a polynomial, from a Gaussian's moments 1, 0, 1, 0, 3, ..."""
    moments = [
        0.0 if k % 2 else float(special.factorial2(k - 1, exact=True)) if k else 1.0
        for k in range(len(coefficients))
    ]
    return coefficients @ moments


def _limit(rng, centred):
    a = rng.uniform(0.2, 1.5, size=6) * [1, rng.choice([-1, 1]), 1, -1, 1, 1]
    slope = np.polynomial.polynomial.polyder(a)
    square = np.polynomial.polynomial.polymul(a, a)
    spread = _gaussian_mean(square) - centred * _gaussian_mean(a) ** 2
    squared = np.polynomial.polynomial.polymul(slope, slope)
    expected = _gaussian_mean(squared) / spread
    return Check.worst(
        Check(growth_factor(polynomial(a)), expected, "==", allowed=1e-9),
        Check(growth_factor(polynomial(a), 10**8), expected, "==", allowed=1e-5),
        Check(expected, 1.0, ">=", allowed=0.0),
        Check(growth_factor(polynomial(a[:2])), 1.0, "==", allowed=1e-12),
    )


@chapter_claim(
    id="mf-limit",
    kind="theorem",
    verdict="holds",
    source="yang2019",
    statement=r"Let $\varphi$ be weakly differentiable and not constant, and let "
    r"$\varphi$ and $\varphi'$ grow at most exponentially. As $B\to\infty$, "
    r"$\lambda_\varphi(B)\to\lambda_\varphi(\infty)=\frac{\mathbb E\,\varphi'(Z)^2}"
    r"{\mathrm{Var}\,\varphi(Z)}\ge1$, $Z$ standard normal, with equality exactly for "
    r"affine $\varphi$. For ReLU it is $\frac\pi{\pi-1}$.",
)
def mf_limit(rng):
    return _limit(rng, centred=True)


@mf_limit.control
def _(rng):
    return _limit(rng, centred=False)


def _by_degrees(a, size):
    """Return the sum over degrees, by scipy's Gegenbauer polynomials and quadrature."""
    alpha, k = (size - 3) / 2, np.arange(1, len(a))[:, None]
    t, weights = special.roots_gegenbauer(12, alpha)
    values = np.polynomial.polynomial.polyval(np.sqrt(size - 1) * t, a)
    basis = special.eval_gegenbauer(k, alpha, t)
    squares = (basis @ (weights * values)) ** 2 / (basis**2 @ weights)
    ends = (special.eval_gegenbauer(k[:, 0], alpha, x) for x in (-1 / (size - 1), 1.0))
    shares = squares * (1 - np.divide(*ends))
    return (shares / shares.sum()) @ (k + k**2 / (size - 3))[:, 0]


def _at_least(rng, near, numerator):
    """Compare the growth of x plus a multiple of a random polynomial with its bound."""
    size = int(rng.integers(4, 40))
    a = near * rng.standard_normal(6)
    a[1] += 1
    factor, bound = growth_factor(polynomial(a), size), (size - numerator) / (size - 3)
    return factor, a, size, Check(factor, bound, ">=", allowed=1e-12)


@chapter_claim(
    id="mf-any-nonlinearity",
    kind="theorem",
    verdict="holds",
    source="yang2019",
    statement=r"For every $B\ge4$ and every weakly differentiable $\varphi$ that is "
    r"not constant on $[-\sqrt{B-1},\sqrt{B-1}]$, with $\mathbb E\,\varphi'(\hat y_1)^2"
    r"<\infty$: $\lambda_\varphi(B)\ge\frac{B-2}{B-3}>1$, with equality exactly if "
    r"$\varphi$ is affine there. Exactly, $\lambda_\varphi(B)=\sum_{k\ge1}w_k"
    r"\big(k+\frac{k^2}{B-3}\big)$, where $w_k$ is the share of the polynomials of "
    r"degree $k$ in $q-c$.",
)
def mf_any_nonlinearity(rng):
    factor, a, size, bounded = _at_least(rng, near=1.0, numerator=2)
    affine = growth_factor(polynomial(a[:2]), size)
    return Check.worst(
        bounded,
        Check(factor, _by_degrees(a, size), "==", allowed=1e-9),
        Check(affine, least(size), "==", allowed=1e-12),
    )


@mf_any_nonlinearity.control
def _(rng):
    return _at_least(rng, near=1e-3, numerator=1)[-1]


def _bent_limit(edge, slope):
    """Return the growth of `bent` for large batches, from the Gaussian's tail."""
    tail = special.erfc(edge / np.sqrt(2))  # P(|Z| > edge)
    density = np.sqrt(2 / np.pi) * np.exp(-(edge**2) / 2)
    beyond = (1 + edge**2) * tail - edge * density  # E (|Z| - edge)_+^2
    variance = 1 + 2 * slope * tail + slope**2 * beyond
    return (1 + ((1 + slope) ** 2 - 1) * tail) / variance


def _rises(limit, small):
    return Check(limit, small, ">=", allowed=0.0)


@chapter_claim(
    id="mf-monotone",
    kind="theorem",
    verdict="wrong",
    source="book",
    statement=r"$\lambda_\varphi(B)$ decreases in $B$ for the identity and for $x^2$, "
    r"but not for every $\varphi$. With $\varphi(x)=x+10\,\mathrm{sgn}(x)"
    r"(\lvert x\rvert-\sqrt5)_+$, $\lambda_\varphi(6)=\frac43$ and "
    r"$\lambda_\varphi(\infty)=1.952\ldots$",
    printed=r"$\lambda$ decreases as the batch size increases, for any fixed "
    "nonlinearity.",
    printed_in="wikipedia-bn",
)
def mf_monotone(rng):
    size, slope = int(rng.integers(6, 9)), rng.uniform(8, 30)
    function = bent(np.sqrt(size - 1), slope)
    small, limit = growth_factor(function, size), growth_factor(function)
    return Check.worst(
        Check(small, least(size), "==", allowed=1e-9),
        Check(limit, _bent_limit(np.sqrt(size - 1), slope), "==", allowed=1e-7),
        _rises(limit, small),
        Check(growth_factor(torch.square, size), 2 + 4 / (size - 3), "==", 1e-9),
    )


@mf_monotone.control
def _(rng):
    # The same function, bent for batches of one item less than the one it is given.
    size, slope = int(rng.integers(6, 9)), rng.uniform(8, 30)
    factor = growth_factor(bent(np.sqrt(size - 1), slope), size + 1)
    return Check(factor, least(size + 1), "==", allowed=1e-9)


@mf_monotone.printed
def _():
    function = bent(np.sqrt(5), 10)
    factors = [growth_factor(function, size) for size in (6, 128)]
    return Check(factors[1], factors[0], "<=", allowed=1e-3)


@chapter_claim(
    id="mf-internal-contradiction",
    kind="remark",
    verdict="ambiguous",
    source="book",
    statement="The growth factor depends on the nonlinearity and on the batch size: "
    r"this book writes $\lambda_\varphi(B)$. A number that depends on $\varphi$ alone "
    r"and bounds the growth for every $B\ge4$ where it is defined is "
    r"$\inf_B\lambda_\varphi(B)$, over those $B$. Under the conditions of the limit "
    r"theorem it is above 1 exactly if $\varphi$ is not affine.",
    printed=r"$\lambda>1$ depends only on the nonlinearity; in the next sentence it "
    "decreases as the batch size increases.",
    printed_in="wikipedia-bn",
)
def mf_internal_contradiction(rng): ...


@mf_internal_contradiction.printed
def _():
    factors = [growth_factor("relu", size) for size in (8, 256)]
    return Check(*factors, "==", allowed=1e-2)


def _flattened(rng, lowest, highest):
    """Compare the growth at a scale between two powers of ten with the identity's."""
    a, bend = rng.standard_normal(4), rng.uniform(0.5, 3)
    a[1] = rng.uniform(0.5, 2)
    smooth = polynomial(a)

    def function(x):
        return smooth(x) + torch.tanh(bend * x)

    size, gamma = int(rng.integers(16, 64)), 10 ** rng.uniform(lowest, highest)
    factor = growth_factor(lambda x: function(gamma * x), size)
    return Check(factor, least(size), "==", allowed=1e-4)


@chapter_claim(
    id="mf-only-skip",
    kind="theorem",
    verdict="wrong",
    source="yang2019",
    statement=r"Let $\varphi$ be continuously differentiable with $\varphi'(0)\ne0$. "
    r"With batch normalization's scale $\gamma\to0$ and shift 0, the growth factor "
    r"tends to $\frac{B-2}{B-3}$, the least there is, for each $B\ge4$; and that tends "
    r"to 1 as $B\to\infty$. For ReLU the scale has no effect.",
    printed="The explosion is only relieved by skip connections. (The paper that the "
    "article tells of, {cite:t}`yang2019`, says in its abstract that tuning the "
    "network close to the linear regime reduces it too.)",
    printed_in="wikipedia-bn",
)
def mf_only_skip(rng):
    return _flattened(rng, -4, -3)


@mf_only_skip.control
def _(rng):
    # The same functions, with a scale that stays.
    return _flattened(rng, -1, 0)


@mf_only_skip.printed
def _():
    # Without any skip: a hundred layers, batches of 1024.
    growth = growth_factor(lambda x: torch.tanh(0.05 * x), 1024) ** 100
    relu = growth_factor("relu", 1024) ** 100
    return Check(np.log(growth), 0.1 * np.log(relu), ">=", allowed=1e-3)


def _gaussian_average(function, deviation, nodes=80):
    """Return E of a function of a Gaussian, given its standard deviation."""
    x, weights = special.roots_hermitenorm(nodes)
    return (weights @ function(deviation * x)) / weights.sum()


def _with_epsilon(rng, kept):
    """Check the growth of one layer with a felt epsilon, at its fixed point.

    ``kept`` is the share of epsilon that the divisor of the formula keeps.
    """
    line, bend = rng.uniform(0.2, 1.0), rng.uniform(0.8, 2.0)
    activation = lambda x: line * x + torch.tanh(bend * x)  # noqa: E731
    slope = lambda x: line + bend / np.cosh(bend * x) ** 2  # noqa: E731
    square = lambda x: activation(torch.from_numpy(x)).numpy() ** 2  # noqa: E731
    eps, v = rng.uniform(0.2, 0.7), 1.0
    for _ in range(200):
        rho = np.sqrt(v / (v + eps))
        v = _gaussian_average(square, rho)  # the mean is 0: the activation is odd
    grown = _gaussian_average(lambda x: slope(x) ** 2, rho) / (v + kept * eps)
    h = torch.from_numpy(np.sqrt(v) * rng.standard_normal((2000, 100))).requires_grad_()
    upstream = torch.from_numpy(rng.standard_normal(h.shape))
    y = batch_norm(h, None, None, training=True, eps=eps)
    (gradient,) = torch.autograd.grad((activation(y) * upstream).sum(), h)
    found = (gradient.square().sum() / upstream.square().sum()).item()
    return Check.worst(
        Check(found, grown, "==", allowed=0.04),
        Check(grown, 1.0, ">=", allowed=0.0),
    )


@chapter_claim(
    id="mf-shift-eps",
    kind="theorem",
    verdict="holds",
    source="yang2019",
    statement=r"With batch normalization's shift $\beta\ge\sqrt{B-1}$ in front of "
    r"ReLU, the growth factor is $\frac{B-2}{B-3}$. For large batches, with "
    r"$\epsilon>0$ and the conditions of the limit theorem: at a fixed point with "
    r"$v=\mathrm{Var}\,\varphi(\rho Z)>0$, where $\rho^2=\frac v{v+\epsilon}$, the "
    r"growth factor is $\frac{\mathbb E\varphi'(\rho Z)^2}{v+\epsilon}\ge1$, with "
    r"equality only for affine $\varphi$.",
)
def mf_shift_eps(rng):
    size = int(rng.integers(8, 40))
    shift = np.sqrt(size - 1) + rng.uniform(0, 2)
    lifted = growth_factor(lambda x: torch.relu(x + shift), size)
    return Check.worst(
        Check(lifted, least(size), "==", allowed=1e-9), _with_epsilon(rng, kept=1)
    )


@mf_shift_eps.control
def _(rng):
    return _with_epsilon(rng, kept=0)
