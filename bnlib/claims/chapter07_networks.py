"""The claims of chapter 07 on random networks, and on training them."""

import numpy as np
import torch
from scipy import special

from bnlib.claims.chapter07_growth import chapter_claim
from bnlib.claims.check import Check
from bnlib.experiments import load_record
from bnlib.functional import batch_norm
from bnlib.meanfield import (
    fixed_point,
    gradient_norms,
    growth_factor,
    residual_growth,
)

WIDTH = 128


def gaussian(rng, *shape):
    """Independent standard normal numbers, float64."""
    return torch.from_numpy(rng.standard_normal(shape))


def random_weights(rng, depth):
    """Square matrices that keep the mean square of what they multiply."""
    return [gaussian(rng, WIDTH, WIDTH) / WIDTH**0.5 for _ in range(depth)]


def normalised(x):
    """Batch normalization with eps 0."""
    return batch_norm(x, None, None, training=True, eps=0.0)


def relu_layer(weights):
    """Linear, batch norm, ReLU."""
    return lambda x: torch.relu(normalised(x @ weights))


def measured(rng, layers, size, below_top=1):
    """The growth of the squared gradient a layer, under the topmost layers."""
    logs = gradient_norms(
        layers, gaussian(rng, size, WIDTH), gaussian(rng, size, WIDTH)
    )
    return np.exp((logs[1] - logs[-1 - below_top]) / (len(logs) - 2 - below_top))


def _weight_growth(rng, size, depth=16):
    """The growth a layer of the squared gradient with respect to the weights."""
    weights = [w.requires_grad_() for w in random_weights(rng, depth)]
    x = torch.relu(normalised(gaussian(rng, size, WIDTH)))
    for each in weights:
        x = relu_layer(each)(x)
    value = (x * gaussian(rng, size, WIDTH)).sum()
    logs = [g.square().sum().log().item() for g in torch.autograd.grad(value, weights)]
    return np.exp((logs[0] - logs[-2]) / (depth - 2))


def _growth_of_squares(rng, power):
    size = int(rng.integers(16, 48))
    expected = growth_factor("relu", size) ** power
    inputs = measured(rng, [relu_layer(w) for w in random_weights(rng, 16)], size)
    return Check.worst(
        Check(_weight_growth(rng, size), expected, "==", allowed=0.15),
        Check(inputs, expected, "==", allowed=0.15),
    )


@chapter_claim(
    id="mf-which-norm",
    kind="theorem",
    verdict="wrong",
    source="yang2019",
    statement=r"In a deep, wide stack of linear maps, batch normalization and ReLU, at "
    r"initialisation, the *squared* norm of the gradient grows from layer to layer, "
    r"from the top down, by $\lambda_{\mathrm{relu}}(B)$, for weights as for inputs; "
    r"it tends to $\frac\pi{\pi-1}=1.467$ for large batches. The norm grows by the "
    r"root, which tends to $1.211$.",
    printed=r"The *norm* of the first layer's gradient exceeds $c\lambda^L$ in a net "
    r"of $L$ layers, where for ReLU $\lambda\to\frac\pi{\pi-1}$.",
    printed_in="wikipedia-bn",
)
def mf_which_norm(rng):
    return _growth_of_squares(rng, power=1)


@mf_which_norm.control
def _(rng):
    return _growth_of_squares(rng, power=2)


@mf_which_norm.printed
def _():
    norm = _weight_growth(np.random.default_rng(0), size=48) ** 0.5
    return Check(norm, np.pi / (np.pi - 1), ">=", allowed=0.05)


def _rescaled(rng, normalise):
    """Two stacks that differ in the lengths of their weights, from the same seed."""
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
    before = measured(rng, layers, size=64)
    return Check.worst(
        _rescaled(rng, normalised),
        Check(before, growth_factor("relu"), "==", allowed=0.15),
    )


@mf_order.control
def _(rng):
    return _rescaled(rng, lambda x: x)


def _residual(rng, predicted):
    """The growth through a residual stack, as its logarithm."""
    size, depth = int(rng.integers(16, 32)), 24

    def layer(weights):
        return lambda h: h + torch.relu(normalised(h)) @ weights

    upstream = gaussian(rng, size, WIDTH)
    layers = [layer(weights) for weights in random_weights(rng, depth)]
    logs = gradient_norms(
        layers, gaussian(rng, size, WIDTH), upstream - upstream.mean(dim=0)
    )
    expected = np.log(predicted(size, depth))
    return Check(logs[0] - logs[-1], expected, "==", allowed=0.2)


def _gamma_ratio(rng):
    """The product over layers against Euler's, and its growth per doubling."""
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
    statement=r"In a wide stack of residual layers $h_{l+1}=h_l+W_l\,\varphi("
    r"\mathrm{BN}(h_l))$, $l=0,\dots,L-1$, with weights of variance 1 over the width "
    r"and an input of independent Gaussian values of variance $v_0$, the variance of a "
    r"unit is $v_l=v_0+l(q-c)$, and a squared gradient of mean 0 over the batch grows "
    r"by $\prod_{l<L}\big(1+\frac{\lambda_\varphi(B)(q-c)}{v_l}\big)$. As "
    r"$L\to\infty$ that is "
    r"$\kappa L^{\lambda_\varphi(B)}(1+o(1))$ with a constant $\kappa>0$: a power of "
    "the depth, not an exponential.",
)
def mf_residual(rng):
    simulated = _residual(rng, lambda size, L: residual_growth("relu", size, depth=L))
    return Check.worst(simulated, _gamma_ratio(rng))


@mf_residual.control
def _(rng):
    return _residual(rng, lambda size, depth: growth_factor("relu", size) ** depth)


def _next_cosine(c):
    return (np.sqrt(1 - c**2) + c * (np.pi - np.arccos(c))) / np.pi


def _settled(rng, power):
    """Where cosines go with depth: without batch norm, and with it."""
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
    source="daneshmand2020",
    statement=r"In wide ReLU networks without batch normalization the cosine $c_l$ of "
    r"two inputs' activations obeys $c_{l+1}=\frac1\pi\big(\sqrt{1-c_l^2}+c_l(\pi-"
    r"\arccos c_l)\big)$, and $l^2(1-c_l)\to\frac{9\pi^2}2$: all inputs become alike. "
    r"With batch normalization before each ReLU the cosine of two examples of a batch "
    r"stays at $c/q=2c$, which tends to $\frac1\pi$ for large batches.",
)
def mf_collapse(rng):
    return _settled(rng, power=2)


@mf_collapse.control
def _(rng):
    return _settled(rng, power=1.9)


def _unit_by_unit(rng, factor):
    """The gradient on the two sides of a batch norm within a stack, and what is left.

    ``factor`` is what the identity of chapter 06 multiplies by, given the variances.
    """
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
    q, c = fixed_point("relu", size)
    expected = size / ((size - 3) * (q - c))
    return Check.worst(
        Check((dh**2).sum(axis=0), factor(var) * kept, "==", allowed=1e-9),
        Check((1 / var).mean(), expected, "==", allowed=0.3),
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
    return _unit_by_unit(rng, lambda var: 1 / var)


@mf_consistent.control
def _(rng):
    return _unit_by_unit(rng, np.ones_like)


def _trained(arm, size, seed, depth=40):
    """Accuracy of the record's stacks at their best learning rate."""
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
    verdict="wrong",
    source="yang2019",
    statement="Stacks of linear maps, batch normalization and ReLU, without skips, "
    "stop being trainable beyond some depth, the sooner the smaller the batch. That is "
    "about this architecture and its initialisation. On digits, with batches of 64 or "
    "128 and 200 steps, 40 layers stay under 60 % right; with skip connections, or "
    "with an activation that is nearly linear, 40 layers reach 90 % and more.",
    printed="Deep batch-normalized networks are untrainable.",
    printed_in="wikipedia-bn",
)
def mf_untrainable(rng):
    size, seed = int(rng.choice([64, 128])), int(rng.integers(3))
    cured = [_trained(arm, size, seed) for arm in ("near_linear", "residual")]
    return Check.worst(
        Check(min(cured), 0.9, ">=", allowed=0.0),
        Check(_trained("relu", size, seed), 0.6, "<=", allowed=0.0),
    )


@mf_untrainable.control
def _(rng):
    size, seed = int(rng.choice([64, 128])), int(rng.integers(3))
    return Check(_trained("relu", size, seed), 0.9, ">=", allowed=0.0)


@mf_untrainable.printed
def _():
    return Check(_trained("residual", 128, 0), 0.5, "<=", allowed=0.0)
