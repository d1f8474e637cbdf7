"""The claims of chapter 09 on the problem: Gaussian halfspaces and their gradient."""

import functools

import numpy as np
import torch
from scipy import optimize

from bnlib.claims._instances_gaussian import (
    NODES,
    WEIGHTS,
    expectations,
    gradient,
    random_direction,
    random_gaussian,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(
    claim, chapter="09-gdnp-halfspaces", kind="theorem", source="kohler2019"
)


def _labelled(rng, covariance_of):
    """Check moments of z = -y x over a finite set of inputs and labels of size 1."""
    n, d = int(rng.integers(10, 40)), int(rng.integers(2, 6))
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + rng.standard_normal(
        d
    )
    y = rng.choice([-1.0, 1.0], n)
    Z = -y[:, None] * X
    u, S = Z.mean(axis=0), X.T @ X / n
    covariance = np.cov(Z.T, bias=True)
    ratio = np.linalg.det(covariance) / np.linalg.det(S)
    return Check.worst(
        Check(covariance_of(S, u), covariance, "==", allowed=1e-10),
        Check(1 - u @ np.linalg.solve(S, u), ratio, "==", allowed=1e-8, scale=1),
    )


@chapter_claim(
    id="k-gauss",
    verdict="holds",
    statement=r"With labels $y=\pm1$ and $z=-yx$: "
    r"$\mathbb E\,zz^\top=\mathbb E\,xx^\top=S$ and $\mathrm{Cov}(z)=S-uu^\top$. So a "
    r"Gaussian $z$ is $N(u,S-uu^\top)$, not $N(u,S)$, and for a positive definite $S$ "
    r"it has a density exactly if $\lambda_1=u^\top S^{-1}u<1$.",
)
def k_gauss(rng):
    return _labelled(rng, lambda S, u: S - np.outer(u, u))


@k_gauss.control
def _(rng):
    return _labelled(rng, lambda S, u: S)


def _stein(rng, covariance_of):
    """Compare bnlib's gradient from c1 and c2 with torch's of the expectation."""
    problem = random_gaussian(rng)
    w, g = random_direction(rng, problem)
    w = g * w / problem.norm(w)
    covariance = covariance_of(problem)
    expected = gradient(lambda v: problem.value(v, covariance), w)
    ours, v = problem.ours, w.numpy()
    formula = ours.c1(v) * ours.u + ours.c2(v) * ours.S @ v
    return Check.worst(
        Check(formula, expected, "==", allowed=1e-9),
        Check(ours.gradient(v), expected, "==", allowed=1e-9),
        Check(ours.value(v), problem.value(w, covariance), "==", allowed=1e-9),
    )


@chapter_claim(
    id="k-stein",
    verdict="holds",
    statement=r"Let $\varphi$ be twice continuously differentiable, with $\varphi'$ "
    r"and $\varphi''$ of moderate growth. For $z\sim N(u,S-uu^\top)$ and "
    r"$f(w)=\mathbb E\,\varphi(z^\top w)$: $\nabla f(w)=c_1u+c_2Sw$ with $c_1=\mathbb "
    r"E\,\varphi'(z^\top w)-(u^\top w)\,\mathbb E\,\varphi''(z^\top w)$ and "
    r"$c_2=\mathbb E\,\varphi''(z^\top w)$.",
)
def k_stein(rng):
    return _stein(rng, lambda problem: problem.S - torch.outer(problem.u, problem.u))


@k_stein.control
def _(rng):
    return _stein(rng, lambda problem: problem.S)


def _critical(rng, factor):
    """Compare the logistic minimum with the closed form, minima with c1 and c2."""
    problem = random_gaussian(rng, losses=("logistic",))
    other = random_gaussian(rng, losses=("shifted_sigmoid", "pseudo_huber"))
    found = _minimiser(rng, problem)
    expected = factor(problem.lambda_1) * problem.best
    checks = [Check(found, expected, "==", allowed=1e-5)]
    for case, w in ((problem, found), (other, _minimiser(rng, other))):
        first, second = expectations(case, w)
        c1 = first - float(case.u @ w) * second
        checks.append(Check(w, -c1 / second * case.best, "==", allowed=1e-5))
        # If c2 were 0, so would c1 and E phi' be.
        checks.append(Check(abs(second), 1e-6, ">=", allowed=0.0))
        cosine = torch.cosine_similarity(w, case.best, dim=0).abs()
        checks.append(Check(cosine, 1.0, "==", allowed=1e-9))
    return Check.worst(*checks)


def _minimiser(rng, problem):
    """Return a minimum that SciPy finds from near 0."""
    found = optimize.minimize(
        lambda w: problem.value(torch.from_numpy(w)).item(),
        1e-3 * rng.standard_normal(len(problem.u)),
        jac=lambda w: gradient(problem.value, torch.from_numpy(w)).numpy(),
        method="BFGS",
        options={"gtol": 1e-9, "maxiter": 500},
    )
    return torch.from_numpy(found.x)


def _even_at_the_origin():
    """Return a smooth loss with phi'(0) = 0, and the length where E phi'' vanishes."""

    def phi(t):
        return torch.log(torch.cosh(t)) + 2 * torch.exp(-(t**2) / 2)

    def bend(length):
        t = (length * NODES).requires_grad_()
        (first,) = torch.autograd.grad(phi(t).sum(), t, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), t)
        return (WEIGHTS @ second).item()

    return phi, optimize.brentq(bend, 0.8, 1.6, xtol=1e-14)


@chapter_claim(
    id="k-critline",
    verdict="conditional",
    statement=r"A critical point $\tilde w$ of $f$ with $c_2(\tilde w)\ne0$ lies on "
    r"the line of $S^{-1}u$: $\tilde w=-\frac{c_1}{c_2}S^{-1}u$. If $\varphi'>0$ "
    r"everywhere and $u\ne0$, then $c_2\ne0$ at every critical point. For the logistic "
    r"loss and $\lambda_1<1$ the only one is $-\frac2{1-\lambda_1}S^{-1}u$.",
    printed="All critical points (the summary of the paper that we read says: all "
    "bounded ones) lie on the line of $S^{-1}u$, whatever the loss is.",
    printed_in="wikipedia-bn,kohler2019",
)
def k_critline(rng):
    return _critical(rng, lambda lambda_1: -2 / (1 - lambda_1))


@k_critline.control
def _(rng):
    return _critical(rng, lambda lambda_1: -2.0)


@k_critline.printed
def _():
    phi, length = _even_at_the_origin()
    u = torch.tensor([0.5, 0.0], dtype=torch.float64)
    w = torch.tensor([0.0, length], dtype=torch.float64)

    def value(w):  # S is the identity
        spread = torch.sqrt(w @ w - (u @ w) ** 2)
        return WEIGHTS @ phi(u @ w + spread * NODES)

    critical = gradient(value, w).norm().item()
    # A point that is not critical shows nothing, and a NaN is no failure.
    cosine = abs(u @ w / u.norm() / w.norm()) if critical < 1e-12 else float("nan")
    return Check(cosine, 1.0, "==", allowed=1e-3)


def _length_slope(problem, w, g):
    """Return the derivative of f in the length g, by torch."""
    length = torch.tensor(g, dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(problem.normalised(w, length), length)[0].item()


def _even_slope(rng, loss):
    problem = random_gaussian(rng, losses=("logistic",))._replace(loss=loss)
    checks = []
    # The second direction is the only one on which a critical point could lie.
    for w in (random_direction(rng, problem)[0], problem.best):
        lengths = rng.uniform(0.1, 4, 4)
        forward, back = (
            np.array([_length_slope(problem, w, sign * g) for g in lengths])
            for sign in (1, -1)
        )
        toward = np.sign((problem.u @ w).item())
        checks.append(Check(forward, back, "==", allowed=1e-9))
        checks.append(Check(-toward * forward, 0.0, "<=", allowed=0.0))
    return Check.worst(*checks)


@chapter_claim(
    id="k-sigmoid-empty",
    verdict="holds",
    source="book",
    statement=r"For Gaussian data, the plain sigmoid loss $\varphi(t)=1/(1+e^{-t})$ "
    r"and $u^\top w\ne0$: $\partial_gf(w,g)$ is an even function of $g$ with the sign "
    r"of $u^\top w$, never 0. $f$ has no critical point.",
)
def k_sigmoid_empty(rng):
    return _even_slope(rng, "sigmoid")


@k_sigmoid_empty.control
def _(rng):
    return _even_slope(rng, "shifted_sigmoid")


def _cosine(rng, euclidean):
    """Compare the direction's gradient, by torch, with rho's; check the WN formula.

    At the best length, weight normalization's gradient is parallel to rho's, too.
    """
    problem = random_gaussian(rng)
    w, g = random_direction(rng, problem)
    size = torch.linalg.vector_norm(w)
    best = _best_length(problem, w) * size / problem.norm(w)
    at_best = gradient(lambda v: problem.value(best * v / v.norm()), w)
    of_wn = gradient(lambda v: problem.value(g * v / v.norm()), w)
    inner = gradient(problem.value, g * w / size)
    formula = g / size * (inner - (w @ inner) / size**2 * w)
    of_bn = gradient(lambda v: problem.normalised(v, g), w)
    slope, along = of_wn if euclidean else of_bn, gradient(problem.rho, w)
    cosine, other = (
        torch.cosine_similarity(each, along, dim=0).abs() for each in (slope, at_best)
    )
    return Check.worst(
        Check(cosine, 1.0, "==", allowed=1e-12),
        Check(formula, of_wn, "==", allowed=1e-9),
        Check(other, 1.0, "==", allowed=1e-12),
    )


def _best_length(problem, w):
    """Return the length of slope zero in the norm of S, by bisection."""
    far = -float(torch.sign(problem.u @ w))
    while _length_slope(problem, w, far) * far < 0:
        far *= 2
    return optimize.brentq(
        lambda g: _length_slope(problem, w, g), 0, far, xtol=1e-14, rtol=1e-14
    )


@chapter_claim(
    id="k-wn-fails",
    verdict="holds",
    statement=r"With $\tilde w=g\,w/\lVert w\rVert_S$ and $u^\top w\ne0$ the gradient "
    r"$\nabla_wf(w,g)$ lies on the line of $\nabla\rho(w)$ for every $g$. With "
    r"$\tilde w=g\,w/\lVert w\rVert$ it is $\frac g{\lVert "
    r"w\rVert}\big(I-\frac{ww^\top}{\lVert w\rVert^2}\big)(c_1u+c_2S\tilde w)$: in "
    r"three or more dimensions in general not parallel to $\nabla\rho$, unless "
    r"$\partial_gf=0$ there.",
)
def k_wn_fails(rng):
    return _cosine(rng, euclidean=False)


@k_wn_fails.control
def _(rng):
    return _cosine(rng, euclidean=True)
