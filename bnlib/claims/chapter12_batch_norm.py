"""The claims of chapter 12 on batch normalization against weight normalization."""

import functools

import numpy as np
import torch
from torch.nn.functional import softplus

from bnlib.claims._instances_gaussian import gradient
from bnlib.claims.check import Check
from bnlib.claims.registry import claim
from bnlib.functional import batch_norm

chapter_claim = functools.partial(
    claim, chapter="12-weight-normalization", kind="theorem", source="poggio2019"
)


def _inputs(rng, variances):
    """Draw centred inputs with exactly these variances and no correlation."""
    d = len(variances)
    x = rng.standard_normal((3 * d, d))
    orthogonal, _ = np.linalg.qr(x - x.mean(axis=0))
    return torch.from_numpy(orthogonal * np.sqrt(3 * d * np.asarray(variances)))


def _of_batch(x, y):
    """Return the logistic loss of one linear unit with batch norm and no shift."""

    def loss(w, gamma):
        normed = batch_norm((x @ w)[:, None], None, None, gamma, training=True, eps=0.0)
        return softplus(-y * normed[:, 0]).sum()

    return loss


def _of_weights(x, y):
    """Return the logistic loss of one linear unit with weight normalization."""

    def loss(v, g):
        return softplus(-y * (x @ v) * g / torch.linalg.vector_norm(v)).sum()

    return loss


def slopes(loss, w, length):
    """Return the gradients in the direction and in the length, by autograd."""
    leaves = w.clone().requires_grad_(), length.clone().requires_grad_()
    return torch.autograd.grad(loss(*leaves), leaves)


def _descend(loss, w, length, factor, steps=20, rate=0.05):
    """Run gradient descent, with the length's learning rate times the factor."""
    for _ in range(steps):
        of_direction, of_length = slopes(loss, w, length)
        w = w - rate * of_direction
        length = length - factor * rate * of_length
    return w, length


def _same_descent(rng, variances):
    x, c = _inputs(rng, variances), float(np.mean(variances))
    y = torch.from_numpy(rng.choice([-1.0, 1.0], len(x)))
    w = torch.from_numpy(rng.standard_normal(len(variances)))
    g = torch.from_numpy(rng.uniform(0.5, 2, 1))
    batch, weights = _of_batch(x, y), _of_weights(x, y)
    of_w, of_gamma = slopes(batch, w, np.sqrt(c) * g)
    of_v, of_g = slopes(weights, w, g)
    end_w, gamma = _descend(batch, w, np.sqrt(c) * g, factor=c)
    end_v, end_g = _descend(weights, w, g, factor=1.0)
    return Check.worst(
        Check(of_w, of_v, "==", allowed=1e-10),
        Check(of_gamma, of_g / np.sqrt(c), "==", allowed=1e-10),
        Check(end_w, end_v, "==", allowed=1e-9),
        Check(gamma, np.sqrt(c) * end_g, "==", allowed=1e-9, scale=1.0),
    )


@chapter_claim(
    id="p-bn-eq-wn",
    verdict="conditional",
    statement="Let one linear unit see centred inputs with an invertible covariance "
    r"$S$. At equal weights that are not 0, "
    r"$\gamma/\lVert w\rVert_S=g/\lVert w\rVert$, batch normalization over "
    "all data and weight normalization have the same gradient in $w$, for every loss "
    r"and every $w$, exactly if $S=cI$. Then $\gamma=\sqrt c\,g$ and "
    r"$\partial_\gamma\ell=\partial_g\ell/\sqrt c$: the flows agree if "
    r"$\gamma$ has $c$ times the learning rate of $g$.",
    printed='In the linear one-layer case "simplified batch normalization" is '
    "identical to weight normalization. It is, if what is simplified is that the "
    "inputs are white.",
    printed_in="poggio2019",
)
def p_bn_eq_wn(rng):
    d, c = int(rng.integers(3, 7)), 10 ** rng.uniform(-1, 1)
    return _same_descent(rng, np.full(d, c))


@p_bn_eq_wn.control
def _(rng):
    d, c = int(rng.integers(3, 7)), 10 ** rng.uniform(-1, 1)
    return _same_descent(rng, c * np.linspace(0.7, 1.3, d))


@p_bn_eq_wn.printed
def _():
    rng = np.random.default_rng(0)
    x = _inputs(rng, [0.04, 1.0, 9.0])
    y = torch.from_numpy(rng.choice([-1.0, 1.0], len(x)))
    w, g = torch.ones(3, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    gamma = g * torch.sqrt((x @ w).var(correction=0)) / torch.linalg.vector_norm(w)
    batch, weights = slopes(_of_batch(x, y), w, gamma), slopes(_of_weights(x, y), w, g)
    cosine = torch.cosine_similarity(batch[0], weights[0], dim=0)
    return Check(cosine, 1.0, "==", allowed=0.01)


def _layer(rng):
    """Draw hidden activations, a layer's matrix, its lengths, and the loss above it."""
    count, inputs, units = 40, *(int(n) for n in rng.integers(3, 6, 2))
    x = rng.standard_normal((count, 4)) @ rng.standard_normal((4, inputs))
    h = torch.relu(torch.from_numpy(x + rng.standard_normal(inputs)))
    W = torch.from_numpy(rng.standard_normal((units, inputs)))
    lengths = torch.from_numpy(rng.uniform(0.5, 2, units))
    readout = torch.from_numpy(rng.standard_normal(units))
    y = torch.from_numpy(rng.choice([-1.0, 1.0], count))
    return h, W, lengths, lambda z: softplus(-y * (torch.relu(z) @ readout)).sum()


def _projected(W, G, metric):
    """Return each row's gradient without its part along metric @ w, the normal."""
    normal = W @ metric
    squares = (W * normal).sum(dim=1, keepdim=True)
    inner = (W * G).sum(dim=1, keepdim=True)
    return (G - inner / squares * normal) / torch.sqrt(squares)


def _three_spheres(rng, metric):
    h, W, lengths, loss = _layer(rng)
    centred = h - h.mean(dim=0)
    S, scale, rho = metric(centred.T @ centred / len(h)), lengths[:, None], lengths[0]
    spread = torch.sqrt(((W @ centred.T) ** 2).mean(dim=1, keepdim=True))
    in_batch = gradient(lambda E: loss(centred @ E.T), scale * W / spread)
    norms = torch.linalg.vector_norm(W, dim=1, keepdim=True)
    in_rows = gradient(lambda E: loss(h @ E.T), scale * W / norms)
    whole = torch.linalg.matrix_norm(W)
    in_matrix = gradient(lambda E: loss(h @ E.T), rho * W / whole)
    flat, flat_gradient = W.reshape(1, -1), in_matrix.reshape(1, -1)

    def batch(M):
        z = batch_norm(h @ M.T, None, None, lengths, training=True, eps=0.0)
        return loss(z)

    def rows(M):
        return loss(h @ (scale * torch.nn.functional.normalize(M, dim=1)).T)

    def matrix(M):
        return loss(h @ (rho * M / torch.linalg.matrix_norm(M)).T)

    one, all_ = torch.eye(W.shape[1]).double(), torch.eye(W.numel()).double()
    of_matrix = rho * _projected(flat, flat_gradient, all_).reshape(W.shape)
    return Check.worst(
        Check(gradient(batch, W), scale * _projected(W, in_batch, S), "==", 1e-10),
        Check(gradient(rows, W), scale * _projected(W, in_rows, one), "==", 1e-10),
        Check(gradient(matrix, W), of_matrix, "==", 1e-10),
    )


@chapter_claim(
    id="p-bn-rowwise",
    verdict="holds",
    source="book",
    statement="Let a layer's inputs have the batch covariance $S$, and let $G_i$ be "
    r"the loss's gradient in the weights $\tilde w_i$ that row $i$ applies to its "
    r"(for batch normalization, centred) inputs (no $\lVert w_i\rVert_S$ or $\lVert "
    r"w_i\rVert$ is 0, and $\varepsilon=0$). The gradient in $w_i$ is "
    r"$\frac{\gamma_i}{\lVert w_i\rVert_S}\big(I-\frac{Sw_iw_i^\top}{\lVert "
    r"w_i\rVert_S^2}\big)G_i$ for batch normalization, $\frac{g_i}{\lVert "
    r"w_i\rVert}\big(I-\frac{w_iw_i^\top}{\lVert w_i\rVert^2}\big)G_i$ for weight "
    "normalization of each row. For one length of the whole matrix it is "
    r"$\frac\rho{\lVert W\rVert_F}(G-\langle V,G\rangle V)$, $V=W/\lVert W\rVert_F$.",
)
def p_bn_rowwise(rng):
    return _three_spheres(rng, lambda S: S)


@p_bn_rowwise.control
def _(rng):
    return _three_spheres(rng, lambda S: torch.diag(torch.diag(S)))
