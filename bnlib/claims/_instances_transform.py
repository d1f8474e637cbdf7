"""Batches of one unit, and their normalisation by the definition."""

from bnlib.transform import batch_norm_forward


def random_batch(rng, m=None):
    """Draw one unit's values over a batch, with a random mean and spread."""
    m = int(rng.integers(3, 40)) if m is None else m
    return rng.uniform(0.1, 10) * rng.standard_normal(m) + rng.uniform(-20, 20)


def normalise(x, eps=0.0):
    """Return the transform of one unit."""
    return batch_norm_forward(x, eps=eps, axes=0)[0]
