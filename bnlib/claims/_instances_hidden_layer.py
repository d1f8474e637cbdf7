"""One hidden layer over a Gaussian, as chapter 10's claims take it."""

from typing import NamedTuple

import numpy as np
import torch

from bnlib.claims._instances_gaussian import PHI, Gaussian, loss_of, random_gaussian
from bnlib.networks import OneHiddenLayer

ACTIVATIONS = {"tanh": torch.tanh, "erf": torch.erf}
CONVEX = ("logistic", "pseudo_huber")


def grid(count, dimensions=2, reach=8.5):
    """Return nodes (n, dimensions) and weights of the trapezoidal rule for normal x."""
    x = torch.linspace(-reach, reach, count, dtype=torch.float64)
    density = torch.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    nodes = torch.cartesian_prod(*dimensions * [x])
    return nodes, torch.cartesian_prod(*dimensions * [density]).prod(dim=1)


NODES, WEIGHTS = grid(121)


class Layer(NamedTuple):
    """A hidden layer over a Gaussian, differentiated by torch alone."""

    gaussian: Gaussian
    theta: torch.Tensor
    activation: str

    @property
    def ours(self):
        """bnlib's problem."""
        u, S = self.gaussian.u.numpy(), self.gaussian.S.numpy()
        return OneHiddenLayer(
            u, S, self.theta.numpy(), self.activation, loss_of(self.gaussian)
        )

    def output(self, t):
        """Return F where the units' inputs are t, shape (n, m)."""
        return ACTIVATIONS[self.activation](t) @ self.theta

    def inputs(self, pair):
        """Return nodes of pair.z, shape (n, 2), for two vectors as the rows of pair."""
        u, S = self.gaussian.u, self.gaussian.S
        covariance = pair @ (S - torch.outer(u, u)) @ pair.T
        if covariance.requires_grad:
            root = torch.linalg.cholesky(covariance)
        else:  # parallel vectors too, which Cholesky's factors do not take
            values, vectors = torch.linalg.eigh(covariance)
            root = vectors * values.clamp(min=0).sqrt()
        return pair @ u + NODES @ root.T

    def value(self, W):
        """Return f of two units that are not parallel."""
        return WEIGHTS @ PHI[self.gaussian.loss](self.output(self.inputs(W)))

    def value_of_unit(self, w, index, others):
        """Return f with unit ``index`` at w and the others at others[j] S^-1 u."""
        pair = self.inputs(torch.stack([self.gaussian.best, w]))
        t = pair[:, :1] * others
        t = torch.cat([t[:, :index], pair[:, 1:], t[:, index + 1 :]], dim=1)
        return WEIGHTS @ PHI[self.gaussian.loss](self.output(t))


def coefficients(layer, t, weights, W, bend=True):
    """Return alpha and beta from nodes t, with torch's derivatives point by point."""
    t = t.detach().requires_grad_()
    output = layer.output(t).detach().requires_grad_()
    hidden = ACTIVATIONS[layer.activation](t)
    (slope,) = torch.autograd.grad(hidden.sum(), t, create_graph=True)
    (curve,) = torch.autograd.grad(slope.sum(), t)
    loss = PHI[layer.gaussian.loss](output).sum()
    (first,) = torch.autograd.grad(loss, output, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), output)
    first, slope = first.detach(), slope.detach()
    beta = layer.theta * (slope.T @ ((weights * second)[:, None] * slope))
    if bend:
        beta = beta + torch.diag((weights * first) @ curve)
    return (weights * first) @ slope - beta @ (W @ layer.gaussian.u), beta


def random_layer(rng, m=2, **options):
    """Draw a layer whose output weights have sizes from 0.5 to 1.5."""
    sizes = rng.choice([-1, 1], m) * rng.uniform(0.5, 1.5, m)
    gaussian = random_gaussian(rng, **options)
    return Layer(gaussian, torch.from_numpy(sizes), str(rng.choice(list(ACTIVATIONS))))


def random_unit(rng, gaussian):
    """Draw weights with a length from 0.3 to 1 in the metric of S."""
    w = torch.from_numpy(rng.standard_normal(len(gaussian.u)))
    return w * rng.uniform(0.3, 1) / gaussian.norm(w)


def critical_point(layer, near):
    """Return the critical point that Newton's method finds."""
    W = near.numpy().astype(float)
    for _ in range(30):
        step = np.linalg.solve(
            layer.ours.hessian(W), layer.ours.gradient(W).ravel()
        ).reshape(W.shape)
        W = W - step
        if np.abs(step).max() < 1e-13:
            break
    return torch.from_numpy(W)


def plain_layer(lambda_1, theta, loss="logistic"):
    """Return the tanh layer with S = I and u = (lambda_1^(1/2), 0)."""
    u = torch.tensor([np.sqrt(lambda_1), 0.0], dtype=torch.float64)
    identity = torch.eye(2, dtype=torch.float64)
    theta = torch.tensor(theta, dtype=torch.float64)
    return Layer(Gaussian(u, identity, loss, 1.0, 1.0), theta, "tanh")


def elsewhere(rng, layer, W):
    """Return the problem and W in other coordinates, of more dimensions."""
    d = int(rng.integers(2, 6))
    mix = torch.from_numpy(rng.standard_normal((d, d)) + 2 * np.eye(d))
    S = mix.T @ mix
    mu, *_, L = torch.linalg.eigvalsh(S).tolist()
    u = layer.gaussian.u @ mix[:2]
    gaussian = Gaussian(u, (S + S.T) / 2, layer.gaussian.loss, mu, L)
    return layer._replace(gaussian=gaussian), W @ torch.linalg.inv(mix).T[:2]


#: Near the off-line minima: lambda_1, theta and the weights for S = I.
OFF_LINE = (
    (0.36, (2.0, 2.0), ((-0.5166, 0.0577), (-0.5166, -0.0577))),
    (0.64, (0.5, 3.0), ((-1.7877, 0.3828), (-1.6227, -0.0577))),
)


def off_line(case):
    """Return an off-line minimum, with S = I."""
    lambda_1, theta, near = OFF_LINE[case]
    layer = plain_layer(lambda_1, theta)
    return layer, critical_point(layer, torch.tensor(near, dtype=torch.float64))


def lengths_on_line(rng, layer, index):
    """Draw coefficients c_j of S^-1 u for the other units; row ``index`` is 0."""
    m = len(layer.theta)
    others = rng.uniform(-0.7, 0.7, m) / np.sqrt(layer.gaussian.lambda_1)
    others[rng.random(m) < 0.3] = 0
    others[index] = 0
    return torch.from_numpy(others)
