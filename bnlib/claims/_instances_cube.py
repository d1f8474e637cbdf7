"""Points of the cube, as chapter 13's claims take them."""


def cube(rng, inputs, points=2000):
    """Draw points of [-1, 1]^inputs, uniformly."""
    return rng.uniform(-1, 1, (points, inputs))
