"""The claims of chapter 09 on GDNP: its steps, its order and its rates."""

import functools

import numpy as np
import torch

from bnlib.claims._instances_gaussian import (
    dual_square,
    expectations,
    gradient,
    random_direction,
    random_gaussian,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.optim import gdnp

chapter_claim = functools.partial(
    claim, chapter="09-gdnp-halfspaces", kind="theorem", source="kohler2019"
)


def corrected_h(problem, w, g):
    """Return c1 u.w."""
    return printed_h(problem, w, g, power=1)


def printed_h(problem, w, g, power=0):
    """Return the h in print; power 1 gives the second term its factor g / |w|_S."""
    first, second = expectations(problem, g * w / problem.norm(w))
    along = float(problem.u @ w)
    factor = float(g / problem.norm(w)) ** power
    return first * along - second * along**2 * factor


def _steps(problem, w, g, h):
    """Return the step in w with this h and the step on rho, by torch's derivatives."""
    size = -(float(problem.norm(w)) ** 3) / (problem.L * g * h)
    moved = -size * gradient(lambda v: problem.normalised(v, g), w)
    rate = float(problem.norm(w)) ** 2 / (2 * problem.L * abs(float(problem.rho(w))))
    return moved, -rate * gradient(problem.rho, w)


def _step(rng, h):
    problem = random_gaussian(rng)
    w, g = random_direction(rng, problem)
    return Check(*_steps(problem, w, g, h(problem, w, g)), "==", allowed=1e-8)


@chapter_claim(
    id="k-step",
    verdict="holds",
    statement=r"With $h=c_1(\tilde w)\,u^\top w\ne0$, $g\ne0$ and "
    r"$s=-\lVert w\rVert_S^3/(L\,g\,h)$ the step $w-s\nabla_wf(w,g)$ is the step "
    r"$w-\eta\nabla\rho(w)$ of least squares, whatever $g$ is, with "
    r"$\eta=\lVert w\rVert_S^2/(2L\lvert\rho(w)\rvert)$.",
)
def k_step(rng):
    return _step(rng, corrected_h)


@k_step.control
def _(rng):
    return _step(rng, printed_h)


def _h(rng, power):
    """Compare the h that the two gradients need, their quotient, with the formula."""
    problem = random_gaussian(rng)
    w, g = random_direction(rng, problem)
    slope = gradient(lambda v: problem.normalised(v, g), w)
    rate = float(problem.norm(w)) ** 2 / (2 * problem.L * abs(float(problem.rho(w))))
    size = rate * float(gradient(problem.rho, w) @ slope / (slope @ slope))
    needed = -(float(problem.norm(w)) ** 3) / (problem.L * g * size)
    return Check(printed_h(problem, w, g, power), needed, "==", allowed=1e-8)


@chapter_claim(
    id="k-h",
    verdict="wrong",
    statement=r"The $h$ with which the step in $w$ is one on $\rho$ is "
    r"$h(w,g)=\mathbb E[\varphi'(z^\top\tilde w)]\,(u^\top w)"
    r"-\mathbb E[\varphi''(z^\top\tilde w)]\,(u^\top w)(u^\top\tilde w)"
    r"=c_1(\tilde w)\,u^\top w$.",
    printed=r"$h=\mathbb E[\varphi'](u^\top w)-\mathbb E[\varphi''](u^\top w)^2$: the "
    r"second term lacks the factor $g/\lVert w\rVert_S$.",
    printed_in="wikipedia-bn",
)
def k_h(rng):
    return _h(rng, power=1)


@k_h.control
def _(rng):
    return _h(rng, power=2)


@k_h.printed
def _():
    # One step of the printed algorithm from a long w raises rho.
    problem = random_gaussian(np.random.default_rng(6))
    start = np.random.default_rng(106).standard_normal(len(problem.u))
    w = 10 * torch.from_numpy(start)
    g = -float(torch.sign(problem.u @ w))
    moved, _ = _steps(problem, w, g, printed_h(problem, w, g))
    return Check(problem.rho(w + moved), problem.rho(w), "<=", allowed=1e-3)


def _order(rng, shift):
    """Compare the slope in g at the pairs of a run, by torch, with 0 and its size."""
    problem = random_gaussian(rng, losses=("logistic", "shifted_sigmoid"))
    w, _ = random_direction(rng, problem)
    trace = gdnp(problem.ours, w.numpy(), steps=4, bisection_steps=60)
    slopes, sizes = [], []
    for direction, length in zip(trace.w[shift:], trace.g):
        along = torch.from_numpy(direction)
        for g, found in ((length, slopes), (2 * length, sizes)):
            leaf = torch.tensor(float(g), requires_grad=True, dtype=torch.float64)
            value = problem.normalised(along, leaf)
            found.append(torch.autograd.grad(value, leaf)[0].item())
    return Check(slopes, 0.0, "==", allowed=1e-7, scale=max(np.abs(sizes)))


@chapter_claim(
    id="k-gdnp-order",
    kind="algorithm",
    verdict="ambiguous",
    statement=r"GDNP repeats: $w_{t+1}=w_t-s_t\nabla_wf(w_t,g_t)$, then $g_{t+1}$ from "
    r"$T_s$ halvings of a bracket in which $\partial_gf(w_{t+1},\cdot)$ changes sign "
    "from minus to plus. The length belongs to the new direction.",
    printed=r"$\gamma_t=\mathrm{Bisection}(T_s,f,w_t)$ after the update to $w_{t+1}$. "
    "Read as an assignment at that point, the pair at hand has the old direction's "
    "length.",
    printed_in="wikipedia-bn",
)
def k_gdnp_order(rng):
    return _order(rng, shift=0)


@k_gdnp_order.control
def _(rng):
    return _order(rng, shift=1)


@k_gdnp_order.printed
def _():
    return _order(np.random.default_rng(0), shift=1)


def _gradient_in_w(rng, projected):
    problem = random_gaussian(rng)
    w, g = random_direction(rng, problem)
    norm = problem.norm(w)
    first, second = expectations(problem, g * w / norm)
    c1 = first - second * (problem.u @ w) * g / norm
    along = problem.u @ w / norm**2 * (problem.S @ w) if projected else 0.0
    formula = g / norm * c1 * (problem.u - along)
    slope = gradient(lambda v: problem.normalised(v, g), w)
    parallel = -g * c1 * norm / (2 * problem.u @ w) * gradient(problem.rho, w)
    return Check.worst(
        Check(formula, slope, "==", allowed=1e-8),
        Check(parallel, slope, "==", allowed=1e-8),
    )


@chapter_claim(
    id="k-grad-w",
    verdict="holds",
    statement=r"$\nabla_wf(w,g)=\frac g{\lVert w\rVert_S}\,c_1\,\Big(u-"
    r"\frac{u^\top w}{\lVert w\rVert_S^2}Sw\Big)=-\frac{g\,c_1\lVert w\rVert_S}"
    r"{2u^\top w}\nabla\rho(w)$, with $c_1$ at $\tilde w$; the second form where "
    r"$u^\top w\ne0$.",
)
def k_grad_w(rng):
    return _gradient_in_w(rng, projected=True)


@k_grad_w.control
def _(rng):
    return _gradient_in_w(rng, projected=False)


def _pythagoras(rng, power):
    """Differentiate a function that is no expectation in three ways."""
    problem = random_gaussian(rng)
    w, g = random_direction(rng, problem)
    mix = torch.from_numpy(rng.standard_normal((4, len(w))))

    def function(v):
        return torch.tanh(mix @ v).square().sum() + torch.sin(v).sum()

    def normalised(v, length):
        return function(length * v / problem.norm(v))

    full = gradient(function, g * w / problem.norm(w))
    direction = gradient(lambda v: normalised(v, g), w)
    length = gradient(
        lambda length: normalised(w, length), torch.tensor(g, dtype=torch.float64)
    )
    share = float(problem.norm(w) / abs(g)) ** power * dual_square(problem, direction)
    total = dual_square(problem, full)
    return Check(share + float(length) ** 2, total, "==", allowed=1e-9)


@chapter_claim(
    id="k-pythagoras",
    verdict="holds",
    statement=r"For any differentiable $f$, $g\ne0$ and "
    r"$\lVert a\rVert_{S^{-1}}^2=a^\top S^{-1}a$: "
    r"$\lVert\nabla f(\tilde w)\rVert_{S^{-1}}^2=\frac{\lVert w\rVert_S^2}{g^2}"
    r"\lVert\nabla_wf(w,g)\rVert_{S^{-1}}^2+(\partial_gf(w,g))^2$.",
)
def k_pythagoras(rng):
    return _pythagoras(rng, power=2)


@k_pythagoras.control
def _(rng):
    return _pythagoras(rng, power=1)
