"""The claims of chapter 02: how the examples of a batch depend on each other."""

import functools
import itertools

import numpy as np
import torch

from bnlib.claims._instances_transform import normalise, random_batch
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.data import load
from bnlib.experiments import load_record
from bnlib.functional import batch_norm
from bnlib.networks import accuracy, mlp, train_classifier
from bnlib.transform import batch_norm_backward, batch_norm_forward

chapter_claim = functools.partial(claim, chapter="02-transform")


def _coupling(rng, formula):
    """Compare autograd's Jacobian of the transform off its diagonal with a formula."""
    x, eps, gamma = (
        torch.from_numpy(random_batch(rng)),
        10 ** rng.uniform(-6, 0),
        rng.normal(),
    )
    scale = torch.tensor([gamma], dtype=torch.float64)

    def transform(values):
        return batch_norm(values[:, None], None, None, scale, None, True, eps=eps)[:, 0]

    jacobian = torch.autograd.functional.jacobian(transform, x).numpy()
    x = x.numpy()
    x_hat = (x - x.mean()) / np.sqrt(x.var() + eps)
    factor = -gamma / (x.size * np.sqrt(x.var() + eps))
    off = ~np.eye(x.size, dtype=bool)
    expected = factor * formula(np.outer(x_hat, x_hat))
    return Check(jacobian[off], expected[off], "==", allowed=1e-10)


@chapter_claim(
    id="bn-batch-coupling",
    kind="theorem",
    verdict="holds",
    source="ioffe2015",
    statement=r"For $j\ne i$: $\partial y_i/\partial x_j="
    r"-\frac{\gamma}{m\sqrt{\sigma^2+\epsilon}}(1+\hat x_i\hat x_j)$. An example's "
    "output depends on the other examples in the batch.",
)
def bn_batch_coupling(rng):
    return _coupling(rng, lambda product: 1 + product)


@bn_batch_coupling.control
def _(rng):
    return _coupling(rng, lambda product: 1 - product)


def _pair_average(rng, expected):
    """Average over the pairs of one batch, and one pair over all draws of m of 6."""
    x_hat = normalise(random_batch(rng))
    pairs = [a * b for a, b in itertools.combinations(x_hat, 2)]
    values, m = rng.exponential(size=6), int(rng.integers(3, 5))
    draws = np.array(list(itertools.permutations(values, m))).T
    drawn, _ = batch_norm_forward(draws, eps=0.0)
    correlation = np.corrcoef(drawn[0], drawn[1])[0, 1]
    return Check.worst(
        Check(np.mean(pairs), expected(x_hat.size), "==", allowed=1e-12),
        Check(correlation, expected(m), "==", allowed=1e-12),
    )


@chapter_claim(
    id="bn-pair-correlation",
    kind="theorem",
    verdict="holds",
    source="book",
    statement=r"At $\epsilon=0$ the average of $\hat x_i\hat x_j$ over the pairs "
    r"$i<j$ of any batch is $-\frac1{m-1}$; for exchangeable values that is the "
    "correlation of each pair.",
)
def bn_pair_correlation(rng):
    return _pair_average(rng, lambda m: -1 / (m - 1))


@bn_pair_correlation.control
def _(rng):
    return _pair_average(rng, lambda m: -1 / m)


def _plain_bias(rng):
    """Compare the average over all batches of 4 of 8 with the full gradient: no BN."""
    x, target, w = (rng.standard_normal(shape) for shape in ((8, 3), 8, 3))
    every = np.array(list(itertools.combinations(range(8), 4)))
    mean, full = (
        (2 * (x[rows] @ w - target[rows])[..., None] * x[rows]).mean(axis=(0, 1))
        for rows in (every, np.arange(8)[None])
    )
    return Check(mean, full, "==", allowed=1e-12)


def _scale_bias(rng, of_size):
    """Compare gamma's bias over all batches of 1, 0, ..., 0 with a formula."""
    eps, found, expected = 10 ** rng.uniform(-5, 0), [], []
    for n in range(3, 7):
        values = np.eye(n)[0]
        mean = {}
        for m in range(2, n + 1):
            batches = values[np.array(list(itertools.combinations(range(n), m)))].T
            y, cache = batch_norm_forward(batches, np.ones(batches.shape[1]), eps=eps)
            # The gradient of half the mean square of y.
            mean[m] = batch_norm_backward(y / m, cache)[1].mean()
        found += [mean[m] - mean[n] for m in range(2, n)]
        expected += [(of_size(m, eps) - of_size(n, eps)) / n for m in range(2, n)]
    return Check(found, expected, "==", allowed=1e-12)


@chapter_claim(
    id="bn-gradient-bias",
    kind="theorem",
    verdict="holds",
    source="book",
    statement="Without BN the average of the mini-batch gradients over all batches of "
    "a size is the gradient of the whole training set. With BN and "
    r"$\epsilon>0$, for every $n$ and every size $m$, $2\le m<n$, there are $n$ "
    r"examples for which it is not: for the values $1,0,\dots,0$ and the loss "
    r"$\frac12y^2$ at $\gamma=1$, $\beta=0$ the bias in $\gamma$ is "
    r"$(\varphi(m)-\varphi(n))/n<0$ with "
    r"$1/\varphi(m)=\frac1m+\epsilon\frac m{m-1}$.",
)
def bn_gradient_bias(rng):
    biased = _scale_bias(rng, lambda m, eps: 1 / (1 / m + eps * m / (m - 1)))
    return Check.worst(biased, _plain_bias(rng))


@bn_gradient_bias.control
def _(rng):
    return _scale_bias(rng, lambda m, eps: 1 / (1 / m + eps))


def _gain(factor):
    """Compare the largest rate that trains with BN with a multiple of that without."""
    with_bn, without = (_largest_rate(arm) for arm in ("batch_norm", "plain"))
    return Check(with_bn, factor * without, ">=", allowed=0.0)


def _largest_rate(arm, least=0.9):
    """Return the largest recorded rate at which the mean accuracy exceeds `least`."""
    record = load_record("digits-learning-rate")
    runs = record.array("accuracy")[record.parameters["arms"].index(arm)]
    return max(
        rate
        for rate, accuracies in zip(record.parameters["learning_rates"], runs)
        if accuracies.mean() > least
    )


def _accuracy_live(seed, batch_norm):
    """Return test accuracy after one epoch at rate 1, too high for a plain network."""
    digits, generator = load("digits"), torch.Generator().manual_seed(seed)
    kind = {"batch_norm": batch_norm, "dtype": torch.float64}
    network = mlp((64, 64, 64, 64, 10), **kind, generator=generator)
    x_train, x_test = (
        torch.from_numpy(x / 16) for x in (digits.x_train, digits.x_test)
    )
    y_train, y_test = map(torch.from_numpy, (digits.y_train, digits.y_test))
    rates = {"learning_rate": 1.0, "epochs": 1, "batch_size": 32}
    train_classifier(network, x_train, y_train, **rates, generator=generator)
    return accuracy(network, x_test, y_test)


@chapter_claim(
    id="bn-learning-rate",
    kind="empirical",
    verdict="empirical",
    source="ioffe2015",
    statement="On the digits, with three hidden layers of 64 units, the largest "
    "learning rate of the sweep at which the mean test accuracy is above 0.9 is more "
    "than four times as large with BN as without (recorded, five seeds; the sweep's "
    "own steps are factors of 2.15). From a start of its own at each check, one epoch "
    "at rate 1 brings the network above 0.7 with BN and leaves it below 0.5 without.",
)
def bn_learning_rate(rng):
    seed = int(rng.integers(2**31))
    with_bn, without = (
        _accuracy_live(seed, batch_norm) for batch_norm in (True, False)
    )
    return Check.worst(
        _gain(4),
        Check(with_bn, 0.7, ">=", allowed=0.0),
        Check(without, 0.5, "<=", allowed=0.0),
    )


@bn_learning_rate.control
def _(rng):
    return _gain(5)
