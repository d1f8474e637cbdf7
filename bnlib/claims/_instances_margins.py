"""Networks without biases and separable data, as chapters 11 and 12 take them."""

import numpy as np
import torch

from bnlib._extras import extra
from bnlib.implicit_bias import (
    gaussian_weights,
)


def random_layers(rng, inputs, depth=None):
    """Draw the matrices of a network with one output.

    No hidden layer is narrow, or all its units might be off.
    """
    depth = int(rng.integers(2, 5)) if depth is None else depth
    widths = [inputs, *rng.integers(6, 11, depth - 1), 1]
    return [torch.from_numpy(W) for W in gaussian_weights(widths, rng)]


def network(layers, x, bias=0.0):
    """Return the outputs for the rows of x: ReLU layers, then a linear one."""
    first, *rest = layers
    x = x @ first.T + bias
    for layer in rest:
        x = torch.relu(x) @ layer.T
    return x[:, 0]


def random_inputs(rng, count=6):
    """Draw standard normal examples of three to five features."""
    return torch.from_numpy(rng.standard_normal((count, int(rng.integers(3, 6)))))


def separable_rows(rng, d=None):
    """Draw twelve y_n x_n with a margin of at least 0.3."""
    d = int(rng.integers(2, 5)) if d is None else d
    true = rng.standard_normal(d)
    true /= np.linalg.norm(true)
    rows = rng.standard_normal((12, d))
    along = rows @ true
    return rows + np.outer(np.abs(along) + 0.3 - along, true)


def hard_margin(rows):
    """Return the largest margin and its direction, by scikit-learn.

    Both the rows and their negatives are fitted, so the classifier has no offset.
    """
    with extra("data"):
        from sklearn.svm import SVC

    model = SVC(kernel="linear", C=1e10, tol=1e-10)
    model.fit(np.vstack([rows, -rows]), np.repeat([1, -1], len(rows)))
    w = model.coef_[0]
    return 1 / np.linalg.norm(w), w / np.linalg.norm(w)
