"""Activations by name or as a function: their values and slopes, with checks."""

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from bnlib import _checks

#: A name, or a function of a tensor that acts on each of its values.
Activation = str | Callable[[torch.Tensor], torch.Tensor]

NAMED = {
    "identity": lambda x: x,
    "relu": torch.relu,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "softplus": functional.softplus,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def as_function(activation):
    """Return the torch function of that name, or the function itself."""
    if callable(activation):
        return activation
    if not isinstance(activation, str):
        raise TypeError(f"activation is {activation!r}: give a name or a function")
    if activation not in NAMED:
        raise ValueError(
            f"no activation {activation!r}: give a function of a tensor, or one of "
            f"{', '.join(NAMED)}"
        )
    return NAMED[activation]


def checked(activation, batch_size):
    """Check both; return the activation as a function and the batch size (or None)."""
    function = as_function(activation)
    if batch_size is None:
        return function, None
    _checks.check_integer("batch_size", batch_size, -np.inf)
    reasons = {
        1: "one value has no variance",
        2: "two normalised values are -1 and 1, and no gradient gets through",
        3: "the mean of 1 / variance over three Gaussian values diverges, and with "
        "it the growth",
    }
    if batch_size < 4:
        reason = reasons.get(int(batch_size), "there is no such batch")
        raise ValueError(f"batch_size is {batch_size}: {reason}; give at least 4")
    return function, int(batch_size)


def values_and_slopes(function, y):
    """Return the function and its derivative at y, as float64 NumPy arrays."""
    x = torch.from_numpy(np.array(y, dtype=np.float64)).requires_grad_()
    with torch.enable_grad():
        values = applied(function, x)
        slopes = torch.zeros_like(x)
        if values.requires_grad:
            (slopes,) = torch.autograd.grad(values.sum(), x)
    found = values.detach().numpy(), slopes.numpy()
    for what, each in zip(("value", "derivative"), found):
        bad = ~np.isfinite(each)
        if bad.any():
            raise ValueError(
                f"the activation's {what} at {y[bad][0]:.4g} is {each[bad][0]}: give "
                "one that is finite on the numbers that reach it"
            )
    return found


def check_elementwise(function, y):
    """Raise if the value at a number depends on the other numbers, or on chance."""
    x = torch.from_numpy(np.array(y, dtype=np.float64)).requires_grad_()
    together = applied(function, x)[::2]
    alone = applied(function, x[::2])
    if not torch.allclose(together, alone, rtol=1e-9, atol=1e-12, equal_nan=True):
        raise ValueError(
            "the activation's value at a number depends on the other numbers, or on "
            "the call: give one that acts on each number alone"
        )


def applied(function, x):
    """Apply the function to a tensor; raise unless it keeps shape and dtype."""
    try:
        values = function(x)
    except RuntimeError as error:
        if "requires grad" not in str(error):
            raise
        raise TypeError(
            f"the activation does not take a tensor that autograd follows ({error}): "
            "write it in torch's operations"
        ) from None
    if not isinstance(values, torch.Tensor):
        raise TypeError(
            f"the activation returned {type(values).__name__}: write it in torch's "
            "operations, so that it returns a tensor"
        )
    if values.shape != x.shape or values.dtype != x.dtype:
        raise ValueError(
            f"the activation returned shape {tuple(values.shape)} and {values.dtype} "
            f"for shape {tuple(x.shape)} and {x.dtype}: give one that keeps both"
        )
    return values
