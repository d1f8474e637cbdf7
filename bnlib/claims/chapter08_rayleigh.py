"""The claims of chapter 08 on Rayleigh quotients of a pencil B v = lambda A v."""

import functools
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import eigh

from bnlib.claims._instances_quadratic import (
    Quadratic,
    adaptive_step,
    random_quadratic,
    slowest,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(claim, chapter="08-length-direction", kind="theorem")


class Pencil(NamedTuple):
    """A symmetric B and a positive definite A; eigenvalues from the largest down."""

    A: np.ndarray
    B: np.ndarray
    eigenvalues: np.ndarray
    vectors: np.ndarray

    def quotient(self, w):
        return (w @ self.B @ w) / (w @ self.A @ w)

    def odds(self, w, largest, second):
        """Return (lambda_1 - rho) / (rho - lambda_2)."""
        return (largest - self.quotient(w)) / (self.quotient(w) - second)

    def step(self, w, smallest):
        """Return the step along the A-gradient that the bound is for."""
        along = np.linalg.solve(self.A, self.B @ w) - self.quotient(w) * w
        return w + along / (self.quotient(w) - smallest)


def random_pencil(rng, semidefinite=False):
    """Draw a pencil of three to nine dimensions."""
    d = int(rng.integers(3, 10))
    root, other = rng.standard_normal((2, d, d))
    A = root @ root.T + 0.3 * np.eye(d)
    B = other @ other.T if semidefinite else other + other.T
    return Pencil(A, B, *(part[..., ::-1] for part in eigh(B, A)))


def near_the_first(rng, pencil):
    """Draw a vector whose quotient lies above the second eigenvalue."""
    first, noise = pencil.vectors[:, 0], rng.standard_normal(len(pencil.A))
    while pencil.quotient(first + noise) <= pencil.eigenvalues[1]:
        noise *= 0.7
    return first + noise


def _bound(rng, power):
    """Check the bound from a random start, and from one in the plane of v1 and v2."""
    pencil = random_pencil(rng)
    largest, second, *_, smallest = pencil.eigenvalues
    factor = 1 - (largest - second) / (largest - smallest)
    # On the plane of the first two eigenvectors the bound is an equality.
    flat = pencil.vectors[:, :2] @ [1.0, rng.uniform(0.2, 2)]
    checks = []
    for w in (near_the_first(rng, pencil), flat):
        before = pencil.odds(w, largest, second)
        after = pencil.odds(pencil.step(w, smallest), largest, second)
        checks.append(Check(after / before, factor**power, "<=", allowed=1e-9, scale=1))
    return Check.worst(*checks)


@chapter_claim(
    id="k-rayleigh",
    verdict="wrong",
    source="knyazev2003",
    statement=r"Let $A$ be positive definite, $B$ symmetric, "
    r"$\lambda_1>\lambda_2\ge\dots\ge\lambda_{\min}$ the eigenvalues of "
    r"$Bv=\lambda Av$, $\tilde\rho(w)=\frac{w^\top Bw}{w^\top Aw}$ and "
    r"$\tilde\rho(w)>\lambda_2$. The step $w^+=w+\frac1{\tilde\rho(w)-\lambda_{\min}}"
    r"\big(A^{-1}Bw-\tilde\rho(w)w\big)$ gives "
    r"$\frac{\lambda_1-\tilde\rho(w^+)}{\tilde\rho(w^+)-\lambda_2}\le"
    r"\Big(1-\frac{\lambda_1-\lambda_2}{\lambda_1-\lambda_{\min}}\Big)^2"
    r"\frac{\lambda_1-\tilde\rho(w)}{\tilde\rho(w)-\lambda_2}$.",
    printed=r"$\frac{\lambda_1-\rho(w_{t+1})}{\rho(w_{t+1}-\lambda_2)}\le"
    r"\Big(1-\frac{\lambda_1-\lambda_2}{\lambda_1-\lambda_{\min}}\Big)^{2t}"
    r"\frac{\lambda_1-\rho(w_t)}{\rho(w_t)-\lambda_2}$ for gradient descent, with the "
    r"eigenvalues of $B$. Even with the parenthesis mended it fails.",
    printed_in="wikipedia-bn",
)
def k_rayleigh(rng):
    return _bound(rng, power=2)


@k_rayleigh.control
def _(rng):
    return _bound(rng, power=4)


@k_rayleigh.printed
def _():
    # A is the identity, so that B's eigenvalues are the pencil's; one step at t = 3.
    pencil = Pencil(
        np.eye(3), np.diag([3.0, 2.0, 0.0]), np.array([3.0, 2, 0]), np.eye(3)
    )
    w = np.array([1.0, 0.5, 0.5])
    for _ in range(3):
        w = pencil.step(w, smallest=0.0)
    before, after = (pencil.odds(v, 3.0, 2.0) for v in (w, pencil.step(w, 0.0)))
    return Check(after, (1 - 1 / 3) ** 6 * before, "<=", allowed=1e-3)


def _power_step(rng, shift):
    """Compare the gradient step, differentiated by torch, with a shifted power step."""
    pencil = random_pencil(rng)
    w = near_the_first(rng, pencil)
    leaf = torch.tensor(w, requires_grad=True)
    A, B = torch.from_numpy(pencil.A), torch.from_numpy(pencil.B)
    quotient = (leaf @ B @ leaf) / (leaf @ A @ leaf)
    (slope,) = torch.autograd.grad(quotient, leaf)
    smallest = pencil.eigenvalues[-1]
    rate = (w @ pencil.A @ w) / 2 / (quotient.item() - smallest)
    moved = w + rate * np.linalg.solve(pencil.A, slope.numpy())
    power = np.linalg.solve(pencil.A, pencil.B @ w) - shift(smallest) * w
    return Check(moved * (quotient.item() - smallest), power, "==", allowed=1e-8)


@chapter_claim(
    id="k-rayleigh-power",
    verdict="holds",
    source="book",
    statement=r"The direction $A^{-1}Bw-\tilde\rho(w)w$ is the $A$-gradient "
    r"$\frac12(w^\top Aw)\,A^{-1}\nabla\tilde\rho(w)$. For "
    r"$\tilde\rho(w)>\lambda_{\min}$ and with the length "
    r"$1/(\tilde\rho(w)-\lambda_{\min})$ the step is a shifted power step: "
    r"$(\tilde\rho(w)-\lambda_{\min})\,w^+=(A^{-1}B-\lambda_{\min}I)\,w$.",
)
def k_rayleigh_power(rng):
    return _power_step(rng, lambda smallest: smallest)


@k_rayleigh_power.control
def _(rng):
    return _power_step(rng, lambda smallest: 0.9 * smallest)


def tangent(problem, w):
    """Return tan of the S-angle between w and the best direction S^-1 u."""
    best = np.linalg.solve(problem.S, problem.u)
    across = w - (problem.u @ w) / (problem.u @ best) * best
    return problem.norm(across) / (abs(problem.u @ w) / problem.norm(best))


def _rank_one(rng, factor):
    """Check two steps on B = u u^T: along the S-gradient, and along the plain one."""
    problem = random_quadratic(rng, d=int(rng.integers(3, 12)))
    w = rng.standard_normal(len(problem.u))
    rate = problem.norm(w) ** 2 / (2 * abs(problem.rho(w)))
    at_once = w - rate * np.linalg.solve(problem.S, problem.slope(w))
    checks = [Check(tangent(problem, at_once), 0.0, "==", allowed=1e-8, scale=1)]
    for case, start in ((problem, w), slowest(problem)):
        before, after = (tangent(case, v) for v in (start, adaptive_step(case, start)))
        bound = factor(1 - case.mu / case.L) * before
        checks.append(Check(after, bound, "<=", allowed=1e-9, scale=before))
    return Check.worst(*checks)


@chapter_claim(
    id="k-rayleigh-rank1",
    verdict="wrong",
    source="knyazev2003",
    statement=r"For $d\ge2$, $A=S$ positive definite, $B=uu^\top$ and $u^\top w\ne0$ "
    r"all eigenvalues but $\lambda_1$ are 0. The step along the $S$-gradient of "
    r"length $1/\tilde\rho(w)$ arrives at the direction $S^{-1}u$ at once. The step "
    r"along the plain gradient with $\eta=\lVert w\rVert_S^2/(2L\lvert\rho\rvert)$ "
    r"multiplies $\tan\theta$, $\theta$ the $S$-angle between $w$ and $S^{-1}u$, by "
    r"at most $1-\frac\mu L$.",
    printed="For a B of rank one the result for Rayleigh quotients “can be simplified "
    "accordingly”, and gradient descent has its rate. Its factor is then 0, which "
    "plain gradient descent does not have.",
    printed_in="wikipedia-bn",
)
def k_rayleigh_rank1(rng):
    return _rank_one(rng, lambda contraction: contraction)


@k_rayleigh_rank1.control
def _(rng):
    return _rank_one(rng, lambda contraction: contraction**2)


@k_rayleigh_rank1.printed
def _():
    # B = u u^T with S = diag(1, 4): the eigenvalues are lambda_1 = 1/4, and 0.
    problem = Quadratic(np.array([0.0, 1.0]), np.diag([1.0, 4.0]), 1.0, 4.0)
    w = np.array([0.01, 1.0])
    before, after = (tangent(problem, v) for v in (w, adaptive_step(problem, w)))
    factor = (1 - (0.25 - 0.0) / (0.25 - 0.0)) ** 2
    return Check(after**2, factor * before**2, "<=", allowed=1e-3)


def slow_pencil(rng):
    """Draw a pencil whose second eigenvector is A's slowest, and a start beside it."""
    basis, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    a = np.array([rng.uniform(0.5, 1), rng.uniform(0.1, 0.4), 1.0, 1.0])
    eigenvalues = np.array([1.0, rng.uniform(0.1, 0.8), 0.05, 0.0])
    A, B = (basis * a) @ basis.T, (basis * (a * eigenvalues)) @ basis.T
    return Pencil(A, B, eigenvalues, basis), basis @ [1.0, 1e-3, 0.0, 0.0]


def _preconditioned(rng, contraction):
    """Check a step of the eigensolver with the preconditioner I/L, on two pencils."""
    pencil = random_pencil(rng, semidefinite=True)
    checks = []
    for case, w in ((pencil, near_the_first(rng, pencil)), slow_pencil(rng)):
        largest, second, *_ = case.eigenvalues
        mu, *_, L = np.linalg.eigvalsh(case.A)
        q = 1 - mu / L + mu / L * second / largest
        before = case.odds(w, largest, second)
        step = (case.B @ w / case.quotient(w) - case.A @ w) / L
        after = case.odds(w + step, largest, second)
        bound = contraction(q)
        checks.append(Check(after / before, bound, "<=", allowed=1e-9, scale=1))
    return Check.worst(*checks)


@chapter_claim(
    id="k-preconditioned",
    verdict="holds",
    source="knyazev2009",
    statement=r"Let $A$ be positive definite with extreme eigenvalues $\mu$ and $L$, "
    r"$B$ positive semidefinite, and $\tilde\rho(w)>\lambda_2$. The step "
    r"$w^+=w-\frac1L\big(Aw-\frac1{\tilde\rho(w)}Bw\big)$ gives "
    r"$\frac{\lambda_1-\tilde\rho(w^+)}{\tilde\rho(w^+)-\lambda_2}\le q^2\,"
    r"\frac{\lambda_1-\tilde\rho(w)}{\tilde\rho(w)-\lambda_2}$ with "
    r"$q=q_0+(1-q_0)\frac{\lambda_2}{\lambda_1}$ and $q_0=1-\frac\mu L$.",
)
def k_preconditioned(rng):
    return _preconditioned(rng, lambda q: q**2)


@k_preconditioned.control
def _(rng):
    return _preconditioned(rng, lambda q: q**4)
