"""Gauss-Legendre quadrature on panels, which are halved where an integrand needs it."""

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_MOST_PANELS = 20_000


def panels_between(edges):
    """Return the panels, shape (2, n), between n + 1 increasing edges."""
    return np.stack([edges[:-1], edges[1:]])


def points(panels):
    """Return 16 nodes on each panel and their weights, shape (n, 16) each.

    If a panel ends at 0, the nodes near 0 have full relative precision.
    """
    left, right = panels[..., None]
    half = (right - left) / 2
    return (left + half) + half * _NODES, half * _WEIGHTS


def refined(edges, integrals, *, shortest, refusal, missed=None):
    """Return panels fine enough that halving them again changes no integral.

    Parameters
    ----------
    edges : array, shape (n + 1,)
        The edges of the first panels, increasing.
    integrals : callable
        Takes panels, shape (2, n), and returns integrals over each, shape (k, n).
    shortest : float
        No panel shorter than this is halved.
    refusal : str
        The error's message if an integrand varies too fast.
    missed : callable, optional
        Takes panels too and returns a bound on what their nodes may have missed,
        shape (n,); it is compared with the first integral.

    Returns
    -------
    array, shape (2, m)
        The panels from left to right.

    Raises
    ------
    ValueError
        If 20,000 panels are not enough.
    """
    pending, done = panels_between(edges), []
    scale = 0.0
    while pending.size:
        middle = pending.mean(axis=0)
        halves = np.stack([[pending[0], middle], [middle, pending[1]]], axis=-1)
        whole, parts = integrals(pending), integrals(halves.reshape(2, -1))
        parts = parts.reshape(len(parts), -1, 2)
        scale = np.maximum(scale, np.abs(whole).sum(axis=1, keepdims=True))
        bad = (np.abs(whole - parts.sum(axis=2)) > 1e-14 * scale).any(axis=0)
        if missed is not None:
            most = missed(halves.reshape(2, -1)).reshape(-1, 2).max(axis=1)
            bad |= most > 1e-13 * scale[0]
        bad &= np.ptp(pending, axis=0) > shortest
        done.append(halves[:, ~bad].reshape(2, -1))
        pending = halves[:, bad].reshape(2, -1)
        if pending.shape[1] + sum(part.shape[1] for part in done) > _MOST_PANELS:
            raise ValueError(refusal)
    panels = np.concatenate(done, axis=1)
    return panels[:, np.argsort(panels[0])]
