"""The claims of chapter 04: running averages of batch statistics."""

import functools
import itertools

import numpy as np
import torch

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.statistics import RunningStatistics

chapter_claim = functools.partial(claim, chapter="04-inference")


def _tracked(rng, divisor_less):
    """Compare torch's and bnlib's buffers after a few batches with weighted sums."""
    count, share = int(rng.integers(3, 9)), float(rng.uniform(0.05, 0.6))
    batches = [
        rng.uniform(1, 5) + rng.uniform(0.5, 3) * rng.standard_normal((m, 1))
        for m in rng.integers(2, 9, size=count)
    ]
    start = (1 - share) ** count
    faded = share * (1 - share) ** np.arange(count)[::-1]
    pairs = ((share, start, faded), (None, 0.0, np.full(count, 1 / count)))
    checks = []
    for momentum, start, weights in pairs:
        layer = torch.nn.BatchNorm1d(1, momentum=momentum, dtype=torch.float64)
        running = RunningStatistics(1, momentum=momentum)
        for batch in batches:
            layer(torch.from_numpy(batch))
            running.update(batch)
        mean = weights @ [batch.mean() for batch in batches]
        variances = [batch.var(ddof=divisor_less) for batch in batches]
        sums = np.array([mean, start + weights @ variances])
        buffers = torch.cat([layer.running_mean, layer.running_var])
        ours = np.concatenate([running.mean, running.var])
        checks += [Check(side, sums, "==", allowed=1e-12) for side in (buffers, ours)]
    return Check.worst(*checks)


@chapter_claim(
    id="inf-running",
    kind="theorem",
    verdict="holds",
    source="paszke2019",
    statement=r"With momentum $\alpha$ a running statistic after $t$ batches is "
    r"$r_t=(1-\alpha)^tr_0+\alpha\sum_{s=1}^t(1-\alpha)^{t-s}b_s$, where $b_s$ is the "
    r"batch's mean $\mu$, with $r_0=0$, or its variance $\frac m{m-1}\sigma^2$, with "
    r"$r_0=1$. "
    "With momentum None it is the plain average of the $b_s$.",
)
def inf_running(rng):
    return _tracked(rng, divisor_less=1)


@inf_running.control
def _(rng):
    return _tracked(rng, divisor_less=0)


def _moments_of_average(rng, power):
    """Check all sequences of five batches with three possible statistics each."""
    steps, share = 5, float(rng.uniform(0.05, 0.6))
    possible, start = rng.standard_normal(3), rng.uniform(3, 9)
    running = np.full(3**steps, start)
    for batch in np.array(list(itertools.product(possible, repeat=steps))).T:
        running = (1 - share) * running + share * batch
    left = (1 - share) ** steps
    variance = possible.var() * share / (2 - share) * (1 - left**power)
    bias = running.mean() - possible.mean()
    return Check.worst(
        Check(bias, left * (start - possible.mean()), "==", allowed=1e-12),
        Check(running.var(), variance, "==", allowed=1e-12),
    )


@chapter_claim(
    id="inf-running-moments",
    kind="theorem",
    verdict="holds",
    source="roberts1959",
    statement=r"For $0<\alpha\le1$ and independent $b_s$ of one law with finite "
    "variance: "
    r"$\mathbb E[r_t]-\mathbb E[b]=(1-\alpha)^t(r_0-\mathbb E[b])$ and "
    r"$\mathrm{Var}[r_t]=\frac{\alpha}{2-\alpha}\big(1-(1-\alpha)^{2t}\big)"
    r"\mathrm{Var}[b]$. In the long run it is as noisy as a plain average of "
    r"$(2-\alpha)/\alpha$ batches.",
)
def inf_running_moments(rng):
    return _moments_of_average(rng, power=2)


@inf_running_moments.control
def _(rng):
    return _moments_of_average(rng, power=1)


def _lag(rng, behind):
    """Check bnlib's running mean while the batches' mean moves steadily."""
    share, count = float(rng.uniform(0.05, 0.6)), int(rng.integers(3, 40))
    first, drift = rng.uniform(-5, 5), rng.uniform(0.5, 3)
    running = RunningStatistics(1, momentum=share)
    for step in range(1, count + 1):
        mean = first + drift * step
        running.update(np.array([[mean - 1.0], [mean + 1.0]]))
    left = (1 - share) ** count
    expected = -left * first - drift * behind(share) * (1 - left)
    return Check(running.mean[0] - mean, expected, "==", allowed=1e-12)


@chapter_claim(
    id="inf-running-lag",
    kind="theorem",
    verdict="holds",
    source="brown1963",
    statement=r"Let $0<\alpha\le1$. If the batch statistic moves by $d$ a step, "
    r"$b_s=b_0+sd$, then $r_t-b_t=(1-\alpha)^t(r_0-b_0)-d\,\frac{1-\alpha}\alpha"
    r"\big(1-(1-\alpha)^t\big)$: in the long run it is $(1-\alpha)/\alpha$ steps late.",
)
def inf_running_lag(rng):
    return _lag(rng, lambda share: (1 - share) / share)


@inf_running_lag.control
def _(rng):
    return _lag(rng, lambda share: 1 / share)
