"""The claims of chapter 03 on weights in front of batch normalization."""

import functools

import numpy as np
import torch

from bnlib.claims._instances_scale import normalise, random_loss
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(
    claim, chapter="03-backprop", kind="theorem", verdict="holds"
)


def _problem(rng):
    """Draw inputs, weights and a loss of one unit behind batch norm."""
    m, d = int(rng.integers(4, 30)), int(rng.integers(2, 12))
    X = rng.standard_normal((m, d)) * rng.uniform(0.2, 5, d) + rng.standard_normal(d)
    return X, rng.standard_normal(d), random_loss(rng, m)


def _differentiate(X, w, loss, eps, gamma=1.0):
    """Return the gradients with respect to w, b and gamma, by autograd."""
    given = [torch.tensor(v, dtype=torch.float64) for v in (w, 0.0, gamma)]
    w, b, scale = (tensor.requires_grad_() for tensor in given)
    _, _, x_hat = normalise(torch.from_numpy(X) @ w + b, eps)
    gradients = torch.autograd.grad(loss(scale * x_hat), (w, b, scale))
    return [gradient.numpy() for gradient in gradients]


def _invariant(rng, eps):
    X, w, loss = _problem(rng)
    w, c = 10 ** rng.uniform(-1, 1) * w, 10 ** rng.uniform(-1, 1)
    rate = 10 ** rng.uniform(-2, 1)
    gradient, *_ = _differentiate(X, w, loss, eps)
    at_multiple, *_ = _differentiate(X, c * w, loss, eps)
    size, moved = np.linalg.norm, w - rate * gradient
    lengths = size(w) * size(gradient)
    return Check.worst(
        Check(gradient @ w, 0.0, "==", allowed=1e-10, scale=lengths),
        Check(at_multiple, gradient / c, "==", allowed=1e-10),
        Check(
            moved @ moved,
            w @ w + rate**2 * (gradient @ gradient),
            "==",
            allowed=1e-10,
        ),
    )


@chapter_claim(
    id="scale-orthogonal",
    source="arora2019",
    statement=r"Let $f$ be differentiable at every $w\ne0$ with $f(cw)=f(w)$ for "
    r"all $c>0$. Then $\langle\nabla f(w),w\rangle=0$ and "
    r"$\nabla f(cw)=\frac1c\nabla f(w)$. "
    r"A gradient step $w_{t+1}=w_t-\eta\nabla f(w_t)$ gives "
    r"$\lVert w_{t+1}\rVert^2=\lVert w_t\rVert^2+\eta^2\lVert\nabla f(w_t)\rVert^2$.",
)
def scale_orthogonal(rng):
    return _invariant(rng, eps=0.0)


@scale_orthogonal.control
def _(rng):
    return _invariant(rng, eps=1.0)


def _radial(rng, share):
    """Compare the gradient's part along w with a share of eps."""
    X, w, loss = _problem(rng)
    gamma, var = rng.standard_normal(), (X @ w).var()
    eps = var * 10 ** rng.uniform(-2, 1)
    dw, db, dgamma = _differentiate(X, w, loss, eps, gamma)
    size = abs(gamma * dgamma)
    radial = share(var, eps) * gamma * dgamma
    return Check.worst(
        Check(dw @ w, radial, "==", allowed=1e-10, scale=size),
        Check(db * np.sqrt(var + eps), 0.0, "==", allowed=1e-10, scale=size),
    )


@chapter_claim(
    id="scale-orthogonal-eps",
    source="book",
    statement=r"For a unit $x=Xw+b\mathbf 1$ behind batch normalization, "
    r"$\epsilon\ge0$ and $\sigma^2+\epsilon>0$: "
    r"$\langle\nabla_w\ell,w\rangle=\frac\epsilon{\sigma^2+\epsilon}\,"
    r"\gamma\,\frac{\partial\ell}{\partial\gamma}$ and $\partial\ell/\partial b=0$.",
)
def scale_orthogonal_eps(rng):
    return _radial(rng, lambda var, eps: eps / (var + eps))


@scale_orthogonal_eps.control
def _(rng):
    return _radial(rng, lambda var, eps: eps / var)
