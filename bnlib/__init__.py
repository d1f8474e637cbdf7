"""Batch normalization, proved and run.

The package behind the book: the transform and its gradients, statistics,
optimisers, and every claim of the book as a function that checks it.
Submodules load on first use.
"""

import importlib
import pkgutil
from importlib.metadata import version

_EXPORTS = {
    "batch_norm_forward": "transform",
    "batch_norm_backward": "transform",
    "batch_norm_backward_steps": "transform",
    "batch_norm_inference": "transform",
    "RunningStatistics": "statistics",
    "fold": "folding",
    "recalibrate": "recalibration",
}
_SUBMODULES = sorted(
    module.name
    for module in pkgutil.iter_modules(__path__)
    if not module.name.startswith("_")
)

__all__ = [*_EXPORTS, *_SUBMODULES]


def __getattr__(name):
    # A clone that is not installed has no version, and its tools run all the same.
    if name == "__version__":
        return version("bnlib")
    if name in _EXPORTS:
        return getattr(importlib.import_module(f"bnlib.{_EXPORTS[name]}"), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"bnlib.{name}")
    raise AttributeError(f"module 'bnlib' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
