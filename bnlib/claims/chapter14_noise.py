"""The claims of chapter 14 on noise: Langevin dynamics, and where SGD differs."""

import functools

import numpy as np
import torch
from scipy import integrate, linalg, special

from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.data import load
from bnlib.landscape import Wells, example_gradients, langevin, participation
from bnlib.networks import mlp, train_classifier
from bnlib.smoothness import hessian

chapter_claim = functools.partial(claim, chapter="14-landscape", kind="theorem")


def waves(rng, count=4):
    """Draw a sum of waves on the torus: its value, gradient and Laplacian."""
    k = rng.integers(-2, 3, (count, 2))
    size, phase = rng.standard_normal(count) / 2, rng.uniform(0, 2 * np.pi, count)

    def at(x):  # x: (points, 2)
        angle = x @ k.T + phase
        gradient = -(size * np.sin(angle)) @ k
        laplacian = -(size * np.cos(angle)) @ (k**2).sum(axis=1)
        return np.cos(angle) @ size, gradient, laplacian

    return at


# The trapezoidal rule: exact to rounding for a smooth periodic function.
NODES = np.arange(64) * (2 * np.pi / 64)
TORUS = np.stack(np.meshgrid(NODES, NODES), axis=-1).reshape(-1, 2)


def _stationary(rng, diffusion):
    """Check a test function's mean generator under the Boltzmann distribution."""
    value, slope, laplacian = waves(rng)(TORUS)
    _, other_slope, other_laplacian = waves(rng)(TORUS)
    # The test function has a share of U, so that neither side is 0 by chance.
    test_slope = slope + 0.3 * other_slope
    test_laplacian = laplacian + 0.3 * other_laplacian
    temperature = rng.uniform(0.5, 2)
    law = np.exp(-value / temperature)
    spread = diffusion(temperature) * test_laplacian
    drift = (slope * test_slope).sum(axis=1)
    scale = (law * np.abs(drift)).mean()
    return Check((law * spread).mean(), (law * drift).mean(), "==", 1e-12, scale=scale)


@chapter_claim(
    id="langevin-law",
    verdict="holds",
    source="pavliotis2014",
    statement=r"Let $U$ be smooth and $e^{-U/T}$ integrable. The Boltzmann density "
    r"$\propto e^{-U/T}$ is stationary for $dX=-\nabla U\,dt+\sqrt{2T}\,dB$: the mean "
    r"of $T\Delta\psi-\nabla U^\top\nabla\psi$ under it is 0 for every smooth test "
    r"function $\psi$ that vanishes far out.",
)
def langevin_law(rng):
    return _stationary(rng, lambda temperature: temperature)


@langevin_law.control
def _(rng):
    # The noise sqrt(T) dB.
    return _stationary(rng, lambda temperature: temperature / 2)


class _Parabola:
    """a x^2 / 2 in one dimension."""

    def __init__(self, curvature):
        self.curvature = curvature

    def value(self, x):
        return self.curvature * x[:, 0] ** 2 / 2

    def gradient(self, x):
        return self.curvature * x


def _variance_of_steps(rng, expected):
    """Check the variance of Euler's recursion, and of chains adjusted and not."""
    a, temperature = rng.uniform(0.5, 3), rng.uniform(0.2, 2)
    step = rng.uniform(0.6, 1.2) / a
    variance = expected(a, temperature, step)
    recursion = 0.0
    for _ in range(200):
        recursion = (1 - step * a) ** 2 * recursion + 2 * step * temperature
    checks = [Check(recursion, variance, "==", allowed=1e-12)]
    # This many chains reject a variance that is off by a twentieth.
    chains = 40_000
    for adjust, law in ((False, variance), (True, temperature / a)):
        start = np.sqrt(law) * rng.standard_normal((chains, 1))
        options = {"temperature": temperature, "step": step, "rng": rng}
        walk = langevin(_Parabola(a), start, **options, steps=15, adjust=adjust)
        found = (walk.points[-1] ** 2).mean()
        # Five standard errors of the mean square of a Gaussian.
        allowed = 5 * np.sqrt(2 / chains)
        checks.append(Check(found, law, "==", allowed=allowed, scale=law))
    return Check.worst(*checks)


@chapter_claim(
    id="langevin-step",
    verdict="holds",
    source="roberts1996",
    statement=r"On $U=\frac a2x^2$ the Euler scheme with step $\eta<\frac2a$ has the "
    r"stationary variance $\frac Ta\big/\big(1-\frac{\eta a}2\big)$, not $\frac Ta$; "
    r"from $\eta=\frac2a$ on there is none. If each step is taken or refused by the "
    r"rule of Metropolis and Hastings, the Boltzmann law is stationary for every "
    r"$\eta$.",
)
def langevin_step(rng):
    return _variance_of_steps(rng, lambda a, T, step: T / a / (1 - step * a / 2))


@langevin_step.control
def _(rng):
    return _variance_of_steps(rng, lambda a, T, step: T / a)


def _by_grid(wells, temperature):
    """Return the two masses, summed over a plane: there is one degenerate direction."""
    reach = np.pi if wells.kind == "flat" else 5.0
    y = np.linspace(-reach, reach, 161)
    masses = []
    for ends in ((-2.6, 0.0), (0.0, 2.6)):
        x = np.linspace(*ends, 801)
        plane = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
        weights = np.exp(-wells.value(plane) / temperature)
        # The trapezoidal rule suits y: the weights are periodic or vanish at the ends.
        masses.append(integrate.simpson(integrate.trapezoid(weights, y, axis=1), x=x))
    return masses


def _limit(wells):
    """Return the limit of the mass ratio times its power of T, by Laplace's method."""
    if wells.kind == "flat":
        return (2 * np.pi * wells.stiffness) ** (wells.k / 2)
    one = special.gamma(0.25) / 2 * np.sqrt(wells.stiffness / np.pi)
    return one**wells.k


def _power_law(rng, exponent):
    """Compare masses by quadrature with a grid's, and with the limit as T falls."""
    kind, k = str(rng.choice(["flat", "quartic"])), int(rng.integers(1, 7))
    stiffness, barrier = rng.uniform(1, 6), rng.uniform(0.3, 1)
    wells = Wells(kind, k, stiffness, barrier)
    T = 1e-7
    lifted = Wells(kind, k, stiffness, barrier, lift=1e-6)
    expected = np.log(_limit(wells)) - exponent(wells) * np.log(T)
    plain, temperature = Wells(kind, 1, stiffness, barrier), rng.uniform(0.15, 0.4)
    return Check.worst(
        Check(wells.log_ratio(T), expected, "==", allowed=1e-3, scale=1.0),
        Check(lifted.log_ratio(T), expected - 1e-6 / T, "==", 1e-3, scale=1.0),
        Check(
            np.exp(plain.log_masses(temperature)),
            _by_grid(plain, temperature),
            "==",
            allowed=1e-8,
        ),
    )


@chapter_claim(
    id="p-sgdl",
    verdict="conditional",
    source="poggio2019",
    statement=r"Let $U\ge0$ vanish at two places and be bounded away from 0 off their "
    r"neighbourhoods, with $e^{-U}$ integrable. At one of them let $\nabla^2U$ be "
    r"positive definite; at the other let $k$ directions be degenerate, "
    r"$U\sim\frac12x^\top Ax+q(y)$ with $A$ positive definite and $q>0$ homogeneous of "
    r"degree $p>2$ in $y\in\mathbb R^k$. Then the Boltzmann mass of the second over "
    r"that of the first is $\sim C\,T^{-k(\frac12-\frac1p)}$ as $T\to0$: $T^{-k/4}$ "
    r"for $p=4$; and $T^{-k/2}$ if instead $U$ is 0 on a compact flat piece of "
    r"dimension $k$ and quadratic across it. If the degenerate minimum is higher by "
    r"$\delta>0$, a factor $e^{-\delta/T}$ comes in, and the ratio tends to 0.",
    printed='"SGD concentrates in probability on the most degenerate minima." The text '
    "has argued that these are the global minima, which are equally deep. Of minima "
    "whose depths differ it is false.",
    printed_in="poggio2019",
)
def p_sgdl(rng):
    powers = {"flat": 1 / 2, "quartic": 1 / 4}
    return _power_law(rng, lambda wells: wells.k * powers[wells.kind])


@p_sgdl.control
def _(rng):
    powers = {"flat": 0.495, "quartic": 0.255}
    return _power_law(rng, lambda wells: wells.k * powers[wells.kind])


@p_sgdl.printed
def _():
    wells = Wells("flat", k=1, lift=0.05)
    warm, cold = (wells.log_ratio(T) for T in (1e-1, 1e-3))
    return Check(cold, warm, ">=", allowed=1e-3)


def _covariance(rng, noise_of):
    """Compare the covariance of linear dynamics with the integral over time."""
    d = int(rng.integers(2, 6))
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    curvatures = rng.uniform(0.5, 3, d)
    H = (basis * curvatures) @ basis.T
    tau, R = rng.uniform(0.2, 2), rng.standard_normal((d, d))
    D = R @ R.T
    sums = curvatures[:, None] + curvatures
    formula = basis @ (2 * (basis.T @ D @ basis) / sums) @ basis.T
    return Check.worst(
        Check(formula, _after(H, D), "==", allowed=1e-10),
        Check(np.trace(H @ _after(H, D)), np.trace(D), "==", allowed=1e-10),
        Check(_after(H, noise_of(H, tau)), tau * np.eye(d), "==", allowed=1e-10),
        Check(_after(H, tau * np.eye(d)), tau * np.linalg.inv(H), "==", 1e-10),
        Check(
            _after(H, 2 * noise_of(H, tau) + np.eye(d)),
            2 * tau * np.eye(d) + np.linalg.inv(H),
            "==",
            allowed=1e-10,
        ),
    )


def _after(H, D, time=40.0):
    """Return 2 * integral of e^-Hs D e^-Hs, from one exponential of twice the size."""
    # The time is short and then doubled: the exponential of a long one would overflow.
    d, halvings = len(H), 10
    block = np.block([[H, D], [np.zeros_like(H), -H]]) * (time / 2**halvings)
    exponential = linalg.expm(block)
    decay = exponential[d:, d:]
    found = 2 * decay @ exponential[:d, d:]
    for _ in range(halvings):
        found = found + decay @ found @ decay.T
        decay = decay @ decay
    return found


@chapter_claim(
    id="sgd-law",
    verdict="wrong",
    source="mandt2017",
    statement=r"Near a minimum with positive definite Hessian $H$ let "
    r"$dX=-HX\,dt+\sqrt2\,R\,dB$, and $D=RR^\top$. The stationary covariance $\Sigma$ "
    r"solves $H\Sigma+\Sigma H=2D$. It is Boltzmann's, $TH^{-1}$, exactly if $D=TI$. "
    r"If $D=\tau H$, then $\Sigma=\tau I$, whatever the curvatures are. With white "
    r"noise added, $D=\tau H+TI$, $\Sigma=\tau I+TH^{-1}$: for $\tau>0$ that is no "
    r"multiple of $H^{-1}$, unless $H$ is a multiple of $I$. In every case "
    r"the mean of the loss above the minimum is $\frac12\mathrm{tr}\,D$.",
    printed="The Boltzmann distribution is exactly the asymptotic law of SGDL, which "
    "is SGD with added white noise.",
    printed_in="poggio2019",
)
def sgd_law(rng):
    return _covariance(rng, lambda H, tau: tau * H)


@sgd_law.control
def _(rng):
    return _covariance(rng, lambda H, tau: tau * H @ H)


@sgd_law.printed
def _():
    H = np.diag([0.2, 1.0, 5.0])
    # Noise like that of SGD, and white noise. Boltzmann's distribution: H Sigma = T I.
    curved = H @ _after(H, 0.3 * H + 0.1 * np.eye(3))
    return Check(curved, np.trace(curved) / 3 * np.eye(3), "==", allowed=0.01)


@functools.cache
def shrunk_digits():
    """Return the digits at 4 x 4 pixels, and their labels."""
    digits = load("digits")
    images = digits.x_train.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)) / 16
    return torch.from_numpy(images.reshape(-1, 16)), torch.from_numpy(digits.y_train)


def _noise_on_digits(rng, changed=lambda gradients: gradients):
    """Check the spread of a network's example gradients, and its likeness to H."""
    x, y = shrunk_digits()
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    network = mlp((16, 4, 10), batch_norm=False, generator=generator, dtype=x.dtype)
    settings = {"learning_rate": 0.2, "epochs": 3, "batch_size": 32}
    train_classifier(network, x, y, **settings, generator=generator)
    entropy = torch.nn.functional.cross_entropy
    gradients = changed(example_gradients(network, entropy, x, y))
    size = gradients.shape[1]
    C = np.cov(gradients.T)
    H = hessian(network, lambda module: entropy(module(x[::4]), y[::4]))
    cosine = (C * H).sum() / np.linalg.norm(C) / np.linalg.norm(H)
    round_one = np.trace(H) / np.linalg.norm(H) / np.sqrt(size)
    return Check.worst(
        Check(participation(C), size / 10, "<=", allowed=0.0),
        Check(cosine, 0.75, ">=", allowed=0.0),
        Check(cosine, 3 * round_one, ">=", allowed=0.0),
    )


@chapter_claim(
    id="sgd-digits",
    kind="empirical",
    verdict="empirical",
    source="book",
    statement="After a few epochs of training, the gradient noise of a small ReLU "
    "network on digits is far from isotropic: its covariance $C$ fills fewer than a "
    r"tenth as many directions, $(\mathrm{tr}\,C)^2/\mathrm{tr}\,C^2$, as there are "
    "parameters. It resembles the Hessian: the cosine of the two matrices is above "
    "0.75, and more than three times that of the identity with the Hessian.",
)
def sgd_digits(rng):
    return _noise_on_digits(rng)


@sgd_digits.control
def _(rng):
    # The noise fills either all directions, or as few as before, but different ones.
    changes = (
        lambda gradients: rng.standard_normal(gradients.shape),
        lambda gradients: rng.permutation(gradients, axis=1),
    )
    return _noise_on_digits(rng, changes[rng.integers(2)])
