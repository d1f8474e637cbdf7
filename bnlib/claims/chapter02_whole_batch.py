"""The claims of chapter 02: how the examples of a batch depend on each other."""

import functools
import itertools

import numpy as np
import torch

from bnlib.claims._instances_transform import normalise, random_batch
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.experiments import load_record
from bnlib.functional import batch_norm
from bnlib.transform import batch_norm_backward, batch_norm_forward

chapter_claim = functools.partial(claim, chapter="02-transform")


def _coupling(rng, formula):
    """Autograd's Jacobian of the transform, off the diagonal."""
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
    "output depends on its batch-mates.",
)
def bn_batch_coupling(rng):
    return _coupling(rng, lambda product: 1 + product)


@bn_batch_coupling.control
def _(rng):
    return _coupling(rng, lambda product: 1 - product)


def _pair_average(rng, expected):
    """Over the pairs of one batch, and over many draws of one pair."""
    x_hat = normalise(random_batch(rng))
    pairs = [a * b for a, b in itertools.combinations(x_hat, 2)]
    m, draws = int(rng.integers(3, 5)), 20_000
    drawn, _ = batch_norm_forward(rng.exponential(size=(m, draws)), eps=0.0)
    # Hoeffding: such a product lies in an interval of length m - 1; the bound is
    # passed with probability 1e-9.
    noise = (m - 1) * np.sqrt(np.log(2 / 1e-9) / (2 * draws))
    mean = (drawn[0] * drawn[1]).mean()
    return Check.worst(
        Check(np.mean(pairs), expected(x_hat.size), "==", allowed=1e-12),
        Check(mean, expected(m), "==", allowed=noise, scale=1.0),
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


def _mean_gradient(x, target, w, batches, with_bn):
    """The average over the batches of the gradient in w of the mean loss."""
    m = batches.shape[1]
    inputs, targets = x[batches], target[batches].T
    pre = (inputs @ w).T
    y, cache = batch_norm_forward(pre, eps=1e-5)
    y = y if with_bn else pre
    dy = 2 * (y - targets) / m
    dpre = batch_norm_backward(dy, cache)[0] if with_bn else dy
    return np.einsum("mk,kmd->kd", dpre, inputs).mean(axis=0)


def _gradient_bias(rng, with_bn):
    """How far the average over all batches of 4 of 8 is from the full gradient."""
    x, target = rng.standard_normal((8, 3)), rng.standard_normal(8)
    arguments = (x, target, rng.standard_normal(3))
    every = np.array(list(itertools.combinations(range(8), 4)))
    mean = _mean_gradient(*arguments, every, with_bn)
    full = _mean_gradient(*arguments, np.arange(8)[None], with_bn)
    return np.linalg.norm(mean - full) / np.linalg.norm(full)


@chapter_claim(
    id="bn-gradient-bias",
    kind="theorem",
    verdict="holds",
    source="book",
    statement="Without BN the average of the mini-batch gradients over all batches of "
    "a size is the gradient of the whole training set. With BN, at a size below the "
    "whole, there are data for which it is not.",
)
def bn_gradient_bias(rng):
    biased = Check(_gradient_bias(rng, with_bn=True), 1e-3, ">=", allowed=0.0)
    plain = _gradient_bias(rng, with_bn=False)
    return Check.worst(biased, Check(plain, 0.0, "==", allowed=1e-12, scale=1.0))


@bn_gradient_bias.control
def _(rng):
    plain = _gradient_bias(rng, with_bn=False)
    return Check(plain, 1e-3, ">=", allowed=0.0)


def _gain(factor):
    """The largest rate that trains with BN, against so many times that without."""
    with_bn, without = (_largest_rate(arm) for arm in ("batch_norm", "plain"))
    return Check(with_bn, factor * without, ">=", allowed=0.0)


def _largest_rate(arm, least=0.9):
    """The largest recorded rate at which the mean accuracy exceeds `least`."""
    record = load_record("digits-learning-rate")
    runs = record.array("accuracy")[record.parameters["arms"].index(arm)]
    return max(
        rate
        for rate, accuracies in zip(record.parameters["learning_rates"], runs)
        if accuracies.mean() > least
    )


@chapter_claim(
    id="bn-learning-rate",
    kind="empirical",
    verdict="empirical",
    source="ioffe2015",
    statement="On the digits, with three hidden layers of 64 units, the largest "
    "learning rate of the sweep at which the mean test accuracy is above 0.9 is more "
    "than four times as large with BN as without (recorded, five seeds).",
)
def bn_learning_rate(rng):
    return _gain(4)


@bn_learning_rate.control
def _(rng):
    return _gain(5)
