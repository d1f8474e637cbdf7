"""What the transform's tests compare with: autograd of the definition, for NumPy."""

import numpy as np
import torch

from bnlib.conformance import reference

EPS = 1e-3


def tensor(array):
    """Return a float64 tensor with the values and a memory of its own."""
    return torch.tensor(np.array(array, dtype=np.float64))


def along(parameter, ndim):
    return parameter.reshape(-1, *(1,) * (ndim - 2))


def by_autograd(x, dy, gamma, beta, eps=EPS):
    """Return y, dx, dgamma and dbeta in float64, as NumPy arrays or None."""
    given = [None if a is None else tensor(a) for a in (x, dy, gamma, beta)]
    found = reference(*given, eps=eps)
    return [None if each is None else each.numpy() for each in found]


def assert_close(found, expected, allowed=1e-12):
    if expected is None:
        assert found is None
        return
    found = np.asarray(found, dtype=np.float64)
    assert found.shape == expected.shape
    largest = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=allowed * largest)


def case(shape, present=(True, True), seed=0):
    rng = np.random.default_rng([seed, *shape])
    x, dy = rng.standard_normal((2, *shape)) * 3 + 1
    gamma, beta = rng.standard_normal((2, shape[1]))
    return x, dy, *(a if p else None for a, p in zip((gamma, beta), present))
