"""Every claim of the book: its statement, and a function that checks it.

>>> import bnlib
>>> claim = bnlib.claims.get("bn-range")
>>> claim.check(seed=0).holds, claim.control(seed=0).holds
(True, False)
"""

from bnlib.claims.check import Check
from bnlib.claims.judging import Judgement, check_chapter, judge, judge_all
from bnlib.claims.registry import Claim, all_claims, claim, get
from bnlib.claims.sharpness import Sharpness

__all__ = [
    "Check",
    "Claim",
    "Judgement",
    "Sharpness",
    "all_claims",
    "check_chapter",
    "claim",
    "get",
    "judge",
    "judge_all",
]
