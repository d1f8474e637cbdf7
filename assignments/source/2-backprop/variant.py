"""What a course key changes in problem set 2."""

SPREADS = {
    1: r"\sigma+\varepsilon",
    3: r"\sqrt[3]{\sigma^3+\varepsilon^3}",
    4: r"\sqrt[4]{\sigma^4+\varepsilon^4}",
}
ACTIVATIONS = {
    "tanh": r"\tanh y",
    "softplus": r"\log(1+e^y)",
    "leaky": r"y\text{ for }y>0\text{, else }y/10",
}
# The order, the formula, and its leading error term, for the answer.
SCHEMES = {
    "forward": (1, r"\frac{\ell(h)-\ell(0)}h", r"\frac h2\ell''"),
    "central": (
        2,
        r"\frac{\ell(h)-\ell(-h)}{2h}",
        r"\frac{h^2}6\ell^{(3)}",
    ),
    "five-point": (
        4,
        r"\frac{8\ell(h)-8\ell(-h)-\ell(2h)+\ell(-2h)}{12h}",
        r"-\frac{h^4}{30}\ell^{(5)}",
    ),
}
# The formula, then delta with its reason, for the answer.
LOSSES = {
    "squared": (
        r"\tfrac12\sum_i(\hat x_i-t_i)^2",
        r"$\|\hat x\|^2=m$, so the loss is "
        r"$\frac12(m+\|t\|^2)-\langle t,\hat x\rangle$: $\delta=-t$",
    ),
    "cosine": (
        r"1-\frac{\langle t,\hat x\rangle}{\|t\|\,\|\hat x\|}",
        r"$\|\hat x\|=\sqrt m$, so $\delta=-t/(\sqrt m\,\|t\|)$",
    ),
    "cubic": (
        r"\langle t,\hat x\rangle\,\|\hat x\|^2",
        r"$\|\hat x\|^2=m$, so the loss is $m\langle t,\hat x\rangle$: "
        r"$\delta=m\,t$",
    ),
}


def variant(rng):
    """Return the task of one course: layout, epsilon, layer, loss, check."""
    layout = "".join(str(letter) for letter in rng.permutation(list("NCT")))
    power = int(rng.choice(list(SPREADS)))
    activation = str(rng.choice(list(ACTIVATIONS)))
    scheme = str(rng.choice(list(SCHEMES)))
    order, quotient, remainder = SCHEMES[scheme]
    # In float32 the five-point quotient has no step between its two errors.
    single = scheme != "five-point" and rng.integers(2)
    loss = str(rng.choice(list(LOSSES)))
    formula, reason = LOSSES[loss]
    factor = int(rng.choice([3, 5, 20]))
    return {
        "LAYOUT": layout,
        "CHANNEL": layout.index("C"),
        "BATCH": layout.index("N"),
        "TIME": layout.index("T"),
        "POWER": power,
        "EPS": float(rng.choice([0.1, 0.2, 0.3, 0.5])),
        "ACTIVATION": activation,
        "SCHEME": scheme,
        "FLOAT": "float32" if single else "float64",
        "FACTOR": factor,
        "LOSS": loss,
        "spread": SPREADS[power],
        "activation": ACTIVATIONS[activation],
        "quotient": quotient,
        "order": order,
        "remainder": remainder,
        "loss": formula,
        "delta": reason,
        "bits": 24 if single else 53,
    }
