"""Learning a halfspace: the two of `bnlib.problems`, f(w) = E phi(z.w).

With labels of +-1 and ``z = -(label) x``, ``phi`` is a loss of ``t = z.w``; see
`bnlib.losses`.
"""

from bnlib.problems import FiniteHalfspace, GaussianHalfspace, Moments

__all__ = ["FiniteHalfspace", "GaussianHalfspace", "Moments"]
