"""The claims of chapter 12 on how fast a direction converges, and where to."""

import functools

import numpy as np
import torch

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.implicit_bias import angle, linear_flow, one_sample_flow, tangent_flow

chapter_claim = functools.partial(
    claim, chapter="12-weight-normalization", kind="theorem", source="poggio2019"
)


def _one_sample(rng, size, factor):
    """Check what both flows keep, and the second's angle at log t = 60 to 240."""
    length, theta = rng.uniform(0.3, 2), rng.uniform(0.2, 1.5)
    x = rng.standard_normal(3)
    x *= size / np.linalg.norm(x)
    side = np.cross(x, rng.standard_normal(3))
    side /= np.linalg.norm(side)
    start = length * (np.cos(theta) * x / size + np.sin(theta) * side)
    log_times = np.array([0.0, 60.0, 120.0, 240.0])
    plain = linear_flow(x[None], start, log_times)
    kept = plain.lengths * np.sin(angle(plain.weights, x))
    flow = one_sample_flow(size, length, theta, log_times, "wn")
    constant = np.log(np.sin(theta)) + length**2 / 2
    law = constant - ((log_times + 2 * np.log(size)) / (factor * size)) ** 2 / 2
    return Check.worst(
        Check(kept, length * np.sin(theta), "==", allowed=1e-8),
        Check(flow.log_sines + flow.lengths**2 / 2, constant, "==", 1e-8, scale=1.0),
        Check(flow.log_sines[1:], law[1:], "==", allowed=1e-6, scale=1.0),
    )


@chapter_claim(
    id="p-rate-1",
    verdict="conditional",
    statement=r"One sample, exponential loss: $c=\lVert x\rVert$, $\rho=\lVert "
    r"w\rVert$, $\theta$ the angle between $w$ and $yx$, $0<\theta(0)<\frac\pi2$. "
    r"Gradient flow keeps $\rho\sin\theta$, so $\theta\log t\to "
    r"c\,\rho(0)\sin\theta(0)$. The weight-normalised flow, $\lVert v\rVert=1$, keeps "
    r"$\kappa=\log\sin\theta+\frac12\rho^2$, so "
    r"$\log\sin\theta=\kappa-\frac1{2c^2}(\log t+2\log c)^2+o(1)$.",
    printed=r"Weight normalization converges as $t^{-\frac12\log t}$: $\log\sin\theta$ "
    r"over $\log^2t$ tends to $-\frac12$.",
    printed_in="poggio2019",
)
def p_rate_1(rng):
    return _one_sample(rng, rng.uniform(0.5, 1.5), factor=1.0)


@p_rate_1.control
def _(rng):
    return _one_sample(rng, rng.uniform(0.5, 1.5), factor=1.01)


@p_rate_1.printed
def _():
    flow = one_sample_flow(0.5, 1.0, 1.0, [500.0], "wn")
    return Check(flow.log_sines / 500.0**2, -0.5, "==", allowed=0.01)


def _two_rows(a, b):
    return np.array([[1.0, a], [1.0, -b]])


def _turned(flow):
    """Return the angle to (1, 0), times log t."""
    return angle(flow.weights, [1.0, 0.0]) * flow.log_times


def _two_vectors(rng, both):
    """Compare both flows' constant with a formula; check the case of equal duals."""
    a, b = rng.permutation([rng.uniform(0.2, 0.5), rng.uniform(0.9, 1.4)])
    kappa = np.log(a / b) / ((a + b) if both else max(a, b))
    plain = linear_flow(_two_rows(a, b), rng.standard_normal(2), [60.0])
    start = [1 + abs(kappa), 0.0]
    late = linear_flow(_two_rows(a, b), start, [2000.0], "wn")
    # The offset lags behind its limit by 1 / (a b rho), in proportion.
    lagging = kappa * (1 - 1 / (a * b * late.lengths[0]))
    length = 2000 + np.log(np.exp(-a * kappa) + np.exp(b * kappa))
    equal = linear_flow(_two_rows(a, a), [0.5, 0.3], [6.0, 9.0])
    slope = np.diff(np.log(equal.weights[:, 1])) / 3
    return Check.worst(
        Check(plain.weights[0, 1], kappa, "==", allowed=1e-3),
        Check(_turned(plain), abs(kappa), "==", allowed=0.02),
        Check(late.weights[0], [length, lagging], "==", allowed=1e-4, scale=1.0),
        Check(slope, -(a**2), "==", allowed=0.02),
    )


@chapter_claim(
    id="p-rate-general",
    verdict="wrong",
    statement="Exponential loss: let the $y_nx_n$ be $(1,a)$ and $(1,-b)$, $a,b>0$, "
    r"and $\kappa=\frac{\log(a/b)}{a+b}$. Gradient flow from any start, and the "
    r"weight-normalised flow from $(r,0)$, $r>\max(1,\lvert\kappa\rvert)$, both have "
    r"$w_2\to\kappa$ and $w_1=\log t+O(1)$: their angle to the limit $(1,0)$, times "
    r"$\log t$, tends to the same $\lvert\kappa\rvert$. For $a=b$ it is 0, and "
    r"gradient flow has an angle of order $t^{-a^2}/\log t$ (or 0).",
    printed=r"In the linear case the direction converges as $1/\log t$ under gradient "
    r"descent and as $t^{-\frac12\log t}$ with weight normalization.",
    printed_in="poggio2019",
)
def p_rate_general(rng):
    return _two_vectors(rng, both=True)


@p_rate_general.control
def _(rng):
    return _two_vectors(rng, both=False)


@p_rate_general.printed
def _():
    flow = linear_flow(_two_rows(0.3, 1.2), [1.0, 0.0], [60.0], "wn")
    log_sine = np.log(np.sin(angle(flow.weights, [1.0, 0.0])))
    return Check(log_sine, -0.5 * 60.0**2, "==", allowed=0.1)


def _tangent_slope(point, x, rate):
    """Return the derivative of v + rate (I - v v^T) x on the tangent space."""
    x = torch.from_numpy(x)
    step = torch.func.jacrev(lambda v: v + rate * (x - v * (v @ x)))
    across = np.linalg.svd(point[None])[2][1:]
    return across @ step(torch.from_numpy(point)).numpy() @ across.T


def _fixed_points(rng, at_the_far_one):
    d = int(rng.integers(2, 6))
    x, v = rng.standard_normal((2, d))
    size, rate = np.linalg.norm(x), rng.uniform(0.05, 1.0)
    V, near = v / np.linalg.norm(v), x / size
    flow = tangent_flow(lambda _: x, V, np.array([0.5, 1.0]) / size)
    halves = np.tan(angle(flow.points, near) / 2)
    closed = np.tan(angle(V, near) / 2) * np.exp([-0.5, -1.0])
    far = 1 + at_the_far_one * rate * size
    slopes = [_tangent_slope(point, x, rate) for point in (near, -near)]
    return Check.worst(
        Check(halves, closed, "==", allowed=1e-8),
        Check(slopes[0], (1 - rate * size) * np.eye(d - 1), "==", allowed=1e-12),
        Check(slopes[1], far * np.eye(d - 1), "==", allowed=1e-12),
    )


@chapter_claim(
    id="p-fixedpoint",
    verdict="wrong",
    statement=r"For $x\ne0$ in two or more dimensions, $c=\lVert x\rVert$ and "
    r"$\eta>0$ let "
    r"$T(v)=v+\eta(I-vv^\top)x$. On the unit sphere its fixed points are $x/c$ and "
    r"$-x/c$. On tangent vectors its derivative there is $1-\eta c$ and $1+\eta c$: "
    r"it expands at $-x/c$. The flow $\dot v=(I-vv^\top)x$ has "
    r"$\tan\frac\theta2=e^{-ct}\tan\frac{\theta(0)}2$, $\theta$ being the angle to "
    "$x$: it tends to $x/c$ from every start but $-x/c$.",
    printed=r"$T$ is non-expanding because $\lVert v\rVert=1$: it has one fixed point, "
    "independent of the start.",
    printed_in="poggio2019",
)
def p_fixedpoint(rng):
    return _fixed_points(rng, at_the_far_one=1)


@p_fixedpoint.control
def _(rng):
    return _fixed_points(rng, at_the_far_one=-1)


@p_fixedpoint.printed
def _():
    x, angles = np.array([1.0, 0.0]), np.pi + np.array([0.0, 0.1])
    v = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    images = v + 0.5 * (x - v * (v @ x)[:, None])
    apart = np.linalg.norm(images[1] - images[0]), np.linalg.norm(v[1] - v[0])
    return Check(*apart, "<=", allowed=0.0)
