"""Losses of a normalised layer's weights, as chapters 03 and 15 take them."""

import torch


def random_loss(rng, m):
    """Draw a smooth loss of a unit's m outputs that mixes all of them."""
    mix, target = torch.from_numpy(rng.standard_normal((2, m, m)))
    return lambda y: torch.tanh(mix @ y - target[0]).square().sum() + torch.sin(y).sum()


def normalise(x, eps):
    """Return mean, variance and normalised values, by the definition in torch."""
    mean = x.mean()
    var = ((x - mean) ** 2).mean()
    return mean, var, (x - mean) / torch.sqrt(var + eps)
