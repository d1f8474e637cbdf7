"""A layer as a problem in one vector: the weights of one unit, or of all units."""

from bnlib.problems._ray import Moments, RayProblem, s_norm


class HiddenUnit(RayProblem):
    """f as a function of one unit's weights, as GDNP takes it."""

    def __init__(self, layer, W, index):
        self._layer, self._index = layer, index
        self._W = W
        self.dim, self.u, self.S = layer.dim, layer.u, layer.S
        self.mu, self.L, self.loss = layer.mu, layer.L, layer.loss

    @property
    def gradient_lipschitz(self):
        """A Lipschitz constant of the gradient."""
        layer, own = self._layer, abs(self._layer.theta[self._index])
        curvature = own * layer.loss.zeta * layer.activation.lipschitz**2
        return float(
            own * self.L * (curvature + layer.loss.lipschitz * layer.activation.zeta)
        )

    def _ray(self, w):
        return _UnitRay(self, w, self.S @ w, float(self.u @ w))

    def _with(self, w):
        """Return all weights, with w in place of the unit's."""
        W = self._W.copy()
        W[self._index] = w
        return W


class _UnitRay:
    """f along a ray of one unit's weights."""

    def __init__(self, unit, w, Sw, uw):
        self._unit = unit
        self.w, self.Sw, self.uw = w, Sw, uw
        self.norm = s_norm(w, Sw)

    def value(self, scale=1.0):
        return self._unit._layer._value(self._unit._with(scale * self.w))

    def slope(self, scale=1.0):
        return self._derivatives(scale, order=1)[0]

    def moments(self, scale=1.0):
        """Return c1 such that c1 u is the part of the gradient along u.

        Of the other units only the parts c_j S^-1 u, on the line of S^-1 u, count. For
        Gaussian z they are the whole units where GDNP's theorem holds.
        """
        layer, index = self._unit._layer, self._unit._index
        alpha, beta = layer._coefficients(self._unit._with(scale * self.w))
        parts = beta[index] * (self._unit._W @ layer.u) / layer.lambda_1
        parts[index] = alpha[index]
        own = layer.theta[index]
        slope, curvature = self._derivatives(scale, order=2)
        return Moments(
            slope, curvature, float(own * parts.sum()), float(own * beta[index, index])
        )

    def gradient(self, scale=1.0):
        W = self._unit._with(scale * self.w)
        return self._unit._layer._gradient(W)[self._unit._index]

    def along(self, other, scale=1.0):
        return float(other.w @ self.gradient(scale))

    def inner(self, other):
        return float(self.Sw @ other.w)

    def minus(self, step, other):
        return _UnitRay(
            self._unit,
            self.w - step * other.w,
            self.Sw - step * other.Sw,
            self.uw - step * other.uw,
        )

    def _derivatives(self, scale, order):
        """Return the derivatives of f(scale w) in the scale, up to this order."""
        if scale == 0:
            return self._derivatives_at_0(order)
        layer, index = self._unit._layer, self._unit._index
        own = layer.theta[index]

        def integrands(t, _):
            output = layer._output(t)
            first, along = layer.loss.d1(output), t[index]
            slope = layer.activation.d1(along)
            yield own * first * slope * along
            if order == 2:
                bend = own * layer.loss.d2(output) * slope**2
                bend += first * layer.activation.d2(along)
                yield own * bend * along**2

        means = layer._means(self._unit._with(scale * self.w), integrands)
        return [mean / scale**power for power, mean in enumerate(means, start=1)]

    def _derivatives_at_0(self, order):
        """Return the derivatives at scale 0, where dividing by the scale fails."""
        layer, d = self._unit._layer, self._unit.dim
        slope = float(self.w @ self.gradient(0.0))
        if order == 1:
            return [slope]
        at = slice(self._unit._index * d, (self._unit._index + 1) * d)
        block = layer._hessian(self._unit._with(0 * self.w))[at, at]
        return [slope, float(self.w @ block @ self.w)]


class Joint:
    """A layer's problem over W.ravel(), as descent and L-BFGS take it."""

    def __init__(self, layer):
        self._layer = layer
        self.dim = layer.units * layer.dim

    @property
    def gradient_lipschitz(self):
        layer = self._layer
        slope, bend = layer.activation.lipschitz, layer.activation.zeta
        squares = layer.loss.zeta * slope**2 * float(layer.theta @ layer.theta)
        return layer.L * (
            squares + layer.loss.lipschitz * bend * abs(layer.theta).max()
        )

    def value(self, w):
        return self._layer.value(w.reshape(self._layer.units, -1))

    def gradient(self, w):
        return self._layer.gradient(w.reshape(self._layer.units, -1)).ravel()
