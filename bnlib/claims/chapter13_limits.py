"""The claims of chapter 13 on what cannot be done: four lower bounds."""

import functools
from itertools import product

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import brentq

from bnlib.approximation import Tree
from bnlib.claims._instances_cube import cube
from bnlib.claims.check import Check
from bnlib.claims.registry import claim

chapter_claim = functools.partial(
    claim, chapter="13-approximation", kind="theorem", source="poggio2019"
)


#: sup |phi|, |phi'|, |phi''| of the bump phi(t) = (1 - t^2)^3 on [-1, 1].
BUMP = (1.0, 6 * 0.8**2 / 5**0.5, 6.0)


class _Bumps:
    """Sums of bumps, one for each of K^n cells, in the unit ball of W_2^n.

    The coefficients may be as large as `radius`, which is of order K^-2.
    """

    def __init__(self, inputs, cells):
        self.cells, kinds = cells, product(range(3), repeat=inputs)
        self.radius = 1 / sum(
            np.prod([BUMP[k] for k in kind]) * cells ** sum(kind)
            for kind in kinds
            if sum(kind) <= 2
        )
        middles = (2 * np.arange(cells) + 1) / cells - 1
        self.centres = np.array(list(product(middles, repeat=inputs)))

    def __call__(self, coefficients, x):
        t = (x[:, None] - self.centres) * self.cells
        bumps = np.prod(np.where(np.abs(t) < 1, (1 - t**2) ** 3, 0), axis=2)
        return bumps @ coefficients

    def norm(self, coefficients):
        """Return the norm of W_2, in one variable, from differences on a fine grid."""
        x = np.linspace(-1, 1, 4001)
        values = [self(coefficients, x[:, None])]
        for _ in range(2):
            values.append(np.gradient(values[-1], x))
        return sum(np.abs(v).max() for v in values)


def _worst_error(bumps, coefficients, code, decode):
    """Return the larger error on two opposite functions, known by their codes alone."""
    errors = []
    for sign in (1, -1):
        answer = decode(code(sign * coefficients))
        errors.append(np.abs(bumps(sign * coefficients, bumps.centres) - answer).max())
    return max(errors)


def _linear_code(rng):
    """Check the error of squashed linear measurements on opposite sums of bumps."""
    inputs, cells = int(rng.integers(1, 3)), int(rng.integers(2, 4))
    bumps = _Bumps(inputs, cells)
    count = len(bumps.centres)
    matrix = rng.standard_normal((int(rng.integers(1, count)), count))
    hidden = null_space(matrix) @ rng.standard_normal(count - len(matrix))
    hidden *= bumps.radius / np.abs(hidden).max()
    mix = rng.standard_normal((count, len(matrix))) * bumps.radius
    error = _worst_error(
        bumps, hidden, lambda c: np.tanh(matrix @ c), lambda a: np.sin(mix @ a)
    )
    return Check(error, bumps.radius, ">=", allowed=1e-9)


def _on_circle(angle, radius):
    """Return a point on the square of that radius, as two coefficients."""
    point = np.array([np.cos(angle), np.sin(angle)])
    return point * radius / np.abs(point).max()


def _curved_code(rng):
    """Check the error of one continuous number on opposite sums of two bumps."""
    bumps, (p, q, r) = _Bumps(1, 2), rng.standard_normal((3, 2))

    def code(c):
        c = c / bumps.radius
        return np.sin(p @ c) + (q @ c) ** 3 + np.exp(r @ c)

    def difference(angle):
        c = _on_circle(angle, bumps.radius)
        return code(c) - code(-c)

    same = _on_circle(brentq(difference, 0, np.pi, xtol=1e-15), bumps.radius)
    pull = rng.standard_normal(2)
    error = _worst_error(bumps, same, code, lambda a: bumps.radius * np.sin(pull * a))
    norm = bumps.norm(bumps.radius * rng.choice([-1, 1], 2))
    return Check.worst(
        Check(error, bumps.radius, ">=", allowed=1e-9),
        Check(norm, 1.0, "<=", allowed=1e-2),
    )


@chapter_claim(
    id="approx-selection",
    verdict="holds",
    source="devore1989",
    statement=r"Let $a:W_m^n\to\mathbb R^N$ be continuous in the sup norm and "
    r"$R:\mathbb R^N\to C([-1,1]^n)$ any map. Then some $f\in W_m^n$ has "
    r"$\lVert f-R(a(f))\rVert_\infty\ge cN^{-m/n}$, where $c>0$ depends on $m$ and $n$ "
    r"alone. So parameters that depend continuously on $f$ need "
    r"$N\ge c'\epsilon^{-n/m}$. (Checked: $m=2$, $n=1,2$, sums of bumps.)",
)
def approx_selection(rng):
    return Check.worst(_linear_code(rng), _curved_code(rng))


@approx_selection.control
def _(rng):
    bumps = _Bumps(1, 2)
    # Two numbers as the digits of one: a map that jumps at every digit.
    unit, digits = bumps.radius / 500, 1001
    found = rng.uniform(-bumps.radius, bumps.radius, 2)

    def code(c):
        whole = np.round(c / unit) + 500
        return whole[0] * digits + whole[1]

    def decode(number):
        return (np.array(divmod(number, digits)) - 500) * unit

    error = _worst_error(bumps, found, code, decode)
    return Check(error, bumps.radius, ">=", allowed=1e-9)


def _relu_layer(knots, sides, x):
    """Return ReLU units of x with these knots, open to these sides, and a constant."""
    hidden = np.maximum(sides * (x[:, None] - knots), 0)
    return np.column_stack([hidden, np.ones_like(x)])


def _parabola(rng, pieces_of):
    """Check the error of ReLU units on x^2 / 5: random ones, and the best.

    Even knots attain the bound, with half of the units open to either side.
    """
    units = 2 * int(rng.integers(1, 10))
    bound = 1 / (10 * pieces_of(units) ** 2)
    even = np.linspace(-1, 1, units + 2)
    # Also the middles between the knots: there and at the knots the error is largest.
    x = np.union1d(np.linspace(-1, 1, 2 * units + 3), np.linspace(-1, 1, 999))
    sides = rng.permutation(np.repeat([-1, 1], units // 2))
    best = _relu_layer(even[1:-1], sides, x)
    size = 4 / 5 / (units + 1)  # the change of slope at each knot
    found = best[:, :-1].sum(axis=1) * size
    found += x[0] ** 2 / 5 - 1 / (10 * (units + 1) ** 2) - found[0]
    drawn = _relu_layer(rng.uniform(-1, 1, units), rng.choice([-1, 1], units), x)
    fitted = drawn @ np.linalg.lstsq(drawn, x**2 / 5)[0]
    return Check.worst(
        Check(np.abs(found - x**2 / 5).max(), bound, "==", allowed=1e-9),
        Check(np.abs(fitted - x**2 / 5).max(), bound, ">=", allowed=1e-9),
    )


@chapter_claim(
    id="approx-relu",
    verdict="conditional",
    source="book",
    statement=r"For every $m\ge1$, $\frac15x_1^2$ is in $W_m^n$, and a sum of $M$ ReLU "
    r"units and a constant misses it by at least $\frac1{10(M+1)^2}$ somewhere on the "
    r"cube; for every even $M$ one such sum attains that. So on $W_m^n$ shallow ReLU "
    r"networks need $(10\epsilon)^{-1/2}-1$ units or more, whatever $m$ is: for $m>2n$ "
    r"they do not reach $O(\epsilon^{-n/m})$.",
    printed=r"The theorem on trees, with $\epsilon^{-2/m}$ for infinitely "
    r"differentiable $\sigma$ and every $m$, extends to the ReLU.",
    printed_in="poggio2019",
)
def approx_relu(rng):
    return _parabola(rng, lambda units: units + 1)


@approx_relu.control
def _(rng):
    return _parabola(rng, lambda units: units)


@approx_relu.printed
def _():
    # Two variables, m = 16: how many times as many units 1e-4 of the error take.
    units = [(10 * accuracy) ** -0.5 - 1 for accuracy in (1e-8, 1e-12)]
    return Check(units[1] / units[0], 1e4 ** (2 / 16), "<=", allowed=0.1)


def _zigzag(x, depth):
    """Compose 2 relu(x) - 4 relu(x - 1/2) with itself: two ReLU units a layer."""
    for _ in range(depth):
        x = 2 * np.maximum(x, 0) - 4 * np.maximum(x - 0.5, 0)
    return x


def _one_layer(rng, depth, units):
    """Check the smallest error found for one hidden layer at the zigzag's corners."""
    corners = np.linspace(0, 1, 2**depth + 1)
    knots = np.append(0, np.linspace(0, 1, units + 1)[1:-1])
    errors = []
    for _ in range(3):
        hidden = np.maximum(corners[:, None] - knots, 0)
        hidden = np.column_stack([hidden, np.ones_like(corners)])
        fitted = hidden @ np.linalg.lstsq(hidden, _zigzag(corners, depth))[0]
        errors.append(np.abs(fitted - _zigzag(corners, depth)).max())
        knots = np.append(0, rng.uniform(0, 1, units - 1))
    return min(errors)


def _oscillation(rng, more_units):
    depth = int(rng.integers(2, 6))
    x = rng.uniform(0, 1, 500)
    phase = x * 2**depth % 2
    zigzag = np.minimum(phase, 2 - phase)
    shallow = _one_layer(rng, depth, 2**depth - 2 + more_units)
    return Check.worst(
        Check(_zigzag(x, depth), zigzag, "==", allowed=1e-12),
        Check(shallow, 0.5, ">=", allowed=1e-9),
    )


@chapter_claim(
    id="approx-oscillation",
    verdict="holds",
    source="telgarsky2016",
    statement=r"Let $T(x)=1-\lvert2x-1\rvert$ on $[0,1]$ and $T^D$ its $D$-fold "
    "composition. A ReLU network with $D$ hidden layers of two units is equal to "
    "$T^D$ on $[0,1]$. One with a single hidden layer of at most $2^D-2$ units differs "
    r"from it by at least $\frac12$ somewhere there.",
)
def approx_oscillation(rng):
    return _oscillation(rng, more_units=0)


@approx_oscillation.control
def _(rng):
    return _oscillation(rng, more_units=2)


def _product(x):
    return x[:, 0] * x[:, 2] + x[:, 1] * x[:, 3]


def _other_tree(rng, pass_both):
    """Check a tree's worst error at two points that its lower node cannot tell apart.

    `pass_both` lets the lower nodes hand on both of their inputs.
    """
    p, q = rng.standard_normal((2, 2))
    shift = rng.uniform(0, 6)

    def lower(a):
        return np.sin(p @ a + shift) + np.cos(q @ a) * (p @ a)

    def difference(angle):
        a = _on_circle(angle, 1.0)
        return lower(a) - lower(-a)

    a = _on_circle(brentq(difference, 0, np.pi, xtol=1e-15), 1.0)
    points = np.array([[*a, *np.sign(a)], [*-a, *np.sign(a)]])
    s, t = rng.standard_normal(2)
    if pass_both:
        values = np.einsum("ni,ni->n", points[:, :2], points[:, 2:])
    else:
        seen = np.array([[lower(x[:2]), lower(x[2:])] for x in points])
        values = np.sin(s * seen[:, 0]) + t * seen[:, 0] * seen[:, 1]
    error = np.abs(values - _product(points)).max()
    right = Tree([[lambda x: x[:, 0] * x[:, 1]] * 2, [lambda x: x.sum(axis=1)]])
    x = cube(rng, 4, 100)
    return Check.worst(
        Check(error, 1.0, ">=", allowed=1e-9),
        Check(right(x[:, [0, 2, 1, 3]]), _product(x), "==", allowed=1e-12),
    )


@chapter_claim(
    id="approx-other-tree",
    verdict="holds",
    source="book",
    statement="For all continuous functions $g,h_1,h_2$ of two variables the tree "
    "$g(h_1(x_1,x_2),h_2(x_3,x_4))$ differs from $x_1x_3+x_2x_4$ by at least 1 "
    "somewhere on $[-1,1]^4$. Another tree, with the pairs $(x_1,x_3)$ and "
    "$(x_2,x_4)$, is equal to it.",
)
def approx_other_tree(rng):
    return _other_tree(rng, pass_both=False)


@approx_other_tree.control
def _(rng):
    return _other_tree(rng, pass_both=True)
