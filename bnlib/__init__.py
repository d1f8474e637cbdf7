"""Batch normalization, proved and run.

The package behind the book: the transform and its gradients, statistics,
optimisers, and every claim of the book as a function that checks it.
Submodules load on first use.
"""

import lazy_loader

__version__ = "0.1.0"

# The names that `import bnlib` offers stand in __init__.pyi, where editors see them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
