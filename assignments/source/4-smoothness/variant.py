"""What a course key changes in set 4: loss, layout, activation, the figure."""

import numpy as np

RUNS = (("relu", 8), ("relu", 64), ("tanh", 64), ("abs", 64))
DEPTH, WIDTH, EVERY = 32, 128, 4


def variant(rng):
    """Draw the loss, the layout and the figure of one course."""
    loss = str(rng.choice(["squared", "logistic", "log-cosh"]))
    mean, rows = bool(rng.integers(2)), bool(rng.integers(2))
    activation = str(rng.choice(["sin", "exp", "erf"]))
    squared = bool(rng.integers(2))
    order = rng.permutation(len(RUNS))
    curves = [
        _logs(rng, *RUNS[place]) * (1 if squared else 0.5) for place in order
    ]
    return {
        "LOSS": loss,
        "REDUCTION": "mean" if mean else "sum",
        "ROWS": "examples" if rows else "features",
        "GAMMA": float(rng.choice([-1.5, 0.8, 1.25, 2.0])),
        "BETA": float(rng.choice([-0.5, 0.25, 0.75])),
        "ACTIVATION": activation,
        "DRAWN": "squared norm" if squared else "norm",
        "OVERFLOW": int(rng.choice([1024, 4096, 16384, 65536])),
        **{
            name: [round(float(value), 2) for value in curve]
            for name, curve in zip("ABCD", curves)
        },
        **_loss_text(loss, mean, rows),
        **GROWTH[activation],
    }


def _logs(rng, name, batch_size):
    """Return log10 of the squared gradient norm, from the top layer down."""
    activation = {
        "relu": lambda y: np.maximum(y, 0),
        "tanh": np.tanh,
        "abs": np.abs,
    }
    slope = {
        "relu": lambda y: (y > 0) * 1.0,
        "tanh": lambda y: 1 - np.tanh(y) ** 2,
        "abs": np.sign,
    }
    h, stored = rng.standard_normal((batch_size, WIDTH)), []
    for _ in range(DEPTH + 2):
        sigma = h.std(axis=0)
        y = (h - h.mean(axis=0)) / sigma
        a = activation[name](y)
        weight = rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)
        h = a @ weight
        stored.append((sigma, slope[name](y), y, weight))
    delta, squares = rng.standard_normal(h.shape), []
    for sigma, slopes, y, weight in reversed(stored):
        delta = delta @ weight.T * slopes
        squares.append((delta**2).sum())
        delta = delta - delta.mean(axis=0) - y * (delta * y).mean(axis=0)
        delta = delta / sigma
    # The topmost layer is left out: the gradient that enters it is not typical.
    return np.log10(np.array(squares[1::EVERY]) / squares[1])


def _loss_text(loss, mean, rows):
    """Return the loss and the layout as the prose says them."""
    terms = {
        "squared": r"\tfrac12(y_i-t_i)^2",
        "logistic": r"\log\big(1+e^{-t_iy_i}\big)",
        "log-cosh": r"\log\cosh(y_i-t_i)",
    }
    target = r"t_i\in\{-1,1\}" if loss == "logistic" else r"t_i\in\mathbb R"
    return {
        "loss_formula": (r"\frac1m" if mean else "")
        + r"\sum_{i=1}^m"
        + terms[loss],
        "targets": target,
        "matrix": r"X\in\mathbb R^{m\times d}"
        if rows
        else r"X\in\mathbb R^{d\times m}",
        "unit": "x=Xw" if rows else r"x=X^\top w",
        "shape": "(m, d)" if rows else "(d, m)",
    }


GROWTH = {
    "sin": {
        "phi": r"\sin(ax)",
        "hint": r"You may use $\mathbb E\cos(bZ)=e^{-b^2/2}$.",
        "slope_answer": r"$\varphi'(x)=a\cos(ax)$ and "
        r"$\cos^2u=\frac12(1+\cos2u)$, so $\mathbb E\varphi'(Z)^2="
        r"\frac{a^2}2\big(1+e^{-2a^2}\big)$.",
        "variance_answer": r"The mean is 0, as $\sin$ is odd. With "
        r"$\sin^2u=\frac12(1-\cos2u)$, $\mathrm{Var}\,\varphi(Z)="
        r"\frac12\big(1-e^{-2a^2}\big)$.",
        "factor": r"a^2\,\frac{1+e^{-2a^2}}{1-e^{-2a^2}}=a^2\coth a^2",
        "small_answer": r"$u\coth u=1+\frac{u^2}3+O(u^4)$ with $u=a^2$ gives "
        r"$\lambda=1+\frac{a^4}3+O(a^8)$.",
        "depth_answer": r"$\frac L2\cdot\frac{a^4}3=\log Q$, so "
        r"$a\approx(6\log Q/L)^{1/4}$",
        "why": r"The first bend of $\sin$ is cubic, of the size $a^3$ against $a$: "
        r"its share of the variance is of order $a^4$.",
        "order": "a^4",
    },
    "exp": {
        "phi": r"e^{ax}",
        "hint": r"You may use $\mathbb E\,e^{bZ}=e^{b^2/2}$.",
        "slope_answer": r"$\varphi'(x)=a\,e^{ax}$, so $\mathbb E\varphi'(Z)^2="
        r"a^2\,\mathbb E\,e^{2aZ}=a^2e^{2a^2}$.",
        "variance_answer": r"$\mathbb E\varphi(Z)=e^{a^2/2}$ and "
        r"$\mathbb E\varphi(Z)^2=e^{2a^2}$, so $\mathrm{Var}\,\varphi(Z)="
        r"e^{2a^2}-e^{a^2}$.",
        "factor": r"\frac{a^2e^{2a^2}}{e^{2a^2}-e^{a^2}}=\frac{a^2}{1-e^{-a^2}}",
        "small_answer": r"$\frac u{1-e^{-u}}=1+\frac u2+O(u^2)$ with $u=a^2$ gives "
        r"$\lambda=1+\frac{a^2}2+O(a^4)$.",
        "depth_answer": r"$\frac L2\cdot\frac{a^2}2=\log Q$, so "
        r"$a\approx(4\log Q/L)^{1/2}$",
        "why": r"The first bend of $e^{ax}$ is quadratic, of the size $a^2$ against "
        r"$a$: its share of the variance is of order $a^2$.",
        "order": "a^2",
    },
    "erf": {
        "phi": r"\mathrm{erf}(ax)",
        "hint": r"$\mathrm{erf}'(x)=\frac2{\sqrt\pi}e^{-x^2}$. You may use, for "
        r"standard normal $X$, $Y$ of correlation $r$: "
        r"$\mathbb E\,e^{-bX^2}=(1+2b)^{-1/2}$, "
        r"$\mathbb E\,e^{-b(X^2+Y^2)}=\big((1+2b)^2-4b^2r^2\big)^{-1/2}$ and "
        r"$\frac d{dr}\mathbb E\,\varphi(X)\varphi(Y)="
        r"\mathbb E\,\varphi'(X)\varphi'(Y)$; and "
        r"$\arcsin y=y+\frac16y^3+O(y^5)$.",
        "slope_answer": r"$\varphi'(x)=\frac{2a}{\sqrt\pi}e^{-a^2x^2}$, so "
        r"$\mathbb E\varphi'(Z)^2=\frac{4a^2}\pi\mathbb E\,e^{-2a^2Z^2}="
        r"\frac{4a^2}{\pi\sqrt{1+4a^2}}$.",
        "variance_answer": r"The mean is 0, as erf is odd. "
        r"$\mathbb E\varphi(X)\varphi(Y)$ is 0 at $r=0$, and its derivative is "
        r"$\frac{4a^2}\pi\big((1+2a^2)^2-4a^4r^2\big)^{-1/2}$. Integrate from 0 to 1: "
        r"$\mathrm{Var}\,\varphi(Z)=\frac2\pi\arcsin\frac{2a^2}{1+2a^2}$.",
        "factor": r"\frac{2a^2}{\sqrt{1+4a^2}\,\arcsin\frac{2a^2}{1+2a^2}}",
        "small_answer": r"With $u=2a^2$: $\arcsin\frac u{1+u}=u-u^2+\frac76u^3+\dots$ "
        r"and $\sqrt{1+2u}=1+u-\frac12u^2+\dots$, with product "
        r"$u-\frac13u^3+\dots$. So $\lambda=1+\frac{u^2}3+\dots="
        r"1+\frac43a^4+O(a^6)$.",
        "depth_answer": r"$\frac L2\cdot\frac43a^4=\log Q$, so "
        r"$a\approx\big(\tfrac32\log Q/L\big)^{1/4}$",
        "why": r"The first bend of erf is cubic, of the size $a^3$ against $a$: "
        r"its share of the variance is of order $a^4$.",
        "order": "a^4",
    },
}
