"""Time GDNP against gradient descent and a textbook GDNP, in one interleaved run."""

import statistics
import time

import numpy as np
from scipy import sparse
from scipy.special import expit

import bnlib

STEPS = 100
METHODS = {
    "gradient descent": lambda problem, w: bnlib.optim.gradient_descent(
        problem, w, steps=STEPS
    ),
    "GDNP, Newton": lambda problem, w: bnlib.optim.gdnp(
        problem, w, steps=STEPS, length="newton"
    ),
    "GDNP, line search": lambda problem, w: bnlib.optim.gdnp(
        problem, w, steps=STEPS, length="newton", step="line_search"
    ),
    "GDNP, 40 bisections": lambda problem, w: bnlib.optim.gdnp(problem, w, steps=STEPS),
}
TEXTBOOK = "textbook GDNP"


def rows():
    """Return a9a's rows z = -(label) x and its name, or a stand-in of its size."""
    if "a9a" in bnlib.data.available():
        data = bnlib.data.load("a9a")
        return bnlib.halfspaces.halfspace_rows(data.x_train, data.y_train), "a9a"
    rng = np.random.default_rng(0)
    n, d, each = 32561, 123, 14
    columns = np.argsort(rng.random((n, d)), axis=1)[:, :each].ravel()
    x = sparse.csr_array(
        (np.ones(n * each), columns, each * np.arange(n + 1)), shape=(n, d)
    )
    labels = np.where(rng.random(n) < expit(x @ rng.normal(0, 0.7, d) - 1), 1.0, -1.0)
    return bnlib.halfspaces.halfspace_rows(x, labels), "rows drawn at a9a's size"


def textbook(Z, L, w, steps):
    """Take the steps as the algorithm states them: a product for each expectation."""

    def length(w):
        return np.sqrt(np.mean((Z @ w) ** 2))

    def slope(w, g):
        solution = g * w / length(w)
        return np.mean(expit(Z @ solution) * (Z @ w)) / length(w)

    g = -1.0
    for _ in range(steps):
        norm = length(w)
        t = Z @ (g * w / norm)
        first = expit(t)
        c1 = np.mean(first) - np.mean(t) * np.mean(first * (1 - first))
        mean = np.mean(Z @ w)
        gradient = Z.T @ first / len(t)
        across = Z.T @ (Z @ w) / len(t) * (w @ gradient) / norm**2
        w = w + norm**2 / (L * c1 * mean) * (gradient - across)
        low, high = -50.0, 50.0
        for _ in range(40):
            g = (low + high) / 2
            low, high = (g, high) if slope(w, g) < 0 else (low, g)
    return w, g


def rates(Z, rounds):
    """Return the median number of steps a second, by method."""
    problem = bnlib.halfspaces.FiniteHalfspace(Z)
    w = np.random.default_rng(0).standard_normal(problem.dim)
    methods = METHODS | {TEXTBOOK: lambda problem, w: textbook(Z, problem.L, w, 1)}
    found = {name: [] for name in methods}
    for _ in range(rounds + 1):
        for name, method in methods.items():
            start = time.perf_counter()
            method(problem, w)
            steps = 1 if name == TEXTBOOK else STEPS
            found[name].append(steps / (time.perf_counter() - start))
    # The first round warms up.
    return {name: statistics.median(rates[1:]) for name, rates in found.items()}


def report(rounds):
    """Print each method's rate, and its ratios to GD's and the textbook's."""
    Z, name = rows()
    print(f"logistic loss on {name}, {Z.shape[0]} x {Z.shape[1]}, float64,")
    print(f"the trace included; medians of {rounds} rounds\n")
    print(f"{'method':20} {'steps a second':>14} {'of GD':>8} {'of textbook':>12}")
    found = rates(Z, rounds)
    for method, rate in found.items():
        beside = rate / found["gradient descent"], rate / found[TEXTBOOK]
        print(f"{method:20} {rate:14.0f} {beside[0]:8.2f} {beside[1]:12.1f}")
    print(flush=True)
