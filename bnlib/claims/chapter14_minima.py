"""The claims of chapter 14 on minima: where there is none, and where they are flat."""

import functools
from itertools import pairwise

import numpy as np
import torch

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.landscape import (
    exponential_hessian,
    exponential_loss,
    margins,
    rescaling_directions,
    separating_direction,
)

chapter_claim = functools.partial(claim, chapter="14-landscape", source="poggio2019")


def random_layers(rng, outputs=1):
    """Draw a bias-free network of two to four layers, no two widths the same."""
    depth = int(rng.integers(2, 5))
    widths = [int(rng.integers(2, 5)), *(rng.permutation(4)[: depth - 1] + 4), outputs]
    return [
        rng.standard_normal((int(b), int(a))) / np.sqrt(a) for a, b in pairwise(widths)
    ]


def tensors(arrays):
    """Return the arrays as leaves of torch's graph."""
    return [torch.tensor(array, requires_grad=True) for array in arrays]


def separated_data(rng, layers):
    """Draw inputs labelled by the network itself, none of them near its boundary."""
    X = 2 * rng.standard_normal((40, layers[0].shape[1]))
    f = margins(layers, X, np.ones(len(X)))
    far = np.abs(f) > 0.02 * np.abs(f).max()
    return X[far], np.sign(f[far])


def outputs(layers, X):
    """Return the network as a function of its flat parameters, and these, in torch."""

    def function(flat):
        hidden, start = torch.as_tensor(X), 0
        for number, layer in enumerate(layers):
            weight = flat[start : start + layer.size].reshape(layer.shape)
            start += layer.size
            hidden = (torch.relu(hidden) if number else hidden) @ weight.T
        return hidden

    return function, torch.from_numpy(np.concatenate([w.ravel() for w in layers]))


def _along_the_layers(rng, scale):
    """Compare autograd's inner products, layer by layer, with the margins' sum."""
    layers = random_layers(rng)
    X, y = separated_data(rng, layers)
    weights = tensors(layers)
    loss = exponential_loss(weights, *map(torch.from_numpy, (X, y)))
    gradients = torch.autograd.grad(loss, weights)
    slopes = torch.stack([(w * g).sum() for w, g in zip(weights, gradients)])
    m = margins(layers, X, y)
    expected = np.full(len(layers), scale(layers) * -(m * np.exp(-m)).sum())
    # Along the ray through all layers the loss falls, and falls to 0.
    rays = [margins([s * w for w in layers], X, y) for s in (1.0, 2.0, 4.0)]
    losses = np.array([np.exp(-ray).sum() for ray in rays])
    return Check.worst(
        Check(slopes, expected, "==", allowed=1e-12),
        Check(losses[1:] - losses[:-1], 0.0, "<=", allowed=0.0, scale=1.0),
    )


@chapter_claim(
    id="p-nosep-crit",
    kind="theorem",
    verdict="holds",
    statement=r"Let $f(x)=W_K\,\sigma(W_{K-1}\cdots\sigma(W_1x))$ be a bias-free ReLU "
    r"network and $L=\sum_ne^{-y_nf(x_n)}$. For every layer, $\langle W_k,\partial "
    r"L/\partial W_k\rangle=-\sum_ny_nf(x_n)\,e^{-y_nf(x_n)}$. Where the network "
    r"separates the data this is below 0: no critical point separates, and along "
    r"$s\mapsto(sW_1,\dots,sW_K)$ the loss falls to 0 without reaching it.",
)
def p_nosep_crit(rng):
    return _along_the_layers(rng, lambda layers: 1.0)


@p_nosep_crit.control
def _(rng):
    # The sum over all layers is taken for that of one layer.
    return _along_the_layers(rng, len)


def _weighted(rng, hessian_of):
    """Compare autograd's Hessian with the weighted sum; check its null space."""
    d = int(rng.integers(3, 9))
    X = rng.standard_normal((int(rng.integers(2, d)), d))
    y, w = rng.choice([-1.0, 1.0], len(X)), rng.standard_normal(d)
    tX, ty = map(torch.from_numpy, (X, y))

    def loss(v):
        return torch.exp(-ty * (tX @ v)).sum()

    found = torch.autograd.functional.hessian(loss, torch.from_numpy(w)).numpy()
    eigenvalues = np.linalg.eigvalsh(found)
    null, top = d - len(X), eigenvalues[-1]
    # Along the inputs no curvature is below this, which is above 0.
    least = np.exp(-y * (X @ w)).min() * np.linalg.svd(X, compute_uv=False)[-1] ** 2
    return Check.worst(
        Check(found, hessian_of(w, X, y), "==", allowed=1e-10),
        Check(eigenvalues[:null], 0.0, "==", allowed=1e-12, scale=top),
        Check(eigenvalues[null], least, ">=", allowed=1e-12, scale=top),
    )


@chapter_claim(
    id="p-hess-linear",
    kind="theorem",
    verdict="wrong",
    statement=r"For a linear classifier the Hessian of $\sum_ne^{-y_nw^\top x_n}$ is "
    r"$\sum_ne^{-y_nw^\top x_n}\,x_nx_n^\top$. Its null space is what is orthogonal "
    r"to all $x_n$, at every $w$, so its rank is at most $N$. If the matrices "
    r"$x_nx_n^\top$ are linearly independent, it is a multiple of "
    r"$\sum_nx_nx_n^\top$ only where all margins are equal.",
    printed=r"The Hessian is proportional to $\sum_nx_nx_n^\top$.",
    printed_in="poggio2019",
)
def p_hess_linear(rng):
    return _weighted(rng, exponential_hessian)


@p_hess_linear.control
def _(rng):
    # The weights of another power of the loss.
    return _weighted(rng, lambda w, X, y: exponential_hessian(2 * w, X, y))


@p_hess_linear.printed
def _():
    X, y = np.array([[2.0, 0.5], [-0.5, -1.0], [-1.0, 1.5]]), np.array([1.0, -1.0, -1])
    found = exponential_hessian(2 * separating_direction(X, y), X, y)
    printed = X.T @ X
    cosine = (found * printed).sum() / np.linalg.norm(found) / np.linalg.norm(printed)
    return Check(cosine, 1.0, "==", allowed=1e-3)


def _rescaled(rng, outgoing=1.0):
    """Check slopes and curvatures along the directions that rescale a unit."""
    layers = random_layers(rng, outputs=2)
    X = rng.standard_normal((12, layers[0].shape[1]))
    target = torch.from_numpy(rng.standard_normal((12, 2)))
    network, flat = outputs(layers, X)

    def loss(parameters):
        return torch.log1p((network(parameters) - target) ** 2).sum()

    directions = torch.from_numpy(rescaling_directions(layers))
    directions = torch.where(directions * flat < 0, outgoing * directions, directions)
    flat = flat.requires_grad_()
    (gradient,) = torch.autograd.grad(loss(flat), flat)
    hessian = torch.autograd.functional.hessian(loss, flat)
    # Each direction is G w for a diagonal G: 1 on a unit's incoming weights, -1 on
    # its outgoing ones.
    turned = torch.sign(directions * flat) * gradient
    smallest = np.linalg.svd(directions.detach(), compute_uv=False)[-1]
    scale = float(gradient.norm())
    return Check.worst(
        Check(directions @ gradient, 0.0, "==", allowed=1e-12, scale=scale),
        Check(directions @ hessian, -turned, "==", allowed=1e-12, scale=10 * scale),
        Check(smallest, 1e-6, ">=", allowed=0.0),
    )


@chapter_claim(
    id="land-rescaling",
    kind="theorem",
    verdict="holds",
    source="book",
    statement=r"Let $L$ be a smooth loss of the outputs of a bias-free ReLU network, "
    r"at weights $w$ where it is twice differentiable. For each hidden unit let "
    r"$v=Gw$ keep its incoming weights, change the sign of its outgoing ones, and "
    r"be 0 elsewhere. Then $\nabla L^\top v=0$ and $\nabla^2L\,v=-G\nabla L$. At a "
    r"critical point where no hidden unit's incoming weights are all 0, $\nabla^2L$ "
    r"has at least as many zero eigenvalues as the network has hidden units.",
)
def land_rescaling(rng):
    return _rescaled(rng)


@land_rescaling.control
def _(rng):
    # The outgoing weights shrink by a hundredth less than the incoming ones grow.
    return _rescaled(rng, outgoing=0.99)


def _interpolating(rng, miss):
    """Compare the squared loss's Hessian with J^T J; check the examples' gradients."""
    layers = random_layers(rng)
    count = int(rng.integers(2, 7))
    X = rng.standard_normal((count, layers[0].shape[1]))
    network, flat = outputs(layers, X)
    target = network(flat)[:, 0] + miss * torch.from_numpy(rng.choice([-1, 1], count))

    def errors(parameters):
        return network(parameters)[:, 0] - target

    def loss(parameters):
        return errors(parameters).square().sum() / 2

    jacobian = torch.autograd.functional.jacobian(errors, flat)
    hessian = torch.autograd.functional.hessian(loss, flat)
    eigenvalues = torch.linalg.eigvalsh(hessian)
    below, top = eigenvalues[: len(flat) - count], float(eigenvalues[-1])
    return Check.worst(
        Check(hessian, jacobian.T @ jacobian, "==", allowed=1e-12),
        Check(below, 0.0, "==", allowed=1e-12, scale=top),
        Check(errors(flat)[:, None] * jacobian, 0.0, "==", allowed=1e-12, scale=top),
    )


@chapter_claim(
    id="land-interpolation",
    kind="theorem",
    verdict="holds",
    source="cooper2021",
    statement=r"Let $L=\frac12\sum_{n\le N}(f_w(x_n)-t_n)^2$ with $p$ parameters, and "
    r"let $w$ fit all $N$ examples. If every $w\mapsto f_w(x_n)$ is twice continuously "
    r"differentiable near $w$, then $\nabla^2L=J^\top J$ at $w$, with the Jacobian $J$ "
    r"of the outputs: its rank is at most $N$, and at least $p-N$ eigenvalues are 0. "
    r"If $J$ also has rank $N$, the minimisers near $w$ form a surface of dimension "
    r"$p-N$. Every single example's gradient is 0 on it.",
)
def land_interpolation(rng):
    return _interpolating(rng, 0.0)


@land_interpolation.control
def _(rng):
    return _interpolating(rng, 0.1)


def _all_off(rng, units_on):
    """Check slopes and curvatures where the first layer is off on all data."""
    layers = random_layers(rng)
    X = rng.standard_normal((12, layers[0].shape[1]))
    X[:, 0] = 1.0
    y = rng.choice([-1.0, 1.0], len(X))
    # The constant feature keeps each unit's largest input below 0.
    layers[0][:, 0] -= (X @ layers[0].T).max(axis=0) + rng.uniform(0.1, 1)
    if units_on:
        layers[0][:units_on, 0] += 1.5
        layers[1:] = map(np.abs, layers[1:])
    network, flat = outputs(layers, X)

    def loss(weights):
        return torch.exp(-torch.from_numpy(y) * network(weights)[:, 0]).sum()

    nearby = flat + 1e-3 * torch.from_numpy(rng.standard_normal(len(flat)))
    hessian = torch.autograd.functional.hessian(loss, flat)
    return [
        Check(torch.autograd.functional.jacobian(loss, flat), 0.0, "==", 0.0, scale=1),
        Check(hessian, 0.0, "==", allowed=0.0, scale=1),
        Check(loss(nearby), len(X), "==", allowed=0.0),
    ]


def _out_of_zero(rng):
    """Compare the loss's change at s and 2s times the weights: its order is K."""
    depth = int(rng.integers(3, 5))
    widths = [3, *[6] * (depth - 1), 1]
    layers = [rng.standard_normal((b, a)) / np.sqrt(a) for a, b in pairwise(widths)]
    X, y = separated_data(rng, layers)
    scales = 1e-6 ** (1 / depth) * np.array([1, 2])
    losses = [exponential_loss([s * w for w in layers], X, y) for s in scales]
    small, large = len(X) - np.array(losses)
    return Check(large, 2**depth * small, "==", allowed=1e-3)


@chapter_claim(
    id="p-degenerate",
    kind="theorem",
    verdict="wrong",
    source="book",
    statement=r"Let $L=\sum_n\ell(y_nf(x_n))$ with a smooth $\ell$ and a bias-free "
    r"ReLU network $f$ of $K\ge2$ layers. Where all units of the first layer are off, "
    r"$w_i^\top x_n<0$ for all $i$ and $n$, $f=0$ on all data, $L$ is constant nearby, "
    r"and its gradient and Hessian are 0. Such weights exist exactly if some "
    r"$w^\top x_n<0$ for all $n$, as where the inputs have a constant feature. For "
    r"$K\ge3$ gradient and Hessian are 0 at $W=0$, too: $L-L(0)$ is of the order "
    r"$\lVert W\rVert^K$.",
    printed='"Any point of the loss at a finite $\\rho$ has nonzero Hessian", and '
    '"critical points which are not global minima cannot be completely degenerate".',
    printed_in="poggio2019",
)
def p_degenerate(rng):
    return Check.worst(*_all_off(rng, units_on=0), _out_of_zero(rng))


@p_degenerate.control
def _(rng):
    return Check.worst(*_all_off(rng, units_on=1))


@p_degenerate.printed
def _():
    # The data are separable: the sign of the second feature is the label.
    X = np.array([[1.0, 2.0], [1.0, 1.0], [1.0, -1.0]])
    network, flat = outputs([np.array([[-3.0, 0.0]] * 4), np.ones((1, 4))], X)
    y = torch.from_numpy(np.sign(X[:, 1]))
    hessian = torch.autograd.functional.hessian(
        lambda weights: torch.exp(-y * network(weights)[:, 0]).sum(), flat
    )
    return Check(hessian.abs().max(), 1e-12, ">=", allowed=0.0)


@chapter_claim(
    id="p-conj",
    kind="remark",
    verdict="conjecture",
    statement="For networks with more parameters than needed, the global minima of "
    "the training loss are more degenerate than its other critical points, in "
    "general; noise therefore finds them with high probability.",
)
def p_conj(rng): ...
