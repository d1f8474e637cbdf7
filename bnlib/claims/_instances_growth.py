"""Jacobians of normalised layers, as chapter 07's claims take them."""

import numpy as np
import torch


def jacobians(rng, size):
    """Return the matrices that multiply a gradient in Gaussian batches; the activation.

    The matrices are P D over sigma, scaled to the fixed point of the activation.
    """
    draws = 16_000
    slope, bend, square = rng.uniform(0.5, 2, size=3)
    h = rng.standard_normal((draws, size))
    h -= h.mean(axis=1, keepdims=True)
    deviation = np.sqrt((h**2).mean(axis=1, keepdims=True))
    y, tanh = h / deviation, np.tanh(bend * h / deviation)
    values = slope * y + tanh + square * y**2
    slopes = slope + bend * (1 - tanh**2) + 2 * square * y
    difference = values.var(axis=1, ddof=1).mean()  # estimates q - c
    P = np.eye(size) - 1 / size - y[:, :, None] * y[:, None, :] / size
    found = P * (slopes / (np.sqrt(difference) * deviation))[:, None, :]
    return found, lambda x: slope * x + torch.tanh(bend * x) + square * x**2


def sampled_map(found):
    """Return T as a matrix on matrices read row by row, from those of `jacobians`."""
    size, flat = found.shape[1], found.reshape(len(found), -1)
    T = (flat.T @ flat / len(flat)).reshape((size,) * 4).transpose(0, 2, 1, 3)
    return T.reshape(size**2, size**2)
