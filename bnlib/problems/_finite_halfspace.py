"""The problem over data, dense or sparse."""

import math
from typing import Any

import array_api_compat as compat
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from bnlib import _arrays, _checks
from bnlib._arrays import Array
from bnlib.problems._checks import zeta_of
from bnlib.problems._losses import resolve_loss
from bnlib.problems._ray import Moments, RayProblem

# Up to this dimension S is formed: a product with it costs less than with the data.
_SMALL = 1000
_BLOCK = 8192


class FiniteHalfspace(RayProblem):
    """The problem f(w) = mean(phi(Z w)), over the rows of Z.

    A ray keeps ``Z w``: a step costs one product with Z, a gradient one with its
    transpose, everything else O(n). S = Z^T Z / n may be singular. It is formed at
    once for d up to 1000, or if it is no larger than the data; otherwise on first use.

    Parameters
    ----------
    Z : array or scipy.sparse matrix, shape (n, d), any real floating dtype
        Rows ``z_i = -(label_i) x_i``. Z is converted to float64 and CSR if it is in
        another form; otherwise it is not copied, so do not change it afterwards.
    loss : str or object
        A name from `bnlib.losses.LOSSES`, or an object with methods value, d1 and
        d2 on arrays of Z's library.

    Attributes
    ----------
    dim : int
        d.
    u : array, shape (d,)
        The mean row.
    S : array, shape (d, d)
        The second moment; 8 d^2 bytes.
    mu, L : float
        The smallest and the largest eigenvalue of S; mu is computed on use.
    lambda_1 : float
        u.S^+ u, at most 1; computed on use.
    loss : object
    gradient_lipschitz : float
        ``loss.zeta * L``, if the loss has zeta.

    Raises
    ------
    TypeError, ValueError
        If Z is no matrix of floats, is empty or zero, has values that are not finite
        or squares that overflow, or the loss is unknown, lacks a method, or has a
        wrong derivative.

    Examples
    --------
    >>> import numpy as np
    >>> problem = FiniteHalfspace(np.array([[1.0, 0.0], [0.0, -2.0]]))
    >>> round(problem.value(np.zeros(2)), 6), problem.gradient(np.zeros(2)).tolist()
    (0.693147, [0.25, -0.5])

    References
    ----------
    Kohler et al. 2019, section 4.3; chapter 09, "Learning halfspaces".
    """

    def __init__(self, Z: Any, loss: Any = "logistic"):
        self._Z = _matrix(Z)
        # Keep the transpose: a sparse one takes a dozen microseconds to make.
        self._transposed = self._Z.T
        self._n, self.dim = self._Z.shape
        dense = not sparse.issparse(self._Z)
        size = self._n * self.dim if dense else self._Z.nnz
        self._xp = compat.array_namespace(self._Z) if dense else np
        like = {"device": compat.device(self._Z)} if dense else {}
        # A product with the vector of ones is faster than sum().
        self._ones = self._xp.ones(self._n, dtype=self._Z.dtype, **like)  # (n,)
        with _arrays.silently():
            self.u = self._back(self._ones)  # (d,)
        self.loss = resolve_loss(loss, self._ones)
        self._S = None
        self._eigenvalues = None
        if self.dim <= _SMALL or self.dim**2 <= size:
            self._S = self.S
        self.L = self._largest()
        if not 0 < self.L < math.inf:
            raise ValueError(
                "Z is zero: every w has the same value"
                if self.L == 0
                else "Z is too large: Z.T @ Z overflows"
            )

    @property
    def S(self) -> Array:
        """The second moment Z^T Z / n, shape (d, d)."""
        if self._S is None:
            with _arrays.silently():
                product = self._transposed @ self._Z
            dense = product.toarray() if sparse.issparse(product) else product
            self._S = dense / self._n
        return self._S

    @property
    def mu(self) -> float:
        """The smallest eigenvalue of S; 0, without computing, if d is above n."""
        return 0.0 if self.dim > self._n else max(float(self._spectrum()[0]), 0.0)

    @property
    def lambda_1(self) -> float:
        """u.S^+ u: the mean square of the best fit of the constant 1 by Z."""
        eigenvalues, vectors = self._xp.linalg.eigh(self.S)
        kept = eigenvalues > self.dim * np.finfo(float).eps * self.L
        return float(((self.u @ vectors)[kept] ** 2 / eigenvalues[kept]).sum())

    @property
    def gradient_lipschitz(self) -> float:
        """A Lipschitz constant of the gradient."""
        return zeta_of(self.loss) * self.L

    def _spectrum(self):
        if self._eigenvalues is None:
            self._eigenvalues = self._xp.linalg.eigvalsh(self.S)
        return self._eigenvalues

    def _largest(self):
        if self._S is not None:
            if not bool(self._xp.all(self._xp.isfinite(self._S))):
                return math.inf
            return float(self._spectrum()[-1])
        return _lanczos(self._forward, self._back, self._n, self.u)

    def _forward(self, w):
        return self._Z @ w  # (n,)

    def _back(self, residuals):
        return self._transposed @ residuals / self._n  # (d,)

    def _ray(self, w):
        return _FiniteRay(self, w, self._forward(w))


class _FiniteRay:
    """f along a ray, from m = Z w."""

    def __init__(self, problem, w, m):
        self._problem = problem
        self.w, self._m = w, m
        square, self.uw = _host(m @ m, problem.u @ w)
        self.norm = math.sqrt(square / len(m))
        if not 1e-280 < square < 1e280:
            self.norm = _scaled_norm(m)
        self._moments = self._first = self._Sw = None

    @property
    def Sw(self):
        if self._Sw is None:
            S = self._problem._S
            self._Sw = self._problem._back(self._m) if S is None else S @ self.w
        return self._Sw

    def value(self, scale=1.0):
        loss, ones = self._problem.loss, self._problem._ones
        parts = (
            ones[block] @ loss.value(scale * self._m[block]) for block in self._blocks()
        )
        return float(sum(parts)) / len(self._m)

    def slope(self, scale=1.0):
        return float(self._m @ self._d1(scale)) / len(self._m)

    def moments(self, scale=1.0):
        if self._moments is None or self._moments[0] != scale:
            self._moments = scale, self._measure(scale)
        return self._moments[1]

    def _measure(self, scale):
        loss, n = self._problem.loss, len(self._m)
        both = getattr(loss, "d1_d2", lambda t: (loss.d1(t), loss.d2(t)))
        firsts = self._problem._xp.empty_like(self._m)  # (n,)
        sums = 4 * [0]
        for block in self._blocks():
            m, ones = self._m[block], self._problem._ones[block]
            first, second = both(scale * m)
            firsts[block] = first
            parts = m @ first, m @ (second * m), ones @ first, ones @ second
            sums = [old + part for old, part in zip(sums, parts)]
        self._first = scale, firsts
        slope, curvature, mean1, mean2 = (total / n for total in _host(*sums))
        return Moments(slope, curvature, mean1 - scale * self.uw * mean2, mean2)

    def gradient(self, scale=1.0):
        return self._problem._back(self._d1(scale))

    def along(self, other, scale=1.0):
        return float(other._m @ self._d1(scale)) / len(self._m)

    def inner(self, other):
        return float(self._m @ other._m) / len(self._m)

    def minus(self, step, other):
        w, m = self.w - step * other.w, self._m - step * other._m
        return _FiniteRay(self._problem, w, m)

    def separates(self, scale=1.0):
        """Return True if f falls for ever beyond scale w: w separates the rows."""
        xp, margins = self._problem._xp, scale * self._m
        low, high = _host(xp.min(margins), xp.max(margins))
        strictly = getattr(self._problem.loss, "strictly_increasing", False)
        return strictly and low < 0 and high <= 0

    def _d1(self, scale):
        if self._first is None or self._first[0] != scale:
            firsts = self._problem._xp.empty_like(self._m)
            for block in self._blocks():
                firsts[block] = self._problem.loss.d1(scale * self._m[block])
            self._first = scale, firsts
        return self._first[1]

    def _blocks(self):
        """Return slices that cover the rows; a single one for torch.

        NumPy's allocator does not keep large arrays: to allocate one costs more than to
        fill it. Blocks of rows stay small enough to be kept.
        """
        n = len(self._m)
        size = n if compat.is_torch_array(self._m) else _BLOCK
        return [slice(start, start + size) for start in range(0, n, size)]


def _host(*scalars):
    """Return the scalars as floats, in one transfer if they lie on a device."""
    if compat.is_torch_array(scalars[0]):
        xp = compat.array_namespace(scalars[0])
        return xp.stack(scalars).tolist()
    return tuple(float(scalar) for scalar in scalars)


def _to_numpy(array):
    """Return the array as a NumPy array."""
    return np.asarray(array.cpu() if compat.is_torch_array(array) else array)


def _scaled_norm(m):
    """Return the root mean square of m, without overflow or underflow."""
    xp = compat.array_namespace(m)
    largest = float(xp.max(xp.abs(m)))
    if largest == 0 or not math.isfinite(largest):
        return largest
    scaled = m / largest
    return largest * math.sqrt(float(scaled @ scaled) / len(m))


def _matrix(Z):
    """Return Z in float64, as CSR if it is sparse; raise unless it is valid."""
    if sparse.issparse(Z):
        if np.dtype(Z.dtype).kind != "f":
            raise TypeError(
                f"Z has dtype {Z.dtype}: give a real floating dtype such as float64"
            )
        if Z.ndim == 2:
            Z = sparse.csr_array(Z, dtype=np.float64)
            values = Z.data
    else:
        _arrays.check_arrays(Z=Z)
        Z = values = _arrays.double(Z)
    if Z.ndim != 2 or 0 in Z.shape:
        raise ValueError(
            f"Z has shape {tuple(Z.shape)}: give (n, d), neither n nor d being 0"
        )
    _checks.check_finite("Z", values)
    return Z


def _lanczos(forward, back, n, u):
    """Return the largest eigenvalue of w -> back(forward(w)), for large d."""
    xp = compat.array_namespace(u)

    def times(w):
        with _arrays.silently():
            product = back(forward(xp.asarray(w.ravel(), device=compat.device(u))))
        return _to_numpy(product)

    d = len(u)
    operator = LinearOperator((d, d), matvec=times, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(d)
    if not np.isfinite(times(start)).all():
        return math.inf
    if not times(start).any():
        return 0.0
    return float(eigsh(operator, k=1, v0=start, return_eigenvectors=False)[0])
