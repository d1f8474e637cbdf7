"""Approximation: composed functions, their surrogates, and the cost of accuracy.

Points lie in the cube [-1, 1]^n, and errors are sup norms unless said otherwise.
"""

from bnlib.approximation._counts import (
    fit_slope,
    interpolation_bound,
    level_counts,
    necklaces,
    polynomial_units,
    propagation_bound,
    shallow_parameters,
    tree_parameters,
)
from bnlib.approximation._interpolation import (
    Interpolant,
    interpolate,
    interpolate_tree,
)
from bnlib.approximation._networks import (
    Layer,
    TreeNetwork,
    fit,
    polynomial_layer,
)
from bnlib.approximation._trees import (
    Cosine,
    Tree,
    draw_constituent,
    draw_tree,
    draw_wave,
)

__all__ = [
    "Cosine",
    "Interpolant",
    "Layer",
    "Tree",
    "TreeNetwork",
    "draw_constituent",
    "draw_tree",
    "draw_wave",
    "fit",
    "fit_slope",
    "interpolate",
    "interpolate_tree",
    "interpolation_bound",
    "level_counts",
    "necklaces",
    "polynomial_layer",
    "polynomial_units",
    "propagation_bound",
    "shallow_parameters",
    "tree_parameters",
]
