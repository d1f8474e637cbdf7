"""The claims of chapter 03: how the gradient passes through a batch."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from bnlib.claims._instances_scale import normalise, random_loss
from bnlib.claims._instances_transform import random_batch
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.transform import (
    BackwardSteps,
    batch_norm_backward,
    batch_norm_backward_steps,
    batch_norm_forward,
)

chapter_claim = functools.partial(claim, chapter="03-backprop", verdict="holds")


class Unit(NamedTuple):
    """One unit of a random network: its batch and autograd's gradients there.

    ``value`` computes the loss of a batch from the definition alone.
    """

    x: np.ndarray
    mean: float
    var: float
    x_hat: np.ndarray
    gamma: float
    eps: float
    delta: np.ndarray
    autograd: BackwardSteps
    ours: BackwardSteps
    value: Callable

    @property
    def std(self):
        """The root that x is divided by."""
        return (self.var + self.eps) ** 0.5


def random_unit(rng):
    """Draw a unit; autograd differentiates the definition, node by node."""
    x = random_batch(rng)
    loss = random_loss(rng, len(x))
    gamma, beta, eps = *rng.standard_normal(2), 10 ** rng.uniform(-5, 1)
    inputs = [torch.tensor(v, dtype=torch.float64) for v in (x, gamma, beta)]
    leaf, scale, shift = (tensor.requires_grad_() for tensor in inputs)
    mean, var, x_hat = normalise(leaf, eps)
    y = scale * x_hat + shift
    nodes = (x_hat, var, mean, leaf, scale, shift, y)
    *gradients, delta = (
        gradient.numpy() for gradient in torch.autograd.grad(loss(y), nodes)
    )
    _, cache = batch_norm_forward(x[:, None], np.array([gamma]), np.array([beta]), eps)
    steps = batch_norm_backward_steps(delta[:, None], cache)
    shapes = [np.shape(gradient) for gradient in gradients]
    ours = (step.reshape(shape) for step, shape in zip(steps, shapes))
    values = (node.detach().numpy() for node in (leaf, mean, var, x_hat))
    autograd, ours = BackwardSteps(*gradients), BackwardSteps(*ours)

    def value(batch):
        return loss(gamma * normalise(torch.from_numpy(batch), eps)[2] + beta).item()

    return Unit(*values, gamma, eps, delta, autograd, ours, value)


def _step(rng, name, formula):
    """Compare the formula and bnlib's step with autograd."""
    unit = random_unit(rng)
    expected = getattr(unit.autograd, name)
    return Check.worst(
        Check(formula(unit), expected, "==", allowed=1e-10),
        Check(getattr(unit.ours, name), expected, "==", allowed=1e-10),
    )


@chapter_claim(
    id="bwd-beta",
    kind="theorem",
    source="ioffe2015",
    statement=r"$\partial\ell/\partial\beta=\sum_i\delta_i$, where "
    r"$\delta_i=\partial\ell/\partial y_i$.",
)
def bwd_beta(rng):
    return _step(rng, "dbeta", lambda unit: unit.delta.sum())


@bwd_beta.control
def _(rng):
    return _step(rng, "dbeta", lambda unit: unit.delta.mean())


@chapter_claim(
    id="bwd-gamma",
    kind="theorem",
    source="ioffe2015",
    statement=r"$\partial\ell/\partial\gamma=\sum_i\delta_i\hat x_i$.",
)
def bwd_gamma(rng):
    return _step(rng, "dgamma", lambda unit: (unit.delta * unit.x_hat).sum())


@bwd_gamma.control
def _(rng):
    return _step(rng, "dgamma", lambda unit: unit.delta @ (unit.x - unit.mean))


@chapter_claim(
    id="bwd-xhat",
    kind="theorem",
    source="ioffe2015",
    statement=r"$\partial\ell/\partial\hat x_i=\gamma\,\delta_i$.",
)
def bwd_xhat(rng):
    return _step(rng, "dx_hat", lambda unit: unit.gamma * unit.delta)


@bwd_xhat.control
def _(rng):
    return _step(rng, "dx_hat", lambda unit: unit.delta / unit.gamma)


def _dvar(unit, power):
    return -(unit.autograd.dx_hat @ (unit.x - unit.mean)) / 2 / unit.std**power


@chapter_claim(
    id="bwd-var",
    kind="theorem",
    source="ioffe2015",
    statement=r"$\displaystyle\frac{\partial\ell}{\partial\sigma^2}="
    r"-\frac12(\sigma^2+\epsilon)^{-3/2}\sum_i\frac{\partial\ell}{\partial\hat x_i}"
    r"(x_i-\mu)$.",
)
def bwd_var(rng):
    return _step(rng, "dvar", lambda unit: _dvar(unit, power=3))


@bwd_var.control
def _(rng):
    return _step(rng, "dvar", lambda unit: _dvar(unit, power=1))


def _mean_step(rng, formula):
    unit = random_unit(rng)
    deviations = unit.x - unit.mean
    size = np.abs(unit.x).sum()
    return Check.worst(
        Check(deviations.sum(), 0.0, "==", allowed=1e-12, scale=size),
        Check(formula(unit), unit.autograd.dmean, "==", allowed=1e-10),
        Check(unit.ours.dmean, unit.autograd.dmean, "==", allowed=1e-10),
    )


@chapter_claim(
    id="bwd-mu",
    kind="theorem",
    source="ioffe2015",
    statement=r"$\displaystyle\frac{\partial\ell}{\partial\mu}="
    r"-\frac1{\sqrt{\sigma^2+\epsilon}}\sum_i\frac{\partial\ell}{\partial\hat x_i}$. "
    r"The second term of the chain rule, "
    r"$-\frac{\partial\ell}{\partial\sigma^2}\frac2m\sum_i(x_i-\mu)$, is always 0.",
)
def bwd_mu(rng):
    return _mean_step(rng, lambda unit: -unit.autograd.dx_hat.sum() / unit.std)


@bwd_mu.control
def _(rng):
    return _mean_step(rng, lambda unit: -unit.autograd.dx_hat.mean() / unit.std)


def _three_paths(unit, mean_path=1):
    return (
        unit.autograd.dx_hat / unit.std
        + unit.autograd.dvar * 2 * (unit.x - unit.mean) / len(unit.x)
        + mean_path * unit.autograd.dmean / len(unit.x)
    )


@chapter_claim(
    id="bwd-x",
    kind="theorem",
    source="ioffe2015",
    statement=r"$\displaystyle\frac{\partial\ell}{\partial x_i}="
    r"\frac{\partial\ell}{\partial\hat x_i}\frac1{\sqrt{\sigma^2+\epsilon}}"
    r"+\frac{\partial\ell}{\partial\sigma^2}\frac{2(x_i-\mu)}m"
    r"+\frac{\partial\ell}{\partial\mu}\frac1m$.",
)
def bwd_x(rng):
    return _step(rng, "dx", _three_paths)


@bwd_x.control
def _(rng):
    return _step(rng, "dx", lambda unit: _three_paths(unit, mean_path=0))


def _compact(rng, formula):
    """Compare the formula and bnlib with autograd and with finite differences."""
    unit = random_unit(rng)
    expected = formula(unit.gamma / unit.std * unit.delta, unit.x_hat)
    _, cache = batch_norm_forward(unit.x[:, None], np.array([unit.gamma]), eps=unit.eps)
    ours, _, _ = batch_norm_backward(unit.delta[:, None], cache)
    step = 1e-5 * unit.x.std()
    slopes = [
        (unit.value(unit.x + change) - unit.value(unit.x - change)) / (2 * step)
        for change in step * np.eye(len(unit.x))
    ]
    arrives = np.abs(unit.delta).max() * abs(unit.gamma) / unit.std
    return Check.worst(
        Check(expected, unit.autograd.dx, "==", allowed=1e-10, scale=arrives),
        Check(ours[:, 0], unit.autograd.dx, "==", allowed=1e-10, scale=arrives),
        Check(expected, slopes, "==", allowed=1e-5, scale=arrives),
    )


def _projected(g, x_hat):
    return g - g.mean() - x_hat * (g * x_hat).mean()


@chapter_claim(
    id="bwd-compact",
    kind="theorem",
    source="santurkar2018",
    statement=r"$\displaystyle\frac{\partial\ell}{\partial x_i}="
    r"\frac\gamma{m\sqrt{\sigma^2+\epsilon}}\Big(m\,\delta_i-\sum_j\delta_j"
    r"-\hat x_i\sum_j\delta_j\hat x_j\Big)$, that is "
    r"$\nabla_x\ell=\frac\gamma{\sqrt{\sigma^2+\epsilon}}P\delta$ with "
    r"$P=I-\frac1m\mathbf 1\mathbf 1^\top-\frac1m\hat x\hat x^\top$.",
)
def bwd_compact(rng):
    return _compact(rng, _projected)


@bwd_compact.control
def _(rng):
    return _compact(rng, lambda g, x_hat: g - g.mean())


def _jacobian(rng, along_x_hat):
    """Check autograd's Jacobian of torch's layer, and its eigenvalues."""
    x = random_batch(rng)
    eps = x.var() * 10 ** rng.uniform(-1, 1)
    jacobian = torch.autograd.functional.jacobian(
        lambda batch: torch.nn.functional.batch_norm(
            batch[:, None], None, None, training=True, eps=eps
        )[:, 0],
        torch.from_numpy(x),
    ).numpy()
    m, std = len(x), np.sqrt(x.var() + eps)
    x_hat = (x - x.mean()) / std
    projection = np.eye(m) - 1 / m - np.outer(x_hat, x_hat) / m
    eigenvalues = [0.0, along_x_hat(x.var(), eps), *(m - 2) * [1 / std]]
    found = np.linalg.eigvalsh((jacobian + jacobian.T) / 2)
    along = jacobian @ x_hat, along_x_hat(x.var(), eps) * x_hat
    return Check.worst(
        Check(jacobian, projection / std, "==", allowed=1e-10),
        Check(found, np.sort(eigenvalues), "==", allowed=1e-10),
        Check(*along, "==", allowed=1e-10),
    )


@chapter_claim(
    id="bwd-jacobian",
    kind="theorem",
    source="book",
    statement=r"$\partial\hat x/\partial x=P/\sqrt{\sigma^2+\epsilon}$, a symmetric "
    r"matrix. For $\sigma>0$ its eigenvalues are 0 on $\mathbf 1$, "
    r"$\epsilon/(\sigma^2+\epsilon)^{3/2}$ on $\hat x$, and "
    r"$(\sigma^2+\epsilon)^{-1/2}$ on everything orthogonal to both.",
)
def bwd_jacobian(rng):
    return _jacobian(rng, lambda var, eps: eps / (var + eps) ** 1.5)


@bwd_jacobian.control
def _(rng):
    return _jacobian(rng, lambda var, eps: eps / (var + eps))


@claim(
    id="bwd-dldy-activation",
    chapter="03-backprop",
    kind="remark",
    verdict="ambiguous",
    source="book",
    statement=r"$\delta=\partial\ell/\partial y$ depends on all that comes after $y$: "
    "the activation, the layers above, their weights, the loss and its targets.",
    printed="∂l/∂y “depends on the choice of activation function”. True, and not all: "
    "what fails is to conclude that two networks that share the activation share it.",
    printed_in="wikipedia-bn",
)
def bwd_dldy_activation(rng): ...


@bwd_dldy_activation.printed
def _():
    y = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    same_activation = torch.relu(y)
    square = ((same_activation - target) ** 2).sum()
    cross = torch.nn.functional.binary_cross_entropy_with_logits(
        same_activation, target, reduction="sum"
    )
    upstream = [
        torch.autograd.grad(ell, y, retain_graph=True)[0] for ell in (square, cross)
    ]
    return Check(*upstream, "==", allowed=1e-3)
