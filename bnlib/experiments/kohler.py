"""Length and direction apart: least squares, and halfspaces with other methods."""

import time
from functools import partial

import numpy as np

from bnlib import _checks, optim
from bnlib.decoupling import LeastSquares
from bnlib.experiments._registry import experiment
from bnlib.halfspaces import FiniteHalfspace, GaussianHalfspace, halfspace_rows

# If the bound is smaller than this, a gap consists of rounding errors.
_ROUNDING = 1e-12


def kept_steps(steps, points):
    """Return the steps at which a record keeps a curve: 0, then at equal ratios.

    Parameters
    ----------
    steps : int
        The last step.
    points : int
        The largest number of steps; small steps that would come twice come once.

    Returns
    -------
    numpy.ndarray of int

    Raises
    ------
    TypeError, ValueError
        If steps is no whole number of at least 0, or points of at least 2.

    Examples
    --------
    >>> kept_steps(steps=100, points=6).tolist()
    [0, 2, 5, 15, 39, 100]
    """
    _checks.check_integer("steps", steps, 0)
    _checks.check_integer("points", points, 2)
    return np.unique(np.geomspace(1, steps + 1, points).round().astype(int)) - 1


def _significant(number, digits=3):
    """Return the number to ``digits`` significant digits; None if it is not finite."""
    return float(f"{number:.{digits}g}") if np.isfinite(number) else None


def _curve(values, kept):
    """Return a trace's values at the kept steps; after its end, the last value."""
    return [_significant(values[step]) for step in np.minimum(kept, len(values) - 1)]


def _root(rng, dimension, condition):
    """Draw a root of S: random eigenvectors, eigenvalues at equal ratios up to 1."""
    _checks.check_integer("dimension", dimension, 2)
    if not condition > 1:
        raise ValueError(f"condition is {condition}: give a number above 1")
    basis = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    return basis * np.sqrt(np.geomspace(1 / condition, 1, dimension))


# Least squares.


def _shares(problem, trace):
    """Return each gap of the loss as a share of the first gap, without cancellation.

    ``f(w) - least`` is the squared length of w minus the minimiser, which keeps the
    digits that the difference of two values would lose.
    """
    lengths = np.sqrt(np.einsum("ti,ij,tj->t", trace.w, problem.S, trace.w))
    offsets = trace.w * (trace.g / lengths)[:, None] - problem.best
    gaps = np.einsum("ti,ij,tj->t", offsets, problem.S, offsets)
    return gaps / gaps[0]


def _both_descents(problem, rng, steps, points):
    """Descend from one random start, with and without BN; compare with the bound."""
    _checks.check_integer("steps", steps, 1)
    kept = kept_steps(steps, points)
    start = rng.standard_normal(problem.dim)
    log_factor = 2 * np.log1p(-problem.mu / problem.L)
    found = {}
    for name, method in (
        ("bn", optim.rayleigh_descent),
        ("gd", optim.gradient_descent),
    ):
        shares = _shares(problem, method(problem, start, steps=steps, tol=1e-13))
        bound = np.exp(log_factor * np.arange(len(shares)))
        relevant = (bound > _ROUNDING).nonzero()[0][1:]
        over = (shares[relevant] / bound[relevant]).max()
        found[f"{name}_shares"] = _curve(shares, kept)
        found[f"{name}_over_bound"] = _significant(over, digits=6)
    return found


@experiment(
    id="kohler-least-squares",
    title="Least squares: what is left of the gap, with BN and without, and the bound",
    chapter="08-length-direction",
    source="kohler2019",
    sweep={"condition": "conditions", "seed": "seeds"},
    threads=1,
    live={
        "conditions": [10.0, 100.0],
        "seeds": [0, 1, 2],
        "dimension": 20,
        "steps": 500,
        "points": 30,
    },
    paper={
        "conditions": [10.0, 100.0, 1000.0, 10000.0],
        "seeds": list(range(10)),
        "dimension": 20,
        "steps": 50_000,
        "points": 50,
    },
)
def least_squares(context, condition, dimension, steps, points):
    """Descend on one random problem from one random start.

    The target is linear, because noise would only add a constant. BN takes the best
    length and the step of the linear rate, GD the step 1/(2L). The gap of the loss is
    given as a share of the gap at the method's first iterate; `over_bound` is the
    largest quotient of this share and (1 - mu/L)^(2t) after a step.
    """
    rng = np.random.default_rng(context.seed_sequence)
    X = np.sqrt(dimension) * _root(rng, dimension, condition).T
    problem = LeastSquares(X, X @ rng.standard_normal(dimension))
    return _both_descents(problem, rng, steps, points)


@experiment(
    id="kohler-power-plant",
    title="Least squares on the power plant: with BN and without, and the bound",
    chapter="08-length-direction",
    source="kohler2019",
    sweep={"seed": "seeds"},
    data=("power_plant",),
    threads=1,
    live={"seeds": [0, 1, 2], "steps": 500, "points": 30},
    paper={"seeds": list(range(10)), "steps": 1000, "points": 50},
)
def power_plant(context, steps, points):
    """Descend on all 9568 rows, standardised, from one random start.

    This is `least_squares` with the condition number of the data.
    """
    data = context.datasets["power_plant"]
    x, y = np.vstack([data.x_train, data.x_test]), np.r_[data.y_train, data.y_test]
    # The mean of y would only add a constant: the columns of x have mean 0.
    problem = LeastSquares((x - x.mean(axis=0)) / x.std(axis=0), y)
    rng = np.random.default_rng(context.seed_sequence)
    found = _both_descents(problem, rng, steps, points)
    return {"condition": _significant(problem.L / problem.mu, digits=6)} | found


# Halfspaces.

#: The methods of the halfspace records, in the order of their curves.
METHODS = ("gd", "agd", "bn", "bn_large_g", "wn", "gdnp", "gdnp_search", "lbfgs")


TIMED = ("seconds", "cpu_share")


def _bn_large_g(problem, start, *, lr, steps):
    """Ten times the step on g."""
    return optim.bn_gradient_descent(problem, start, lr=lr, lr_g=10 * lr, steps=steps)


# The methods of the first group are given a step; the others find their steps.
_TUNED = {
    "gd": optim.gradient_descent,
    "agd": optim.accelerated_gradient,
    "bn": optim.bn_gradient_descent,
    "bn_large_g": _bn_large_g,
    "wn": optim.wn_gradient_descent,
}
_OWN = {
    "gdnp": partial(optim.gdnp, length="newton"),
    "gdnp_search": partial(optim.gdnp, length="newton", step="line_search"),
    "lbfgs": partial(optim.lbfgs, tol=1e-10),
}


def _compare(problem, start, steps, trial_steps, factors, reference_steps, points):
    """Run every method from one start; return their curves, one list per method.

    A method that is given its step tries each factor times 1/(Lipschitz constant), and
    continues with the factor of the lowest loss at the end of the trial. The floor is
    the lowest loss of all methods, including L-BFGS with many steps. `lengths` are
    those of the last iterates, in the norm of S.
    """
    kept = kept_steps(steps, points)
    begun = time.perf_counter(), time.process_time()
    none = [None] * len(factors)
    traces, chosen, trials = [], [], []
    for name in METHODS:
        factor, ends = None, none
        method = _OWN.get(name)
        if method is None:
            factor, ends = _try(_TUNED[name], problem, start, trial_steps, factors)
            method = partial(_TUNED[name], lr=_step(problem, factor))
        traces.append(method(problem, start, steps=steps))
        chosen.append(factor)
        trials.append(ends)
    wall, cpu = time.perf_counter() - begun[0], time.process_time() - begun[1]
    reference = optim.lbfgs(problem, start, steps=reference_steps, tol=1e-10)
    floor = min(np.nanmin(trace.values) for trace in (*traces, reference))
    return {
        "floor": float(floor),
        "gaps": [_curve(trace.values - floor, kept) for trace in traces],
        "grad_norms": [_curve(trace.grad_norms, kept) for trace in traces],
        "seconds": [_curve(trace.seconds, kept) for trace in traces],
        "stops": [trace.stop_reason for trace in traces],
        "ended": [trace.n_iter for trace in traces],
        "lengths": [_significant(abs(float(trace.g[-1]))) for trace in traces],
        "chosen": chosen,
        "trials": trials,
        # If it is below 1, other work on the machine has lengthened the seconds.
        "cpu_share": _significant(cpu / wall),
    }


def _try(method, problem, start, steps, factors):
    """Return the factor of the lowest last loss, and the losses; None if diverged."""
    ends = []
    for factor in factors:
        trace = method(problem, start, lr=_step(problem, factor), steps=steps)
        ends.append(trace.values[-1])
    order = [end if np.isfinite(end) else np.inf for end in ends]
    return factors[int(np.argmin(order))], [_significant(end, 4) for end in ends]


def _step(problem, factor):
    return factor / problem.gradient_lipschitz


def _start(problem, rng):
    """Draw a direction of length 1 in the norm of S, pointing downhill."""
    w = rng.standard_normal(problem.dim)
    return -np.sign(problem.u @ w) / problem.norm(w) * w


_LOSSES = ["logistic", "shifted_sigmoid", "sigmoid"]
_FACTORS = [0.3, 1.0, 3.0, 10.0, 30.0]


@experiment(
    id="kohler-halfspaces-gaussian",
    title="Learning a halfspace, Gaussian data: eight methods, by step and by time",
    chapter="09-gdnp-halfspaces",
    source="kohler2019",
    sweep={"data": "kinds", "loss": "losses", "seed": "seeds"},
    paired=("data", "loss"),
    threads=1,
    timed=TIMED,
    live={
        "kinds": ["expectation", "sample"],
        "losses": _LOSSES,
        "seeds": [0],
        "rows": 300,
        "dimension": 10,
        "condition": 10.0,
        "lambda_1": 0.5,
        "steps": 30,
        "trial_steps": 10,
        "factors": _FACTORS,
        "reference_steps": 300,
        "points": 10,
    },
    paper={
        "kinds": ["expectation", "sample"],
        "losses": _LOSSES,
        "seeds": list(range(10)),
        "rows": 1000,
        "dimension": 50,
        "condition": 30.0,
        "lambda_1": 0.5,
        "steps": 500,
        "trial_steps": 150,
        "factors": _FACTORS,
        "reference_steps": 3000,
        "points": 20,
    },
)
def halfspaces_gaussian(
    context,
    data,
    loss,
    rows,
    dimension,
    condition,
    lambda_1,
    steps,
    trial_steps,
    factors,
    reference_steps,
    points,
):
    """Compare the methods on one Gaussian z, exactly or over a sample of it.

    u is S^(1/2) times a random vector with u.S^-1 u = lambda_1: the best halfspace then
    errs on the share Phi(-sqrt(lambda_1 / (1 - lambda_1))) of the data.
    """
    if not 0 < lambda_1 < 1:
        raise ValueError(f"lambda_1 is {lambda_1}: give a number between 0 and 1")
    moments, draws, start = (
        np.random.default_rng(s) for s in context.seed_sequence.spawn(3)
    )
    root = _root(moments, dimension, condition)
    mean = moments.standard_normal(dimension)
    mean *= np.sqrt(lambda_1) / np.linalg.norm(mean)
    if data == "sample":
        problem = FiniteHalfspace(_draw(draws, rows, mean) @ root.T, loss)
    else:
        problem = GaussianHalfspace(root @ mean, root @ root.T, loss)
    start = _start(problem, start)
    return _compare(
        problem, start, steps, trial_steps, factors, reference_steps, points
    )


def _draw(rng, rows, mean):
    """Draw from N(mean, I - mean mean^T), whose second moment is I."""
    x = rng.standard_normal((rows, len(mean)))
    square = mean @ mean
    shrink = (1 - np.sqrt(1 - square)) / square
    return mean + x - shrink * np.outer(x @ mean, mean)


@experiment(
    id="kohler-halfspaces-a9a",
    title="Learning a halfspace, a9a: eight methods, by step and by time",
    chapter="09-gdnp-halfspaces",
    source="kohler2019",
    sweep={"loss": "losses", "seed": "seeds"},
    paired=("loss",),
    data=("a9a",),
    threads=1,
    timed=TIMED,
    live={
        "losses": ["logistic", "shifted_sigmoid"],
        "seeds": [0],
        "steps": 20,
        "trial_steps": 4,
        "factors": [1.0, 10.0],
        "reference_steps": 100,
        "points": 10,
    },
    paper={
        "losses": _LOSSES,
        "seeds": list(range(10)),
        "steps": 500,
        "trial_steps": 100,
        "factors": _FACTORS[1:],
        "reference_steps": 2000,
        "points": 28,
    },
)
def halfspaces_a9a(context, loss, steps, trial_steps, factors, reference_steps, points):
    """Compare the methods on a9a's training rows, sparse, from one random start.

    `seconds` is the wall time of the steps alone, with one thread for sparse products;
    the trials of the step, and computing what only the trace needs, do not count.
    """
    data = context.datasets["a9a"]
    labels = data.y_train.astype(float)
    problem = FiniteHalfspace(halfspace_rows(data.x_train, labels), loss)
    start = _start(problem, np.random.default_rng(context.seed_sequence))
    return _compare(
        problem, start, steps, trial_steps, factors, reference_steps, points
    )
