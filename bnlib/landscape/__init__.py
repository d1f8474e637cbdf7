"""Where losses are flat, where they have no minimum, and which minima noise prefers.

Bias-free ReLU networks under the exponential loss, their Hessians and the directions
along which no loss changes; a landscape of two minima with exactly known Boltzmann
masses; Langevin dynamics; and the covariance of a network's gradient noise.
"""

from bnlib.landscape._langevin import Occupancy, Walk, langevin, occupancy
from bnlib.landscape._networks import (
    exponential_hessian,
    exponential_loss,
    margins,
    radial_slope,
    rescaling_directions,
    separating_direction,
)
from bnlib.landscape._noise import example_gradients, participation
from bnlib.landscape._player import Player, film
from bnlib.landscape._wells import Wells

__all__ = [
    "Occupancy",
    "Player",
    "Walk",
    "Wells",
    "example_gradients",
    "exponential_hessian",
    "exponential_loss",
    "film",
    "langevin",
    "margins",
    "occupancy",
    "participation",
    "radial_slope",
    "rescaling_directions",
    "separating_direction",
]
