"""Learning a halfspace: f(w) = E phi(z.w), over a Gaussian z or over data.

With labels of +-1 and ``z = -(label) x``, ``phi`` is a loss of ``t = z.w``; see
`bnlib.losses`.
"""

from bnlib._rays import Moments
from bnlib.halfspaces._finite import FiniteHalfspace
from bnlib.halfspaces._gaussian import GaussianHalfspace

__all__ = ["FiniteHalfspace", "GaussianHalfspace", "Moments"]
