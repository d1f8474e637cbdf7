"""Gaussian expectations over the outputs of linear units that span at most a plane."""

import numpy as np

# Beyond 9 standard deviations the density is below 1e-17 of its peak.
_REACH, _INSIDE = 9.0, 6.0
_STEPS = tuple(0.08 / 2**k for k in range(5))
_MOST = 4_000_000
_NARROWEST = 1e-16
_PARALLEL = 1e-12


class Plane:
    """The units' inputs t = W z, z ~ N(u, root root^T), as functions of x.

    x is standard normal in the 0, 1 or 2 dimensions that the units span: the
    coordinates of ``root^-1 (z - u)`` along the columns of ``basis``. An activation
    bends where its t is within about 1 of 0, so nodes are dense where t is 0: for the
    direction in which most units lie, and for the other unit.
    """

    def __init__(self, W, u, root):
        self.mean, along = W @ u, W @ root
        self.finite = bool(np.isfinite((along**2).sum() + (self.mean**2).sum()))
        self.basis = _basis(along) if self.finite else np.zeros((len(u), 0))
        self.along = along @ self.basis
        lengths = np.sqrt((along**2).sum(axis=1, keepdims=True))
        rounding = np.abs(self.along) <= _PARALLEL * np.maximum(1, lengths)
        self.along[:, 1:][rounding[:, 1:]] = 0

    def nodes(self, step):
        """Return t (m, ...), x (r, ...) and weights: E f(t) is about sum(f * weights).

        Every second or fourth node along each axis makes a rule too, with weights 2^r
        or 4^r times as large.
        """
        if self.basis.shape[1] == 0:
            return self.mean[:, None] + 0.0, np.zeros((0, 1)), np.ones(1)
        first = self.along[:, 0]
        other = self.along[:, 1] if self.basis.shape[1] == 2 else np.zeros_like(first)
        longest = np.argmax(np.where(other == 0, np.abs(first), 0))
        turns = np.maximum(1, np.abs(other)) / np.maximum(np.abs(first), 1e-300)
        x, weights = _sinh_rule(-self.mean[longest] / first[longest], turns.min(), step)
        if self.basis.shape[1] == 1:
            return self.mean[:, None] + np.outer(first, x), x[None], weights
        given = self.mean[:, None] + np.outer(first, x)
        odd = np.argmax(np.abs(other))
        y, inner = _sinh_rule(-given[odd] / other[odd], 1 / abs(other[odd]), step)
        t = given[:, :, None] + other[:, None, None] * y
        return (
            t,
            np.stack([np.broadcast_to(x[:, None], y.shape), y]),
            (weights[:, None] * inner),
        )


def plane_means(plane, integrands):
    """Return the expectation of each array that ``integrands(t, x)`` yields.

    The nodes are doubled until every second one gives the same result to 1e-9:
    doubling squares the error of the trapezoidal rule for analytic functions.
    """
    if not plane.finite:
        nothing = np.full((len(plane.mean), 1), np.nan)
        return [np.nan for _ in integrands(nothing, np.zeros((0, 1)))]
    for step in _STEPS:
        nodes = plane.nodes(step)
        found = _settled(nodes, integrands)
        if found is not None:
            return found
        if 4 * nodes[2].size > _MOST:
            break
    raise ValueError(
        "the quadrature has not settled: the loss and the activation must be smooth, "
        "and at most one of several long weights may point another way; "
        "FiniteOneHiddenLayer takes a sample instead"
    )


def _settled(nodes, integrands):
    """Return the means, or None if they differ from those with fewer nodes.

    Compare with every fourth node too: one difference may be small by chance.
    """
    t, x, weights = nodes
    totals = []
    for values in integrands(t, x):
        product = values * weights
        total, size = product.sum(), np.abs(product).sum()
        for stride, allowed in ((2, 1e-9), (4, 1e-4)):
            part = product[len(x) * (slice(None, None, stride),)]
            change = abs(total - stride ** len(x) * part.sum())
            if change > allowed * size + 1e-14:
                return None
        totals.append(float(total))
    return totals


def _sinh_rule(centre, width, step):
    """Return x, dense within width of the centre, and weights for E f(x), x normal.

    This is the trapezoidal rule in s, of at most this step, with
    x = centre + width sinh s. A centre far out is moved in, and the width is at least
    the distance moved, since the integrand varies no faster there.
    """
    near = np.clip(centre, -_INSIDE, _INSIDE)
    width = np.clip(np.maximum(width, np.abs(centre - near)), _NARROWEST, _REACH)
    low, high = (np.arcsinh((end - near) / width) for end in (-_REACH, _REACH))
    count = 4 * int(np.ceil(np.max(high - low) / (4 * step)))
    step = np.asarray((high - low) / count)[..., None]
    s = np.asarray(low)[..., None] + step * np.arange(count + 1)
    width, near = np.asarray(width)[..., None], np.asarray(near)[..., None]
    x = near + width * np.sinh(s)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return x, width * np.cosh(s) * step * density


def _basis(along):
    """Return an orthonormal basis (d, r) of the rows; most rows lie along its first."""
    lengths = np.sqrt((along**2).sum(axis=1))
    tolerance = _PARALLEL * np.maximum(1, lengths)
    order = [k for k in np.argsort(-lengths, kind="stable") if lengths[k] > 0]
    if not order:
        return np.zeros((along.shape[1], 0))
    rests = {k: _rest(along, along[k] / lengths[k]) for k in order}
    apart = {k: np.sqrt((rests[k] ** 2).sum(axis=1)) > tolerance for k in order}
    first = min(order, key=lambda k: apart[k].sum())
    columns = [along[first] / lengths[first]]
    if apart[first].any():
        rest = np.where(apart[first][:, None], rests[first], 0)
        second = rest[np.argmax((rest**2).sum(axis=1))]
        second = second - (second @ columns[0]) * columns[0]
        columns.append(second / np.sqrt(second @ second))
        beyond = np.sqrt((_rest(rest, columns[1]) ** 2).sum(axis=1))
        if (beyond > tolerance).any():
            raise ValueError(
                "the units span more than a plane, and the quadrature covers a plane: "
                "keep all units but one on one line, or take a sample in "
                "FiniteOneHiddenLayer"
            )
    return np.stack(columns, axis=1)


def _rest(rows, unit):
    return rows - np.outer(rows @ unit, unit)
