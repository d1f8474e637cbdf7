"""The claims of chapter 15 on steps, weight decay and the length of the weights."""

import functools
import math

import numpy as np
import torch

from bnlib.claims._instances_scale import normalise, random_loss
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(
    claim, chapter="15-practice", kind="theorem", verdict="holds"
)


def _rayleigh(rng, curve):
    """Draw a function of the direction; bound its Hessian on the sphere and its range.

    f = sin(curve rho), rho = w.Aw / w.w. On the sphere the gradient of rho is at most
    the range of A's eigenvalues, its Hessian at most six times that.
    """
    d = int(rng.integers(2, 8))
    A = rng.standard_normal((d, d))
    A = torch.from_numpy((A + A.T) / 2)
    ends = torch.linalg.eigvalsh(A)[[0, -1]].numpy()
    span = ends[1] - ends[0]
    values = np.sin(curve * np.linspace(*ends, 2000))

    def f(w):
        return torch.sin(curve * (w @ A @ w) / (w @ w))

    return f, 6 * curve * span + (curve * span) ** 2, np.ptp(values), d


def _gradient(f, w):
    w = w.detach().requires_grad_()
    value = f(w)
    return value.item(), torch.autograd.grad(value, w)[0]


def _ramp(rng):
    """Draw a function that falls at slope 1 nearly all the way round, and its bounds.

    f = arcsin(kappa sin t) for the angle t in a plane. Its Hessian on the circle is
    largest at the two turns, kappa over the root of 1 - kappa^2.
    """
    kappa = rng.uniform(0.98, 0.985)
    axis = torch.from_numpy(rng.standard_normal(2))
    axis = kappa * axis / axis.norm()

    def f(w):
        return torch.asin(axis @ w / w.norm())

    return f, kappa / math.sqrt(1 - kappa**2), 2 * math.asin(kappa), axis / kappa


def _descent(f, bound, spread, w, rate, steps, share=1.0):
    """Check the bounds on each step and on all so far, and two that their proof uses.

    The latter say that no gradient on the sphere is above the root of B F, and that the
    squared length does not grow beyond R + 2 eta F. K has this share of its term in R.
    """
    start, checks, least = w.square().sum().item(), [], math.inf
    grown = max(start, rate * bound + (math.pi * rate * bound) ** 2 / start)
    most = grown + 2 * rate * spread
    K = bound**2 / 2 + 2 * spread / rate * (share * grown + 2 * rate * spread)
    value, slope = _gradient(f, w)
    for step in range(1, steps + 1):
        size, length = slope.square().sum().item(), w.square().sum().item()
        least = min(least, size * length)
        w = w - rate * slope
        promised = value - rate * size * (1 - bound * rate / (2 * length))
        value, slope = _gradient(f, w)
        checks.append(Check(value, promised, "<=", allowed=1e-9))
        checks.append(Check(size * length, bound * spread, "<=", allowed=1e-9))
        checks.append(Check(step * least, K, "<=", allowed=1e-9))
    checks.append(Check(w.square().sum().item(), most, "<=", allowed=1e-9))
    return Check.worst(*checks)


def _on_the_ramp(rng, angle, steps, share=1.0):
    """Descend on the ramp in small steps, from this angle."""
    f, bound, spread, axis = _ramp(rng)
    across = torch.stack([-axis[1], axis[0]])
    w = math.sin(angle) * axis + math.cos(angle) * across
    w = 10 ** rng.uniform(-1, 1) * w
    rate = 0.01 * w.square().sum().item()
    return _descent(f, bound, spread, w, rate, steps, share)


@chapter_claim(
    id="scale-autotune",
    source="arora2019",
    statement=r"Let $f$ be twice continuously differentiable at every $w\ne0$ of "
    r"$\mathbb R^d$, $d\ge2$, with $f(cw)=f(w)$ for all $c>0$, and "
    r"$\lVert\nabla^2f\rVert\le B$ on the unit sphere. Then every step of gradient "
    r"descent with any rate $\eta>0$ from any $w_0\ne0$ has "
    r"$f(w_{t+1})\le f(w_t)-\eta\lVert\nabla f(w_t)"
    r"\rVert^2\big(1-\frac{B\eta}{2\lVert w_t\rVert^2}\big)$, and "
    r"$\min_{t<T}\lVert\nabla f(w_t/\lVert w_t\rVert)\rVert^2\le K/T$ "
    r"for all $T\ge1$, with "
    r"$K=\frac{B^2}2+\frac{2F}\eta(R+2\eta F)$, where $F$ is the difference of the "
    r"largest and the smallest value of $f$ and $R$ is the larger of "
    r"$\lVert w_0\rVert^2$ and $\eta B+\pi^2\eta^2B^2/\lVert w_0\rVert^2$.",
)
def scale_autotune(rng):
    f, bound, spread, d = _rayleigh(rng, 10 ** rng.uniform(-1, 0.3))
    w = torch.from_numpy(rng.standard_normal(d) * 10 ** rng.uniform(-1, 1))
    anywhere = _descent(f, bound, spread, w, 10 ** rng.uniform(-2, 2), steps=60)
    # The whole way down reaches a third of K; at the lower turn the Hessian is B.
    down, turn = _on_the_ramp(rng, 1.2, 240), _on_the_ramp(rng, -1.56, 1)
    return Check.worst(anywhere, down, turn)


@scale_autotune.control
def _(rng):
    """Use a quarter of the term in R."""
    return _on_the_ramp(rng, 1.2, 240, share=0.25)


def _unit(rng):
    """Return the loss of one unit behind batch norm, as a function of its weights."""
    m, d = int(rng.integers(6, 20)), int(rng.integers(2, 8))
    X, loss = torch.from_numpy(rng.standard_normal((m, d))), random_loss(rng, m)
    return lambda w: loss(normalise(X @ w, 0.0)[2]), d


def _decayed(rng, exponent):
    """Compare descent with weight decay and descent without it at growing rates."""
    f, d = _unit(rng)
    w = torch.from_numpy(rng.standard_normal(d)) * 3
    rate = 10 ** rng.uniform(-2, -0.5)
    decay = rng.uniform(0.01, 0.3) / rate
    shrink, free = 1 - rate * decay, w.clone()
    for step in range(8):
        w = shrink * w - rate * _gradient(f, w)[1]
        free = free - rate * shrink ** -exponent(step) * _gradient(f, free)[1]
    scaled = shrink**-8 * w
    return Check(free.numpy(), scaled.numpy(), "==", allowed=1e-8)


@chapter_claim(
    id="scale-decay",
    source="liarora2020",
    statement=r"Let $f$ be differentiable at every $w\ne0$ with $f(cw)=f(w)$ for all "
    r"$c>0$, and let $\eta,\lambda>0$ with $\eta\lambda<1$. If "
    r"$w_{t+1}=(1-\eta\lambda)w_t-\eta\nabla f(w_t)$ from any $w_0\ne0$ and "
    r"$\tilde w_t=(1-\eta\lambda)^{-t}w_t$, then "
    r"$\tilde w_{t+1}=\tilde w_t-\tilde\eta_t\nabla f(\tilde w_t)$ with "
    r"$\tilde\eta_t=\eta(1-\eta\lambda)^{-(2t+1)}$.",
)
def scale_decay(rng):
    return _decayed(rng, lambda step: 2 * step + 1)


@scale_decay.control
def _(rng):
    return _decayed(rng, lambda step: 2 * step)


def _settled(rng, quartic):
    """Check descent on G times the angle of w, whose gradient has length G / |w|."""
    G, share = 10 ** rng.uniform(-1, 1), rng.uniform(0.03, 0.29)
    rate = 10 ** rng.uniform(-2, 1)
    decay = share / rate
    w = torch.from_numpy(rng.standard_normal(2) * 10 ** rng.uniform(-1, 1))
    for _ in range(400):
        before, slope = w, _gradient(lambda w: G * torch.atan2(w[1], w[0]), w)[1]
        w = (1 - rate * decay) * w - rate * slope
    cosine = (w @ before / (w.norm() * before.norm())).item()
    return Check.worst(
        Check(w.norm().item() ** 4, quartic(rate, decay, G), "==", allowed=1e-9),
        Check(cosine, 1 - share, "==", allowed=1e-9),
    )


@chapter_claim(
    id="scale-equilibrium",
    source="wan2021",
    statement=r"Let $w_{t+1}=(1-\eta\lambda)w_t-\eta g_t$ with "
    r"$\langle g_t,w_t\rangle=0$, "
    r"$\lVert g_t\rVert\lVert w_t\rVert=G>0$ the same at every step, "
    r"$\eta,\lambda>0$ and $\eta\lambda\le1-1/\sqrt2$. Then "
    r"$\lVert w_t\rVert^4$ tends to "
    r"$\frac{\eta G^2}{\lambda(2-\eta\lambda)}$ from any $w_0\ne0$, and the cosine of "
    r"the angle of a step to $1-\eta\lambda$, so that a step turns $w$ by about "
    r"$\sqrt{2\eta\lambda}$, whatever $G$ is.",
)
def scale_equilibrium(rng):
    return _settled(rng, lambda eta, lam, G: eta * G**2 / (lam * (2 - eta * lam)))


@scale_equilibrium.control
def _(rng):
    """Use what the limit of small steps gives."""
    return _settled(rng, lambda eta, lam, G: eta * G**2 / (2 * lam))
