"""Typical wrong answers to set 2, and the tests that each of them fails."""

GRADIENTS = """
def activation_slope(y):
    if ACTIVATION == "tanh":
        return 1 - np.tanh(y) ** 2
    if ACTIVATION == "softplus":
        return 1 / (1 + np.exp(-y))
    return np.where(y > 0, 1.0, 0.1)


def gradients(dz, x, votes, gamma, beta):
    share, x_hat, sigma, s = statistics(x, votes)
    scale = along(gamma, CHANNEL)
    dy = dz * activation_slope(scale * x_hat + along(beta, CHANNEL))
    dgamma, dbeta = (dy * x_hat).sum(axis=AXES), dy.sum(axis=AXES)
    positive = np.where(sigma > 0, sigma, s)
    kappa = (positive / s) ** (POWER - 2)
    lost = along(dbeta, CHANNEL) + kappa * x_hat * along(dgamma, CHANNEL)
    return scale / s * (dy - share * lost), dgamma, dbeta
"""

VOTE = """
def vote_gradient(dz, x, votes, gamma, beta):
    _, x_hat, sigma, s = statistics(x, votes)
    scale = along(gamma, CHANNEL)
    dy = dz * activation_slope(scale * x_hat + along(beta, CHANNEL))
    through_mean = scale * dy.sum(axis=AXES, keepdims=True)
    through_spread = scale * (dy * x_hat).sum(axis=AXES, keepdims=True)
    positive = np.where(sigma > 0, sigma, s)
    kappa = (positive / s) ** (POWER - 2)
    excess = kappa * (x_hat**2 - (sigma / s) ** 2) / 2
    pull = -(through_mean * x_hat + through_spread * excess)
    over_time = pull.mean(axis=TIME, keepdims=True)
    return over_time.sum(axis=(TIME, CHANNEL)) / np.sum(votes)
"""

CURVATURE = """
def hessian_times(x, target, v):
    x_hat, a, b, sigma = curvature_parts(x, target)
    m = len(x)
    projected = v - v.mean() - x_hat * (x_hat @ v) / m
    turned = b * (x_hat @ v) + x_hat * (b @ v) + a * projected
    return -turned / (m * sigma**2)


def extreme_curvatures(x, target):
    _, a, b, sigma = curvature_parts(x, target)
    m = len(x)
    root = np.sqrt(a**2 + 4 * m * (b @ b))
    far = -(a + np.copysign(root, a)) / 2
    near = -m * (b @ b) / far if far else 0.0
    return min(far, near) / (m * sigma**2), max(far, near) / (m * sigma**2)


def curvature_parts(x, target):
    m = len(x)
    centred = x - x.mean()
    sigma = np.sqrt((centred**2).mean())
    x_hat = centred / sigma
    factor = {
        "squared": -1.0,
        "cosine": -1 / (np.sqrt(m) * np.linalg.norm(target)),
        "cubic": float(m),
    }[LOSS]
    delta = factor * target
    a = delta @ x_hat
    b = delta - delta.mean() - x_hat * a / m
    b = b - b.mean() - x_hat * (x_hat @ b) / m
    return x_hat, a, b, sigma
"""

READINGS = """
def best_step():
    order = {"forward": 1, "central": 2, "five-point": 4}[SCHEME]
    unit = 2.0**-24 if FLOAT == "float32" else 2.0**-53
    return unit ** (1 / (order + 1))


def growth_of_large_steps():
    return FACTOR ** {"forward": 1.0, "central": 2.0, "five-point": 4.0}[SCHEME]


def growth_of_small_steps():
    return 1 / FACTOR
"""


def changed(source, old, new):
    """Return the source with one place changed."""
    if source.count(old) != 1:
        raise ValueError(f"{old!r} stands {source.count(old)} times")
    return source.replace(old, new)


def wrong(cell, source, old, new, lost):
    """Return a wrong answer that differs from a right one in one place."""
    return {"cells": {cell: changed(source, old, new)}, "lost": lost}


WRONG = {
    "missing mean path": wrong(
        "gradients",
        GRADIENTS,
        "along(dbeta, CHANNEL) + kappa",
        "kappa",
        {"gradients-input", "gradients-votes", "gradients-hard"},
    ),
    "missing variance path": wrong(
        "gradients",
        GRADIENTS,
        " + kappa * x_hat * along(dgamma, CHANNEL)",
        "",
        {"gradients-input"},
    ),
    "the compact form of chapter 03": wrong(
        "gradients",
        GRADIENTS,
        "kappa * x_hat * along",
        "x_hat * along",
        {"gradients-input"},
    ),
    "equal votes in the backward pass": wrong(
        "gradients",
        GRADIENTS,
        "dy - share * lost",
        "dy - lost / (x.size / len(gamma))",
        {"gradients-input", "gradients-votes"},
    ),
    "no corrections, as at inference": wrong(
        "gradients",
        GRADIENTS,
        "dy - share * lost",
        "dy",
        {"gradients-input", "gradients-votes", "gradients-hard"},
    ),
    "gamma's gradient summed over wrong axes": wrong(
        "gradients",
        GRADIENTS,
        "return scale / s * (dy - share * lost), dgamma, dbeta",
        "dx = scale / s * (dy - share * lost)\n"
        "    return dx, (dy * x_hat).sum(axis=(CHANNEL, TIME)), dbeta",
        {"gradients-parameters", "gradients-hard"},
    ),
    "activation's slope at x_hat": wrong(
        "gradients",
        GRADIENTS,
        "activation_slope(scale * x_hat + along(beta, CHANNEL))",
        "activation_slope(x_hat)",
        {
            "gradients-input",
            "gradients-parameters",
            "gradients-votes",
            "gradients-hard",
        },
    ),
    "upstream gradient changed in place": wrong(
        "gradients",
        GRADIENTS,
        "dy = dz * activation_slope(scale * x_hat + along(beta, CHANNEL))",
        "dz *= activation_slope(scale * x_hat + along(beta, CHANNEL))\n"
        "    dy = dz",
        {"gradients-hard"},
    ),
    "votes multiplied in": wrong(
        "vote",
        VOTE,
        "/ np.sum(votes)",
        "* votes / np.sum(votes)",
        {"vote-gradient", "vote-gradient-hard"},
    ),
    "votes not divided by their sum": wrong(
        "vote",
        VOTE,
        "x_hat**2 - (sigma / s) ** 2",
        "x_hat**2",
        {"vote-gradient", "vote-gradient-hard"},
    ),
    "0 / 0 for a channel that never changes": wrong(
        "vote",
        VOTE,
        "kappa = (positive / s) ** (POWER - 2)",
        "kappa = s / sigma * (sigma / s) ** (POWER - 1)",
        {"vote-gradient-hard"},
    ),
    "a step near the rounding": wrong(
        "readings",
        READINGS,
        "return unit ** (1 / (order + 1))",
        "return 16 * unit",
        {"best-step"},
    ),
    "the growth of another scheme": wrong(
        "readings",
        READINGS,
        "return FACTOR ** {",
        "return FACTOR**3 + 0 * {",
        {"large-steps"},
    ),
    "rising for falling": wrong(
        "readings",
        READINGS,
        "return 1 / FACTOR",
        "return FACTOR",
        {"small-steps"},
    ),
    "x_hat held fixed in the Hessian": wrong(
        "curvature",
        CURVATURE,
        "b * (x_hat @ v) + x_hat * (b @ v) + a * projected",
        "b * (x_hat @ v)",
        {"hessian-product"},
    ),
    "an m x m matrix": wrong(
        "curvature",
        CURVATURE,
        "    _, a, b, sigma = curvature_parts(x, target)\n    m = len(x)\n",
        "    x_hat, a, b, sigma = curvature_parts(x, target)\n"
        "    m = len(x)\n"
        "    matrix = -a * (np.eye(m) - 1 / m - np.outer(x_hat, x_hat) / m)\n"
        "    matrix -= np.outer(b, x_hat) + np.outer(x_hat, b)\n"
        "    values = np.linalg.eigvalsh(matrix) / (m * sigma**2)\n"
        "    return values[0], values[-1]\n",
        {"curvature-extremes", "curvature-near"},
    ),
    "the plain quadratic formula": wrong(
        "curvature",
        CURVATURE,
        "near = -m * (b @ b) / far if far else 0.0",
        "near = -(a - np.copysign(root, a)) / 2",
        {"curvature-near"},
    ),
    "a value copied from a visible test": wrong(
        "curvature",
        CURVATURE,
        "root = np.sqrt(a**2 + 4 * m * (b @ b))",
        "return -0.31, 0.42",
        {"curvature-extremes", "curvature-near"},
    ),
}
