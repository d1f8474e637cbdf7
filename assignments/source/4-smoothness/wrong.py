"""Typical wrong answers to set 4, and the tests that each of them fails."""

SLOPES = """
def slopes(y, targets):
    if LOSS == "squared":
        first, second = y - targets, np.ones_like(y)
    elif LOSS == "logistic":
        off = 1 / (1 + np.exp(targets * y))
        first, second = -targets * off, off * (1 - off)
    else:
        first = np.tanh(y - targets)
        second = 1 - first**2
    shared = 1 if REDUCTION == "mean" else len(y)
    return first / shared, second / shared
"""

GRADIENT = """
def gradient(w, X, targets, eps):
    inputs = X if ROWS == "examples" else X.T
    x = inputs @ w
    s = np.sqrt({square} + eps)
    x_hat = (x - x.mean()) / s
    delta, _ = slopes(GAMMA * x_hat + BETA, targets)
    return GAMMA / s * inputs.T @ ({projected})
"""
PROJECTED = "delta - delta.mean() - x_hat * (x_hat * delta).mean()"

NUMERICAL = """
def gradient(w, X, targets, eps):
    inputs = X if ROWS == "examples" else X.T
    if not w.any():
        return 0 * w
    h = 1e-5 * np.linalg.norm(w)
    return np.array(
        [
            (loss(w + e, inputs, targets, eps) - loss(w - e, inputs, targets, eps))
            / (2 * h)
            for e in h * np.eye(len(w))
        ]
    )
"""

COMPLEX = """
def gradient(w, X, targets, eps):
    inputs = X if ROWS == "examples" else X.T
    steps = 1e-30j * np.eye(len(w))
    slopes = [loss(w + step, inputs, targets, eps).imag for step in steps]
    return np.array(slopes) * 1e30
"""

PRODUCT = """
def hessian_product(v, w, X, targets, eps):
    inputs = X if ROWS == "examples" else X.T
    inputs = inputs - inputs.mean(axis=0)
    x, u = inputs @ w, inputs @ v
    s = np.sqrt((x**2).mean() + eps)
    x_hat = x / s
    first, second = slopes(GAMMA * x_hat + BETA, targets)

    def project(a):
        return a - a.mean() - x_hat * (x_hat * a).mean()

    p_delta, p_u = project(first), project(u)
    through = GAMMA * project(second * p_u)
    own = {own}
    return inputs.T @ (through - own / len(x)) * GAMMA / s**2
"""
DIFFERENCES = """
def hessian_product(v, w, X, targets, eps):
    h = 1e-6
    ahead = gradient(w + h * v, X, targets, eps)
    return (ahead - gradient(w, X, targets, eps)) / h
"""
COMPLEX_STEP = """
def hessian_product(v, w, X, targets, eps):
    return gradient(w + 1e-30j * v, X, targets, eps).imag * 1e30
"""
ALL_CURVATURE = {
    "product-value",
    "product-laws",
    "sharpness-value",
    "sharpness-laws",
}

SHARPNESS = """
def sharpness(w, X, targets):
    columns = [hessian_product(v, w, X, targets, 0.0) for v in np.eye(len(w))]
    return {value}
"""

DESIGN = """
def design(m, gamma, eps, share_ones, share_x_hat, gain):
    a, b = share_ones, share_x_hat
    square = {square}
    var = square - eps
    start = np.vander(np.linspace(-1, 1, m), 3, increasing=True)
    ones, along, other = np.linalg.qr(start)[0].T
    along_share = b * square / var
    x = np.sqrt(m * abs(var)) * along
    delta = np.sqrt(a) * ones + np.sqrt(abs(along_share)) * along
    return x, delta + np.sqrt(abs(1 - a - along_share)) * other
"""

LARGEST = """
def largest_a(depth, budget):
    def growth(a):
        u = a**2
        if ACTIVATION == "exp":
            return u / (1 - np.exp(-u))
        if ACTIVATION == "sin":
            return u / np.tanh(u)
        return 2 * u / (np.sqrt(1 + 4 * u) * np.arcsin(2 * u / (1 + 2 * u)))

    low, high = 1e-9, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        if {logarithm} < np.log(budget):
            low = middle
        else:
            high = middle
    return high
"""

WRONG = {
    "mean and sum exchanged": {
        "cells": {"slopes": SLOPES},
        "lost": {
            "slopes-values",
            "gradient-value",
            "gradient-laws",
            "gradient-hard",
            "product-value",
            "product-laws",
            "sharpness-value",
        },
    },
    "no path through the mean": {
        "cells": {
            "gradient": GRADIENT.format(
                square="x.var()",
                projected="delta - x_hat * (x_hat * delta).mean()",
            )
        },
        "lost": {"gradient-value", "gradient-laws", "gradient-hard"},
    },
    "no path through the variance": {
        "cells": {
            "gradient": GRADIENT.format(
                square="x.var()", projected="delta - delta.mean()"
            )
        },
        "lost": {"gradient-value", "gradient-laws", "gradient-hard"},
    },
    "variance as mean of squares minus squared mean": {
        "cells": {
            "gradient": GRADIENT.format(
                square="abs((x**2).mean() - x.mean() ** 2)",
                projected=PROJECTED,
            )
        },
        "lost": {"gradient-hard"},
    },
    "differences in place of a derivative": {
        "cells": {"gradient": NUMERICAL},
        "lost": {"gradient-value", "gradient-laws", "gradient-hard"},
    },
    "a complex step for each weight": {
        "cells": {"gradient": COMPLEX},
        "lost": {"gradient-hard"},
    },
    "a complex step of the gradient": {
        "cells": {"hessian-product": COMPLEX_STEP},
        "lost": {"product-laws"},
    },
    "statistics held fixed in the second derivative": {
        "cells": {"hessian-product": PRODUCT.format(own="0")},
        "lost": {
            "product-value",
            "product-laws",
            "sharpness-value",
        },
    },
    "one of the mirror images forgotten": {
        "cells": {
            "hessian-product": PRODUCT.format(
                own="x_hat * (p_delta @ u) + p_u * (first @ x_hat)"
            )
        },
        "lost": ALL_CURVATURE,
    },
    "differences of gradients": {
        "cells": {"hessian-product": DIFFERENCES},
        "lost": ALL_CURVATURE,
    },
    "the length of w not squared": {
        "cells": {
            "sharpness": SHARPNESS.format(
                value="np.linalg.norm(w) * np.linalg.eigvalsh(columns)[-1]"
            )
        },
        "lost": {"sharpness-value", "sharpness-laws"},
    },
    "the smallest eigenvalue": {
        "cells": {
            "sharpness": SHARPNESS.format(
                value="w @ w * np.linalg.eigvalsh(columns)[0]"
            )
        },
        "lost": {"sharpness-value", "sharpness-laws"},
    },
    "a number copied from a visible test": {
        "cells": {
            "sharpness": "def sharpness(w, X, targets):\n    return 1.618\n",
            "largest-a": "def largest_a(depth, budget):\n    return 0.5\n",
        },
        "lost": {
            "sharpness-value",
            "sharpness-laws",
            "largest-a-shallow",
            "largest-a-deep",
        },
    },
    "the printed bound with epsilon put in": {
        "cells": {
            "design": DESIGN.format(square="gamma**2 * (1 - a - b) / gain**2")
        },
        "lost": {"design-eps"},
    },
    "the gain not squared": {
        "cells": {
            "design": DESIGN.format(
                square="abs(gamma) * (1 - a - b) / gain + eps"
            )
        },
        "lost": {"design-gain", "design-eps"},
    },
    "the square's growth taken for the norm's": {
        "cells": {
            "largest-a": LARGEST.format(
                logarithm="depth * np.log(growth(middle))"
            )
        },
        "lost": {"largest-a-shallow", "largest-a-deep"},
    },
    "slope of the drawn line, whatever it shows": {
        "cells": {
            "read_factors": """
def read_factors():
    layers = 4 * np.arange(len(A))
    tens = [np.polyfit(layers, curve, 1)[0] for curve in (A, B, C, D)]
    return [10 ** (ten * (1 if DRAWN == "norm" else 2)) for ten in tens]
""",
        },
        "lost": {"read-factors"},
    },
    "ReLU's limit for every network": {
        "cells": {
            "read_factors": """
def read_factors():
    return [np.pi / (np.pi - 1)] * 4
""",
            "read_depth": """
def read_depth():
    return np.log(OVERFLOW) / np.log(np.pi / (np.pi - 1))
""",
        },
        "lost": {"read-factors", "read-depth"},
    },
    "larger batches thought to be worse": {
        "cells": {
            "read_names": """
def read_names():
    by_growth = ["tanh 64", "relu 8", "relu 64", "abs 64"]
    places = np.argsort(np.argsort([curve[-1] for curve in (A, B, C, D)]))
    return [by_growth[place] for place in places]
""",
        },
        "lost": {"read-names"},
    },
}
