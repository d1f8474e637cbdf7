"""The claims of chapter 01 on what covariate shift is, and how it is measured."""

import functools
from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.shift import distribution_distance, gradient_shift
from bnlib.transform import batch_norm_forward

chapter_claim = functools.partial(claim, chapter="01-covariate-shift")


def _tensor(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape))


def _stack(rng, widths, between):
    """Return random linear layers in float64, with `between(width)` between them."""
    layers = []
    for inputs, outputs in pairwise(widths):
        linear = nn.utils.skip_init(nn.Linear, inputs, outputs, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(_tensor(rng, outputs, inputs) / inputs**0.5)
            linear.bias.copy_(_tensor(rng, outputs))
        layers += [linear, *between(outputs)]
    return nn.Sequential(*layers[: len(layers) - len(between(1))])


def _input_shift(rng, moved):
    """Return how far the third of four layers sees its inputs move if these step."""
    network = _stack(rng, (3, 5, 4, 5, 1), lambda _: [nn.Tanh()])
    linear = network[::2]
    data = _tensor(rng, 60, 3)
    with torch.no_grad():
        before = network[:4](data)
    network(data).square().mean().backward()
    with torch.no_grad():
        for place in moved:
            for parameter in linear[place].parameters():
                parameter -= 0.1 * parameter.grad
        # The data may come in any order: the distribution is the same.
        after = network[:4](data[torch.from_numpy(rng.permutation(60))])
    return np.linalg.norm(distribution_distance(before, after))


@chapter_claim(
    id="ics-definition",
    kind="definition",
    verdict="contradiction",
    source="ioffe2015",
    statement="The internal covariate shift of a layer is the change of the "
    "distribution of its inputs, over the data, that training causes by updating the "
    "parameters of the layers below it. Updates of the layer itself and of those above "
    "it cause none, and nor do a random start or random data.",
    printed="The internal covariate shift is the effect of the random starting values "
    "and of the natural variation of the input data. (The next paragraph has it right: "
    "as the parameters of preceding layers adjust, the distribution changes.)",
    printed_in="wikipedia-bn",
)
def ics_definition(rng):
    return Check.worst(
        Check(_input_shift(rng, moved=[0, 1]), 1e-6, ">=", allowed=0.0),
        Check(_input_shift(rng, moved=[2, 3]), 0.0, "==", allowed=1e-12, scale=1.0),
    )


@ics_definition.control
def _(rng):
    return Check(_input_shift(rng, moved=[2, 3]), 1e-6, ">=", allowed=0.0)


def _fresh_data(rng, rows):
    """Return how far a layer's inputs move between two samples, with no update."""
    network = _stack(rng, (3, 5, 4, 5, 1), lambda _: [nn.Tanh()])[:4]
    with torch.no_grad():
        samples = [network(_tensor(rng, rows, 3)) for _ in range(2)]
    return np.linalg.norm(distribution_distance(*samples))


@ics_definition.printed
def _():
    """Compare large samples with small ones: a true shift would show in both."""
    small, large = (
        _fresh_data(np.random.default_rng(0), rows) for rows in (200, 20_000)
    )
    return Check(large, 0.5 * small, ">=", allowed=0.0)


def _moments(rng, with_shape):
    """Compare the cost of the best matching with the formula, also behind BN."""
    m = int(rng.integers(8, 40))
    a = rng.standard_normal(m) * rng.uniform(0.5, 2)
    b = rng.exponential(size=m) * rng.uniform(0.5, 2) + rng.standard_normal()
    gammas, betas = rng.standard_normal((2, 2))
    checks = []
    for normed in (False, True):
        if normed:
            x_hat, _ = batch_norm_forward(np.stack([a, b], axis=1), eps=0.0)
            a, b = (gammas * x_hat + betas).T
            gap = (betas[0] - betas[1]) ** 2 + (abs(gammas[0]) - abs(gammas[1])) ** 2
            deviations = abs(gammas[0] * gammas[1])
        else:
            gap = (a.mean() - b.mean()) ** 2 + (a.std() - b.std()) ** 2
            deviations = a.std() * b.std()
        cost = (a[:, None] - b) ** 2 / m
        best = cost[linear_sum_assignment(cost)].sum()
        r = np.corrcoef(np.sort(a), np.sort(b))[0, 1]
        shape = 2 * deviations * (1 - r) if with_shape else 0.0
        checks.append(Check(best, gap + shape, "==", allowed=1e-10))
        moved = distribution_distance(a[:, None], b[:, None])[0] ** 2
        checks.append(Check(best, moved, "==", allowed=1e-10))
    return Check.worst(*checks)


@chapter_claim(
    id="ics-moments",
    kind="theorem",
    verdict="holds",
    source="book",
    statement=r"Let $a$ and $b$ be $m$ values each, with means $\mu_a,\mu_b$ and "
    r"standard deviations $\sigma_a,\sigma_b>0$, and let $r$ be the correlation of "
    r"the sorted $a$ with the sorted $b$. The least mean square $W^2$ of the moves "
    r"that turn $a$ into $b$ is $W^2=(\mu_a-\mu_b)^2+(\sigma_a-\sigma_b)^2"
    r"+2\sigma_a\sigma_b(1-r)$. "
    r"Behind BN with $\epsilon=0$ it is $W^2=(\beta_a-\beta_b)^2+"
    r"(\gamma_a-\gamma_b)^2+2\gamma_a\gamma_b(1-r)$ for scales "
    r"$\gamma_a,\gamma_b>0$.",
)
def ics_moments(rng):
    return _moments(rng, with_shape=True)


@ics_moments.control
def _(rng):
    return _moments(rng, with_shape=False)


def _product(matrices, start):
    for matrix in matrices:
        start = matrix @ start
    return start


def _linear_gradient(weights, place, x, y):
    """Return the gradient of the mean of half the squared errors, by hand."""
    inputs = _product(weights[:place], x)
    error = _product(weights[place:], inputs) - y
    back = _product([w.T for w in weights[:place:-1]], error)
    return back @ inputs.T / x.shape[1]


def _measured(rng, moves_too):
    """Compare gradient_shift of a deep linear network with matrix products.

    In the products, layer i sees the steps of layers up to i - 1 + `moves_too`.
    """
    widths = rng.integers(2, 5, size=int(rng.integers(4, 7)))
    weights = [rng.standard_normal((b, a)) for a, b in pairwise(widths)]
    x = rng.standard_normal((widths[0], 12))
    y = rng.standard_normal((widths[-1], 12))
    before = [_linear_gradient(weights, i, x, y) for i in range(len(weights))]
    rate = 0.1 / np.sqrt(sum((g**2).sum() for g in before))
    moved = [w - rate * g for w, g in zip(weights, before)]
    expected = []
    for i in range(1, len(weights)):
        seen = moved[: i + moves_too] + weights[i + moves_too :]
        after = _linear_gradient(seen, i, x, y)
        lengths = np.linalg.norm(before[i]) * np.linalg.norm(after)
        cosine = (before[i] * after).sum() / lengths
        expected.append((np.linalg.norm(after - before[i]), cosine))
    network = nn.Sequential(
        *(nn.utils.skip_init(nn.Linear, *w.shape[::-1], bias=False) for w in weights)
    ).double()
    with torch.no_grad():
        for layer, weight in zip(network, weights):
            layer.weight.copy_(torch.from_numpy(weight))
    x, y = torch.from_numpy(x.T.copy()), torch.from_numpy(y.T.copy())
    loss = lambda n: (n(x) - y).square().sum(dim=1).mean() / 2  # noqa: E731
    shift = gradient_shift(network, loss, rate)
    found = np.stack([shift.distances, shift.cosines], axis=1)
    return Check(found, expected, "==", allowed=1e-9)


@chapter_claim(
    id="ics-measure",
    kind="definition",
    verdict="ambiguous",
    source="santurkar2018",
    statement=r"Let $G_i$ be the gradient of the batch's loss with respect to layer "
    r"$i$'s parameters, all layers as they are, and $G_i'$ the same with layers "
    r"$1,\dots,i-1$ after their step and layers $i,\dots,k$ before it. The shift of "
    r"layer $i\ge2$ in that step is the pair $\lVert G_i'-G_i\rVert$, "
    r"$\cos\angle(G_i,G_i')$.",
    printed="The shift is measured by the correlation between the gradients of a "
    "layer before and after all preceding layers are updated. (A small shift does make "
    "it close to 1, as the text says; the converse fails.)",
    printed_in="wikipedia-bn",
)
def ics_measure(rng):
    return _measured(rng, moves_too=0)


@ics_measure.control
def _(rng):
    return _measured(rng, moves_too=1)


@ics_measure.printed
def _():
    """Halve the gradient of one example, at a correlation of 1."""
    x, w = torch.tensor([[1.0, 2.0, -1.0]]), torch.tensor([[1.0, -1.0, 2.0]])
    network = nn.Sequential(
        nn.Linear(3, 3, bias=False), nn.Linear(3, 1, bias=False)
    ).double()
    x, w = x.double(), w.double()
    with torch.no_grad():
        network[0].weight.copy_(w.T @ x / 6)
        network[1].weight.copy_(w)
    loss = lambda n: n(x).square().sum() / 2  # noqa: E731
    shift = gradient_shift(network, loss, 1 / 144)
    assert abs(shift.cosines[0] - 1) < 1e-12
    return Check(shift.relative, 0.0, "==", allowed=0.1, scale=1.0)


def _small_step(rng, counted):
    """Compare distances over a small rate with products with second derivatives.

    ``counted(i, j)`` says whether layer j's step counts for layer i.
    """
    normed = bool(rng.integers(2))

    def between(width):
        norm = nn.BatchNorm1d(width, affine=False, dtype=torch.float64)
        return [norm, nn.Tanh()] if normed else [nn.Tanh()]

    network = _stack(rng, (3, 4, 4, 4, 2), between)
    x, y = _tensor(rng, 10, 3), _tensor(rng, 10, 2)
    loss = lambda n: (n(x) - y).square().mean()  # noqa: E731
    weights = [m.weight for m in network if isinstance(m, nn.Linear)]
    rate = 1e-6
    shift = gradient_shift(network, loss, rate, layers=[[w] for w in weights])
    gradients = torch.autograd.grad(loss(network), weights, create_graph=True)
    expected = []
    for i in range(1, len(weights)):
        inner = sum(
            (gradients[j] * gradients[j].detach()).sum()
            for j in range(len(weights))
            if j != i and counted(i, j)
        )
        # d/dW_i of <G_j, fixed G_j> is the mixed second derivative times G_j.
        (product,) = torch.autograd.grad(inner, weights[i], retain_graph=True)
        expected.append(product.norm().item())
    return Check(shift.distances / rate, expected, "==", allowed=1e-3)


@chapter_claim(
    id="ics-small-steps",
    kind="theorem",
    verdict="holds",
    source="book",
    statement="For a loss that is twice continuously differentiable, and steps of "
    r"gradient descent, $\lVert G_i'-G_i\rVert=\eta\,\lVert\sum_{j<i}\frac{\partial^2"
    r"\ell}{\partial W_i\partial W_j}G_j\rVert+o(\eta)$ as $\eta\to0$; and where "
    r"$G_i\neq0$, $1-\cos\angle(G_i,G_i')=O(\eta^2)$.",
)
def ics_small_steps(rng):
    return _small_step(rng, counted=lambda i, j: j < i)


@ics_small_steps.control
def _(rng):
    return _small_step(rng, counted=lambda i, j: True)
