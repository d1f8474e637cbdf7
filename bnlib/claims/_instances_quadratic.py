"""Least squares of a chosen spectrum, as chapter 08's claims take them."""

from typing import NamedTuple

import numpy as np
import torch


class Quadratic(NamedTuple):
    """A least squares problem given by u and S, with S's spectrum chosen."""

    u: np.ndarray
    S: np.ndarray
    mu: float
    L: float

    def norm(self, w):
        return np.sqrt(w @ self.S @ w)

    def rho(self, w):
        return -((self.u @ w) ** 2) / (w @ self.S @ w)

    def slope(self, w):
        """Return the gradient of rho by automatic differentiation."""
        w = torch.tensor(w, requires_grad=True)
        u, S = torch.from_numpy(self.u), torch.from_numpy(self.S)
        return torch.autograd.grad(-((u @ w) ** 2) / (w @ S @ w), w)[0].numpy()

    @property
    def least(self):
        return -self.u @ np.linalg.solve(self.S, self.u)


def random_quadratic(rng, d=None, condition=None):
    """Draw a problem with eigenvalues from 1 down to 1 over the condition number."""
    d = int(rng.integers(2, 12)) if d is None else d
    condition = 10 ** rng.uniform(0.3, 1.3) if condition is None else condition
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    between = rng.uniform(1 / condition, 1, d - 2)
    eigenvalues = np.concatenate([[1 / condition, 1], between]) * rng.uniform(0.5, 5)
    S = (basis * eigenvalues) @ basis.T
    S = (S + S.T) / 2
    return Quadratic(S @ rng.standard_normal(d), S, eigenvalues[0], eigenvalues[1])


def slowest(problem):
    """Return the slowest case: u lacks S's last eigenvector; a start along it."""
    last = np.linalg.eigh(problem.S)[1][:, 0]
    problem = problem._replace(u=problem.u - (problem.u @ last) * last)
    best = np.linalg.solve(problem.S, problem.u)
    return problem, best + 0.01 * problem.norm(best) / problem.norm(last) * last


def adaptive_step(problem, w):
    """Descend on rho with the step of the theorem; the gradient is autograd's."""
    rate = problem.norm(w) ** 2 / (2 * problem.L * abs(problem.rho(w)))
    return w - rate * problem.slope(w)
