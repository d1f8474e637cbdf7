"""What a course key changes in set 3: conventions, layout, sizes, the record."""

import numpy as np


def variant(rng):
    """Draw the conventions of one course and the figure that goes with them."""
    counts_new, unbiased, channels_last = (
        bool(rng.integers(2)) for _ in range(3)
    )
    share = float(rng.choice([0.05, 0.065, 0.13, 0.15]))
    level, gap = (
        float(rng.choice([3, 4, 5])),
        float(rng.choice([-2.5, 3.0, 4.5])),
    )
    drift = float(rng.choice([0.5, 1.5, 2.0]))
    decay = level + gap * (1 - share) ** (3 * np.arange(1, 10))
    late = level + drift * (np.arange(0, 70, 10) - (1 - share) / share)
    power = int(rng.integers(1, 4))
    return {
        "MOMENTUM_COUNTS": "new" if counts_new else "old",
        "TRACKED_DIVISOR": "m - 1" if unbiased else "m",
        "LAYOUT": "NLC" if channels_last else "NCL",
        "EPS": float(rng.choice([0.03, 0.1, 0.3])),
        "START_MEAN": float(rng.choice([-2.0, -1.0, 3.0])),
        "START_VAR": float(rng.choice([2.0, 4.0, 5.0])),
        "POWER": power,
        "KERNEL": int(rng.choice([3, 5])),
        "STRIDE": int(rng.choice([1, 2])),
        "ACTIVATION": str(rng.choice(["relu", "abs", "square"])),
        "LEVEL": level,
        "DRIFT": drift,
        "RECORD": [round(float(value), 3) for value in decay],
        "LATE": [round(float(value), 2) for value in late],
        **_conventions(counts_new, unbiased),
        **_shapes(channels_last),
        "power_plus_1": power + 1,
        "power_plus_2": power + 2,
    }


def _conventions(counts_new, unbiased):
    """Return the framework's rules as the prose gives them, and what follows."""
    return {
        "rule": r"(1-\alpha)\,r_{t-1}+\alpha\,b_t"
        if counts_new
        else r"\alpha\,r_{t-1}+(1-\alpha)\,b_t",
        "stored": r"\mathbb E\big[\tfrac m{m-1}\sigma_B^2\big]=\sigma^2"
        if unbiased
        else r"\mathbb E\big[\sigma_B^2\big]=\tfrac{m-1}m\sigma^2",
        "ratio": r"$\sqrt{m/(m-1)}=1+\frac1{2m}+O(m^{-2})$"
        if unbiased
        else "1",
        "excess": r"\frac5{4m}" if unbiased else r"\frac3{4m}",
    }


def _shapes(channels_last):
    """Return the layout in words."""
    return {
        "batch_shape": "(items, length, channels)"
        if channels_last
        else "(items, channels, length)",
        "weight_shape": "(KERNEL, inputs, outputs)"
        if channels_last
        else "(outputs, inputs, KERNEL)",
        "map_shape": "(positions, outputs)"
        if channels_last
        else "(outputs, positions)",
    }
