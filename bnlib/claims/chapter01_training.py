"""The claims of chapter 01 on what experiments show, from their records."""

import functools

import numpy as np

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.experiments import load_record

chapter_claim = functools.partial(claim, chapter="01-covariate-shift")


WORKS = 0.9


def _accuracies():
    """Return the mean accuracy by arm: arrays (initial scales, learning rates)."""
    record = load_record("ioffe-starts")
    means = record.array("accuracy").mean(axis=-1)
    return dict(zip(record.parameters["arms"], means)), record.parameters


def _gain(factor):
    """Compare the largest rate that works from He's weights, with BN and without."""
    accuracies, parameters = _accuracies()
    rates = np.array(parameters["learning_rates"])
    he = parameters["factors"].index(1.0)
    largest = {arm: rates[a[he] > WORKS].max() for arm, a in accuracies.items()}
    return Check(largest["batch_norm"], factor * largest["plain"], ">=", allowed=0.0)


@chapter_claim(
    id="higher-lr",
    kind="empirical",
    verdict="empirical",
    source="ioffe2015",
    statement="On the digits, with three hidden layers of 64 ReLU units from He's "
    "weights and 400 steps, the largest learning rate of the sweep at which the mean "
    "test accuracy is above 0.9 is more than five times as large with BN as without "
    "(recorded, five seeds).",
)
def higher_lr(rng):
    return _gain(5)


@higher_lr.control
def _(rng):
    return _gain(11)


def _starts(most_without):
    """Compare how many initial scales work at one and the same learning rate."""
    accuracies, parameters = _accuracies()
    works = {arm: (a > WORKS).sum(axis=0).max() for arm, a in accuracies.items()}
    return Check.worst(
        Check(works["batch_norm"], len(parameters["factors"]), "==", allowed=0.0),
        Check(works["plain"], most_without, "<=", allowed=0.0),
    )


@chapter_claim(
    id="init-sensitivity",
    kind="empirical",
    verdict="empirical",
    source="ioffe2015",
    statement="On the digits, with three hidden layers of 64 ReLU units, 400 steps and "
    "initial weights from a tenth to ten times He's, there is a learning rate at which "
    "with BN the mean test accuracy is above 0.9 at all seven scales of the sweep. "
    "Without BN no rate does it at more than three (recorded, five seeds).",
)
def init_sensitivity(rng):
    return _starts(most_without=3)


@init_sensitivity.control
def _(rng):
    return _starts(most_without=2)


def _cosine_gap(margin):
    """Compare the plain deep linear network's mean cosine with that of BN.

    Averages run over layers and looks. For every seed, each network has the rate of its
    least final loss; then both have each rate at which no plain run diverges.
    """
    record = load_record("santurkar-dln")
    plain, normed = record.array("cosine").mean(axis=-1)
    final = np.log(record.array("loss")[..., -1]).mean(axis=-1)
    own, own_normed = np.nanargmin(final, axis=-1)
    pairs = [(rate, rate) for rate in np.flatnonzero(np.isfinite(final[0]))]
    gaps = [plain[i] - normed[j] for i, j in [*pairs, (own, own_normed)]]
    return Check(gaps, margin, ">=", allowed=0.0)


@chapter_claim(
    id="ics-claim",
    kind="empirical",
    verdict="empirical",
    source="santurkar2018",
    statement="In the deep linear network, 25 layers of width 10 and 1,000 steps, the "
    "mean of the cosine over layers and steps looked at is lower with BN than without "
    "by more than 0.1, for every seed: each network at its own best learning rate of "
    "the sweep, and both at any rate at which the plain one does not diverge "
    "(recorded, five seeds).",
)
def ics_claim(rng):
    return _cosine_gap(0.1)


@ics_claim.control
def _(rng):
    return _cosine_gap(0.2)


#: Rates at which every arm of the noise experiment trains, and steps are not small.
MIDDLE = (0.1, 0.3)


def _noise_record():
    """Return the record's arrays at middle rates, by name and arm: (rates, seeds)."""
    record = load_record("santurkar-noise")
    places = [record.parameters["learning_rates"].index(rate) for rate in MIDDLE]

    def array(name):
        values = record.array(name)[:, places]
        means = values.mean(axis=-1) if values.ndim > 3 else values
        return dict(zip(record.parameters["arms"], means))

    return array


def _opposite_gap(margin):
    cosines = _noise_record()("cosine")
    return Check(cosines["batch_norm"] - cosines["plain"], margin, ">=", allowed=0.0)


@chapter_claim(
    id="ics-order",
    kind="empirical",
    verdict="empirical",
    source="book",
    statement="On the digits, with five hidden layers of 64 ReLU units and 400 steps "
    "at a learning rate of 0.1 or 0.3, the mean of the cosine over layers and steps "
    "looked at is higher with BN than without by more than 0.1, for every seed "
    "(recorded, five seeds).",
)
def ics_order(rng):
    return _opposite_gap(0.1)


@ics_order.control
def _(rng):
    return _opposite_gap(0.2)


def _noise(times):
    """Check that noise moves inputs this many times as far, and the accuracies."""
    array = _noise_record()
    moved, right = array("moved"), array("final_accuracy")
    means = {arm: values.mean(axis=-1) for arm, values in right.items()}
    return Check.worst(
        Check(moved["noisy"], times * moved["plain"], ">=", allowed=0.0),
        Check(means["noisy"], means["plain"], ">=", allowed=0.0),
        Check(means["noisy"], means["batch_norm"] - 0.01, ">=", allowed=0.0),
    )


@chapter_claim(
    id="ics-noise-exp",
    kind="empirical",
    verdict="empirical",
    source="santurkar2018",
    statement="On the digits, with five hidden layers of 64 ReLU units and 400 steps "
    "at a learning rate of 0.1 or 0.3, one step moves the inputs of the activations at "
    "least 1.5 times as far with noise behind BN as without BN, for every seed; and "
    "yet the mean test accuracy is above that without BN, and less than a point below "
    "that with BN (recorded, five seeds).",
)
def ics_noise_exp(rng):
    return _noise(times=1.5)


@ics_noise_exp.control
def _(rng):
    return _noise(times=2)


def _regularisation(alone):
    """Check what BN alone gains, and compare dropout's gain with BN and without."""
    record = load_record("ioffe-dropout")
    accuracies = record.array("accuracy")
    # Each cell is taken at its best learning rate: arrays (arms, dropouts, seeds).
    best = accuracies.mean(axis=-1).argmax(axis=-1)[..., None, None]
    best = np.take_along_axis(accuracies, best, axis=2)[:, :, 0]
    by_arm = dict(zip(record.parameters["arms"], best))
    without, with_bn = by_arm["plain"], by_arm["batch_norm"]
    gains = [(each[1:] - each[0]).mean(axis=-1) for each in (without, with_bn)]
    return Check.worst(
        Check(with_bn[0], without[0] + alone, ">=", allowed=0.0),
        Check(gains[0], gains[1] + 0.002, ">=", allowed=0.0),
    )


@chapter_claim(
    id="reg-dropout",
    kind="empirical",
    verdict="empirical",
    source="ioffe2015",
    statement="On 300 digits, with two hidden layers of 256 ReLU units and each "
    "network at the best of three learning rates, BN alone raises the test accuracy by "
    "0.4 points or more, for every seed. Dropout of 0.2 or 0.5 adds to the mean "
    "accuracy with BN at least 0.2 points less than without (recorded, five seeds).",
)
def reg_dropout(rng):
    return _regularisation(alone=0.004)


@reg_dropout.control
def _(rng):
    return _regularisation(alone=0.006)
