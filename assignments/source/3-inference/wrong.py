"""Typical wrong answers to set 3, and the tests that each of them fails."""

TRACK = """
def track(batches, momentum):
    new = {share}
    channels = batches[0].shape[CHANNELS]
    mean, var = np.full(channels, START_MEAN), np.full(channels, START_VAR)
    for batch in batches:
        values = np.moveaxis(batch, CHANNELS, -1).reshape(-1, channels)
        m = len(values)
        squares = {squares}
        mean = (1 - new) * mean + new * values.mean(axis=0)
        var = (1 - new) * var + new * squares / ({divisor})
    return mean, var
"""
SHARE = 'momentum if MOMENTUM_COUNTS == "new" else 1 - momentum'
SWAPPED = 'momentum if MOMENTUM_COUNTS == "old" else 1 - momentum'
SQUARES = "((values - values.mean(axis=0)) ** 2).sum(axis=0)"
ONE_PASS = "(values**2).sum(axis=0) - m * values.mean(axis=0) ** 2"

GATHER = """
def gather(counts, means, inv_stds):
    share = {share}
    mean = (share * means).sum(axis=0)
    biased = (share * ({within} + {between})).sum(axis=0)
    total = counts.sum()
    return mean, biased * total / divisor(total)
"""
SHARES = "(counts / counts.sum())[:, None]"

REMOVE = """
def remove(whole, part):
    (count, mean, var), (gone, gone_mean, gone_var) = whole, part
    rest = count - gone
    rest_mean = (count * mean - gone * gone_mean) / rest
    squares = divisor(count) * var - divisor(gone) * gone_var
    return rest, rest_mean, squares / max(divisor(rest), 1)
"""

FOLD = """
def fold(weight, bias, before, after, length):
    first = before["gamma"] / np.sqrt(before["var"] + {eps})
    second = after["gamma"] / np.sqrt(after["var"] + {eps})
    shift = before["beta"] - first * before["mean"]
    rows = weight if LAYOUT == "NLC" else weight.transpose(2, 1, 0)
    new = rows * first[:, None] * second
    bias = bias + {reached}
    bias = second * (bias - after["mean"]) + after["beta"]
    bias_map = np.broadcast_to(bias, (-(-length // STRIDE), len(second)))
    if LAYOUT == "NLC":
        return new, bias_map
    return new.transpose(2, 1, 0), bias_map.T
"""

STREAM = """
def observe(state, batch, layers, known):
    a = batch
    for layer, (mean, var) in zip(layers, known):
        h = a @ layer["weight"]
        {statistics}
        x_hat = (h - mean) / np.sqrt(var + EPS)
        a = activate(layer["gamma"] * x_hat + layer["beta"])
    h = a @ layers[len(known)]["weight"]
    {keep}


def finish(state):
    {finish}
"""
SUMS = """count, mean = len(h), h.mean(axis=0)
    squares = ((h - mean) ** 2).sum(axis=0)
    if state is None:
        return count, mean, squares
    seen, old, sums = state
    total, move = seen + count, mean - old
    squares = sums + squares + move**2 * seen * count / total
    return total, old + move * count / total, squares"""
MERGED = "return state[1], state[2] / state[0]"
KEPT_OUTSIDE = """token = len(STREAMS) if state is None else state
    STREAMS.setdefault(token, []).append(h)
    return token"""
READ_OUTSIDE = """rows = np.concatenate(STREAMS[state])
    return rows.mean(axis=0), rows.var(axis=0)"""
ALL_TRACK = {"track-mean", "track-variance", "track-offset"}

WRONG = {
    "swapped momentum": {
        "cells": {
            "track": TRACK.format(
                share=SWAPPED, squares=SQUARES, divisor="divisor(m)"
            )
        },
        "lost": ALL_TRACK,
    },
    "the other variance divisor": {
        "cells": {
            "track": TRACK.format(
                share=SHARE, squares=SQUARES, divisor="2 * m - 1 - divisor(m)"
            )
        },
        "lost": {"track-variance", "track-offset"},
    },
    "mean of squares minus squared mean": {
        "cells": {
            "track": TRACK.format(
                share=SHARE, squares=ONE_PASS, divisor="divisor(m)"
            )
        },
        "lost": {"track-offset"},
    },
    "values copied from a visible test": {
        "cells": {
            "track": """
def track(batches, momentum):
    return np.array([0.93, 1.12, 0.7]), np.array([3.9, 4.2, 3.1])
""",
            "age": """
def age(steps):
    return {1: 0.0, 2: 1 / (POWER + 2), 7: 6 / (POWER + 2)}[steps]
""",
        },
        "lost": {*ALL_TRACK, "age-closed"},
    },
    "the framework's default instead of a reading": {
        "cells": {
            "read_momentum": """
def read_momentum():
    return 0.1 if MOMENTUM_COUNTS == "new" else 0.9
""",
        },
        "lost": {"read-momentum"},
    },
    "momentum of the other framework": {
        "cells": {
            "read_momentum": """
def read_momentum():
    kept = ((RECORD[5] - LEVEL) / (RECORD[0] - LEVEL)) ** (1 / 15)
    return kept if MOMENTUM_COUNTS == "new" else 1 - kept
""",
        },
        "lost": {"read-momentum"},
    },
    "the first point taken for the start": {
        "cells": {"read_start": "def read_start():\n    return RECORD[0]\n"},
        "lost": {"read-start"},
    },
    "distance read on the upright axis": {
        "cells": {
            "read_delay": "def read_delay():\n    return LEVEL - LATE[0]\n"
        },
        "lost": {"read-delay"},
    },
    "the age of a plain average": {
        "cells": {"age": "def age(steps):\n    return (steps - 1) / 2\n"},
        "lost": {"age-closed"},
    },
    "every machine counts alike": {
        "cells": {
            "gather": GATHER.format(
                share="np.full((len(counts), 1), 1 / len(counts))",
                within="inv_stds**-2.0 - EPS",
                between="(means - mean) ** 2",
            )
        },
        "lost": {"gather-mean", "gather-variance"},
    },
    "no variance between machines": {
        "cells": {
            "gather": GATHER.format(
                share=SHARES, within="inv_stds**-2.0 - EPS", between="0"
            )
        },
        "lost": {"gather-variance"},
    },
    "epsilon left in the variance": {
        "cells": {
            "gather": GATHER.format(
                share=SHARES,
                within="inv_stds**-2.0",
                between="(means - mean) ** 2",
            )
        },
        "lost": {"gather-variance"},
    },
    "between part and rest forgotten": {
        "cells": {"remove": REMOVE},
        "lost": {"remove-rest", "remove-hard"},
    },
    "one bias for all positions": {
        "cells": {
            "fold": FOLD.format(
                eps="EPS", reached="rows.sum(axis=0).T @ shift"
            )
        },
        "lost": {"fold-border", "fold-hard"},
    },
    "no epsilon in the fold": {
        "cells": {
            "fold": FOLD.format(
                eps="1e-12", reached="rows.sum(axis=0).T @ shift"
            )
        },
        "lost": {"fold-inside", "fold-border", "fold-hard"},
    },
    "shift of the first BN forgotten": {
        "cells": {"fold": FOLD.format(eps="EPS", reached="0 * second")},
        "lost": {"fold-inside", "fold-border", "fold-hard"},
    },
    "one pass with the batches' own statistics": {
        "cells": {
            "stream": STREAM.format(
                statistics="mean, var = h.mean(axis=0), h.var(axis=0)",
                keep=SUMS,
                finish=MERGED,
            )
        },
        "lost": {"stream-deep"},
    },
    "average of the batches' variances": {
        "cells": {
            "stream": STREAM.format(
                statistics="pass",
                keep="""seen, mean, var = (0, 0.0, 0.0) if state is None else state
    count = len(h)
    return seen + count, mean + count * h.mean(axis=0), var + count * h.var(axis=0)""",
                finish="return state[1] / state[0], state[2] / state[0]",
            )
        },
        "lost": {"stream-first", "stream-deep", "stream-memory"},
    },
    "all items kept": {
        "cells": {
            "stream": STREAM.format(
                statistics="pass",
                keep="return h if state is None else np.concatenate([state, h])",
                finish="return state.mean(axis=0), state.var(axis=0)",
            )
        },
        "lost": {"stream-first", "stream-deep", "stream-memory"},
    },
    "all items kept in a global variable": {
        "cells": {
            "stream": "STREAMS = {}\n"
            + STREAM.format(
                statistics="pass", keep=KEPT_OUTSIDE, finish=READ_OUTSIDE
            )
        },
        "lost": {"stream-first", "stream-deep", "stream-memory"},
    },
}
