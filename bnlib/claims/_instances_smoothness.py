"""Layers at a batch under a loss, as chapter 06's claims take them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from bnlib._reference import definition
from bnlib.transform import Cache, batch_norm_forward


class Layer(NamedTuple):
    """A layer of units at a batch, and a loss of its outputs.

    ``delta`` and ``dx`` are autograd's gradients of ``loss`` with respect to the
    outputs ``y`` and of ``composed`` with respect to the inputs ``x``; averages run
    over ``axes``. Arrays are NumPy's; the two functions take and return tensors.
    """

    x: np.ndarray
    gamma: np.ndarray
    beta: np.ndarray
    eps: float
    axes: tuple
    loss: Callable
    composed: Callable
    cache: Cache
    y: np.ndarray
    delta: np.ndarray
    dx: np.ndarray

    @property
    def count(self):
        """The values of a unit."""
        return self.x.size // self.x.shape[1]

    @property
    def eps_share(self):
        """eps / (var + eps), one number a unit."""
        return self.eps * self.cache.inv_std**2

    def inner(self, a, b):
        """Return inner products over the batch, one a unit."""
        return (a * b).sum(axis=self.axes)


def smooth_loss(rng, size):
    """Draw a loss that mixes all values of an array; it is neither convex nor even."""
    mix = torch.from_numpy(rng.standard_normal((size, size)) / np.sqrt(size))
    targets = torch.from_numpy(rng.standard_normal(size))

    def loss(y):
        flat = y.reshape(-1)
        return torch.tanh(mix @ flat - targets).square().sum() + torch.sin(flat).sum()

    return loss


def gradient(function, at):
    """Return autograd's gradient of a scalar function, as a NumPy array."""
    at = torch.from_numpy(at).requires_grad_()
    return torch.autograd.grad(function(at), at)[0].numpy()


def layer_at(x, gamma, beta, eps, loss):
    """Put a loss behind batch normalization of x, and differentiate it."""
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    scale, shift = torch.from_numpy(gamma), torch.from_numpy(beta)

    def composed(given):
        return loss(definition(given, scale, shift, eps=eps))

    y, cache = batch_norm_forward(x, gamma, beta, eps)
    gradients = gradient(loss, y), gradient(composed, x)
    return Layer(x, gamma, beta, eps, axes, loss, composed, cache, y, *gradients)


def random_layer(rng, shape=None, eps_share=0.0):
    """Draw a layer of vectors, sequences or images; eps as a share of a variance."""
    if shape is None:
        units = int(rng.integers(1, 4))
        shapes = [(int(rng.integers(4, 20)), units), (3, units, 4), (2, units, 3, 2)]
        shape = shapes[rng.integers(3)]
    kept = (1, shape[1], *(1 for _ in shape[2:]))
    spread, place = 10 ** rng.uniform(-1, 1, kept), rng.uniform(-5, 5, kept)
    x = spread * rng.standard_normal(shape) + place
    gamma = rng.choice([-1, 1], shape[1]) * rng.uniform(0.3, 3, shape[1])
    eps = eps_share * float(spread.max()) ** 2
    beta = rng.standard_normal(shape[1])
    return layer_at(x, gamma, beta, eps, smooth_loss(rng, x.size))


def random_share(rng):
    """Draw a share of eps: zero, or one that is felt."""
    return rng.choice([0.0, 10 ** rng.uniform(-2, 1)])


def small_layer(loss, gamma=1.0, spread=1.0):
    """Return a unit with five values and nothing random, for counterexamples."""
    x = spread * np.array([[-2.0], [-1.0], [0.0], [1.0], [4.0]])
    return layer_at(x, np.array([gamma]), np.zeros(1), 0.0, loss)


def weighted_square(centre, power=2):
    """Return a convex loss, least at the centre and steeper for later examples."""
    weights = torch.arange(1.0, 6.0, dtype=torch.float64)[:, None]
    centre = torch.as_tensor(centre, dtype=torch.float64)
    return lambda y: (weights * (y - centre) ** power).sum()
