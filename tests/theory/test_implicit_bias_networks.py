"""ReLU networks: against torch, homogeneity, and the invariants of their flows."""

import itertools

import numpy as np
import pytest
import torch

from bnlib.implicit_bias import (
    euler_sums,
    gaussian_weights,
    layer_directions,
    layer_lengths,
    network_flow,
    relu_net,
    relu_net_gradients,
)

WIDTHS = [(3, 1), (3, 5, 1), (4, 6, 3, 1), (2, 5, 5, 5, 5, 1)]
NETWORKS = pytest.mark.parametrize("widths", WIDTHS, ids=str)


def network(widths, seed=0):
    rng = np.random.default_rng(seed)
    return gaussian_weights(widths, rng), rng.standard_normal((7, widths[0]))


def orthogonally_separable(seed=0, d=3):
    """Examples that agree so far that no kink draws the flow from both sides."""
    X = np.abs(np.random.default_rng(seed).standard_normal((6, d)))
    y = np.repeat([1.0, -1.0], 3)
    return y[:, None] * X, y


def torchs(weights, X):
    x = torch.tensor(X)
    for W in weights[:-1]:
        x = torch.relu(x @ W.T)
    return (x @ weights[-1].T)[:, 0]


@NETWORKS
def test_outputs_and_gradients_are_torchs(widths):
    weights, X = network(widths)
    leaves = [torch.tensor(W, requires_grad=True) for W in weights]
    outputs = torchs(leaves, X)
    upstream = np.linspace(-1, 2, 7)
    expected = torch.autograd.grad(outputs, leaves, torch.tensor(upstream))
    np.testing.assert_allclose(relu_net(weights, X), outputs.detach(), rtol=1e-12)
    found = relu_net_gradients(weights, X, upstream)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


@NETWORKS
def test_every_layers_euler_sum_is_the_output(widths):
    weights, X = network(widths)
    sums = euler_sums(weights, X)
    outputs = torchs([torch.tensor(W) for W in weights], X).numpy()
    assert sums.shape == (len(weights), 7)
    scale = np.abs(outputs).max()
    np.testing.assert_allclose(
        sums, np.tile(outputs, (len(weights), 1)), atol=1e-12 * scale
    )


@NETWORKS
@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_the_output_is_the_product_of_lengths_times_that_of_directions(widths, p):
    weights, X = network(widths)
    lengths = layer_lengths(weights, p)
    for W, length in zip(weights, lengths, strict=True):
        assert length == pytest.approx((np.abs(W) ** p).sum() ** (1 / p))
    units = layer_directions(weights, p)
    np.testing.assert_allclose(layer_lengths(units, p), 1.0, rtol=1e-13)
    expected = lengths.prod() * relu_net(units, X)
    np.testing.assert_allclose(relu_net(weights, X), expected, rtol=1e-12)


def test_random_layers_have_the_variance_that_relus_keep():
    first, second = gaussian_weights((400, 300, 1), seed=0)
    assert first.var() == pytest.approx(2 / 400, rel=0.03)
    assert second.shape == (1, 300)
    again = gaussian_weights((400, 300, 1), seed=0)
    np.testing.assert_array_equal(first, again[0])


@pytest.mark.parametrize("method", ["gd", "wn"])
def test_the_flow_starts_down_the_gradient(method):
    weights = gaussian_weights((3, 4, 4, 1), 3)
    X, y = orthogonally_separable()
    leaves = [torch.tensor(W, requires_grad=True) for W in weights]
    loss = torch.exp(-torch.tensor(y) * torchs(leaves, X)).sum()
    slopes = [slope.numpy() for slope in torch.autograd.grad(loss, leaves)]
    flow = network_flow(weights, X, y, [np.log(1e-6)], method)
    assert flow.log_losses[0] == pytest.approx(np.log(loss.item()), abs=1e-3)
    for W, slope, moved in zip(weights, slopes, flow.weights, strict=True):
        if method == "wn":
            along = W * (W * slope).sum() / (W**2).sum()
            slope = along + (W**2).sum() * (slope - along)
        found = (moved[0] - W) / 1e-6
        np.testing.assert_allclose(found, -slope, atol=1e-3 * np.abs(slope).max())


@pytest.mark.parametrize(
    ("method", "widths", "seed"),
    [("gd", (3, 4, 1), 3), ("gd", (3, 4, 4, 1), 4), ("wn", (3, 4, 1), 4)],
)
def test_the_invariants_are_kept_to_log_time_60(method, widths, seed):
    weights = gaussian_weights(widths, seed)
    X, y = orthogonally_separable(seed)
    flow = network_flow(weights, X, y, np.linspace(0.0, 60.0, 7), method)
    assert flow.stop_reason == "reached"
    assert 0 < flow.drift < 1e-8
    assert [W.shape for W in flow.weights] == [(7, *W.shape) for W in weights]
    own = np.array([[np.sum(W[k] ** 2) for W in flow.weights] for k in range(7)])
    np.testing.assert_allclose(flow.lengths**2, own, rtol=1e-12)
    start = layer_lengths(weights) ** 2
    apart = own - own[:, :1] - (start - start[0])
    assert np.abs(apart).max() < 1e-8
    unit_by_unit = [
        np.ptp((before**2).sum(axis=2) - (after**2).sum(axis=1), axis=0).max()
        for before, after in itertools.pairwise(flow.weights)
    ]
    # Gradient flow keeps the balance of every unit, the other that of the layers.
    if method == "gd":
        assert max(unit_by_unit) < 1e-7
    else:
        assert min(unit_by_unit) > 1e-3
    outputs = relu_net([W[-1] for W in flow.weights], X)
    assert flow.log_losses[-1] == pytest.approx(np.log(np.exp(-y * outputs).sum()))
    assert (y * outputs).min() > 55


def test_a_network_that_cannot_separate_stops_with_what_it_reached():
    X, y = np.ones((2, 2)), np.array([1, -1])
    flow = network_flow(
        gaussian_weights((2, 3, 1), 1),
        X,
        y,
        np.linspace(-3, 60, 64),
        max_evaluations=4000,
    )
    assert flow.stop_reason.startswith("gave up: ")
    assert 0 < len(flow.log_times) < 64
    assert len(flow.log_losses) == len(flow.lengths) == len(flow.log_times)
    # The two examples are one point: the least loss is 2.
    assert flow.log_losses.min() >= np.log(2) - 1e-9
