"""What a course key changes in set 6."""

_FASTER = "With $r$ the sine falls faster than every power $r^{-k}$"
_MAPS = {
    "square": {
        "map": "s^2",
        "domain": "with $s>0$",
        "slope": "2s",
        "quotient": "\\frac s2",
        "potential": "\\frac{s^2}4",
        "law": "e^{-r/(4\\nu^2)}",
        "comparison": _FASTER + ", in the end as $\\ell^{1/(4c\\nu^2)}$.",
    },
    "cube": {
        "map": "s^3",
        "domain": "with $s>0$",
        "slope": "3s^2",
        "quotient": "\\frac s3",
        "potential": "\\frac{s^2}6",
        "law": "e^{-r^{2/3}/(6\\nu^2)}",
        "comparison": _FASTER + ", but slower than every power of the loss.",
    },
    "exp": {
        "map": "e^s",
        "domain": "for every number $s$",
        "slope": "e^s",
        "quotient": "1",
        "potential": "s",
        "law": "r^{-1/\\nu^2}",
        "comparison": "It is a power of $r$, as with plain gradient flow; at $\\nu=1$ "
        "the two have the same path, and differ in their clocks.",
    },
}


def variant(rng):
    """Return the task's values: length map, loss, labels, norms, the figure."""
    length = str(rng.choice(sorted(_MAPS)))
    labels = [(1, 0), (1, -1), (0, 1), (1, 2)][rng.integers(4)]
    loss = str(rng.choice(["exponential", "logistic"]))
    reduction = str(rng.choice(["sum", "mean"]))
    one = "e^{-m_n}" if loss == "exponential" else "\\log(1+e^{-m_n})"
    mean = "\\frac1N" if reduction == "mean" else ""
    return {
        "LENGTH": length,
        "LOSS": loss,
        "REDUCTION": reduction,
        "LABELS": labels,
        "NORMS": (
            float(rng.choice([0.65, 0.7, 0.75])),
            float(rng.choice([1.3, 1.4, 1.5])),
        ),
        "START": float(rng.choice([0.9, 1.0, 1.1])),
        "FIGURE": int(rng.integers(10**6)),
        "positive": labels[0],
        "negative": labels[1],
        "loss": f"{mean}\\sum_n{one}",
        **_MAPS[length],
    }
