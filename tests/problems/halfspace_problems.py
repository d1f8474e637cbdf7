"""Random halfspace problems, and expectations by SciPy's adaptive quadrature."""

from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.integrate import quad

from bnlib.halfspaces import FiniteHalfspace, GaussianHalfspace

RATE_LOSSES = ("logistic", "shifted_sigmoid", "pseudo_huber")
FORMATS = {
    "dense": np.array,
    "csr": sparse.csr_array,
    "csc": sparse.csc_matrix,
    "coo": sparse.coo_array,
}


def moments_of(rng, d, condition=10.0, lambda_1=0.5):
    """Return u and S with this condition number of S and this u.S^-1 u."""
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    S = basis * np.geomspace(1, condition, d) @ basis.T
    S = (S + S.T) / 2
    u = rng.standard_normal(d)
    return u * np.sqrt(lambda_1 / (u @ np.linalg.solve(S, u))), S


def gaussian(seed=0, d=5, loss="logistic", **moments):
    """Return a random problem and a start."""
    rng = np.random.default_rng(seed)
    problem = GaussianHalfspace(*moments_of(rng, d, **moments), loss)
    return problem, rng.standard_normal(d)


def rows(seed=0, n=60, d=4, shift=0.5):
    """Return data Z that no w separates, and a start."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, d)) * np.arange(1, d + 1) - shift
    return Z, rng.standard_normal(d)


def finite(kind=np.array, loss="logistic", **options):
    Z, w = rows(**options)
    return FiniteHalfspace(kind(Z), loss), w


def expectation(function, mean, spread, breaks):
    """Return E function(t), t ~ N(mean, spread^2), by quad between breakpoints."""

    def integrand(x):
        return function(np.array([mean + spread * x]))[0] * np.exp(-0.5 * x * x)

    near = np.concatenate([b + np.array([-30, -8, -2, 0, 2, 8, 30.0]) for b in breaks])
    inner = (near - mean) / spread
    points = np.unique([-12, -6, -3, -1, 0, 1, 3, 6, 12, *inner[abs(inner) < 12]])
    parts = [
        quad(integrand, low, high, epsabs=0, epsrel=1e-12, limit=200)[0]
        for low, high in pairwise(points)
    ]
    return sum(parts) / np.sqrt(2 * np.pi)


def slope_of(function, x, step):
    """Return the central difference, of fourth order."""
    near = function(x + step) - function(x - step)
    far = function(x + 2 * step) - function(x - 2 * step)
    return (8 * near - far) / (12 * step)
