"""The claims of chapter 07 on random networks, and on training them."""

import functools

import numpy as np
import torch
from scipy import special

from bnlib.claims._instances_growth import jacobians, sampled_map
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.experiments import load_record
from bnlib.functional import batch_norm
from bnlib.meanfield import (
    fixed_point,
    gradient_norms,
    growth_factor,
    residual_growth,
)

chapter_claim = functools.partial(claim, chapter="07-gradient-explosion")


WIDTH = 128


def gaussian(rng, *shape):
    """Draw independent standard normal numbers, float64."""
    return torch.from_numpy(rng.standard_normal(shape))


def random_weights(rng, depth):
    """Draw square matrices that keep the mean square of what they multiply."""
    return [gaussian(rng, WIDTH, WIDTH) / WIDTH**0.5 for _ in range(depth)]


def normalised(x):
    """Return x after batch normalization with eps 0."""
    return batch_norm(x, None, None, training=True, eps=0.0)


def relu_layer(weights):
    """Return a layer: linear, batch norm, ReLU."""
    return lambda x: torch.relu(normalised(x @ weights))


def measured(rng, layers, size, below_top=1):
    """Return the growth of the squared gradient a layer, below the topmost layers."""
    logs = gradient_norms(
        layers, gaussian(rng, size, WIDTH), gaussian(rng, size, WIDTH)
    )
    return np.exp((logs[1] - logs[-1 - below_top]) / (len(logs) - 2 - below_top))


def _squared_growth(rng, size, depth=16):
    """Return the growth of squared gradients a layer, for weights and inputs."""
    weights = [w.requires_grad_() for w in random_weights(rng, depth)]
    states = [torch.relu(normalised(gaussian(rng, size, WIDTH))).requires_grad_()]
    for each in weights:
        states.append(relu_layer(each)(states[-1]))
    value = (states[-1] * gaussian(rng, size, WIDTH)).sum()
    gradients = torch.autograd.grad(value, [*weights, *states[:-1]])
    logs = torch.stack([g.square().sum().log() for g in gradients])
    logs = logs.reshape(2, depth).numpy()
    return np.exp((logs[:, 0] - logs[:, -2]) / (depth - 2))


def _growth_of_squares(rng, power):
    """Compare the mean growth in two networks with a power of the growth factor."""
    size = int(rng.integers(16, 28))
    found = np.mean([_squared_growth(rng, size) for _ in range(2)], axis=0)
    return Check(found, growth_factor("relu", size) ** power, "==", allowed=0.08)


def _from_any_gradient(rng):
    """Check the map T's second step, from a gradient that favours some examples."""
    size = int(rng.integers(8, 13))
    found, activation = jacobians(rng, size)
    gradient = rng.standard_normal(size) ** 3
    T = sampled_map(found)
    once = T @ np.outer(gradient, gradient).ravel()
    steps = (x.reshape(size, size).trace() for x in (T @ once, once))
    growth = np.divide(*steps)
    return Check(growth, growth_factor(activation, size), "==", allowed=0.07)


@chapter_claim(
    id="mf-which-norm",
    kind="theorem",
    verdict="wrong",
    source="yang2019",
    statement="In the wide limit above, in layers of linear maps, batch "
    "normalization and ReLU at the fixed point, the *squared* norm of the gradient "
    "grows from layer to layer, below the topmost one, by "
    r"$\lambda_{\mathrm{relu}}(B)$, for weights as for inputs; that tends to "
    r"$\frac\pi{\pi-1}=1.467$ for large batches. The norm grows by the root, which "
    "tends to $1.211$.",
    printed=r"The *norm* of the first layer's gradient exceeds $c\lambda^L$ in a net "
    r"of $L$ layers, where for ReLU $\lambda\to\frac\pi{\pi-1}$. (The paper, "
    "{cite:t}`yang2019`, says that its rate is that of the *squared* norm.)",
    printed_in="wikipedia-bn",
)
def mf_which_norm(rng):
    return Check.worst(_growth_of_squares(rng, power=1), _from_any_gradient(rng))


@mf_which_norm.control
def _(rng):
    # As if it were the norm that grows by the factor's root.
    return _growth_of_squares(rng, power=0.5)


@mf_which_norm.printed
def _():
    norm = _squared_growth(np.random.default_rng(0), size=48)[0] ** 0.5
    return Check(norm, np.pi / (np.pi - 1), ">=", allowed=0.05)


def _rescaled(rng, normalise):
    """Compare two stacks of one seed that differ in the lengths of their weights."""
    seed, factors = int(rng.integers(2**31)), np.exp(rng.uniform(-2, 2, size=8))
    found = []
    for scales in (np.ones(8), factors):
        draws = np.random.default_rng(seed)
        layers = [
            lambda x, w=c * w: torch.relu(normalise(x @ w))
            for c, w in zip(scales, random_weights(draws, 8))
        ]
        x, upstream = (gaussian(draws, 16, WIDTH) for _ in range(2))
        found.append(gradient_norms(layers, x, upstream))
    return Check(*found, "==", allowed=1e-9, scale=1.0)


def _activation_first(rng, size=2000):
    """Check a layer with the activation in front of batch norm, in a large batch."""
    slope, bend, square = rng.uniform(0.5, 2, size=3)

    def activation(x):
        return slope * x + torch.tanh(bend * x) + square * x**2

    h = normalised(gaussian(rng, size, 100)).requires_grad_()
    upstream = gaussian(rng, size, 100)
    (gradient,) = torch.autograd.grad((normalised(activation(h)) * upstream).sum(), h)
    grown = (gradient.square().sum() / upstream.square().sum()).item()
    return Check(grown, growth_factor(activation), "==", allowed=0.05)


@chapter_claim(
    id="mf-order",
    kind="theorem",
    verdict="holds",
    source="book",
    statement=r"At $\epsilon=0$ the gradient at every layer's input does not depend on "
    r"the positive factors by which the weights of each layer are multiplied. With the "
    r"activation before batch normalization instead of after it, the growth factor of "
    r"wide networks has the same limit $\lambda_\varphi(\infty)$ for large batches.",
)
def mf_order(rng):
    layers = [
        lambda x, w=w: normalised(torch.relu(x @ w)) for w in random_weights(rng, 12)
    ]
    before = measured(rng, layers, size=96)
    return Check.worst(
        _rescaled(rng, normalised),
        Check(before, growth_factor("relu"), "==", allowed=0.08),
        _activation_first(rng),
    )


@mf_order.control
def _(rng):
    return _rescaled(rng, lambda x: x)


def _residual(rng, lost):
    """Compare the mean log growth through residual stacks with that of the product.

    ``lost(q, c)`` is subtracted from q to give a layer's share of the variance.
    """
    size, depth, logs = int(rng.integers(24, 32)), 16, []

    def layer(weights):
        return lambda h: h + torch.relu(normalised(h)) @ weights

    for _ in range(3):
        upstream = gaussian(rng, size, WIDTH)
        layers = [layer(weights) for weights in random_weights(rng, depth)]
        start = gaussian(rng, size, WIDTH)
        norms = gradient_norms(layers, start, upstream - upstream.mean(dim=0))
        logs.append(norms[0] - norms[-1])
    q, c = fixed_point("relu", size)
    variances = 1 + np.arange(depth) * (q - lost(q, c))
    terms = growth_factor("relu", size) * (q - c) / variances
    return Check(np.mean(logs), np.log1p(terms).sum(), "==", allowed=0.08)


def _variance_over_batch(rng, depth=16):
    """Check the centred covariance after residual stacks, from its mean trace."""
    size, ends = int(rng.integers(16, 32)), []
    for _ in range(4):
        h = gaussian(rng, size, WIDTH)
        for weights in random_weights(rng, depth):
            h = h + torch.relu(normalised(h)) @ weights
        ends.append(h.var(dim=0).mean().item())
    q, c = fixed_point("relu", size)
    return Check(np.mean(ends), 1 + depth * (q - c), "==", allowed=0.09)


def _gamma_ratio(rng):
    """Compare the product over layers with gamma functions; check a doubled depth."""
    size, variance = int(rng.integers(16, 64)), rng.uniform(0.5, 2)
    factor, (q, c) = growth_factor("tanh", size), fixed_point("tanh", size)
    start, depth = variance / (q - c), 2**16
    ends = special.poch(start, factor), special.poch(start + depth, factor)
    once, twice = (
        residual_growth("tanh", size, depth=d, variance=variance)
        for d in (depth, 2 * depth)
    )
    return Check.worst(
        Check(once, ends[1] / ends[0], "==", allowed=1e-9),
        Check(np.log2(twice / once), factor, "==", allowed=1e-3),
    )


@chapter_claim(
    id="mf-residual",
    kind="theorem",
    verdict="holds",
    source="book",
    statement="In a wide stack of residual layers "
    r"$h_{l+1}=h_l+W_l\,\varphi(\mathrm{BN}(h_l))$, $l=0,\dots,L-1$, with weights of "
    "variance 1 over the width and an input of independent Gaussian values of "
    "variance $v_0$, the centred covariance of a unit over the batch is $v_lC$ with "
    "$v_l=v_0+l(q-c)$. From the top down the squared norm of a gradient whose "
    "covariance is a multiple of $C$ grows by "
    r"$\prod_{l<L}\big(1+\frac{\lambda_\varphi(B)(q-c)}{v_l}\big)$. As $L\to\infty$ "
    r"that is $KL^{\lambda_\varphi(B)}(1+o(1))$ with a constant $K>0$: a power of the "
    "depth, not an exponential.",
)
def mf_residual(rng):
    simulated = _residual(rng, lost=lambda q, c: c)
    return Check.worst(simulated, _variance_over_batch(rng), _gamma_ratio(rng))


@mf_residual.control
def _(rng):
    # Each layer adds its mean square to the variance, not its variance.
    return _residual(rng, lost=lambda q, c: 0)


def _next_cosine(c):
    return (np.sqrt(1 - c**2) + c * (np.pi - np.arccos(c))) / np.pi


def _settled(rng, power):
    """Check where cosines go with depth, without batch norm and with it."""
    cosine, depth = rng.uniform(0, 0.9), 20_000
    for _ in range(depth):
        cosine = _next_cosine(cosine)
    size = int(rng.integers(4, 24))
    x = gaussian(rng, size, WIDTH)
    cosines = []
    for weights in random_weights(rng, 24):
        x = relu_layer(weights)(x)
        gram = (x @ x.T).numpy()
        pairs = gram.sum() - gram.trace()
        cosines.append(pairs / (size - 1) / gram.trace())
    q, c = fixed_point("relu", size)
    return Check.worst(
        Check((1 - cosine) * depth**power, 4.5 * np.pi**2, "==", allowed=0.02),
        Check(np.mean(cosines), c / q, "==", allowed=0.08),
    )


@chapter_claim(
    id="mf-collapse",
    kind="theorem",
    verdict="holds",
    source="book",
    statement="In wide ReLU networks without batch normalization and without biases "
    "the cosine $c_l$ of two inputs' activations, $c_0<1$, obeys "
    r"$c_{l+1}=\frac1\pi\big(\sqrt{1-c_l^2}+c_l(\pi-\arccos c_l)\big)$, and "
    r"$l^2(1-c_l)\to\frac{9\pi^2}2$: all inputs become alike. With batch "
    "normalization before each ReLU the cosine of two examples of a batch stays at "
    r"$c/q=2c$, which tends to $\frac1\pi$ for large batches.",
)
def mf_collapse(rng):
    return _settled(rng, power=2)


@mf_collapse.control
def _(rng):
    return _settled(rng, power=1.9)


def _unit_by_unit(rng):
    """Compare gradients on the two sides of a batch norm in a stack, unit by unit."""
    size = int(rng.integers(16, 32))
    x = torch.relu(normalised(gaussian(rng, size, WIDTH)))
    h = (x @ random_weights(rng, 1)[0]).requires_grad_()
    y = normalised(h)
    out = torch.relu(y)
    for weights in random_weights(rng, 3):
        out = relu_layer(weights)(out)
    value = (out * gaussian(rng, size, WIDTH)).sum()
    dh, g = (d.numpy() for d in torch.autograd.grad(value, (h, y)))
    y, var = y.detach().numpy(), h.detach().numpy().var(axis=0)
    kept = (g**2).sum(axis=0) - (g.sum(axis=0) ** 2 + (g * y).sum(axis=0) ** 2) / size
    return Check((dh**2).sum(axis=0), kept / var, "==", allowed=1e-9)


def _mean_factor(rng, lost, width=1024):
    """Compare the mean of 1 / variance over a wide layer's units with its formula.

    ``lost`` is what the formula subtracts from the count of values.
    """
    size = int(rng.integers(12, 16))
    x = torch.relu(normalised(gaussian(rng, size, width)))
    h = x @ gaussian(rng, width, width) / width**0.5
    q, c = fixed_point("relu", size)
    expected = size / ((size - lost) * (q - c))
    found = (1 / h.var(dim=0, correction=0)).mean().item()
    return Check.worst(
        Check(found, expected, "==", allowed=0.09),
        Check(expected, 2 * np.pi / (np.pi - 1), ">=", allowed=0.0),
    )


@chapter_claim(
    id="mf-consistent",
    kind="theorem",
    verdict="holds",
    source="book",
    statement="In every layer of a stack the identity of chapter 06 holds, with the "
    r"factor $1/\sigma_j^2$ for unit $j$ (at $\gamma=1$, $\epsilon=0$). At the fixed "
    r"point of a wide network that factor has the mean $\frac B{(B-3)(q-c)}$, which "
    r"for ReLU is at least $\frac{2\pi}{\pi-1}>2.9$: what one layer removes from a "
    "gradient does not keep it from growing through many.",
)
def mf_consistent(rng):
    return Check.worst(_unit_by_unit(rng), _mean_factor(rng, lost=3))


@mf_consistent.control
def _(rng):
    # As if the mean of an inverse were the inverse of the mean.
    return _mean_factor(rng, lost=1)


def _trained(arm, size, seed, depth=40):
    """Return the accuracy of the record's stacks at their best learning rate."""
    record = load_record("yang-trainability")
    names = ("arms", "depths", "batch_sizes", "seeds")
    place = [
        record.parameters[name].index(value)
        for name, value in zip(names, (arm, depth, size, seed))
    ]
    return record.array("accuracies").max(axis=-1)[tuple(place)]


@chapter_claim(
    id="mf-untrainable",
    kind="empirical",
    verdict="conditional",
    source="yang2019",
    statement="On digits, stacks of linear maps, batch normalization and ReLU, "
    "without skips, reach less within 200 steps the deeper they are and the smaller "
    "the batch (which also sees fewer examples). That is about this architecture and "
    "its initialisation. With batches of 64 or 128, 40 layers stay under 60 % right; "
    "with skip connections, or with an activation that is nearly linear, 40 layers "
    "reach 90 % and more.",
    printed="Deep batch-normalized networks are untrainable; only skip connections "
    "relieve this. ({cite:t}`yang2019`, of whom it tells: without skips, at large "
    "depths, *for common initialization schemes*.)",
    printed_in="wikipedia-bn",
)
def mf_untrainable(rng):
    accuracies = load_record("yang-trainability").array("accuracies")
    means = accuracies.max(axis=-1).mean(axis=-1)[0]  # ReLU: depth, batch size
    size, seed = int(rng.choice([64, 128])), int(rng.integers(3))
    cured = [_trained(arm, size, seed) for arm in ("near_linear", "residual")]
    return Check.worst(
        Check(means[1:], means[:-1], "<=", allowed=0.0),
        Check(means[:, 1:], means[:, :-1], ">=", allowed=0.0),
        Check(min(cured), 0.9, ">=", allowed=0.0),
        Check(_trained("relu", size, seed), 0.6, "<=", allowed=0.0),
    )


@mf_untrainable.control
def _(rng):
    size, seed = int(rng.choice([64, 128])), int(rng.integers(3))
    return Check(_trained("relu", size, seed), 0.9, ">=", allowed=0.0)


@mf_untrainable.printed
def _():
    """Take forty layers without a skip, nearly linear where they start."""
    return Check(_trained("near_linear", 128, 0), 0.5, "<=", allowed=0.0)
