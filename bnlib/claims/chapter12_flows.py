"""The claims of chapter 12 on flows of lengths and directions."""

import functools

import numpy as np
import torch

from bnlib.claims._instances_flows import (
    flat,
    labelled_network,
    lengths_and_directions,
    our_gradients,
    products,
    quotients,
    slopes_of,
)
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.implicit_bias import one_sample_flow, tangent_flow, tangent_projection

chapter_claim = functools.partial(
    claim, chapter="12-weight-normalization", kind="theorem", source="poggio2019"
)


def _free_descent(rng, power):
    """Compare the gradient in free rho_k and V_k by autograd and by the formula."""
    layers, x, y = labelled_network(rng)
    lengths, units = lengths_and_directions(layers)
    slopes = slopes_of([*lengths, *units], x, y, products)
    along = [(V * G).sum() for V, G in zip(units, our_gradients(layers, x, y))]
    across = [c**power * G for c, G in zip(lengths, our_gradients(layers, x, y))]
    return Check(flat(slopes), flat([*along, *across]), "==", allowed=1e-11)


@chapter_claim(
    id="p-sign-flow",
    verdict="ambiguous",
    statement=r"With $W_k=\rho_kV_k$ and $\rho_k$, $V_k$ free, the descent flow of the "
    r"loss is $\dot\rho_k=-\langle V_k,\partial\ell/\partial W_k\rangle$, "
    r"$\dot V_k=-\rho_k\,\partial\ell/\partial W_k$. Without the minus signs $\ell$ "
    r"rises, except at critical points, unless $\partial\ell/\partial W_k$ stands for "
    r"$\dot W_k$.",
    printed=r"$\dot\rho_k=V_k^\top\frac{\partial\ell}{\partial W_k}$, "
    r"$\dot V_k=\rho_k\frac{\partial\ell}{\partial W_k}$. Gradient descent lowers the "
    "loss.",
    printed_in="poggio2019",
)
def p_sign_flow(rng):
    return _free_descent(rng, power=1)


@p_sign_flow.control
def _(rng):
    return _free_descent(rng, power=2)


@p_sign_flow.printed
def _():
    layers, x, y = labelled_network(np.random.default_rng(0))
    lengths, units = lengths_and_directions(layers)
    gradients = our_gradients(layers, x, y)
    slopes = slopes_of([*lengths, *units], x, y, products)
    along = [(V * G).sum() for V, G in zip(units, gradients)]
    across = [c * G for c, G in zip(lengths, gradients)]
    change = flat(slopes) @ flat([*along, *across])
    return Check(change, 0.0, "<=", allowed=0.0)


def _kept_norm(rng, of_projection):
    """Check the norm's rate along a projected vector, by autograd, and along a flow."""
    p = rng.choice([1.0, 1.5, 3.0, 4.0])
    V, target = rng.standard_normal(5), rng.standard_normal(5)
    leaf = torch.tensor(V, requires_grad=True)
    norm = torch.linalg.vector_norm(leaf, p)
    (slope,) = torch.autograd.grad(norm, leaf)
    velocity = tangent_projection(V, target, of_projection(p))
    rate = Check(slope.numpy() @ velocity, 0.0, "==", allowed=1e-12, scale=1.0)
    if p == 1:
        return rate
    matrix = rng.standard_normal((5, 5))
    flow = tangent_flow(lambda u: target + matrix @ u, V, [0.5, 1.0], of_projection(p))
    norms = (np.abs(flow.points) ** p).sum(axis=1) ** (1 / p)
    kept = Check(norms, (np.abs(V) ** p).sum() ** (1 / p), "==", allowed=1e-8)
    return Check.worst(rate, kept)


@chapter_claim(
    id="p-tangent",
    verdict="holds",
    statement=r"Let $1\le p<\infty$ and $V\ne0$, "
    r"$\nu=\partial\lVert V\rVert_p/\partial V$ and "
    r"$\Pi_p=I-\nu\nu^\top/\lVert\nu\rVert_2^2$. Every flow $\dot V=\Pi_p\,g$ keeps "
    r"$\lVert V\rVert_p$, whatever $g(t)$ is; for $p=1$, as long as no entry of $V$ is "
    r"0. For $p=2$, $\Pi_2=\Pi=I-VV^\top/\lVert V\rVert_2^2$.",
)
def p_tangent(rng):
    return _kept_norm(rng, lambda p: p)


@p_tangent.control
def _(rng):
    return _kept_norm(rng, lambda p: 2)


def _normalised_flow(rng, norm):
    """Compare the gradient in g and v, by autograd, with projections; take a step."""
    d = int(rng.integers(2, 8))
    x, y = rng.standard_normal((6, d)), rng.choice([-1.0, 1.0], 6)
    v, g = rng.standard_normal(d), rng.uniform(0.5, 2)
    v *= norm / np.linalg.norm(v)
    slopes = slopes_of([g, v[None]], x, y, quotients)
    V = v / np.linalg.norm(v)
    (G,) = our_gradients([g * V[None]], x, y)
    tangent = [V @ G[0], g * tangent_projection(V, G[0])]
    after = v - 0.1 * slopes[1][0]
    grown = v @ v + 0.01 * (slopes[1] ** 2).sum()
    return Check.worst(
        Check(flat(slopes), flat(tangent), "==", allowed=1e-11),
        Check(after @ after, grown, "==", allowed=1e-11),
    )


@chapter_claim(
    id="p-wn-equiv",
    verdict="holds",
    statement=r"Let $w=g\,v/\lVert v\rVert$. The gradient flow in $(g,v)$ keeps "
    r"$\lVert v\rVert$. With $\lVert v\rVert=1$ it is the tangent flow "
    r"$\dot g=-v^\top\nabla\ell(w)$, $\dot v=-g\,\Pi\nabla\ell(w)$. Gradient descent "
    r"is not: a step $\eta$ adds $\eta^2\lVert\partial\ell/\partial v\rVert^2$ to "
    r"$\lVert v\rVert^2$.",
)
def p_wn_equiv(rng):
    return _normalised_flow(rng, norm=1.0)


@p_wn_equiv.control
def _(rng):
    return _normalised_flow(rng, norm=1.1)


def _velocities(rng, power):
    """Compare the directions' velocities under both flows, neither by its formula."""
    layers, x, y = labelled_network(rng)
    lengths, units = lengths_and_directions(layers)
    normalised = slopes_of([*lengths, *units], x, y, quotients)
    plain = slopes_of(layers, x, y, list)
    checks = []
    for k, W in enumerate(layers):
        moved = (torch.from_numpy(W),), (torch.from_numpy(-plain[k]),)
        _, turning = torch.autograd.functional.jvp(
            lambda W: W / torch.linalg.vector_norm(W), *moved
        )
        formula = -tangent_projection(units[k], plain[k]) / lengths[k]
        checks += [
            Check(turning, formula, "==", allowed=1e-10, scale=1.0),
            Check(
                -normalised[len(layers) + k],
                lengths[k] ** power * turning.numpy(),
                "==",
                allowed=1e-10,
                scale=1.0,
            ),
        ]
    return Check.worst(*checks)


@chapter_claim(
    id="p-gd-vs-wn",
    verdict="ambiguous",
    statement=r"Let $V_k=W_k/\rho_k$, $\rho_k=\lVert W_k\rVert_2>0$. At the same "
    "weights gradient flow turns the directions by "
    r"$\dot V_k=-\frac1{\rho_k}\Pi\,\partial\ell/\partial W_k$, the weight-normalised "
    r"flow with $\lVert v_k\rVert=1$ by $\dot V_k=-\rho_k\,\Pi\,\partial\ell/\partial "
    r"W_k$: $\rho_k^2$ times as fast. $\dot\rho_k$ is the same. So both leave a "
    r"direction alone at the same weights; where one turns and $\rho_k\ne1$, their "
    r"velocities $(\dot\rho_k,\dot V_k)$ differ by more than a factor, or "
    r"$\dot\rho_k=0$.",
    printed=r'Gradient descent with a unit-norm constraint "is equivalent to the '
    r'standard, unconstrained GD" when $p=2$. The text has the factor $\rho_k^2$ and '
    "the two rates, and means the critical points; read as one trajectory of "
    "directions from one start, it is false.",
    printed_in="poggio2019",
)
def p_gd_vs_wn(rng):
    return _velocities(rng, power=2)


@p_gd_vs_wn.control
def _(rng):
    return _velocities(rng, power=1)


@p_gd_vs_wn.printed
def _():
    plain, normalised = (
        one_sample_flow(1.0, 1.5, 1.0, [5.0], method).log_sines
        for method in ("gd", "wn")
    )
    return Check(plain, normalised, "==", allowed=0.05)


def _direction_slope(rng, formula):
    """Check the derivative of W / |W|_p, by autograd, and where the two maps vanish."""
    W = rng.standard_normal(5) + np.array([3.0, 0, 0, 0, 0])
    checks = []
    for p in (1.5, 2.0, 3.0):
        leaf = torch.tensor(W, requires_grad=True)
        norm = torch.linalg.vector_norm(leaf, p)
        (nu,) = torch.autograd.grad(norm, leaf)
        V, nu, rho = W / norm.item(), nu.numpy(), norm.item()
        slope = torch.func.jacrev(lambda W, p=p: W / torch.linalg.vector_norm(W, p))
        slope = slope(leaf.detach()).numpy()
        projection = np.stack([tangent_projection(W, e, p) for e in np.eye(5)])
        checks += [
            Check(slope, formula(V, nu, projection) / rho, "==", allowed=1e-12),
            Check(slope @ V, 0.0, "==", allowed=1e-13, scale=1.0),
            Check(projection @ nu, 0.0, "==", allowed=1e-13, scale=1.0),
        ]
        if p == 2:
            checks.append(Check(slope, projection / rho, "==", allowed=1e-12))
    return Check.worst(*checks)


@chapter_claim(
    id="p-projector-p",
    verdict="holds",
    source="book",
    statement=r"Let $\rho=\lVert W\rVert_p$ be differentiable at $W\ne0$, $V=W/\rho$ "
    r"and $\nu=\partial\rho/\partial W$. Then $\partial V/\partial "
    r"W=\frac1\rho(I-V\nu^\top)$. This is $\frac1\rho\Pi_p$ only where $V$ is "
    r"parallel to $\nu$. That is so for every $W$ if $p=2$; for any other $p$ not for "
    "every $W$, if $W$ has two entries or more. The direction under gradient flow "
    r"stands still where $\partial\ell/\partial W$ is parallel to $V$, that of the "
    r"tangent flow where it is parallel to $\nu$.",
)
def p_projector_p(rng):
    return _direction_slope(rng, lambda V, nu, Pi: np.eye(5) - np.outer(V, nu))


@p_projector_p.control
def _(rng):
    return _direction_slope(rng, lambda V, nu, Pi: Pi)


def _identities(rng, unit):
    w = rng.standard_normal(int(rng.integers(2, 8))) * 10 ** rng.uniform(-2, 2)
    leaf = torch.from_numpy(w)
    norm = np.linalg.norm(w)
    V = w / norm if unit else w
    Pi = np.eye(len(w)) - np.outer(V, V)
    of_norm = torch.func.grad(torch.linalg.vector_norm)(leaf)
    of_direction = torch.func.jacrev(lambda w: w / torch.linalg.vector_norm(w))(leaf)
    return Check.worst(
        Check(of_norm, V, "==", allowed=1e-13),
        Check(of_direction, Pi / norm, "==", allowed=1e-12),
        Check(Pi @ V, 0.0, "==", allowed=1e-13, scale=1.0),
        Check(Pi @ Pi, Pi, "==", allowed=1e-13),
    )


@chapter_claim(
    id="p-identities",
    verdict="holds",
    statement=r"For $w\ne0$, $V=w/\lVert w\rVert_2$ and $\Pi=I-VV^\top$: "
    r"$\partial\lVert w\rVert_2/\partial w=V$, $\partial V/\partial w=\Pi/\lVert "
    r"w\rVert_2$, $\Pi V=0$ and $\Pi^2=\Pi$.",
)
def p_identities(rng):
    return _identities(rng, unit=True)


@p_identities.control
def _(rng):
    return _identities(rng, unit=False)
