"""Learning a halfspace: two problems of `bnlib.problems`, f(w) = E phi(z.w).

With labels of +-1, ``z = -(label) x`` as `halfspace_rows` gives it, and ``phi`` is a
loss of ``t = z.w``; see `bnlib.losses`.
"""

from bnlib.problems import (
    FiniteHalfspace,
    GaussianHalfspace,
    Moments,
    halfspace_rows,
)

__all__ = ["FiniteHalfspace", "GaussianHalfspace", "Moments", "halfspace_rows"]
