"""Gaussian data and losses of them, as chapters 09 to 11 take them."""

from typing import NamedTuple

import numpy as np
import torch

from bnlib.halfspaces import GaussianHalfspace
from bnlib.losses import Sigmoid

#: The losses in torch's own functions, by bnlib's names.
PHI = {
    "logistic": torch.nn.functional.softplus,
    "shifted_sigmoid": lambda t: torch.sigmoid(t - 1),
    "pseudo_huber": lambda t: torch.sqrt(1 + (1 + t) ** 2) - 1,
    "sigmoid": torch.sigmoid,
    "steepest_near_0": lambda t: torch.sigmoid(t - 0.3),
}
DRAWN = ("logistic", "shifted_sigmoid", "pseudo_huber")
#: The largest absolute first and second derivatives.
LIPSCHITZ = {"logistic": 1.0, "shifted_sigmoid": 0.25, "pseudo_huber": 1.0}
ZETA = {"logistic": 0.25, "shifted_sigmoid": 1 / (6 * 3**0.5), "pseudo_huber": 1.0}
for _bounds in (LIPSCHITZ, ZETA):
    _bounds["steepest_near_0"] = _bounds["shifted_sigmoid"]
# The trapezoidal rule: for smooth functions of a normal variable it converges
# faster than any power of the spacing.
NODES = torch.linspace(-10, 10, 1201, dtype=torch.float64)
WEIGHTS = torch.exp(-(NODES**2) / 2) / np.sqrt(2 * np.pi) * (NODES[1] - NODES[0])


class Gaussian(NamedTuple):
    """z ~ N(u, S - u u^T), differentiated by torch: Stein's lemma is not used."""

    u: torch.Tensor
    S: torch.Tensor
    loss: str
    mu: float
    L: float

    @property
    def ours(self):
        """bnlib's problem."""
        return GaussianHalfspace(self.u.numpy(), self.S.numpy(), loss_of(self))

    @property
    def best(self):
        """S^-1 u."""
        return torch.linalg.solve(self.S, self.u)

    @property
    def lambda_1(self):
        return float(self.u @ self.best)

    def norm(self, w):
        return torch.sqrt(w @ self.S @ w)

    def rho(self, w):
        return -((self.u @ w) ** 2) / (w @ self.S @ w)

    def value(self, w, covariance=None):
        """Return E phi(z.w), by the trapezoidal rule for the number z.w."""
        if covariance is None:
            covariance = self.S - torch.outer(self.u, self.u)
        t = self.u @ w + torch.sqrt(w @ covariance @ w) * NODES
        return WEIGHTS @ PHI[self.loss](t)

    def normalised(self, w, g):
        """Return f at the length g and the direction w."""
        spread = torch.sqrt(w @ self.S @ w - (self.u @ w) ** 2)
        t = g * (self.u @ w + spread * NODES) / self.norm(w)
        return WEIGHTS @ PHI[self.loss](t)


def loss_of(problem):
    """Return the problem's loss in the form that bnlib takes."""
    return Sigmoid(0.3) if problem.loss == "steepest_near_0" else problem.loss


def gradient(function, w):
    """Return the gradient by automatic differentiation."""
    leaf = w.clone().requires_grad_()
    return torch.autograd.grad(function(leaf), leaf)[0]


def random_gaussian(rng, losses=DRAWN, condition=None):
    """Draw a problem of three to ten dimensions."""
    d = int(rng.integers(3, 11))
    condition = 10 ** rng.uniform(0.2, 1.3) if condition is None else condition
    eigenvalues = np.concatenate(
        [[1 / condition, 1], rng.uniform(1 / condition, 1, d - 2)]
    )
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    S = (basis * (eigenvalues * rng.uniform(0.5, 3))) @ basis.T
    S = (S + S.T) / 2
    u = S @ rng.standard_normal(d)
    u *= np.sqrt(rng.uniform(0.1, 0.8) / (u @ np.linalg.solve(S, u)))
    mu, *_, L = np.linalg.eigvalsh(S)
    return Gaussian(
        torch.from_numpy(u), torch.from_numpy(S), str(rng.choice(losses)), mu, L
    )


def random_direction(rng, problem):
    """Draw a direction of any Euclidean length, and a length g of either sign."""
    w = torch.from_numpy(rng.standard_normal(len(problem.u)) * 10 ** rng.uniform(-1, 1))
    return w, float(rng.choice([-1, 1]) * rng.uniform(0.3, 2))


def dual_square(problem, a):
    """Return a.S^-1 a."""
    return float(a @ torch.linalg.solve(problem.S, a))


def expectations(problem, w):
    """Return E phi' and E phi'' at w, differentiated by torch point by point."""
    covariance = problem.S - torch.outer(problem.u, problem.u)
    t = problem.u @ w + torch.sqrt(w @ covariance @ w) * NODES
    t = t.detach().requires_grad_()
    phi = PHI[problem.loss](t).sum()
    (first,) = torch.autograd.grad(phi, t, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), t)
    return float(WEIGHTS @ first.detach()), float(WEIGHTS @ second)


def tightest_gaussian(problem):
    """Return the slowest neighbour with a c1 that is nearly Phi.

    If u is short, so is the best length, and phi' is nearly at its largest there.
    """
    problem, start = slowest_gaussian(problem._replace(loss="steepest_near_0"))
    return problem._replace(u=0.01 / np.sqrt(problem.lambda_1) * problem.u), start


def slowest_gaussian(problem):
    """Return a problem whose solution lacks S's last eigenvector; a start along it."""
    last = torch.linalg.eigh(problem.S)[1][:, 0]
    problem = problem._replace(u=problem.u - (problem.u @ last) * last)
    best = problem.best / problem.norm(problem.best)
    return problem, best + 0.01 * last / problem.norm(last)
