"""Typical wrong answers to set 5, and the tests that each of them fails."""

BEST_UNIT = """def best_unit(w, X, y):
    u, C = centred_moments(X, y)
    ratio = (len(X) if DIVISOR == "n" else len(X) - 1) / len(X)
    cosine = (u @ w) / np.sqrt(w @ C @ w)
    g = ratio / (ratio + DECAY) * cosine
    return g, np.mean(y), np.var(y) - ratio * g * cosine


def centred_moments(X, y):
    divisor = len(X) if DIVISOR == "n" else len(X) - 1
    centred = X - X.mean(axis=0)
    return centred.T @ (y - y.mean()) / divisor, centred.T @ centred / divisor
"""
STEP = """def direction_step(w, X, y):
    u, C = centred_moments(X, y)
    if u @ w == 0:
        raise ValueError("u.w is 0")
    low, *_, high = np.linalg.eigvalsh(C)
    square = w @ C @ w
    slope = u - (u @ w) / square * (C @ w)
    return w + RELAX / (low + high) * square / (u @ w) * slope
"""
SLOPES = """def slopes(t):
    t = np.asarray(t, dtype=float)
    if LOSS == "pseudo-Huber":
        b = SHIFT - SIGN * t
        return -SIGN * b / np.hypot(1, b), np.hypot(1, b) ** -3
    b = (SHIFT if LOSS == "softplus" else -SHIFT) - SIGN * t
    p = 1 / (1 + np.exp(-b))
    if LOSS == "softplus":
        return -SIGN * p, p * (1 - p)
    return -SIGN * p * (1 - p), p * (1 - p) * (1 - 2 * p)
"""
GRADIENT = """def direction_gradient(w, g, u, S):
    norm = np.sqrt(w @ S @ w)
    first, _ = two_numbers(w, g, u, S)
    return g * first / norm * (u - (u @ w) / norm**2 * (S @ w))


def two_numbers(w, g, u, S):
    mean = (u @ w) / np.sqrt(w @ S @ w)
    first, second = slopes(g * (mean + np.sqrt(1 - mean**2) * NODES))
    c_2 = WEIGHTS @ second
    return WEIGHTS @ first - g * mean * c_2, c_2
"""
SIZE = """def step_size(w, g, u, S):
    low, *_, high = np.linalg.eigvalsh(S)
    c_1, _ = two_numbers(w, g, u, S)
    h = c_1 * (u @ w)
    return -RELAX / (low + high) * (w @ S @ w) ** 1.5 / (g * h)
"""
BRACKET = """def length_bracket(w, u, S, halvings):
    mean = (u @ w) / np.sqrt(w @ S @ w)
    values = mean + np.sqrt(1 - mean**2) * NODES
    high = (0.25 if LOSS == "sigmoid" else 1.0) / (2 * DECAY)
    low = -high
    for _ in range(halvings):
        middle = (low + high) / 2
        slope = WEIGHTS @ (slopes(middle * values)[0] * values) + 2 * DECAY * middle
        if slope < 0:
            low = middle
        else:
            high = middle
    return low, high
"""


def changed(source, before, after):
    """Return a solution with one place changed, which must be there once."""
    if source.count(before) != 1:
        raise ValueError(f"{before!r} is there {source.count(before)} times")
    return source.replace(before, after)


OTHER = 'divisor = len(X) - 1 if DIVISOR == "n" else len(X)'
OWN = 'divisor = len(X) if DIVISOR == "n" else len(X) - 1'
PRINTED = """mean = (u @ w) / np.sqrt(w @ S @ w)
    first, second = slopes(g * (mean + np.sqrt(1 - mean**2) * NODES))
    h = WEIGHTS @ first * (u @ w) - WEIGHTS @ second * (u @ w) ** 2"""
BY_DIFFERENCE = """def step_size(w, g, u, S):
    low, *_, high = np.linalg.eigvalsh(S)
    norm = np.sqrt(w @ S @ w)

    def loss(mean):
        return WEIGHTS @ phi(g * (mean + np.sqrt(1 - mean**2) * NODES))

    mean = (u @ w) / norm
    slope = (loss(mean + 1e-5) - loss(mean - 1e-5)) / 2e-5
    return -RELAX / (low + high) * norm**3 / (u @ w) / slope
"""

WRONG = {
    "the other variance divisor": {
        "cells": {"best-unit": changed(BEST_UNIT, OWN, OTHER)},
        "lost": {"unit-least", "unit-value"},
    },
    "the penalty forgotten in the best length": {
        "cells": {
            "best-unit": changed(BEST_UNIT, "(ratio + DECAY)", "ratio")
        },
        "lost": {"unit-least", "unit-value"},
    },
    "moments that are not centred": {
        "cells": {
            "best-unit": changed(BEST_UNIT, "X - X.mean(axis=0)", "X"),
        },
        "lost": {
            "unit-least",
            "unit-value",
            "unit-numerics",
            "step-value",
            "step-contraction",
        },
    },
    "numbers copied from a visible test": {
        "cells": {
            "best-unit": BEST_UNIT.partition("    u, C")[0]
            + "    return 1.2374, 0.8311, 2.0446\n"
            + BEST_UNIT[BEST_UNIT.index("\n\ndef") :],
        },
        "lost": {"unit-least", "unit-value", "unit-numerics"},
    },
    "the step of chapter 08, 1 / L": {
        "cells": {
            "direction-step": changed(
                STEP, "RELAX / (low + high)", "1 / high"
            )
        },
        "lost": {"step-value", "step-contraction"},
    },
    "no refusal where the step divides by 0": {
        "cells": {"direction-step": changed(STEP, "u @ w == 0", "False")},
        "lost": {"step-contraction"},
    },
    "the bound read off both panels": {
        "cells": {
            "readings": """def readings():
    factor = (1 - LEVELS[0] / LEVELS[-1]) ** 2
    name = "A" if TARGET_A[0] == 0 else "B"
    return {"slower": factor, "faster": factor, "sharp": name}
"""
        },
        "lost": {"reading-faster"},
    },
    "slopes that overflow": {
        "cells": {
            "slopes": SLOPES.replace(
                "p = 1 / (1 + np.exp(-b))", "p = np.exp(b) / (1 + np.exp(b))"
            ).replace(
                "-SIGN * b / np.hypot(1, b)", "-SIGN * b / np.sqrt(1 + b**2)"
            )
        },
        "lost": {"slopes-far"},
    },
    "weight normalization's projection": {
        "cells": {
            "direction-gradient": changed(
                GRADIENT,
                "u - (u @ w) / norm**2 * (S @ w)",
                "u - (u @ w) / (w @ w) * w",
            )
        },
        "lost": {"gradient-value"},
    },
    "the printed h": {
        "cells": {"step-size": changed(SIZE, "h = c_1 * (u @ w)", PRINTED)},
        "lost": {"size-value", "size-scale"},
    },
    "a difference for the gradient in the size": {
        "cells": {"step-size": BY_DIFFERENCE},
        "lost": {"size-value"},
    },
    "a difference for the slope in the bisection": {
        "cells": {
            "length-bracket": changed(
                BRACKET,
                "WEIGHTS @ (slopes(middle * values)[0] * values) + 2 * DECAY * middle",
                "(halfspace_loss(w, middle + 1e-5, u, S)"
                " - halfspace_loss(w, middle - 1e-5, u, S)) / 2e-5",
            )
        },
        "lost": {"bracket-end"},
    },
    "the penalty forgotten in the bisection": {
        "cells": {
            "length-bracket": changed(BRACKET, " + 2 * DECAY * middle", "")
        },
        "lost": {"bracket-halved", "bracket-end"},
    },
    "a bracket of positive lengths only": {
        "cells": {
            "length-bracket": changed(BRACKET, "low = -high", "low = 0.0")
        },
        "lost": {"bracket-start", "bracket-halved", "bracket-end"},
    },
}
