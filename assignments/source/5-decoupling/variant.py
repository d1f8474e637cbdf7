"""What a course key changes in set 5."""

STEEPEST = {"softplus": "1", "sigmoid": "\\frac14", "pseudo-Huber": "1"}


def variant(rng):
    """Return the task's values: metric, decay, step, loss, convention, spectra."""
    divisor = str(rng.choice(["n", "n - 1"]))
    loss = str(rng.choice(sorted(STEEPEST)))
    sign = int(rng.choice([-1, 1]))
    shift = float(rng.choice([0.6, 0.8, 1.2, 1.4]))
    slowest, second = (
        rng.choice([0.05, 0.06, 0.07]),
        rng.choice([0.16, 0.19, 0.22]),
    )
    top = float(rng.choice([0.5, 2.0, 4.0]))
    spread = (0.0, *(float(x) for x in rng.choice([0.5, 0.7, -0.6, -0.9], 3)))
    alone = (float(rng.choice([-1.0, 1.0])), 0.0, 0.0, 0.0)
    sharp = str(rng.choice(["A", "B"]))
    targets = (spread, alone) if sharp == "A" else (alone, spread)
    level = f"{shift} {'-' if sign == 1 else '+'} t"
    formula = {
        "softplus": f"\\log\\big(1+e^{{{level}}}\\big)",
        "sigmoid": f"\\frac1{{1+e^{{{shift} {'+' if sign == 1 else '-'} t}}}}",
        "pseudo-Huber": f"\\sqrt{{1+({level})^2}}",
    }
    return {
        "DIVISOR": divisor,
        "DECAY": float(rng.choice([0.06, 0.08, 0.1, 0.12])),
        "RELAX": float(rng.choice([1.5, 1.75, 2.0])),
        "LOSS": loss,
        "SHIFT": shift,
        "SIGN": sign,
        "LEVELS": tuple(
            float(round(x * top, 4)) for x in (slowest, second, 0.5, 1.0)
        ),
        "TARGET_A": targets[0],
        "TARGET_B": targets[1],
        "divisor": divisor.replace(" ", ""),
        "ratio": "1" if divisor == "n" else "\\frac{n-1}n",
        "loss": formula[loss],
        "steepest": STEEPEST[loss],
        "z": "yx" if sign == 1 else "-yx",
        "sharp": sharp,
        "other": "B" if sharp == "A" else "A",
        "slow_factor": f"{(1 - slowest) ** 2:.3f}",
        "fast_factor": f"{(1 - second) ** 2:.3f}",
        "wrong_side": "small" if sign == 1 else "large",
    }
