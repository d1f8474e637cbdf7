"""Typical wrong answers to set 6, and the tests that each of them fails."""

GRADIENTS = """def gradients(v, s, X, y):
    norm = np.linalg.norm(v)
    if norm == 0:
        raise ValueError("v is 0: it has no direction")
    if not np.isin(y, LABELS).all():
        raise ValueError(f"y must hold the labels {LABELS}, not {np.unique(y)}")
    rows = np.where(y == LABELS[0], 1.0, -1.0)[:, None] * X
    direction = v / norm
    value, weights = of_margins(length(s) * (rows @ direction))
    force = weights @ rows
    along = direction @ force
    slope = {"square": 2 * s, "cube": 3 * s**2, "exp": np.exp(s)}[LENGTH]
    return value, -length(s) / norm * (force - along * direction), -slope * along


def of_margins(m):
    logs, slopes = -m, np.ones(len(m))
    if LOSS == "logistic":
        logs = np.log(np.logaddexp(0, -np.minimum(m, 30.0)))
        slopes = np.exp(-np.logaddexp(0, np.minimum(m, 30.0)) - logs)
        logs, slopes = np.where(m > 30, -m, logs), np.where(m > 30, 1.0, slopes)
    top = np.max(logs)
    shares = np.exp(logs - top)
    total = np.sum(shares)
    count = len(m) if REDUCTION == "mean" else 1
    return top + np.log(total / count), slopes * shares / total
"""
NAIVE = """def of_margins(m):
    losses, slopes = np.exp(-m), np.exp(-m)
    if LOSS == "logistic":
        losses, slopes = np.log(1 + np.exp(-m)), 1 / (1 + np.exp(m))
    total = np.sum(losses)
    count = len(m) if REDUCTION == "mean" else 1
    return np.log(total / count), slopes / total
"""
INVARIANT = """def invariant(v, s, x, y):
    return log_sine(v, x) + potential(s) / (v @ v)


def log_sine_at(v, s, x, y, depth):
    kept, c = invariant(v, s, x, y), np.linalg.norm(x)
    margin = depth
    if LOSS == "logistic":
        margin = -np.log(np.expm1(np.exp(-depth)))

    def log_sine_of(s):
        return np.minimum(kept - potential(s) / (v @ v), 0.0)

    def margin_of(s):
        return length(s) * c * np.sqrt(-np.expm1(2 * log_sine_of(s)))

    low, high = s, length_inverse(length(s) + 2 * margin / c)
    for _ in range(200):
        middle = (low + high) / 2
        if margin_of(middle) > margin:
            high = middle
        else:
            low = middle
    return log_sine_of(low)


def log_sine(v, x):
    u = x / np.linalg.norm(x)
    return np.log(np.linalg.norm(v - (v @ u) * u) / np.linalg.norm(v))


def potential(s):
    return {"square": s**2 / 4, "cube": s**2 / 6, "exp": s}[LENGTH]
"""
DESCENTS = """def descend(v, s, X, y, fall, steps):
    path = [(v, s)]
    for _ in range(steps):
        v, s = path[-1]
        _, of_v, of_s = gradients(v, s, X, y)
        rate = fall / (of_v @ of_v + of_s**2)
        path.append((v - rate * of_v, s - rate * of_s))
    return np.array([v for v, _ in path]), np.array([s for _, s in path])


def descend_plain(w, X, y, fall, steps):
    rows = np.where(y == LABELS[0], 1.0, -1.0)[:, None] * X
    path = [w]
    for _ in range(steps):
        _, weights = of_margins(rows @ path[-1])
        force = weights @ rows
        path.append(path[-1] + fall / (force @ force) * force)
    return np.array(path)
"""
IN_TURN = """        v = v - rate * of_v
        _, _, of_s = gradients(v, s, X, y)
        path.append((v, s - rate * of_s))
"""


def changed(source, before, after):
    """Return a solution with one place changed, which must be there once."""
    if source.count(before) != 1:
        raise ValueError(f"{before!r} is there {source.count(before)} times")
    return source.replace(before, after)


WRONG = {
    "no projection in the gradient of v": {
        "cells": {
            "gradients": changed(
                GRADIENTS, "(force - along * direction)", "force"
            )
        },
        "lost": {
            "gradients-values",
            "gradients-sphere",
            "gradients-far",
            "descent-steps",
            "descent-norms",
        },
    },
    "the slope of the length map forgotten": {
        "cells": {
            "gradients": changed(GRADIENTS, "-slope * along", "-along")
        },
        "lost": {
            "gradients-values",
            "gradients-far",
            "descent-steps",
        },
    },
    "exponentials that vanish": {
        "cells": {
            "gradients": GRADIENTS.partition("def of_margins")[0] + NAIVE
        },
        "lost": {"gradients-far"},
    },
    "no refusal at v = 0": {
        "cells": {"gradients": changed(GRADIENTS, "norm == 0", "False")},
        "lost": {"gradients-zero"},
    },
    "the chapter's invariant, r = s": {
        "cells": {
            "invariant": changed(
                INVARIANT,
                '{"square": s**2 / 4, "cube": s**2 / 6, "exp": s}[LENGTH]',
                "s**2 / 2",
            )
        },
        "lost": {"invariant-kept", "turning"},
    },
    "the norm of v taken as 1": {
        "cells": {
            "invariant": INVARIANT.replace(" / (v @ v)", "").replace(
                "v @ v", "1"
            )
        },
        "lost": {"invariant-kept", "turning"},
    },
    "a sine from 1 - cos^2": {
        "cells": {
            "invariant": changed(
                INVARIANT,
                "np.log(np.linalg.norm(v - (v @ u) * u) / np.linalg.norm(v))",
                "np.log(1 - (v @ u) ** 2 / (v @ v) + 1e-300) / 2",
            )
        },
        "lost": {"invariant-angle"},
    },
    "a number copied from a visible test": {
        "cells": {
            "invariant": changed(
                INVARIANT,
                "return log_sine(v, x) + potential(s) / (v @ v)",
                "return -0.0172",
            )
        },
        "lost": {"invariant-kept", "invariant-angle", "turning"},
    },
    "the slope of the larger norm's curve": {
        "cells": {
            "readings": """def readings():
    power = {"square": 4, "cube": 6, "exp": 1}[LENGTH]
    spread = {}
    for name, (place, sines) in curves.items():
        s = place if LENGTH == "exp" else np.sqrt(place)
        spread[name] = np.ptp(sines + np.log(length(s)))
    plain = min(spread, key=spread.get)
    falls = {n: np.ptp(sines) for n, (_, sines) in curves.items() if n != plain}
    larger = min(falls, key=falls.get)
    return {
        "slope": -1 / (power * max(NORMS) ** 2),
        "smaller": larger,
        "plain": plain,
    }
"""
        },
        "lost": {"reading-slope", "reading-smaller"},
    },
    "s after v, at the new v": {
        "cells": {
            "descents": changed(
                DESCENTS,
                "        path.append((v - rate * of_v, s - rate * of_s))\n",
                IN_TURN,
            )
        },
        "lost": {"descent-steps"},
    },
    "plain steps of the size of the gradient": {
        "cells": {
            "descents": changed(DESCENTS, "fall / (force @ force)", "fall")
        },
        "lost": {"plain-margin"},
    },
    "an experiment that ignores its seed": {
        "cells": {
            "experiment": """def experiment(seed):
    X, y, w = separable(np.random.default_rng(), 20, 5)
    path = descend_plain(w, X, y, 0.02, 20)
    return {"first": float(np.min(X @ path[0])), "last": float(np.min(X @ path[-1]))}
"""
        },
        "lost": {"experiment-repeats"},
    },
}
