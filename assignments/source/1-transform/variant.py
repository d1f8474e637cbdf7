"""What a course key changes in problem set 1."""

AVERAGED = {
    "batch": ("NHW", "the batch and the positions"),
    "instance": ("HW", "the positions of one channel of one image"),
    "layer": ("CHW", "the channels and the positions of one image"),
}
SPREADS = {
    1: r"\sigma+\varepsilon",
    3: r"\sqrt[3]{\sigma^3+\varepsilon^3}",
    4: r"\sqrt[4]{\sigma^4+\varepsilon^4}",
}
FORMATS = {8: "bfloat16", 11: "float16", 24: "float32"}


def variant(rng):
    """Return the task of one course: layout, axes, epsilon, precision."""
    layout = "".join(str(letter) for letter in rng.permutation(list("NCHW")))
    kind = str(rng.choice(list(AVERAGED)))
    letters, words = AVERAGED[kind]
    power = int(rng.choice(list(SPREADS)))
    examples = int(rng.integers(2))
    bits = int(rng.choice(list(FORMATS)))
    rise = int(rng.choice([3, 5, 20]))
    return {
        "LAYOUT": layout,
        "AXES": tuple(a for a in range(4) if layout[a] in letters),
        "CHANNEL": layout.index("C"),
        "POWER": power,
        "EPS": float(rng.choice([0.004, 0.01, 0.02, 0.05])),
        "EXAMPLES": examples,
        "BITS": bits,
        "RISE": rise,
        "averaged": words,
        "spread": SPREADS[power],
        "chunk": ("(k, C)", "(C, k)")[examples],
        "format": FORMATS[bits],
    }
