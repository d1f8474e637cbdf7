"""The claims of chapter 12 on what training finds, from their records."""

import functools

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.experiments import load_record

chapter_claim = functools.partial(
    claim, chapter="12-approximation", kind="theorem", source="poggio2019"
)


def _errors():
    """Errors by arm: arrays (inputs, parameter counts, seeds)."""
    record = load_record("poggio-approximation")
    return dict(zip(record.parameters["arms"], record.array("error")))


def _trained(share):
    """Pieces against that share of the shallow error, and the tree end to end."""
    errors = _errors()
    means = {arm: each.mean(axis=-1) for arm, each in errors.items()}
    return Check.worst(
        Check(errors["pieces"], share * errors["shallow"], "<=", allowed=0.0),
        Check(means["tree"][1], 5 * means["pieces"][1], ">=", allowed=0.0),
        Check(means["tree_rotated"], means["shallow_rotated"], ">=", allowed=0.0),
    )


@chapter_claim(
    id="approx-trained",
    kind="empirical",
    verdict="empirical",
    source="book",
    statement="On binary trees of cosines over 4 and 8 variables, with at most 84, "
    "168 or 336 parameters and 300 steps of L-BFGS: a tree of networks fitted piece "
    "by piece has at most a third of the error of a shallow network, for every seed. "
    "Over 8 variables the same tree fitted end to end has on average more than five "
    "times the error of the pieces. In rotated axes its error is on average larger "
    "than that of a shallow network (recorded, five seeds).",
)
def approx_trained(rng):
    return _trained(share=1 / 3)


@approx_trained.control
def _(rng):
    return _trained(share=1 / 4)


def _digits(cost):
    """Whether permuted pixels cost that much accuracy, and where dense networks lie."""
    record = load_record("poggio-digits")
    means = record.array("accuracy").mean(axis=-1)
    accuracy = dict(zip(record.parameters["arms"], means))
    local, shared = (
        accuracy[kind] - accuracy[f"{kind}_permuted"] for kind in ("local", "shared")
    )
    below = max(accuracy["local_permuted"], accuracy["shared_permuted"])
    return Check.worst(
        Check([local, shared], cost, ">=", allowed=0.0),
        Check(below, accuracy["dense"], "<=", allowed=0.0),
        Check(abs(accuracy["local"] - accuracy["dense"]), 0.005, "<=", allowed=0.0),
    )


@chapter_claim(
    id="approx-digits",
    kind="empirical",
    verdict="empirical",
    source="book",
    statement="On the digits, with 978 to 999 parameters and 300 steps of Adam, "
    "permuting the pixels costs the local and the shared quadtree on average more "
    "than 0.8 points of test accuracy each, and puts both below a dense network. "
    "With the pixels in order the local quadtree is within half a point of the dense "
    "network (recorded, ten seeds).",
)
def approx_digits(rng):
    return _digits(0.008)


@approx_digits.control
def _(rng):
    return _digits(0.012)
