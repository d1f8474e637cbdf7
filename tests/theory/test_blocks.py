"""Second-derivative blocks: finite differences, formulas, and what is estimated."""

import itertools

import numpy as np
import pytest
import torch
from common import assert_unchanged, randn, snapshot
from torch import nn
from torch.nn.functional import cross_entropy

from bnlib import smoothness
from bnlib.smoothness import _linear_layers

WIDTHS = (4, 5, 3, 2)
X, Y = randn(12, WIDTHS[0], seed=1), torch.arange(12) % 2
KINDS = ("weights", "directions", "bn_directions")
PAIRS = [*itertools.combinations(range(3), 2), (2, 0), (1, 1)]


def network(batch_norm=False, dtype=torch.float64):
    """A smooth network with biases, and lengths g that are not 1."""
    layers = []
    for inputs, outputs in itertools.pairwise(WIDTHS):
        layers += [nn.Linear(inputs, outputs)]
        layers += [nn.BatchNorm1d(outputs, eps=1e-14)] if batch_norm else []
        layers += [nn.Tanh()]
    made = nn.Sequential(*layers[: -2 if batch_norm else -1]).double()
    with torch.no_grad():
        for number, parameter in enumerate(made.parameters()):
            parameter.copy_(randn(*parameter.shape, seed=30 + number))
    return made.to(dtype)


def loss(network):
    return cross_entropy(network(X), Y)


def linear(network):
    return [m for m in network if isinstance(m, nn.Linear)]


def gradients(network):
    return torch.autograd.grad(loss(network), [m.weight for m in linear(network)])


def by_differences(network, first, second, step=1e-5):
    """The block by central differences of the gradient, number after number."""
    weight = linear(network)[first].weight
    rows = []
    for entry in range(weight.numel()):
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                weight.view(-1)[entry] += sign * step
            ends.append(gradients(network)[second].flatten())
            with torch.no_grad():
                weight.view(-1)[entry] -= sign * step
        rows.append((ends[0] - ends[1]) / (2 * step))
    return torch.stack(rows).numpy()


def inputs_of(network, layer):
    """What a linear layer takes, from a run of the layers before it."""
    place = list(network).index(linear(network)[layer])
    return network[:place](X).detach().numpy()


def jacobian(network, layer, kind):
    """Return the derivative of a layer's weights by its directions, at length 1.

    For w = g v / |v| it is g (I - v (M v)^T) with M the metric and v.M v = 1.
    """
    w = linear(network)[layer].weight.detach().numpy()
    metric = np.eye(w.shape[1])
    if kind == "bn_directions":
        metric = np.cov(inputs_of(network, layer).T, bias=True)
    blocks = []
    for row in w:
        length = np.sqrt(row @ metric @ row)
        v = row / length
        blocks.append(length * (np.eye(len(v)) - np.outer(v, metric @ v)))
    size = len(blocks) * w.shape[1]
    whole = np.zeros((len(blocks), w.shape[1]) * 2)
    for row, block in enumerate(blocks):
        whole[row, :, row] = block
    return whole.reshape(size, size)


# Exactly.


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_block_is_the_difference_quotient_of_the_gradient(first, second, batch_norm):
    made = network(batch_norm)
    found = smoothness.hessian_block(made, loss, first, second)
    expected = by_differences(made, first, second)
    assert abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_blocks_are_those_of_the_whole_hessian(batch_norm):
    made = network(batch_norm)
    whole = smoothness.hessian(made, loss)
    sizes = [p.numel() for p in made.parameters()]
    ends = np.cumsum(sizes)
    at = [p is m.weight for m in linear(made) for p in made.parameters()]
    at = np.reshape(at, (3, -1)).argmax(axis=1)
    for first, second in PAIRS:
        rows, columns = (
            slice(ends[at[k]] - sizes[at[k]], ends[at[k]]) for k in (first, second)
        )
        found = smoothness.hessian_block(made, loss, first, second)
        np.testing.assert_allclose(found, whole[rows, columns], atol=1e-13)


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize(("first", "second"), [(0, 1), (0, 2), (2, 1)])
def test_a_block_of_directions_is_projected_on_both_sides(first, second, kind):
    made = network()
    plain = smoothness.hessian_block(made, loss, first, second)
    found = smoothness.hessian_block(made, loss, first, second, coordinates=kind)
    left, right = (jacobian(made, k, kind) for k in (first, second))
    np.testing.assert_allclose(found, left.T @ plain @ right, atol=1e-13)
    assert not np.allclose(found, plain, rtol=0.1)


def test_the_block_of_a_layers_own_directions_has_the_curvature_of_the_sphere():
    made = network()
    weight = linear(made)[1].weight
    w = weight.detach().clone()
    lengths = w.norm(dim=1, keepdim=True)

    def gradient(v):
        v = v.reshape(w.shape).clone().requires_grad_()
        moved = torch.func.functional_call(
            made, {"2.weight": lengths * v / v.norm(dim=1, keepdim=True)}, X
        )
        return torch.autograd.grad(cross_entropy(moved, Y), v)[0].flatten()

    start, step = (w / lengths).flatten(), 1e-5
    units = step * torch.eye(len(start), dtype=torch.float64)
    rows = [(gradient(start + u) - gradient(start - u)) / (2 * step) for u in units]
    found = smoothness.hessian_block(made, loss, 1, 1, coordinates="directions")
    np.testing.assert_allclose(found, torch.stack(rows), atol=1e-8)


def test_directions_under_batch_norm_are_the_weights_at_length_one():
    made = network(batch_norm=True)
    found = smoothness.hessian_block(made, loss, 0, 1, coordinates="bn_directions")
    # A row's scale makes no difference to a network with BN: set every one to 1.
    with torch.no_grad():
        for layer in (0, 1):
            x, weight = torch.tensor(inputs_of(made, layer)), linear(made)[layer].weight
            weight /= (x @ weight.T).std(dim=0, correction=0)[:, None]
    expected = smoothness.hessian_block(made, loss, 0, 1)
    assert abs(expected).max() > 1e-2
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_lengths_of_directions_make_no_difference_to_their_block(kind):
    made = network(batch_norm=True)
    before = smoothness.block_norms(made, loss, 0, [1], coordinates=kind)
    with torch.no_grad():
        linear(made)[0].weight.mul_(7.0)
    after = smoothness.block_norms(made, loss, 0, [1], coordinates=kind)
    np.testing.assert_allclose(after, before, rtol=1e-7)
    assert smoothness.block_norms(made, loss, 0, [1]) < before


@pytest.mark.parametrize("kind", KINDS)
def test_norms_are_the_frobenius_norms_of_the_blocks(kind):
    made = network()
    found = smoothness.block_norms(made, loss, 1, [2, 0, 1], coordinates=kind)
    for norm, other in zip(found, [2, 0, 1]):
        block = smoothness.hessian_block(made, loss, 1, other, coordinates=kind)
        assert norm == pytest.approx(np.linalg.norm(block), rel=1e-12)


def test_the_others_are_the_later_layers_if_none_are_named():
    made = network()
    np.testing.assert_array_equal(
        smoothness.block_norms(made, loss, 0),
        smoothness.block_norms(made, loss, 0, [1, 2]),
    )
    assert smoothness.estimate_block_norms(made, loss, 0, samples=2).layers == [1, 2]


# By random signs.


@pytest.mark.parametrize("kind", KINDS)
def test_all_signs_together_give_the_squared_norm_exactly(kind, monkeypatch):
    made = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)).double()
    x, y = randn(6, 2), torch.arange(6) % 2
    signs = iter(itertools.product([-1.0, 1.0], repeat=4))

    class Every:
        def choice(self, values, size):
            return np.reshape(next(signs), size)

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Every())
    arguments = (made, lambda n: cross_entropy(n(x), y), 0)
    found = smoothness.estimate_block_norms(*arguments, coordinates=kind, samples=16)
    exact = smoothness.block_norms(*arguments, coordinates=kind)
    np.testing.assert_allclose(found.norms, exact, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimate_is_right_within_its_standard_error(kind):
    made = network()
    exact = smoothness.block_norms(made, loss, 1, [0, 2], coordinates=kind)
    scores = []
    for seed in range(60):
        found = smoothness.estimate_block_norms(
            made, loss, 1, [0, 2], coordinates=kind, samples=40, seed=seed
        )
        scores.append((found.squares - exact**2) / found.errors)
    scores = np.array(scores)
    # The mean of 60 scores has a standard deviation of 0.13, and their standard
    # deviation has one of 0.1.
    assert (abs(scores.mean(axis=0)) < 0.6).all()
    assert (abs(scores.std(axis=0) - 1) < 0.4).all()


def test_the_error_of_a_norm_is_half_that_of_its_square_over_it():
    found = smoothness.estimate_block_norms(network(), loss, 0, samples=5)
    np.testing.assert_allclose(found.norms**2, found.squares)
    np.testing.assert_allclose(found.norm_errors * 2 * found.norms, found.errors)
    layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    none = smoothness.estimate_block_norms(
        layers, lambda n: n[0].weight.square().sum(), 0, samples=2
    )
    assert (none.norms.tolist(), none.norm_errors.tolist()) == ([0.0], [0.0])


def test_the_same_seed_draws_the_same_signs_and_another_others():
    first, again, other = (
        smoothness.estimate_block_norms(
            network(), loss, 0, samples=3, seed=seed
        ).squares
        for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_single_precision_is_estimated_as_well():
    made = network(dtype=torch.float32)

    def single(n):
        return cross_entropy(n(X.float()), Y)

    for kind in KINDS:
        options = {"coordinates": kind}
        exact = smoothness.block_norms(network(), loss, 0, **options)
        norms = smoothness.block_norms(made, single, 0, **options)
        np.testing.assert_allclose(norms, exact, rtol=1e-4)
        estimate = smoothness.estimate_block_norms(
            made, single, 0, samples=3, **options
        )
        assert estimate.squares.dtype == np.float64


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_lengths_of_single_precision_do_not_leave_its_range(scale):
    weight = torch.tensor([[3.0, 4.0], [1.0, 0.0]]) * scale
    for metric, lengths in ((None, [5, 1]), (4 * torch.eye(2).double(), [10, 2])):
        direction = _linear_layers._Direction("0", weight, metric)
        np.testing.assert_allclose(direction.lengths[:, 0] / scale, lengths, rtol=1e-6)
        v = direction.right_inverse(weight)
        torch.testing.assert_close(v[0], torch.tensor([3.0, 4.0]) / lengths[0])
        torch.testing.assert_close(direction(v), weight)


@pytest.mark.parametrize("shape", [(12, 4), (3, 4, 4), (2, 1, 6, 4)])
def test_inputs_of_any_shape_are_rows_of_the_covariance(shape):
    def shaped(network):
        return network(X.reshape(shape)).square().mean()

    def in_two_calls(network):
        return (network(X[:5]).square().sum() + network(X[5:]).square().sum()) / 24

    expected = smoothness.block_norms(
        network(), lambda n: n(X).square().mean(), 0, coordinates="bn_directions"
    )
    for each in (shaped, in_two_calls):
        found = smoothness.block_norms(network(), each, 0, coordinates="bn_directions")
        np.testing.assert_allclose(found, expected, rtol=1e-12)


# Tensors.


def test_second_derivatives_of_tensors_are_those_of_the_formula():
    a, b = randn(2, 3, seed=3).requires_grad_(), randn(4, seed=4).requires_grad_()
    value = (a.sum() ** 2 * b.exp()).sum()
    found = smoothness.second_derivatives(value, a, b)
    expected = (2 * a.sum() * b.exp()).detach().expand(6, 4)
    torch.testing.assert_close(found, expected)
    own = smoothness.second_derivatives(value, a, a)
    torch.testing.assert_close(own, (2 * b.exp().sum()).detach().expand(6, 6))


def test_second_derivatives_by_what_a_value_is_computed_from_need_no_leaf():
    v = randn(3, seed=5).requires_grad_()
    w = 2 * v / v.norm()
    g = torch.ones((), dtype=torch.float64, requires_grad=True)
    value = g**2 * w.square().sum() / 2
    torch.testing.assert_close(
        smoothness.second_derivatives(value, w, g), 2 * w.detach()[:, None]
    )
    # |w| is 2 whatever v is.
    zero = smoothness.second_derivatives(value, v, g)
    torch.testing.assert_close(zero, torch.zeros(3, 1, dtype=torch.float64))


def test_what_does_not_depend_on_both_has_second_derivatives_of_zero():
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    for value in (a.sum() + b.square().sum(), a.sum(), b.square().sum()):
        assert smoothness.second_derivatives(value, a, b).tolist() == [[0, 0], [0, 0]]
    empty = torch.ones(0, requires_grad=True)
    assert smoothness.second_derivatives(a.sum(), empty, a).shape == (0, 2)
    assert smoothness.second_derivatives(a.sum(), a, empty).shape == (2, 0)


# What is left as it was.


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_leave_the_network_as_it_was(kind):
    made = network(batch_norm=True)
    made[0].weight.requires_grad_(False)
    made[0].bias.grad = torch.ones_like(made[0].bias)
    before, names = snapshot(made), [n for n, _ in made.named_modules()]
    smoothness.block_norms(made, loss, 0, coordinates=kind)
    smoothness.estimate_block_norms(made, loss, 0, samples=2, coordinates=kind)
    assert_unchanged(made, before)
    assert [n for n, _ in made.named_modules()] == names
    needs = [p.requires_grad for p in made.parameters()]
    assert needs == [False] + [True] * (len(needs) - 1)
    assert made[0].bias.grad.sum() == made[0].bias.numel()
    assert made[0]._forward_pre_hooks == {}
