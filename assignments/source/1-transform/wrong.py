"""Typical wrong answers to set 1, and the tests that each of them fails."""

NORMALIZE = """
def normalize(x, gamma, beta):
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=AXES, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=AXES, keepdims=True))
    spread = (deviation**POWER + EPS**POWER) ** (1 / POWER)
    shape = [1, 1, 1, 1]
    shape[CHANNEL] = len(gamma)
    y = gamma.reshape(shape) * (centred / spread) + beta.reshape(shape)
    return y.astype(x.dtype)
"""

STREAM = """
def update(state, chunk):
    rows = np.moveaxis(chunk, EXAMPLES, 0).astype(np.float64)
    k, features = rows.shape
    if state is None:
        square = np.zeros((features, features))
        state = {"count": 0, "mean": np.zeros(features), "products": square}
    if k == 0:
        return state
    mean = rows.mean(axis=0)
    centred, moved = rows - mean, mean - state["mean"]
    count = state["count"] + k
    between = np.outer(moved, moved) * (state["count"] * k / count)
    return {
        "count": count,
        "mean": state["mean"] + moved * (k / count),
        "products": state["products"] + centred.T @ centred + between,
    }


def finish(state):
    covariance = state["products"] / state["count"]
    deviation = np.sqrt(np.diag(covariance))
    spread = (deviation**POWER + EPS**POWER) ** (1 / POWER)
    return covariance / np.outer(spread, spread)
"""

RAW_SUMS = """
def update(state, chunk):
    rows = np.moveaxis(chunk, EXAMPLES, 0).astype(np.float64)
    if state is None:
        state = {"count": 0, "sum": 0.0, "products": 0.0}
    return {
        "count": state["count"] + len(rows),
        "sum": state["sum"] + rows.sum(axis=0),
        "products": state["products"] + rows.T @ rows,
    }


def finish(state):
    mean = state["sum"] / state["count"]
    covariance = state["products"] / state["count"] - np.outer(mean, mean)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0))
    spread = (deviation**POWER + EPS**POWER) ** (1 / POWER)
    return covariance / np.outer(spread, spread)
"""

KEEP_ALL = """
def update(state, chunk):
    rows = np.moveaxis(chunk, EXAMPLES, 0).astype(np.float64)
    return rows if state is None else np.concatenate([state, rows])


def finish(state):
    centred = state - state.mean(axis=0)
    covariance = centred.T @ centred / len(state)
    deviation = np.sqrt(np.diag(covariance))
    spread = (deviation**POWER + EPS**POWER) ** (1 / POWER)
    return covariance / np.outer(spread, spread)
"""

KEPT_IN_A_KEY = """
def update(state, chunk):
    rows = np.moveaxis(chunk, EXAMPLES, 0).astype(np.float64)
    (text, features), = (state or {"": rows.shape[1]}).items()
    return {text + rows.tobytes().hex(): features}


def finish(state):
    (text, features), = state.items()
    rows = np.frombuffer(bytes.fromhex(text)).reshape(-1, features)
    centred = rows - rows.mean(axis=0)
    covariance = centred.T @ centred / len(rows)
    deviation = np.sqrt(np.diag(covariance))
    spread = (deviation**POWER + EPS**POWER) ** (1 / POWER)
    return covariance / np.outer(spread, spread)
"""

FINISH = """
def finish(state):
    rows = kept(state)
    centred = rows - rows.mean(axis=0)
    covariance = centred.T @ centred / len(rows)
    deviation = np.sqrt(np.diag(covariance))
    spread = (deviation**POWER + EPS**POWER) ** (1 / POWER)
    return covariance / np.outer(spread, spread)
"""
KEPT_OUTSIDE = (
    """
STREAMS = {}
def update(state, chunk):
    token = len(STREAMS) if state is None else state
    STREAMS.setdefault(token, []).append(np.moveaxis(chunk, EXAMPLES, 0) * 1.0)
    return token

def kept(token):
    return np.concatenate(STREAMS[token])
"""
    + FINISH
)
KEPT_IN_FILES = (
    """
import os

def update(state, chunk):
    token = f"{len(os.listdir('.'))}.npy" if state is None else state
    rows = np.moveaxis(chunk, EXAMPLES, 0) * 1.0
    np.save(token, rows if state is None else np.concatenate([kept(token), rows]))
    return token

def kept(token):
    return np.load(token)
"""
    + FINISH
)

CONSEQUENCES = """
def least_deviation(target):
    return EPS * target / (1 - target**POWER) ** (1 / POWER)


def pair_slope(gap):
    spread = (np.abs(gap / 2) ** POWER + EPS**POWER) ** (1 / POWER)
    return EPS**POWER / (2 * spread ** (POWER + 1))
"""

READINGS = """
def one_pass_growth():
    return RISE**2.0


def one_digit():
    return 0.36 * 2.0 ** (BITS / 2)


def flat_error():
    return 0.35 * 2.0**-BITS
"""


def changed(source, old, new):
    """Return the source with one place changed."""
    if source.count(old) != 1:
        raise ValueError(f"{old!r} stands {source.count(old)} times")
    return source.replace(old, new)


WRONG = {
    "divisor m - 1": {
        "cells": {
            "normalize": changed(
                NORMALIZE,
                "(centred**2).mean(axis=AXES, keepdims=True)",
                "wide.var(axis=AXES, ddof=1, keepdims=True)",
            )
        },
        "lost": {"normalize-moments"},
    },
    "one axis of AXES forgotten": {
        "cells": {
            "normalize": NORMALIZE.replace("axis=AXES", "axis=AXES[:-1]")
        },
        "lost": {"normalize-moments", "normalize-epsilon"},
    },
    "gamma and beta along another axis": {
        "cells": {
            "normalize": changed(
                NORMALIZE, "shape[CHANNEL]", "shape[(CHANNEL + 1) % 4]"
            )
        },
        "lost": {"normalize-parameters"},
    },
    "the epsilon of chapter 02": {
        "cells": {
            "normalize": changed(
                NORMALIZE,
                "(deviation**POWER + EPS**POWER) ** (1 / POWER)",
                "np.sqrt(deviation**2 + EPS)",
            )
        },
        "lost": {"normalize-epsilon"},
    },
    "statistics in float32": {
        "cells": {
            "normalize": changed(NORMALIZE, "x.astype(np.float64)", "x")
        },
        "lost": {"normalize-precision"},
    },
    "one-pass variance": {
        "cells": {
            "normalize": changed(
                NORMALIZE,
                "np.sqrt((centred**2).mean(axis=AXES, keepdims=True))",
                "np.sqrt(np.maximum((wide**2).mean(axis=AXES, keepdims=True)"
                " - wide.mean(axis=AXES, keepdims=True) ** 2, 0))",
            )
        },
        "lost": {"normalize-precision"},
    },
    "the argument changed in place": {
        "cells": {
            "normalize": changed(
                NORMALIZE,
                "centred = wide - wide.mean(axis=AXES, keepdims=True)",
                "centred = wide - wide.mean(axis=AXES, keepdims=True)\n"
                "    x -= x.mean(axis=AXES, keepdims=True)",
            )
        },
        "lost": {"normalize-precision"},
    },
    "slope in sigma, not in x": {
        "cells": {
            "consequences": changed(CONSEQUENCES, "(2 * spread", "(spread")
        },
        "lost": {"pair-slope"},
    },
    "a value copied from a visible test": {
        "cells": {
            "consequences": changed(
                CONSEQUENCES,
                "EPS * target / (1 - target**POWER) ** (1 / POWER)",
                "1.5e-7 * EPS",
            )
        },
        "lost": {"least-deviation"},
    },
    "chunks added about their own means": {
        "cells": {
            "stream": changed(
                STREAM, "centred.T @ centred + between", "centred.T @ centred"
            )
        },
        "lost": {"stream-merge", "stream-state"},
    },
    "raw sums": {
        "cells": {"stream": RAW_SUMS},
        "lost": {"stream-precision"},
    },
    "all examples kept": {
        "cells": {"stream": KEEP_ALL},
        "lost": {"stream-merge", "stream-state", "stream-precision"},
    },
    "all examples kept in the key of a dict": {
        "cells": {"stream": KEPT_IN_A_KEY},
        "lost": {"stream-merge", "stream-state", "stream-precision"},
    },
    "a stream for each token, in a global variable": {
        "cells": {"stream": KEPT_OUTSIDE},
        "lost": {
            "stream-merge",
            "stream-state",
            "stream-precision",
            "stream-correlation",
        },
    },
    "a stream for each token, in files": {
        "cells": {"stream": KEPT_IN_FILES},
        "lost": {
            "stream-merge",
            "stream-state",
            "stream-precision",
            "stream-correlation",
        },
    },
    "an empty first chunk as the state": {
        "cells": {
            "stream": changed(
                STREAM,
                "    k, features = rows.shape\n",
                "    k, features = rows.shape\n"
                "    if k == 0:\n"
                "        return chunk if state is None else state\n",
            )
        },
        "lost": {"stream-state"},
    },
    "the correlation first, 0 / 0 for a feature that never changes": {
        "cells": {
            "stream": changed(
                STREAM,
                "return covariance / np.outer(spread, spread)",
                "factor = deviation / spread\n"
                "    correlation = covariance / np.outer(deviation, deviation)\n"
                "    return correlation * np.outer(factor, factor)",
            )
        },
        "lost": {"stream-correlation"},
    },
    "sigma instead of s": {
        "cells": {
            "stream": changed(
                STREAM,
                "(deviation**POWER + EPS**POWER) ** (1 / POWER)",
                "np.maximum(deviation, 1e-100)",
            )
        },
        "lost": {"stream-merge"},
    },
    "an error that grows like the ratio": {
        "cells": {"readings": changed(READINGS, "RISE**2.0", "1.0 * RISE")},
        "lost": {"one-pass-slope"},
    },
    "the place where nothing is left": {
        "cells": {"readings": changed(READINGS, "0.36 *", "1.2 *")},
        "lost": {"one-digit"},
    },
    "the height of another line": {
        "cells": {"readings": changed(READINGS, "0.35 *", "16 *")},
        "lost": {"flat-error"},
    },
}
