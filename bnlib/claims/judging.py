"""Judging claims: several instances of each, its control and its printed form."""

from collections.abc import Iterable
from dataclasses import dataclass

from bnlib.claims.check import Check, recorded
from bnlib.claims.registry import Claim, all_claims
from bnlib.claims.sharpness import Sharpness, sharpness


@dataclass(frozen=True)
class Judgement:
    """The outcome of checking several instances of a claim.

    Attributes
    ----------
    worst : Check or None
        The instance closest to failing; None for a remark.
    control, printed : Check or None
        The control that came closest to being accepted, and the printed form on its
        counterexample; None if there is none.
    sharpness : Sharpness or None
        The smallest error of the claim that these instances would have shown; None for
        a remark.
    """

    worst: Check | None
    control: Check | None = None
    printed: Check | None = None
    sharpness: Sharpness | None = None

    @property
    def controls_rejected(self) -> bool:
        """Return True if every control failed as it must, or if there is none."""
        return self.control is None or _rejects(self.control)

    @property
    def printed_rejected(self) -> bool:
        """Return True if the printed form failed as it must, or if there is none."""
        return self.printed is None or _rejects(self.printed)

    @property
    def passes(self) -> bool:
        """Return True if the claim holds and its control and printed form do not."""
        holds = self.worst is None or self.worst.holds
        return holds and self.controls_rejected and self.printed_rejected

    def __str__(self) -> str:
        notes = [str(self.worst) if self.worst else "shown, not checked"]
        if not self.controls_rejected:
            notes.append("A CONTROL WAS ACCEPTED")
        if not self.printed_rejected:
            notes.append("THE PRINTED FORM WAS ACCEPTED")
        return "; ".join(notes)


def judge(claim: Claim, seeds: Iterable[int] = range(5)) -> Judgement:
    """Check a claim, its control and its printed form on several instances.

    Parameters
    ----------
    claim : Claim
    seeds : iterable of int, not empty

    Returns
    -------
    Judgement

    Raises
    ------
    ValueError
        If seeds is empty.

    Examples
    --------
    >>> from bnlib.claims import get
    >>> judge(get("bn-range"), seeds=range(3)).passes
    True
    """
    seeds = list(seeds)
    if not seeds:
        raise ValueError("seeds is empty: give at least one")
    printed = claim.printed_check() if claim.printed else None
    if not claim.is_checked:
        return Judgement(None, printed=printed)
    checks, runs = [], []
    for seed in seeds:
        with recorded() as made:
            checks.append(claim.check(seed))
        runs.append(made)
    nearest = min((claim.control(seed) for seed in seeds), key=_distance)
    return Judgement(Check.worst(*checks), nearest, printed, sharpness(runs))


def judge_all(
    chapter: str | None = None, seeds: Iterable[int] = range(5)
) -> dict[str, Judgement]:
    """Judge every claim of the book, or of a chapter.

    Parameters
    ----------
    chapter : str, optional
        The chapter's file name without ending.
    seeds : iterable of int
        The random instances, as in `judge`.

    Returns
    -------
    dict of str to Judgement
        By the claims' ids, in the order of `all_claims`.

    Examples
    --------
    >>> found = judge_all("02-transform", seeds=[0])
    >>> all(judgement.passes for judgement in found.values())
    True
    """
    seeds = list(seeds)
    return {entry.id: judge(entry, seeds) for entry in all_claims(chapter)}


def _rejects(check):
    """Return True if the relation was missed; a comparison with NaN does not count."""
    return check.error > check.allowed


def _distance(check):
    """Return by how much a false form misses; one that compares nothing misses not."""
    if not _rejects(check):
        return 0.0
    return check.error / check.allowed if check.allowed else check.error / 1e-300


def check_chapter(chapter: str, seeds: Iterable[int] = range(5)) -> None:
    """Check every claim of a chapter, and print a line for each.

    Parameters
    ----------
    chapter : str
        The chapter's file name without ending.
    seeds : iterable of int
        The random instances, as in `judge`.

    Raises
    ------
    ValueError
        If no claim belongs to the chapter.
    AssertionError
        If a claim fails, or its control is not rejected; after all are printed.

    Examples
    --------
    >>> check_chapter("02-transform", seeds=[0])  # doctest: +ELLIPSIS
    bn-forward ... holds: error ..., allowed 1e-12
    ...
    """
    judgements = judge_all(chapter, seeds)
    width = max(map(len, judgements))
    for id, judgement in judgements.items():
        print(f"{id:{width}}  {judgement}")
    failing = [id for id, judgement in judgements.items() if not judgement.passes]
    assert not failing, f"claims that do not pass: {', '.join(failing)}"
