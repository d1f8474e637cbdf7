"""The claims of chapter 08 on the linear rate of least squares."""

import functools

import numpy as np
import torch

from bnlib.claims._instances_quadratic import (
    Quadratic,
    adaptive_step,
    random_quadratic,
    slowest,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(claim, chapter="08-length-direction", kind="theorem")


def _rho_gradient(rng, factor):
    problem = random_quadratic(rng)
    w = rng.standard_normal(len(problem.u))
    along = (problem.u @ w) * problem.u + problem.rho(w) * problem.S @ w
    formula = -factor / (w @ problem.S @ w) * along
    return Check(formula, problem.slope(w), "==", allowed=1e-10)


@chapter_claim(
    id="k-rho-grad",
    verdict="holds",
    source="kohler2019",
    statement=r"$\nabla\rho(w)=-\frac2{\lVert w\rVert_S^2}"
    r"\big[(u^\top w)\,u+\rho(w)\,Sw\big]$.",
)
def k_rho_grad(rng):
    return _rho_gradient(rng, factor=2)


@k_rho_grad.control
def _(rng):
    return _rho_gradient(rng, factor=1)


def _direction(rng, squared):
    """Check the gradient in w of the normalised loss, at any length, by autograd."""
    problem = random_quadratic(rng)
    w, g = rng.standard_normal(len(problem.u)), rng.standard_normal()
    leaf = torch.tensor(w, requires_grad=True)
    u, S = torch.from_numpy(problem.u), torch.from_numpy(problem.S)
    loss = 2 * g * (u @ leaf) / torch.sqrt(leaf @ S @ leaf) + g**2
    (gradient,) = torch.autograd.grad(loss, leaf)
    length = problem.norm(w) ** (2 if squared else 1)
    expected = -g * length / (problem.u @ w) * problem.slope(w)
    return Check(gradient, expected, "==", allowed=1e-9)


@chapter_claim(
    id="k-ols-direction",
    verdict="holds",
    source="kohler2019",
    statement=r"For every length $g$, $\nabla_wf(w,g)=-\frac{g\,\lVert "
    r"w\rVert_S}{u^\top w}\nabla\rho(w)$ where $u^\top w\ne0$: it lies on the line of "
    r"$\nabla\rho$. A short enough gradient step in $w$ goes down $\rho$ if $g$ has "
    "the sign of the best length, up if it has the other, nowhere if it is 0 (where "
    r"$\nabla\rho(w)\ne0$).",
)
def k_ols_direction(rng):
    return _direction(rng, squared=False)


@k_ols_direction.control
def _(rng):
    return _direction(rng, squared=True)


def _middle(rng, old_variables):
    """Compare rho and f midway between a far point and the best with the mean value."""
    problem = random_quadratic(rng)
    best, w = (
        -np.linalg.solve(problem.S, problem.u),
        rng.standard_normal(problem.u.shape),
    )
    w *= -np.sign(problem.u @ w) * 1e4 * problem.norm(best) / problem.norm(w)
    g = rng.uniform(0.3, 2)

    def loss(v):
        return 2 * g * (problem.u @ v) / problem.norm(v) + g**2

    def plain(v):
        return 2 * problem.u @ v + v @ problem.S @ v

    checks = []
    for value in (plain,) if old_variables else (problem.rho, loss):
        far, near, middle = value(w), value(best), value((w + best) / 2)
        # In the limit the excess is half of the difference.
        excess = 0.49 * (far - near)
        checks.append(Check(middle, (far + near) / 2 + excess, ">=", allowed=0.0))
    return Check.worst(*checks)


@chapter_claim(
    id="k-ols-nonconvex",
    verdict="holds",
    source="kohler2019",
    statement=r"Let $d\ge2$, $S$ be positive definite and $u\ne0$. On the half-space "
    r"$u^\top w<0$ neither $\rho$ nor, for $g>0$, the loss $w\mapsto f(w,g)$ is convex "
    r"(for $g<0$ take $u^\top w>0$).",
)
def k_ols_nonconvex(rng):
    return _middle(rng, old_variables=False)


@k_ols_nonconvex.control
def _(rng):
    return _middle(rng, old_variables=True)


def _below(rng, gaps_of, power, steps=25):
    """Bound the gaps from a random start, and from the slowest start on its problem."""
    problem = random_quadratic(rng)
    checks = []
    for case, w in ((problem, rng.standard_normal(len(problem.u))), slowest(problem)):
        gaps = gaps_of(case, w, steps)
        bounds = gaps[0] * (1 - case.mu / case.L) ** (power * np.arange(steps + 1))
        scale = abs(case.least)
        checks.append(Check(gaps, bounds, "<=", allowed=1e-13, scale=scale))
    return Check.worst(*checks)


def _adaptive_gaps(problem, w, steps):
    """Return the gaps of rho under the steps of the theorem."""
    gaps = []
    for _ in range(steps + 1):
        gaps.append(problem.rho(w) - problem.least)
        w = adaptive_step(problem, w)
    return gaps


@chapter_claim(
    id="k-ols-rate",
    verdict="holds",
    source="kohler2019",
    statement=r"For $S$ positive definite and $u^\top w_0\ne0$, the steps "
    r"$w_{t+1}=w_t-\eta_t\nabla\rho(w_t)$ with "
    r"$\eta_t=\lVert w_t\rVert_S^2/(2L\lvert\rho(w_t)\rvert)$ give "
    r"$\rho(w_t)-\rho^*\le(1-\frac\mu L)^{2t}(\rho(w_0)-\rho^*)$, where "
    r"$\rho^*=\min\rho=-u^\top S^{-1}u$.",
)
def k_ols_rate(rng):
    return _below(rng, _adaptive_gaps, power=2)


@k_ols_rate.control
def _(rng):
    return _below(rng, _adaptive_gaps, power=3)


def _squared_gradient(rng, factor):
    problem = random_quadratic(rng)
    w = rng.standard_normal(len(problem.u))
    slope, rho = problem.slope(w), problem.rho(w)
    square = slope @ np.linalg.solve(problem.S, slope)
    expected = factor * abs(rho) * (rho - problem.least)
    return Check(problem.norm(w) ** 2 * square, expected, "==", allowed=1e-9)


@chapter_claim(
    id="k-grad-identity",
    verdict="holds",
    source="kohler2019",
    statement=r"$\lVert w\rVert_S^2\,\lVert\nabla\rho(w)\rVert_{S^{-1}}^2="
    r"4\lvert\rho(w)\rvert\,(\rho(w)-\rho^*)$.",
)
def k_grad_identity(rng):
    return _squared_gradient(rng, factor=4)


@k_grad_identity.control
def _(rng):
    return _squared_gradient(rng, factor=2)


def _plain_gaps(problem, w, steps):
    """Return the gaps of plain gradient descent with step 1/(2L), from u and S.

    It starts at -w, because the minimum is -S^-1 u.
    """
    weights, gaps = -w, []
    for _ in range(steps + 1):
        value = 2 * problem.u @ weights + weights @ problem.S @ weights
        gaps.append(value - problem.least)
        gradient = 2 * (problem.u + problem.S @ weights)
        weights = weights - gradient / (2 * problem.L)
    return np.array(gaps)


@chapter_claim(
    id="k-sublinear",
    verdict="contradiction",
    source="kohler2019",
    statement="For $S$ positive definite, plain gradient descent on least squares "
    r"with step $1/(2L)$ has the same linear rate: $f(\tilde w_t)-f^*\le(1-\frac\mu "
    r"L)^{2t}(f(\tilde w_0)-f^*)$.",
    printed="Plain gradient descent converges only sub-linearly, and batch "
    "normalization makes the convergence linear. Sub-linear means that the ratio of "
    "successive gaps tends to 1.",
    printed_in="wikipedia-bn",
)
def k_sublinear(rng):
    return _below(rng, _plain_gaps, power=2)


@k_sublinear.control
def _(rng):
    return _below(rng, _plain_gaps, power=3)


@k_sublinear.printed
def _():
    problem = Quadratic(np.array([1.0, 1.0]), np.diag([1.0, 4.0]), 1.0, 4.0)
    gaps = _plain_gaps(problem, np.zeros(2), steps=20)
    return Check(gaps[20] / gaps[19], 1.0, "==", allowed=0.05)
