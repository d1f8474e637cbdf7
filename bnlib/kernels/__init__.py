"""The backends of `bnlib.functional.batch_norm`, and what chooses between them.

=========  ================================================================
readable   `bnlib.transform` on tensors, in float64; any device, slow
native     torch's own, its faults guarded against
cpu        C, compiled on first use by the machine's compiler
triton     for GPUs, compiled by Triton
=========  ================================================================

"auto" is `cpu` for tensors on the CPU and `triton` for those on a CUDA device;
`native` where these are not to be had; and `readable` for what only it can do: tensors
without data and subclasses of torch's, and work inside `torch.func`, forward-mode
differentiation or a trace. The environment variable ``BNLIB_BACKEND`` names another
choice for "auto".
"""

import importlib
import os
import warnings

import torch

#: The names that ``backend`` takes, besides "auto".
BACKENDS = ("readable", "native", "cpu", "triton")

#: The types that a backend sees through; a subclass may be anything.
PLAIN = {torch.Tensor, torch.nn.Parameter}
_ALLOWED = {*PLAIN, type(None)}
_modules = {}
_warned = set()
# os.environ raises twice inside before it says that a name is not there, which is a
# tenth of the time that a small input takes.
_environment = getattr(os.environ, "_data", os.environ)
_OVERRIDE = getattr(os.environ, "encodekey", str)("BNLIB_BACKEND")


def refusal(backend, *tensors):
    """Say why a backend cannot take an input, if it cannot.

    Parameters
    ----------
    backend : str
        "readable", "native", "cpu" or "triton".
    *tensors : Tensors or None
        The input and, optionally, what goes with it.

    Returns
    -------
    str or None
        The reason, or None if it can. Asking about "cpu" compiles it, if that has
        not been done on this machine.

    Raises
    ------
    ValueError
        If there is no such backend.

    Examples
    --------
    >>> import torch
    >>> refusal("cpu", torch.ones(2, 3, device="meta"))
    'input is on meta and it takes tensors on the cpu'
    >>> refusal("native", torch.ones(2, 3)) is None
    True

    References
    ----------
    Chapter 05, "Kernels".
    """
    if backend not in BACKENDS:
        names = ", ".join(repr(name) for name in ("auto", *BACKENDS))
        raise ValueError(f"backend is {backend!r}: give one of {names}")
    if backend in ("readable", "native"):
        return None
    if _is_watched() or not _ALLOWED.issuperset(map(type, tensors)):
        return (
            "it sees no operations of torch, and so works on plain tensors alone, "
            "outside torch.func, forward-mode differentiation and traces"
        )
    return module(backend).refusal(tensors[0])


def module(backend):
    """Return the module that implements a backend.

    Parameters
    ----------
    backend : str
        "readable", "native", "cpu" or "triton".

    Returns
    -------
    module
        With `batch_norm`, or else with `refusal`, `forward` and `backward`.

    Examples
    --------
    >>> module("cpu").__name__
    'bnlib.kernels._cpu'
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
        One of `BACKENDS`. Where the fast backend of a device is not to be had, the
        first choice in a process warns and says why.

    Raises
    ------
    ValueError
        If there is no such backend, or if it cannot take the input.

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
        if _OVERRIDE in _environment:
            source, backend = "BNLIB_BACKEND", os.environ["BNLIB_BACKEND"]
        if backend in ("auto", ""):
            return _automatic(tensors)
    reason = refusal(backend, *tensors)
    if reason is not None:
        able = [name for name in BACKENDS if refusal(name, *tensors) is None]
        raise ValueError(
            f"{source} is {backend!r}, but {reason}; these can: {', '.join(able)}"
        )
    return backend


def _automatic(tensors):
    if _is_watched() or not _ALLOWED.issuperset(map(type, tensors)):
        return "readable"
    input = tensors[0]
    fast = "cpu" if input.is_cpu else "triton" if input.is_cuda else None
    if fast is None:
        return "readable" if input.is_meta else "native"
    reason = module(fast).refusal(input)
    if reason is not None:
        _warn(fast, reason)
        return "native"
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


def _is_watched():
    """Say whether somebody wants to see torch's operations."""
    return (
        torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
        or torch._C._is_tracing()
    )
