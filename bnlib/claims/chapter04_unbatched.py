"""The claims of chapter 04: what a layer with stored statistics is, and becomes."""

import copy
import functools
import itertools

import numpy as np
import torch
from torch import nn

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.folding import fold
from bnlib.statistics import merge
from bnlib.transform import batch_norm_inference

chapter_claim = functools.partial(claim, chapter="04-inference")


def tensor(rng, *shape):
    """Draw standard normal numbers, in float64."""
    return torch.from_numpy(rng.standard_normal(shape))


def stored(rng, layer):
    """Put a BN layer in eval mode, with random statistics and parameters; return it."""
    count = layer.num_features
    layer.running_mean.copy_(2 * tensor(rng, count))
    layer.running_var.copy_(torch.from_numpy(rng.uniform(0.1, 4, count)))
    with torch.no_grad():
        layer.weight.copy_(tensor(rng, count))
        layer.bias.copy_(tensor(rng, count))
    return layer.eval()


def slope_and_shift(bn):
    """Return a and b of a BN layer's map in eval mode, y = a x + b, by feature."""
    a = bn.weight / torch.sqrt(bn.running_var + bn.eps)
    return a.detach(), (bn.bias - a * bn.running_mean).detach()


def _combination(rng, excess):
    """Compare BN of s x + t x' with s BN(x) + t BN(x'), where s + t = 1 + excess."""
    bn = stored(rng, nn.BatchNorm1d(3, dtype=torch.float64))
    x, other = tensor(rng, 1, 3), tensor(rng, 1, 3)
    s = rng.uniform(-2, 2)
    t = 1 + excess - s
    return Check(bn(s * x + t * other), s * bn(x) + t * bn(other), "==", 1e-12)


@chapter_claim(
    id="inf-linear",
    kind="theorem",
    verdict="ambiguous",
    source="ioffe2015",
    statement=r"With stored statistics BN is the affine map $y=ax+b$ with "
    r"$a=\gamma/\sqrt{\mathrm{Var}[x]+\epsilon}$ and $b=\beta-a\,\mathbb E[x]$. It is "
    r"linear only if $b=0$.",
    printed="The procedure “is essentially applying a linear transform to the "
    "activation”. Many say linear and mean affine, and mean this rightly.",
    printed_in="wikipedia-bn",
)
def inf_linear(rng):
    bn, x = stored(rng, nn.BatchNorm1d(3, dtype=torch.float64)), tensor(rng, 1, 3)
    a, b = slope_and_shift(bn)
    affine = Check(bn(x), a * x + b, "==", allowed=1e-12)
    return Check.worst(affine, _combination(rng, excess=0))


@inf_linear.control
def _(rng):
    return _combination(rng, excess=rng.uniform(0.5, 2))


@inf_linear.printed
def _():
    x, other = np.array([[1.0]]), np.array([[2.0]])
    mean, var = np.array([1.0]), np.array([4.0])
    y, y_other, y_sum = (
        batch_norm_inference(v, mean, var) for v in (x, other, x + other)
    )
    return Check(y_sum, y + y_other, "==", allowed=0.01)


def _two_laws(rng, wider):
    """Compare inference from normal batches with that from batches of two values."""
    normal = rng.standard_normal((50, 8)) * rng.uniform(0.5, 3) + rng.normal()
    # One value is far and rare, the other near and frequent: same mean and variance.
    share = rng.uniform(0.1, 0.5)
    far, near = np.sqrt((1 - share) / share), -np.sqrt(share / (1 - share))
    two = normal.mean() + wider * normal.std() * np.array([far, near])
    of_normal = merge(normal.mean(axis=1), normal.var(axis=1), [8] * 50)
    of_two = merge(two, np.zeros(2), [share, 1 - share])
    x, gamma = rng.standard_normal((9, 1)) * 3, rng.uniform(0.5, 2, 1)
    sides = (
        batch_norm_inference(x, s.mean[None], s.var[None], gamma)
        for s in (of_normal, of_two)
    )
    return Check(*sides, "==", allowed=1e-12)


@chapter_claim(
    id="inf-complete",
    kind="theorem",
    verdict="ambiguous",
    source="book",
    statement="Two laws of batches with the same pooled mean and variance give the "
    "same inference transform, whatever else differs between them. Mean and variance "
    "do not determine the law of the batches.",
    printed="“The population statistics thus is a complete representation of the "
    "mini-batches.” True of the inference transform; what fails is to take the law of "
    "the batches to be determined by them.",
    printed_in="wikipedia-bn",
)
def inf_complete(rng):
    return _two_laws(rng, wider=1.0)


@inf_complete.control
def _(rng):
    return _two_laws(rng, wider=1.1)


@inf_complete.printed
def _():
    # Both distributions have mean 0 and variance 1; how often are two values equal?
    equal = [
        np.mean([a == b for a, b in itertools.product(law, repeat=2)])
        for law in ([-1.0, 1.0], [-2.0, 0, 0, 0, 0, 0, 0, 2.0])
    ]
    return Check(*equal, "==", allowed=0.01)


CONVOLUTIONS = {1: (nn.Conv1d, nn.BatchNorm1d), 2: (nn.Conv2d, nn.BatchNorm2d)}


def _layer_and_bn(rng, axes):
    """Draw a layer of 2 to 4 features, its BN, and an input for them."""
    inputs, features = (int(n) for n in rng.integers(1, 3, size=2) * 2)
    if axes == 0:
        layer = nn.Linear(inputs, features, dtype=torch.float64)
        bn = nn.BatchNorm1d(features, dtype=torch.float64)
    else:
        convolution, norm = CONVOLUTIONS[axes]
        layer = convolution(
            inputs,
            features,
            kernel_size=int(rng.integers(1, 4)),
            stride=int(rng.integers(1, 3)),
            padding=int(rng.integers(0, 3)),
            padding_mode=str(rng.choice(["zeros", "reflect", "circular"])),
            groups=int(rng.integers(1, 3)),
            dtype=torch.float64,
        )
        bn = norm(features, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(tensor(rng, *layer.weight.shape))
        layer.bias.copy_(tensor(rng, features))
        stored(rng, bn).weight[0] = 0  # some features are switched off
    return layer, bn, tensor(rng, 2, inputs, *[7] * axes)


def _folded(rng, fold):
    """Compare one layer with the two it replaces: linear, and two convolutions."""
    checks = []
    for axes in range(3):
        layer, bn, x = _layer_and_bn(rng, axes)
        checks.append(Check(fold(layer, bn)(x), bn(layer(x)), "==", allowed=1e-12))
    return Check.worst(*checks)


def _bias_not_scaled(layer, bn):
    a, b = slope_and_shift(bn)
    layer = copy.deepcopy(layer)
    with torch.no_grad():
        layer.weight.mul_(a.reshape(-1, *[1] * (layer.weight.ndim - 1)))
        layer.bias.add_(b)
    return layer


@chapter_claim(
    id="fold",
    kind="theorem",
    verdict="holds",
    source="jacob2018",
    statement=r"A linear layer or convolution with weight $W$ and bias $c$, whose "
    "output goes to a BN with stored statistics, one of each for each of the layer's "
    "output features, and nowhere else, makes with it the same layer with weight "
    r"$W'=\mathrm{diag}(a)W$ and bias $c'=a\odot c+b$; for every stride, group, sign "
    r"of $\gamma$ and kind of padding.",
)
def fold_preceding(rng):
    return _folded(rng, fold)


@fold_preceding.control
def _(rng):
    return _folded(rng, _bias_not_scaled)


def outside(size, kernel, padding):
    """Return which taps lie in the padding, at each position of a square map."""
    place = np.arange(size + 2 * padding - kernel + 1)[:, None] - padding
    tap = place + np.arange(kernel)
    out = (tap < 0) | (tap >= size)
    return out[:, None, :, None] | out[None, :, None, :]


def _fold_following(rng, missed):
    """Check BN folded into the convolution, or linear layer, that follows it."""
    channels, kernel, padding = 2, 3, int(rng.integers(1, 3))
    bn = stored(rng, nn.BatchNorm2d(channels, dtype=torch.float64))
    a, b = slope_and_shift(bn)
    weight, bias = tensor(rng, 3, channels, kernel, kernel), tensor(rng, 3)
    x = tensor(rng, 1, channels, 6, 6)
    taps = np.einsum("ocij,c->oij", weight.numpy(), b.numpy())
    merged = bias + torch.from_numpy(taps.sum(axis=(1, 2)))
    expected = np.einsum("yxij,oij->oyx", outside(6, kernel, padding), taps)
    flat, matrix = tensor(rng, 5, channels), weight[:, :, 0, 0]
    linear = flat @ (matrix * a).T + bias + matrix @ b
    checks = [Check(linear, (a * flat + b) @ matrix.T + bias, "==", allowed=1e-11)]
    for mode, miss in (("constant", missed * expected), ("circular", 0 * expected)):
        folded, true = (
            nn.functional.conv2d(nn.functional.pad(v, [padding] * 4, mode), w, c)
            for v, w, c in (
                (x, weight * a[:, None, None], merged),
                (bn(x), weight, bias),
            )
        )
        natural = float(true.detach().abs().max())
        checks.append(Check((folded - true)[0], miss, "==", 1e-12, scale=natural))
    return Check.worst(*checks)


@chapter_claim(
    id="fold-following",
    kind="theorem",
    verdict="holds",
    source="book",
    statement=r"BN folded into the layer after it, $W'=W\,\mathrm{diag}(a)$ and "
    r"$c'=c+\sum_kW_kb$ over the taps $k$, is exact for a linear layer, and for "
    "a convolution whose padding, if any, copies inputs (circular, reflecting, "
    "replicating). With zero padding it exceeds the true output by "
    r"$\sum_kW_kb$ over the taps that lie in the padding.",
)
def fold_following(rng):
    return _fold_following(rng, missed=1)


@fold_following.control
def _(rng):
    return _fold_following(rng, missed=0)
