"""What the transform's tests compare with: the definition, and autograd of it."""

import numpy as np
import torch

EPS = 1e-3


def tensor(array):
    """Return a float64 tensor with the values and a memory of its own."""
    return torch.tensor(np.array(array, dtype=np.float64))


def along(parameter, ndim):
    return parameter.reshape(-1, *(1,) * (ndim - 2))


def definition(x, gamma=None, beta=None, eps=EPS, axes=None):
    """The transform written out in torch, for autograd; the independent side."""
    axes = axes or [axis for axis in range(x.ndim) if axis != 1]
    mean = x.mean(dim=axes, keepdim=True)
    var = ((x - mean) ** 2).mean(dim=axes, keepdim=True)
    y = (x - mean) / (var + eps) ** 0.5
    y = y if gamma is None else y * along(gamma, x.ndim)
    return y if beta is None else y + along(beta, x.ndim)


def by_autograd(x, dy, gamma, beta, eps=EPS):
    """Return y, dx, dgamma and dbeta in float64, as NumPy arrays or None."""
    given = [
        None if a is None else tensor(a).requires_grad_() for a in (x, gamma, beta)
    ]
    y = definition(*given, eps)
    leaves = [leaf for leaf in given if leaf is not None]
    found = iter(torch.autograd.grad(y, leaves, tensor(dy)))
    gradients = [None if leaf is None else next(found).numpy() for leaf in given]
    return y.detach().numpy(), *gradients


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
