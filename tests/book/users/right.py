"""A user's script over the public interface: mypy finds no fault with it."""

import numpy as np
import torch
from torch import nn

import bnlib

# The transform.
x = np.random.default_rng(0).normal(5.0, 2.0, size=(64, 10))
y, cache = bnlib.batch_norm_forward(x, np.ones(10), np.zeros(10), eps=1e-5)
features: int = cache.mean.shape[0]
eps: float = cache.eps
dx, dgamma, dbeta = bnlib.batch_norm_backward(np.ones_like(y), cache)
steps = bnlib.batch_norm_backward_steps(np.ones_like(y), cache)
print(steps.dx_hat.shape, dx.shape, y.mean())
bnlib.batch_norm_inference(x, cache.mean, cache.var)
running = bnlib.RunningStatistics(10, momentum=None)
running.update(x)
print(running.mean.shape, bnlib.statistics.convert_momentum(0.9))
merged = bnlib.statistics.merge(x.mean(0)[None], x.var(0)[None], np.array([64]))
print(merged.mean, merged.var)

# Layers.
layer = bnlib.nn.BatchNorm1d(10, eps=1e-3, momentum=0.1, activation="relu")
out: torch.Tensor = layer(torch.zeros(4, 10))
images = bnlib.nn.BatchNorm2d(16, activation="relu")(torch.zeros(2, 16, 3, 3))
height: int = images.relu().shape[2]
bnlib.nn.SyncBatchNorm(10)(torch.zeros(4, 10)).sum()
masked = bnlib.nn.BatchNorm1d(10)(torch.zeros(4, 10), torch.ones(4) > 0)
model = nn.Sequential(nn.Linear(10, 10), layer)
converted: nn.Module = bnlib.nn.convert(nn.BatchNorm1d(3), to="bnlib")
fused: nn.Module = bnlib.fold(nn.Linear(3, 10), nn.BatchNorm1d(10).eval())
bnlib.recalibrate(model, [torch.zeros(4, 10)], method="sequential")
bnlib.functional.batch_norm(torch.zeros(4, 10), None, None, training=True)

# Claims.
claim = bnlib.claims.get("k-ols-rate")
check = claim.check(seed=0)
holds: bool = check.holds
error: float = check.error
statement: str = claim.statement
chapters = {each.chapter for each in bnlib.claims.all_claims(verdict="holds")}

# Problems and optimisers.
problem = bnlib.halfspaces.GaussianHalfspace(np.ones(3), 4 * np.eye(3), loss="logistic")
trace = bnlib.optim.gdnp(problem, np.ones(3), steps=10, step="line_search")
values: list[float] = list(trace.values)
iterations: int = trace.n_iter
reason: str = trace.stop_reason
finite = bnlib.halfspaces.FiniteHalfspace(-np.eye(3))
bnlib.optim.lbfgs(finite, np.ones(3), steps=5)
squares = bnlib.decoupling.LeastSquares(x, x[:, 0])
bnlib.optim.gradient_descent(squares, np.ones(10), steps=5, lr=0.1)
slope: float = problem.ray(np.ones(3)).slope(2.0)

# Data, records and theory.
digits = bnlib.data.load("digits")
labels: np.ndarray = digits.y_train
record = bnlib.experiments.load_record("digits-learning-rate")
accuracy: np.ndarray = record.array("accuracy")
growth: float = bnlib.meanfield.growth_factor("relu", batch_size=None)
margin: float = bnlib.implicit_bias.max_margin([[1.0, 2.0], [2.0, 1.0]]).margin
walls: tuple[float, float] = bnlib.landscape.Wells("flat").log_masses(0.1)
tree = bnlib.approximation.draw_tree(np.random.default_rng(0), depth=2)
values_at: np.ndarray = tree(np.zeros((1, tree.inputs)))
spectrum = bnlib.smoothness.extreme_eigenvalues(
    model, lambda m: m(torch.ones(4, 10)).sum()
)
largest: float = spectrum[1]
