"""The claims of chapter 11 on where flows and paths lead: margins."""

import functools

import numpy as np

from bnlib.claims._instances_margins import hard_margin, separable_rows
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.implicit_bias import (
    angle,
    constrained_path,
    coordinate_descent,
    limit_offset,
    linear_flow,
    max_l1_margin,
    max_margin,
    normalised_margins,
)

chapter_claim = functools.partial(
    claim, chapter="11-margins", kind="theorem", source="poggio2019"
)


def _telling_rows(rng):
    """Draw rows whose two kinds of margin belong to clearly different directions."""
    while True:
        rows = rng.uniform(-1, 1, (12, 6))
        rows[:, 0] = rng.uniform(0.4, 1, 12)
        of_flow = normalised_margins(rows, max_margin(rows).weights, p=1).min()
        if of_flow < max_l1_margin(rows).margin - 0.07:
            return rng.permutation(rows * rng.choice([-1, 1], 6), axis=1)


def _margin_of_flow(rng, p):
    """Compare the flow's least normalised margin with the bound from the loss."""
    rows = _telling_rows(rng)
    gamma, direction = hard_margin(rows)
    if p == 1:
        gamma = max_l1_margin(rows).margin
    start = rng.standard_normal(rows.shape[1])
    flow = linear_flow(rows, start, np.linspace(5.0, 400.0, 20))
    psi, first = -flow.log_losses, -np.log(np.exp(-rows @ start).sum())
    share = psi / (gamma * np.linalg.norm(start) + psi - first)
    margins = normalised_margins(rows, flow.weights, p).min(axis=1)
    times = np.logaddexp(2 * np.log(gamma) + flow.log_times, first)
    return Check.worst(
        Check(gamma * share, margins, "<=", allowed=1e-6),
        Check(times, psi, "<=", allowed=1e-7),
        Check(share, flow.directions @ direction, "<=", allowed=1e-6),
    )


@chapter_claim(
    id="p-maxmargin",
    verdict="holds",
    source="soudry2018",
    statement="Let a linear model separate the data, with the largest margin "
    r"$\gamma=\max_{\lVert V\rVert=1}\min_ny_nx_n^\top V$ at $\hat V$. Gradient flow "
    r"of the exponential loss tends to $\hat V$ in direction: with "
    r"$\psi=-\log\ell\ge\log(\gamma^2t+1/\ell(0))$, where $\psi>0$, "
    r"$\min_ny_nx_n^\top V(t)\ge\gamma s$ and $\hat V^\top V(t)\ge s$, "
    r"$s=\psi/(\gamma\lVert w(0)\rVert+\psi-\psi(0))\to1$.",
)
def p_maxmargin(rng):
    return _margin_of_flow(rng, p=2)


@p_maxmargin.control
def _(rng):
    return _margin_of_flow(rng, p=1)


def _settling_rows(rng):
    """Draw rows whose nearest ones span the space, so that starts are forgotten."""
    while not _settles(rows := separable_rows(rng, d=int(rng.integers(2, 4)))):
        pass
    return rows


def _settles(rows):
    """Return True if the limit's error is below rounding by log t = 400."""
    try:
        offset = limit_offset(rows)
    except ValueError:
        return False
    best = max_margin(rows)
    margins = rows @ best.weights
    near = margins < 1 + 1e-7
    across = rows[near] - np.outer(rows[near] @ best.direction, best.direction)
    rates = np.linalg.eigvalsh((across.T * best.duals[near]) @ across)[1:]
    others = margins[~near].min(initial=np.inf)
    return (
        rates.min() > 0.1
        and others > 1.1
        and best.duals[near].min() > 1e-3
        and np.linalg.norm(offset) > 0.05
    )


def _offset(rng, wrong=0.0):
    """Compare the flow's part across the limit, at log t = 400, with the prediction."""
    rows = _settling_rows(rng)
    _, direction, gamma, _ = max_margin(rows)
    flow = linear_flow(rows, rng.standard_normal(rows.shape[1]), [400.0, 800.0])
    across = flow.weights - np.outer(flow.weights @ direction, direction)
    expected = (1 + wrong) * limit_offset(rows)
    # The error of angle times log t falls as 1 / log t, so it cancels here.
    turned = [-1, 2] @ (angle(flow.weights, direction) * flow.log_times)
    return Check.worst(
        Check(across, np.stack([expected] * 2), "==", allowed=1e-6),
        Check(turned, np.linalg.norm(expected) * gamma, "==", allowed=5e-3),
    )


@chapter_claim(
    id="p-offset",
    verdict="holds",
    source="soudry2018",
    statement=r"Let $\hat w$ be the shortest $w$ with all $y_nx_n^\top w\ge1$, its "
    r"support vectors those with $y_nx_n^\top\hat w=1$. If $\hat w$ is a combination "
    r"of them, $\sum\alpha_ny_nx_n$ with all $\alpha_n>0$, gradient flow of the "
    r"exponential loss has $w(t)=\hat w\log t+r+o(1)$, with $\sum "
    r"y_nx_n\,e^{-y_nx_n^\top r}=\hat w$ over the same $n$. Its angle to $\hat w$, "
    r"times $\log t$, tends to $\lVert\Pi r\rVert/\lVert\hat w\rVert$, $\Pi=I-\hat "
    r"w\hat w^\top/\lVert\hat w\rVert^2$. If the support vectors span the space, the "
    "equation fixes $r$.",
)
def p_offset(rng):
    return _offset(rng)


@p_offset.control
def _(rng):
    return _offset(rng, wrong=0.05)


def _coordinate_path(rng, of_coordinates):
    """Check bounds on least margins, or on those of the gradient flow's direction."""
    rows = _telling_rows(rng)
    steps, rate = np.array([100, 1000, 4000]), rng.uniform(0.8, 1.0)
    gamma, largest = max_l1_margin(rows).margin, np.abs(rows).max()
    sizes = rate / largest / np.sqrt(np.arange(1, steps[-1] + 1))
    travelled = np.cumsum(sizes)[steps - 1]
    if of_coordinates:
        weights = coordinate_descent(rows, steps[-1], rate).weights[steps]
    else:
        weights = max_margin(rows).weights[None]
        weights = weights / np.abs(weights).sum() * travelled[:, None]
    lost = largest**2 / 2 * np.cumsum(sizes**2)[steps - 1]
    below = gamma * travelled - np.log(len(rows)) - lost
    norms, margins = np.abs(weights).sum(axis=1), (weights @ rows.T).min(axis=1)
    return Check(
        [*below, *margins, *norms],
        [*margins, *gamma * norms, *travelled],
        "<=",
        allowed=1e-9,
    )


@chapter_claim(
    id="p-coordinate-l1",
    verdict="holds",
    source="telgarsky2013",
    statement=r"Let $\gamma_1=\max_{\lVert V\rVert_1=1}\min_ny_nx_n^\top V>0$ and "
    r"$\lvert x_n\rvert\le b$ in every entry. Coordinate descent on the exponential "
    r"loss from $w=0$, each time by $\eta_k$ downhill along the coordinate of the "
    r"largest $\lvert\partial\ell/\partial w_j\rvert$, has $\lVert w\rVert_1\le "
    r"s=\sum\eta_k$ and $\min_ny_nx_n^\top w\ge\gamma_1s-\log "
    r"N-\frac{b^2}2\sum\eta_k^2$. With $\eta_k=\eta/\sqrt k$ the margin "
    r"$\min_ny_nx_n^\top w/\lVert w\rVert_1$ tends to $\gamma_1$.",
)
def p_coordinate_l1(rng):
    return _coordinate_path(rng, of_coordinates=True)


@p_coordinate_l1.control
def _(rng):
    return _coordinate_path(rng, of_coordinates=False)


def _constrained(rng, power):
    """Check margins and directions of the least loss at each length."""
    rows = _settling_rows(rng)
    gamma, direction = hard_margin(rows)
    lengths = np.array([1.0, 10.0, 100.0, 1e4])
    units = constrained_path(rows, lengths) / lengths[:, None]
    margins = (units @ rows.T).min(axis=1)
    lost = np.log(len(rows)) / lengths**power
    bounds = [*gamma - lost, *1 - lost / gamma]
    return Check(bounds, [*margins, *units @ direction], "<=", allowed=1e-7)


@chapter_claim(
    id="p-rho-path",
    verdict="holds",
    source="rosset2004",
    statement="Let a linear model separate $N$ examples, with the largest margin "
    r"$\gamma$ at $\hat V$, and let $V_\rho$ minimise the exponential loss $\ell(\rho "
    r"V)$ over $\lVert V\rVert=1$. Then $\min_ny_nx_n^\top V_\rho\ge\gamma-\frac{\log "
    r"N}\rho$ and $\hat V^\top V_\rho\ge1-\frac{\log N}{\gamma\rho}$: as "
    r"$\rho\to\infty$, $V_\rho\to\hat V$.",
)
def p_rho_path(rng):
    return _constrained(rng, power=1)


@p_rho_path.control
def _(rng):
    return _constrained(rng, power=2)
