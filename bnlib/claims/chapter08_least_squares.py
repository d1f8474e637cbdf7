"""The claims of chapter 08 on least squares written in length and direction."""

import functools

import numpy as np

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.decoupling import LeastSquares
from bnlib.transform import batch_norm_forward

chapter_claim = functools.partial(claim, chapter="08-length-direction", kind="theorem")


def random_data(rng, centred=True):
    """Draw inputs of uneven scales and mixed columns, and targets that follow."""
    n, d = int(rng.integers(20, 60)), int(rng.integers(2, 8))
    mix = rng.standard_normal((d, d)) + 2 * np.eye(d)
    X = rng.standard_normal((n, d)) * rng.uniform(0.3, 3, d) @ mix
    X = X - X.mean(axis=0) if centred else X + rng.uniform(1, 3, d)
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n) + rng.uniform(-3, 3)


def moments(X, y):
    """Return u = mean(-y x) and S = mean(x x^T), from the rows one by one."""
    u = np.mean([-target * row for row, target in zip(X, y)], axis=0)
    return u, np.mean([np.outer(row, row) for row in X], axis=0)


def loss_at(X, y, weights):
    """Return the mean squared error, from the data."""
    return ((y - X @ weights) ** 2).mean()


@chapter_claim(
    id="k-gamma-clash",
    kind="remark",
    verdict="contradiction",
    source="kohler2019",
    statement=r"This book writes $g$ for the length (the scale that batch "
    r"normalization calls $\gamma$) and $\beta$ for the shift. Kohler et al. write $g$ "
    r"and $\gamma$ for these two.",
    printed="Formulas with γ from both traditions side by side, and γ beside g for one "
    "quantity. Read as if γ were the same number in all of them, outputs agree.",
    printed_in="wikipedia-bn",
)
def k_gamma_clash(rng): ...


@k_gamma_clash.printed
def _():
    x = np.array([[-1.0], [0.0], [4.0]])
    gamma, other = np.array([2.0]), np.array([3.0])
    scale_and_shift, _ = batch_norm_forward(x, gamma=gamma, beta=other)
    the_other_way, _ = batch_norm_forward(x, gamma=other, beta=gamma)
    return Check(scale_and_shift, the_other_way, "==", allowed=1e-3)


def _reparametrised(rng, centred):
    X, _ = random_data(rng, centred)
    w, g = rng.standard_normal(X.shape[1]), rng.standard_normal()
    _, S = moments(X, np.zeros(len(X)))
    normed, _ = batch_norm_forward((X @ w)[:, None], np.array([g]), eps=0.0)
    norm = np.sqrt(w @ S @ w)
    return Check.worst(
        Check((X @ w).var(), norm**2, "==", allowed=1e-12),
        Check(normed[:, 0], X @ (g * w / norm), "==", allowed=1e-11),
    )


@chapter_claim(
    id="k-reparam",
    verdict="holds",
    source="kohler2019",
    statement=r"If the inputs have mean 0, the variance of $x^\top w$ over the data "
    r"is $\lVert w\rVert_S^2=w^\top Sw$ with $S=\mathbb E\,xx^\top$. At $\epsilon=0$ "
    r"and where $\lVert w\rVert_S>0$, a unit normalised over all data and scaled by "
    r"$g$ computes $x^\top\tilde w$ with $\tilde w=g\,w/\lVert w\rVert_S$.",
)
def k_reparam(rng):
    return _reparametrised(rng, centred=True)


@k_reparam.control
def _(rng):
    return _reparametrised(rng, centred=False)


def _constant(rng, sign):
    """Compare the loss from the data with that from u and S; the minimiser, too."""
    X, y = random_data(rng)
    u, S = moments(X, y)
    weights = rng.standard_normal(len(u))
    form = (y**2).mean() + sign * 2 * (u @ weights) + weights @ S @ weights
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    return Check.worst(
        Check(form, loss_at(X, y, weights), "==", allowed=1e-12),
        Check(-sign * np.linalg.solve(S, u), best, "==", allowed=1e-7),
    )


@chapter_claim(
    id="k-ols-const",
    verdict="misprint",
    source="kohler2019",
    statement=r"$\mathbb E(y-x^\top\tilde w)^2=\mathbb E\,y^2+2u^\top\tilde w"
    r"+\tilde w^\top S\tilde w$ with $u=\mathbb E[-yx]$. For $S$ positive definite the "
    r"minimiser is $\tilde w^*=-S^{-1}u$.",
    printed=r"$\min_{\tilde w}\mathbb E(y-x^\top\tilde w)^2="
    r"\min_{\tilde w}\,(2u^\top\tilde w+\tilde w^\top S\tilde w)$, without "
    r"$\mathbb E\,y^2$.",
    printed_in="wikipedia-bn",
)
def k_ols_const(rng):
    return _constant(rng, sign=1)


@k_ols_const.control
def _(rng):
    return _constant(rng, sign=-1)


@k_ols_const.printed
def _():
    X, y = np.array([[-1.0], [1.0]]), np.array([0.0, 2.0])
    u, S = moments(X, y)
    best = -np.linalg.solve(S, u)
    return Check(
        2 * u @ best + best @ S @ best, loss_at(X, y, best), "==", allowed=1e-3
    )


def _normalised_loss(rng, form):
    """Compare the normalised model's loss, from the data, with a form in u and S."""
    X, y = random_data(rng)
    u, S = moments(X, y)
    w, g = rng.standard_normal(len(u)), rng.standard_normal()
    norm = np.sqrt(w @ S @ w)
    normed, _ = batch_norm_forward((X @ w)[:, None], np.array([g]), eps=0.0)
    loss = ((y - normed[:, 0]) ** 2).mean()
    return Check(form(g, u @ w, norm) + (y**2).mean(), loss, "==", allowed=1e-11)


@chapter_claim(
    id="k-ols-bn",
    verdict="misprint",
    source="kohler2019",
    statement=r"$f(w,g)=\mathbb E(y-x^\top\tilde w)^2=\mathbb E\,y^2"
    r"+2g\,\frac{u^\top w}{\lVert w\rVert_S}+g^2$.",
    printed=r"$2\gamma\,\frac{u^\top w}{\lVert w\rVert_S+\gamma^2}$, the square of the "
    "length inside the fraction.",
    printed_in="wikipedia-bn",
)
def k_ols_bn(rng):
    return _normalised_loss(rng, lambda g, uw, norm: 2 * g * uw / norm + g**2)


@k_ols_bn.control
def _(rng):
    return _normalised_loss(rng, lambda g, uw, norm: 2 * g * uw / norm**2 + g**2)


@k_ols_bn.printed
def _():
    # A function of the direction alone would not change when w grows tenfold.
    u, S, g = np.array([1.0, -2.0]), np.diag([1.0, 3.0]), 2.0
    once, tenfold = (
        2 * g * (u @ w) / (np.sqrt(w @ S @ w) + g**2)
        for w in (np.array([1.0, 1.0]), np.array([10.0, 10.0]))
    )
    return Check(tenfold, once, "==", allowed=1e-3)


def _best_length(rng, sign):
    """Compare the parabola through three losses of the data with the closed form."""
    X, y = random_data(rng)
    problem, w = LeastSquares(X, y), rng.standard_normal(X.shape[1])
    unit = w / np.sqrt(((X @ w) ** 2).mean())
    below, middle, above = (loss_at(X, y, g * unit) for g in (-1.0, 0.0, 1.0))
    bend, tilt = (above + below) / 2 - middle, (above - below) / 2
    length = sign * (problem.u @ w) / problem.norm(w)
    value = loss_at(X, y, length * unit)
    return Check.worst(
        Check(length, -tilt / (2 * bend), "==", allowed=1e-9),
        Check(problem.rho(w), value - (y**2).mean(), "==", allowed=1e-9),
        Check(problem.rho(w), -(tilt**2) / (4 * bend), "==", allowed=1e-9),
    )


@chapter_claim(
    id="k-ols-gamma",
    verdict="holds",
    source="kohler2019",
    statement=r"For a fixed direction the best length is "
    r"$g^*=-u^\top w/\lVert w\rVert_S$, and the loss there is "
    r"$\mathbb E\,y^2+\rho(w)$ with $\rho(w)=-(u^\top w)^2/\lVert w\rVert_S^2$.",
)
def k_ols_gamma(rng):
    return _best_length(rng, sign=-1)


@k_ols_gamma.control
def _(rng):
    return _best_length(rng, sign=1)
