"""The claims of chapter 04: the statistics of a population, from its batches."""

import functools
import itertools

import numpy as np

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.statistics import merge

chapter_claim = functools.partial(claim, chapter="04-inference")


def uneven_batches(rng):
    """Draw a few batches of one feature, not all of one size."""
    sizes = [1, 5, *rng.integers(2, 8, size=rng.integers(1, 6))]
    return [rng.uniform(-9, 9) + rng.standard_normal(size) for size in sizes]


def moments(batches):
    """Return sizes, means and population variances of some batches."""
    return (
        np.array([batch.size for batch in batches]),
        np.array([batch.mean() for batch in batches]),
        np.array([batch.var() for batch in batches]),
    )


def _pooled_variance(rng, between):
    """Compare variances joined batch by batch with the variance of all values."""
    batches = uneven_batches(rng)
    sizes, means, variances = moments(batches)
    values = np.concatenate(batches)
    spread = variances + between * (means - values.mean()) ** 2
    joined = (sizes * spread).sum() / sizes.sum()
    return Check(joined, values.var(), "==", allowed=1e-12)


@chapter_claim(
    id="inf-total-variance",
    kind="theorem",
    verdict="holds",
    source="chan1983",
    statement=r"For batches of sizes $m_B$: "
    r"$\mathbb E[x]=\mathbb E_B[m_B\mu_B]/\mathbb E_B[m_B]$ and $\mathrm{Var}[x]="
    r"\mathbb E_B[m_B(\sigma_B^2+(\mu_B-\mathbb E[x])^2)]/\mathbb E_B[m_B]$. For one "
    r"size: $\mathrm{Var}[x]=\mathbb E_B[\sigma_B^2]+\mathrm{Var}_B[\mu_B]$.",
)
def inf_total_variance(rng):
    batches = uneven_batches(rng)
    sizes, means, variances = moments(batches)
    joined = merge(means, variances, sizes)
    values = np.concatenate(batches)
    table = rng.standard_normal((int(rng.integers(2, 9)), int(rng.integers(2, 9))))
    one_size = table.var(axis=1).mean() + table.mean(axis=1).var()
    return Check.worst(
        _pooled_variance(rng, between=1),
        Check(joined.mean, values.mean(), "==", allowed=1e-12),
        Check(joined.var, values.var(), "==", allowed=1e-12),
        Check(one_size, table.var(), "==", allowed=1e-12),
    )


@inf_total_variance.control
def _(rng):
    return _pooled_variance(rng, between=0)


def _mean_of_means(batches, correction):
    """Compare the mean of all values less that of the batches' means with a formula."""
    sizes, means, _ = moments(batches)
    missed = np.concatenate(batches).mean() - means.mean()
    natural = float(np.abs(means).max())
    return Check(missed, correction(sizes, means), "==", allowed=1e-12, scale=natural)


@chapter_claim(
    id="inf-mean",
    kind="theorem",
    verdict="conditional",
    source="ioffe2015",
    statement=r"While the weights stand still, $\mathbb E[x]-\mathbb E_B[\mu_B]="
    r"\mathrm{Cov}_B(m_B,\mu_B)/\mathbb E_B[m_B]$. So "
    r"$\mathbb E[x]=\mathbb E_B[\mu_B]$ holds for batches of one size.",
    printed=r"$E[x]=E_B[\mu_B]$. Both texts have batches of one size $m$, where it is "
    "right; what fails is to carry it over to batches of 2, 2 and 1.",
    printed_in="ioffe2015,wikipedia-bn",
)
def inf_mean(rng):
    values = rng.standard_normal(7) + rng.uniform(1, 5)
    every = np.array(list(itertools.combinations(values, int(rng.integers(2, 6)))))
    return Check.worst(
        _mean_of_means(
            uneven_batches(rng),
            lambda sizes, means: np.cov(sizes, means, bias=True)[0, 1] / sizes.mean(),
        ),
        Check(every.mean(axis=1).mean(), values.mean(), "==", allowed=1e-12),
    )


@inf_mean.control
def _(rng):
    return _mean_of_means(uneven_batches(rng), lambda sizes, means: 0.0)


@inf_mean.printed
def _():
    batches = [np.array([0.0, 1.0]), np.array([2.0, 3.0]), np.array([4.0])]
    return _mean_of_means(batches, lambda sizes, means: 0.0)


def unbiased(batches):
    """Return the mean of m/(m-1) times the variance, over batches given as rows."""
    return batches.var(axis=1, ddof=1).mean()


def shifted(vectors):
    """Return all cyclic shifts of vectors: all places have the same distribution."""
    shifts = range(vectors.shape[1])
    return np.concatenate([np.roll(vectors, shift, axis=1) for shift in shifts])


def off_diagonal(matrix):
    """Return the average of a square matrix off its diagonal."""
    size = len(matrix)
    return (matrix.sum() - np.trace(matrix)) / (size * (size - 1))


def _every_batch(rng, factor):
    """Check all batches of m of N values, drawn with replacement and without."""
    n, m = int(rng.integers(4, 7)), int(rng.integers(2, 4))
    values = rng.standard_normal(n)
    independent = np.array(list(itertools.product(values, repeat=m)))
    without = np.array(list(itertools.combinations(values, m)))
    return Check.worst(
        Check(unbiased(independent), values.var(), "==", allowed=1e-12),
        Check(unbiased(without), factor(n) * values.var(), "==", allowed=1e-12),
    )


@chapter_claim(
    id="inf-var",
    kind="theorem",
    verdict="conditional",
    source="ioffe2015",
    statement=r"For $m\ge2$ identically distributed values of average pairwise "
    r"covariance $\bar c$, $\frac m{m-1}\mathbb E_B[\sigma_B^2]="
    r"\mathrm{Var}[x]-\bar c$. So the correction is exact if and only if "
    r"$\bar c=0$, as for independent values; $m$ of $M$ values without replacement "
    r"give $\frac M{M-1}$ times their variance.",
    printed=r"$\mathrm{Var}[x]=\frac m{m-1}E_B[\sigma_B^2]$, with no word on how the "
    "values of a batch depend on each other; for convolutions $m$ counts positions.",
    printed_in="ioffe2015,wikipedia-bn",
)
def inf_var(rng):
    shape = (int(rng.integers(1, 4)), int(rng.integers(2, 7)))
    batches = shifted(rng.standard_normal(shape) + 2 * rng.standard_normal())
    covariances = np.cov(batches.T, bias=True)
    expected = batches[:, 0].var() - off_diagonal(covariances)
    natural = float(batches[:, 0].var())
    return Check.worst(
        Check(unbiased(batches), expected, "==", allowed=1e-12, scale=natural),
        _every_batch(rng, lambda n: n / (n - 1)),
    )


@inf_var.control
def _(rng):
    return _every_batch(rng, lambda n: 1.0)


@inf_var.printed
def _():
    # Two images of two equal positions each; every image is 1 or -1.
    images = np.array(list(itertools.product([-1.0, 1.0], repeat=2)))
    return Check(unbiased(np.repeat(images, 2, axis=1)), 1.0, "==", allowed=0.01)


def _maps(rng):
    """Draw a few correlated maps; return them and all batches of two of them."""
    count, positions = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    maps = rng.standard_normal((count, positions)) + rng.standard_normal((count, 1))
    maps = shifted(maps + np.array([[3.0]] + [[0.0]] * (count - 1)))
    pairs = itertools.product(range(len(maps)), repeat=2)
    return maps, np.array([np.concatenate([maps[i], maps[j]]) for i, j in pairs])


def _map_variance(rng, of_map_mean):
    """Compare every batch of two maps, enumerated, with the formula."""
    maps, batches = _maps(rng)
    expected = maps.var() - of_map_mean(maps) / 2
    natural = float(maps.var())
    mean = batches.var(axis=1).mean()
    return Check(mean, expected, "==", allowed=1e-12, scale=natural)


@chapter_claim(
    id="inf-var-maps",
    kind="theorem",
    verdict="holds",
    source="book",
    statement=r"For $N$ independent maps of one law with $P$ positions each, "
    r"$\mathbb E_B[\sigma_B^2]=\mathrm{Var}[x]-\tau^2/N$, $\tau^2$ the variance of a "
    r"map's mean. For positions of one law with average correlation $\bar r$, "
    r"$\frac m{m-1}\mathbb E_B[\sigma_B^2]="
    r"\mathrm{Var}[x]\big(1-\frac{(P-1)\bar r}{NP-1}\big)$.",
)
def inf_var_maps(rng):
    maps, batches = _maps(rng)
    positions = maps.shape[1]
    r = off_diagonal(np.corrcoef(maps.T))
    ratio = 1 - (positions - 1) * r / (2 * positions - 1)
    natural = float(maps.var())
    return Check.worst(
        _map_variance(rng, lambda maps: maps.mean(axis=1).var()),
        Check(
            unbiased(batches), maps.var() * ratio, "==", allowed=1e-12, scale=natural
        ),
    )


@inf_var_maps.control
def _(rng):
    return _map_variance(rng, lambda maps: maps.var() / maps.shape[1])
