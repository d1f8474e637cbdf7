"""The backends of `bnlib.functional.batch_norm`, and the choice between them.

=========  ================================================================
readable   `bnlib.transform` on tensors, in float64; any device, slow
torch      PyTorch's own, its faults guarded against
c          C, compiled on first use by the machine's compiler; for the CPU
triton     for GPUs, compiled by Triton
=========  ================================================================

"auto" is `c` for tensors on the CPU and `triton` for those on a CUDA device. It is
`torch` if these are not available, and `readable` for what only `readable` can do:
tensors without data and subclasses of torch's, and work inside `torch.func`,
forward-mode differentiation or a trace. The environment variable ``BNLIB_BACKEND``
names another choice for "auto".

Each is a module ``_name.py`` of this package that follows the protocol `Backend`.
"""

import importlib
import os
import warnings

import torch

from bnlib._torch_internals import is_transformed
from bnlib.kernels._backend import Backend, Options
from bnlib.kernels._readable import gradients

__all__ = [
    "BACKENDS",
    "Backend",
    "Options",
    "choose",
    "gradients",
    "module",
    "refusal",
]

#: The names that ``backend`` takes, besides "auto".
BACKENDS = ("readable", "torch", "c", "triton")

#: The types that a backend sees through; a subclass may be anything.
_PLAIN = {torch.Tensor, torch.nn.Parameter, type(None)}
_SEES_NOTHING = (
    "it sees no operations of torch, and so works on plain tensors alone, outside "
    "torch.func, forward-mode differentiation and traces"
)
_modules: dict[str, Backend] = {}
_warned: set[str] = set()


def refusal(backend, *tensors):
    """Return why a backend cannot take an input, or None if it can.

    Parameters
    ----------
    backend : str
        "readable", "torch", "c" or "triton".
    *tensors : Tensors or None
        The input and, optionally, the tensors that go with it.

    Returns
    -------
    str or None
        The reason, or None if it can. Asking about "c" compiles it, if this machine
        has not compiled it yet.

    Raises
    ------
    ValueError
        If there is no such backend.

    Examples
    --------
    >>> import torch
    >>> refusal("c", torch.ones(2, 3, device="meta"))
    'input is on meta and it takes tensors on the cpu'
    >>> refusal("torch", torch.ones(2, 3)) is None
    True

    References
    ----------
    Chapter 05, "Kernels".
    """
    _check_name("backend", backend)
    chosen = module(backend)
    if chosen.backward is not None and _is_watched(tensors):
        return _SEES_NOTHING
    return chosen.refusal(tensors[0])


def module(backend):
    """Return the module that implements a backend.

    Parameters
    ----------
    backend : str
        "readable", "torch", "c" or "triton".

    Returns
    -------
    Backend

    Examples
    --------
    >>> module("c").__name__
    'bnlib.kernels._c'
    """
    if backend not in _modules:
        _modules[backend] = importlib.import_module(f"bnlib.kernels._{backend}")
    return _modules[backend]


def choose(backend, *tensors):
    """Return the name of the backend that an input goes to.

    Parameters
    ----------
    backend : str
        "auto" or a name.
    *tensors : Tensors or None
        The input and what goes with it.

    Returns
    -------
    str
        One of `BACKENDS`. If the fast backend of a device is not available, the first
        choice in a process warns and says why.

    Raises
    ------
    ValueError
        If there is no such backend, or it cannot take the input. If ``BNLIB_BACKEND``
        named it, the error says so.

    Examples
    --------
    >>> import torch
    >>> choose("auto", torch.ones(2, 3, device="meta"))
    'readable'

    References
    ----------
    Chapter 05, "Kernels".
    """
    source = "backend"
    if backend == "auto":
        source, backend = "BNLIB_BACKEND", os.environ.get("BNLIB_BACKEND") or "auto"
        if backend == "auto":
            return _automatic(tensors)
    _check_name(source, backend)
    reason = refusal(backend, *tensors)
    if reason is not None:
        able = [name for name in BACKENDS if refusal(name, *tensors) is None]
        raise ValueError(
            f"{source} is {backend!r}, but {reason}; these can: {', '.join(able)}"
        )
    return backend


def _check_name(source, backend):
    if backend not in BACKENDS:
        names = ", ".join(repr(name) for name in ("auto", *BACKENDS))
        raise ValueError(f"{source} is {backend!r}: give one of {names}")


def _automatic(tensors):
    if _is_watched(tensors):
        return "readable"
    input = tensors[0]
    fast = "c" if input.is_cpu else "triton" if input.is_cuda else None
    if fast is None:
        return "readable" if input.is_meta else "torch"
    reason = module(fast).refusal(input)
    if reason is not None:
        _warn(fast, reason)
        return "torch"
    return fast


def _warn(fast, reason):
    if fast not in _warned:
        _warned.add(fast)
        warnings.warn(
            f"batch_norm runs on torch's own kernel, since bnlib's {fast!r} backend "
            f"cannot be used: {reason}",
            RuntimeWarning,
            stacklevel=5,
        )


def _is_watched(tensors):
    """Return True if torch's operations on these tensors are being observed."""
    return (
        not _PLAIN.issuperset(map(type, tensors))
        or is_transformed()
        or torch.jit.is_tracing()
    )
