"""Labelled networks and the gradients of their lengths and directions, by autograd."""

import numpy as np
import torch

from bnlib.claims._instances_margins import network, random_inputs, random_layers
from bnlib.implicit_bias import (
    layer_directions,
    layer_lengths,
    relu_net,
    relu_net_gradients,
)


def labelled_network(rng):
    """Draw a network whose layers have norms away from 1, examples, and labels."""
    x = random_inputs(rng).numpy()
    units = layer_directions([W.numpy() for W in random_layers(rng, x.shape[1])])
    wanted = 1.5 ** rng.permutation(np.arange(1, len(units) + 1) - 1.5)
    layers = [length * V for length, V in zip(wanted, units, strict=True)]
    return layers, x, rng.choice([-1.0, 1.0], len(x))


def our_gradients(layers, x, y):
    """Return the gradient of the exponential loss in each layer, by bnlib."""
    upstream = -y * np.exp(-y * relu_net(layers, x))
    return relu_net_gradients(layers, x, upstream)


def slopes_of(parts, x, y, compose):
    """Return autograd's gradient of the loss in the parts that make the layers."""
    leaves = [torch.from_numpy(np.array(part)).requires_grad_() for part in parts]
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    loss = torch.exp(-y * network(compose(leaves), x)).sum()
    return [slope.numpy() for slope in torch.autograd.grad(loss, leaves)]


def _halves(parts):
    return zip(parts[: len(parts) // 2], parts[len(parts) // 2 :], strict=True)


def products(leaves):
    """Compose layers of lengths and directions that are free."""
    return [length * V for length, V in _halves(leaves)]


def quotients(leaves):
    """Compose layers by weight normalization, dividing each direction by its norm."""
    return [length * V / torch.linalg.vector_norm(V) for length, V in _halves(leaves)]


def flat(arrays):
    """Return the entries of all arrays in one vector."""
    return np.concatenate([np.ravel(array) for array in arrays])


def lengths_and_directions(layers):
    """Return the layers' Frobenius norms, and the layers divided by them."""
    return layer_lengths(layers), layer_directions(layers)
