"""The claims of chapter 08 on the linear rate of least squares."""

import functools
from typing import NamedTuple

import numpy as np
import torch

from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(claim, chapter="08-length-direction", kind="theorem")


class Quadratic(NamedTuple):
    """A least squares problem given by u and S, with S's spectrum chosen."""

    u: np.ndarray
    S: np.ndarray
    mu: float
    L: float

    def norm(self, w):
        return np.sqrt(w @ self.S @ w)

    def rho(self, w):
        return -((self.u @ w) ** 2) / (w @ self.S @ w)

    def slope(self, w):
        """The gradient of rho by automatic differentiation."""
        w = torch.tensor(w, requires_grad=True)
        u, S = torch.from_numpy(self.u), torch.from_numpy(self.S)
        return torch.autograd.grad(-((u @ w) ** 2) / (w @ S @ w), w)[0].numpy()

    @property
    def least(self):
        return -self.u @ np.linalg.solve(self.S, self.u)


def random_quadratic(rng, d=None, condition=None):
    """Draw one; the eigenvalues run from 1 down to 1 over the condition number."""
    d = int(rng.integers(2, 12)) if d is None else d
    condition = 10 ** rng.uniform(0.3, 1.3) if condition is None else condition
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    between = rng.uniform(1 / condition, 1, d - 2)
    eigenvalues = np.concatenate([[1 / condition, 1], between]) * rng.uniform(0.5, 5)
    S = (basis * eigenvalues) @ basis.T
    S = (S + S.T) / 2
    return Quadratic(S @ rng.standard_normal(d), S, eigenvalues[0], eigenvalues[1])


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
    """The gradient in w of the normalised loss, at any length, by autograd."""
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
    source="book",
    statement=r"For every length $g$, $\nabla_wf(w,g)=-\frac{g\,\lVert "
    r"w\rVert_S}{u^\top w}\nabla\rho(w)$ where $u^\top w\ne0$: it lies on the line of "
    r"$\nabla\rho$. A gradient step in $w$ goes down $\rho$ if $g$ has the sign of "
    "the best length, up if it has the other, nowhere if it is 0.",
)
def k_ols_direction(rng):
    return _direction(rng, squared=False)


@k_ols_direction.control
def _(rng):
    return _direction(rng, squared=True)


def slowest(problem):
    """The slowest case: a u without S's last eigenvector, and a start off along it."""
    last = np.linalg.eigh(problem.S)[1][:, 0]
    problem = problem._replace(u=problem.u - (problem.u @ last) * last)
    best = np.linalg.solve(problem.S, problem.u)
    return problem, best + 0.01 * problem.norm(best) / problem.norm(last) * last


def adaptive_step(problem, w):
    """Descend on rho with the step of the theorem; the gradient is autograd's."""
    rate = problem.norm(w) ** 2 / (2 * problem.L * abs(problem.rho(w)))
    return w - rate * problem.slope(w)


def _below(rng, gaps_of, power, steps=25):
    """Any start on any problem, and the slowest start on its slowest neighbour."""
    problem = random_quadratic(rng)
    checks = []
    for case, w in ((problem, rng.standard_normal(len(problem.u))), slowest(problem)):
        gaps = gaps_of(case, w, steps)
        bounds = gaps[0] * (1 - case.mu / case.L) ** (power * np.arange(steps + 1))
        scale = abs(case.least)
        checks.append(Check(gaps, bounds, "<=", allowed=1e-13, scale=scale))
    return Check.worst(*checks)


def _adaptive_gaps(problem, w, steps):
    """The gaps of rho under the steps of the theorem."""
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
    """The gaps of plain gradient descent with step 1/(2L), from u and S.

    It starts at -w, for the minimum is -S^-1 u.
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
