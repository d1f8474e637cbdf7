"""What several test files share: shapes, random data, and how two sides compare."""

import itertools

import numpy as np
import pytest
import torch

import bnlib.nn

KINDS = pytest.mark.parametrize(
    "kind", [np.array, torch.tensor], ids=["numpy", "torch"]
)
SHAPES = [(2, 1), (3, 5), (7, 4, 3), (2, 3, 5, 5), (1, 2, 1, 3), (2, 3, 2, 2, 2)]
PRESENT = list(itertools.product([True, False], repeat=2))
torchs = torch.nn.functional.batch_norm


def regression(n=30, d=4, seed=0):
    """Return X (n, d), y (n,) and weights w (d,)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1)
    return X, rng.standard_normal(n), rng.standard_normal(d)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def buffers(count, seed=9, dtype=torch.float64):
    mean = randn(count, seed=seed)
    var = torch.rand(count, generator=generator(seed), dtype=torch.float64) + 0.5
    return mean.to(dtype), var.to(dtype)


def parameters(count, present, seed=5):
    made = randn(2, count, seed=seed)
    return [
        p.clone().requires_grad_() if here else None for p, here in zip(made, present)
    ]


def assert_same(found, expected, allowed=1e-12):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        largest = max(1.0, float(other.detach().abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(one, other, rtol=0, atol=allowed * largest)


def pair(kind, *arguments, dtype=torch.float64, **options):
    """Return bnlib's module and torch's, with the same random parameters."""
    name = kind.split(",")[0]
    ours, theirs = (
        getattr(package, name)(*(arguments or (3,)), dtype=dtype, **options)
        for package in (bnlib.nn, torch.nn)
    )
    with torch.no_grad():
        for number, parameter in enumerate(theirs.parameters()):
            parameter.copy_(randn(*parameter.shape, seed=40 + number))
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def snapshot(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def assert_unchanged(module, before):
    assert list(module.state_dict()) == list(before)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0, equal_nan=True)
