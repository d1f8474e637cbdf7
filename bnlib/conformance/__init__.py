"""What a BatchNorm must get right: a list of cases, run on bnlib and on torch.

Each case is a small input on which some implementation of batch norm went wrong, with
the right answer. Chapter 15 prints the list by running it; the tests require every row
to be right for bnlib. `definition` and `reference` compute the right values.
"""

from bnlib._reference import definition, reference
from bnlib.conformance import _arithmetic, _training, _usage  # noqa: F401
from bnlib.conformance._cases import Outcome, all_cases, run

__all__ = ["Outcome", "all_cases", "definition", "reference", "run"]
