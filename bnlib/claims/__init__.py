"""Every claim of the book: its statement, and a function that checks it.

>>> import bnlib
>>> claim = bnlib.claims.get("bn-range")
>>> claim.check(seed=0).holds, claim.control(seed=0).holds
(True, False)
"""

import importlib
import pkgutil

from bnlib.claims.registry import Check, Claim, Judgement, all_claims, claim, get, judge

__all__ = ["Check", "Claim", "Judgement", "all_claims", "claim", "get", "judge"]

for _module in pkgutil.iter_modules(__path__):
    if _module.name.startswith("chapter"):
        importlib.import_module(f"{__name__}.{_module.name}")
