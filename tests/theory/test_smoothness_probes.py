"""Probes and spectra of networks: known losses, autograd, and what is refused."""

import copy

import numpy as np
import pytest
import torch
from common import assert_unchanged, generator, randn, snapshot
from refusals import refused
from torch import nn
from torch.nn.functional import cross_entropy

import bnlib
from bnlib import smoothness
from bnlib.smoothness import _spectra

MATRIX = torch.tensor([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, -1.0]]).double()


def quadratic(network):
    """Half of w.A w, for a layer of three weights."""
    w = network.weight.ravel()
    return w @ MATRIX @ w / 2


def three_weights():
    layer = nn.Linear(3, 1, bias=False, dtype=torch.float64)
    layer.weight.data = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)
    return layer


def classifier(batch_norm=True):
    network = bnlib.networks.mlp(
        (3, 5, 4, 2), batch_norm=batch_norm, generator=generator(), dtype=torch.float64
    )
    with torch.no_grad():
        for number, parameter in enumerate(network.parameters()):
            parameter.add_(0.3 * randn(*parameter.shape, seed=20 + number))
    return network


X, Y = randn(16, 3, seed=1), torch.arange(16) % 2


def loss(network):
    return cross_entropy(network(X), Y)


class Loss(nn.Module):
    """A loss of a network as a module, so that torch can swap its parameters."""

    def __init__(self, network, loss):
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self):
        return self.loss(self.network)


def dense_hessian(network, loss):
    """The Hessian by torch's own functional form."""
    module = Loss(network, loss)
    names, parameters = zip(*module.named_parameters())
    sizes = [p.numel() for p in parameters]

    def value(vector):
        pieces = vector.split(sizes)
        given = {n: v.reshape(p.shape) for n, v, p in zip(names, pieces, parameters)}
        return torch.func.functional_call(module, given, ())

    vector = torch.cat([p.detach().ravel() for p in parameters])
    return torch.autograd.functional.hessian(value, vector).numpy()


# Along the gradient.


def test_a_probe_of_a_quadratic_is_what_the_formula_says():
    layer, steps = three_weights(), [0.1, 0.5, 2.0]
    probe = smoothness.probe_gradient(layer, quadratic, steps)
    w, A = layer.weight.detach().numpy()[0], MATRIX.numpy()
    gradient = A @ w
    length = np.linalg.norm(gradient)
    assert probe.start == pytest.approx(w @ A @ w / 2)
    assert probe.gradient_norm == pytest.approx(length)
    for number, step in enumerate(steps):
        moved = w - step * gradient
        assert probe.losses[number] == pytest.approx(moved @ A @ moved / 2)
        change = step * np.linalg.norm(A @ gradient)
        assert probe.gradient_changes[number] == pytest.approx(change)
        assert probe.distances[number] == pytest.approx(step * length)
    smooth = np.linalg.norm(A @ gradient) / length
    assert probe.effective_smoothness == pytest.approx(smooth)
    assert probe.loss_range == (probe.losses.min(), probe.losses.max())
    assert probe.largest_change == probe.gradient_changes[-1]


def test_effective_smoothness_is_the_largest_ratio_and_not_that_of_the_largest():
    layer = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    layer.weight.data.fill_(0.5)
    steps = np.array([0.5, 4.0, 7.0])
    probe = smoothness.probe_gradient(layer, lambda n: n.weight.sin().sum(), steps)
    slope = np.cos(0.5)
    changes = abs(np.cos(0.5 - steps * slope) - slope)
    assert probe.largest_change == pytest.approx(changes.max())
    ratio = (changes / (steps * slope)).max()
    assert ratio > 1.1 * changes.max() / (7.0 * slope)
    assert probe.effective_smoothness == pytest.approx(ratio)


def test_probes_and_spectra_leave_the_network_as_it_was():
    network = classifier()
    network(X)  # running statistics that are not the first ones
    network[0].weight.grad = torch.ones_like(network[0].weight)
    before = snapshot(network)
    smoothness.probe_gradient(network, loss, [0.1, 1.0])
    smoothness.layer_terms(network, loss)
    smoothness.hessian(network, loss)
    smoothness.extreme_eigenvalues(network, loss)
    smoothness.hessian_trace(network, loss, samples=2)
    assert_unchanged(network, before)
    assert network.training
    assert bool((network[0].weight.grad == 1).all())
    assert network[1].weight.grad is None
    assert not network[1]._forward_hooks


def test_frozen_parameters_are_held_fixed():
    network = nn.Linear(2, 1, dtype=torch.float64)
    network.bias.requires_grad_(False)
    network.weight.data.fill_(1.0)
    network.bias.data.fill_(1.0)

    def squares(n):
        return n.weight.square().sum() + n.bias.square().sum()

    probe = smoothness.probe_gradient(network, squares, [0.5])
    assert probe.losses.tolist() == [1.0]  # the bias's square, alone
    assert smoothness.hessian(network, squares).tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_a_step_beyond_what_is_finite_is_kept_as_such():
    probe = smoothness.probe_gradient(
        three_weights(), lambda n: (n.weight**4).sum(), [1e-3, 1e120]
    )
    assert np.isfinite(probe.losses).tolist() == [True, False]
    assert probe.effective_smoothness == np.inf


def test_unused_parameters_count_with_gradient_zero():
    network = nn.Linear(2, 1, dtype=torch.float64)
    matrix = smoothness.hessian(network, lambda n: n.weight.square().sum())
    assert matrix.tolist() == np.diag([2.0, 2.0, 0.0]).tolist()


@pytest.mark.parametrize("steps", [np.array([0.1, 0.2]), torch.tensor([0.1, 0.2])])
def test_steps_may_be_an_array(steps):
    probe = smoothness.probe_gradient(three_weights(), quadratic, steps)
    assert probe.steps.tolist() == pytest.approx([0.1, 0.2])


# Layers.


def gradients_in_front(network, loss, kind):
    """Squared gradients of the loss at the inputs of all layers of a kind."""
    network, inputs = copy.deepcopy(network), []
    for layer in network.modules():
        if isinstance(layer, kind):
            layer.register_forward_pre_hook(lambda _, i: inputs.append(i[0]))
    value = loss(network)
    return [
        (dx**2).sum(dim=[a for a in range(dx.ndim) if a != 1])
        for dx in torch.autograd.grad(value, inputs)
    ]


def test_layer_terms_give_the_gradient_in_front_of_every_layer():
    network = classifier()
    found = smoothness.layer_terms(network, loss)
    assert list(found) == ["1", "4"]
    expected = gradients_in_front(network, loss, nn.BatchNorm1d)
    for terms, squared in zip(found.values(), expected):
        torch.testing.assert_close(terms.squared_norm, squared, rtol=1e-10, atol=0)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("inplace", [True, False])
def test_layer_terms_take_images_and_activations_in_place(inplace, affine):
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, affine=affine), nn.ReLU(inplace=inplace)
    ).double()
    images = randn(4, 2, 5, 5, seed=2)

    def value(n):
        y = n(images)
        return ((y**2 + y) * randn(4, 3, 3, 3, seed=3)).sum()

    (terms,) = smoothness.layer_terms(network, value).values()
    (squared,) = gradients_in_front(network, value, nn.BatchNorm2d)
    torch.testing.assert_close(terms.squared_norm, squared, rtol=1e-10, atol=0)


# Spectra.


@pytest.mark.parametrize("batch_norm", [True, False])
def test_the_hessian_is_torchs(batch_norm):
    network = classifier(batch_norm)
    expected = dense_hessian(network, loss)
    found = smoothness.hessian(network, loss)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert (found == found.T).all()
    operator = smoothness.HessianOperator(network, loss)
    vectors = np.random.default_rng(0).standard_normal((len(found), 2))
    np.testing.assert_allclose(operator @ vectors, expected @ vectors, atol=1e-12)
    gradient = torch.autograd.grad(loss(network), list(network.parameters()))
    np.testing.assert_allclose(
        operator.gradient, torch.cat([g.ravel() for g in gradient]), atol=1e-14
    )
    assert operator.value == pytest.approx(loss(network).item())


def test_extreme_eigenvalues_are_those_of_the_whole_matrix():
    eigenvalues = np.linalg.eigvalsh(smoothness.hessian(classifier(), loss))
    for seed in range(3):
        found = smoothness.extreme_eigenvalues(classifier(), loss, seed=seed)
        assert found == pytest.approx((eigenvalues[0], eigenvalues[-1]), rel=1e-8)


@pytest.mark.parametrize(
    ("width", "value", "expected"),
    [
        (1, lambda n: 3 * n.weight.square().sum(), (6.0, 6.0)),
        (2, lambda n: n.weight.prod(), (-1.0, 1.0)),
        (5, lambda n: n.weight.sum(), (0.0, 0.0)),
        (5, lambda n: n.weight.square().sum(), (2.0, 2.0)),
    ],
    ids=["one parameter", "two parameters", "no curvature", "one eigenvalue"],
)
def test_extreme_eigenvalues_of_the_simplest_losses(width, value, expected):
    layer = nn.Linear(width, 1, bias=False, dtype=torch.float64)
    found = smoothness.extreme_eigenvalues(layer, value)
    assert found == pytest.approx(expected, abs=1e-9)


def test_the_trace_is_within_the_standard_error_that_random_signs_have():
    matrix = smoothness.hessian(classifier(), loss)
    mean, error = smoothness.hessian_trace(classifier(), loss, samples=400)
    off_diagonal = (matrix**2).sum() - (np.diag(matrix) ** 2).sum()
    assert error == pytest.approx(np.sqrt(2 * off_diagonal / 400), rel=0.2)
    assert abs(mean - np.trace(matrix)) < 4 * error


def test_random_draws_depend_on_the_seed_alone():
    first = smoothness.hessian_trace(classifier(), loss, samples=5, seed=1)
    torch.manual_seed(3)
    assert smoothness.hessian_trace(classifier(), loss, samples=5, seed=1) == first
    assert smoothness.hessian_trace(classifier(), loss, samples=5, seed=2) != first


def test_scale_invariance_divides_the_curvature_by_the_square():
    x, target = randn(8, 3, seed=4), randn(8, 1, seed=5)
    network = nn.Sequential(
        nn.Linear(3, 1, bias=False), bnlib.nn.BatchNorm1d(1, eps=0.0, affine=False)
    ).double()

    def value(n):
        return (n(x) - target).square().sum()

    before = smoothness.hessian(network, value)
    network[0].weight.data *= 10
    after = smoothness.hessian(network, value)
    np.testing.assert_allclose(100 * after, before, atol=1e-9 * abs(before).max())


def test_gradients_are_taken_even_where_torch_is_told_not_to():
    with torch.no_grad():
        found = smoothness.hessian(three_weights(), quadratic)
        probe = smoothness.probe_gradient(three_weights(), quadratic, [0.1])
    np.testing.assert_allclose(found, MATRIX, atol=1e-12)
    assert probe.gradient_norm > 0


# What is refused.

CALLS = {
    "probe": lambda network, value: smoothness.probe_gradient(network, value, [0.1]),
    "layers": smoothness.layer_terms,
    "hessian": smoothness.hessian,
    "eigenvalues": smoothness.extreme_eigenvalues,
    "trace": smoothness.hessian_trace,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (lambda n: n[0].weight, ValueError, ("loss", (5, 3), "tensor of one element")),
        (lambda n: 2.5, ValueError, ("loss", 2.5, "tensor of one element")),
        (lambda n: loss(n).detach(), ValueError, ("loss", "not depend on parameters")),
        (
            lambda n: loss(n) * np.nan,
            ValueError,
            ("loss", "nan"),
        ),
        (
            lambda n: loss(n) / 0,
            ValueError,
            ("loss", "inf"),
        ),
        (3, TypeError, ("loss", "int", "function of the network")),
    ],
    ids=["no scalar", "no tensor", "no gradient", "NaN", "infinite", "no function"],
)
def test_a_bad_loss_is_named(call, value, error, says):
    with refused(error, *says):
        call(classifier(), value)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_bad_network_is_named(call):
    with refused(TypeError, "network", "list", "torch.nn.Module"):
        call([], loss)
    with refused(ValueError, "network", "no parameter requires gradient"):
        call(classifier().requires_grad_(False), loss)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "layers"])
def test_a_loss_of_another_network_is_named(name):
    other = classifier()
    with refused(ValueError, "loss", "not depend on parameters", "from argument"):
        CALLS[name](classifier(), lambda network: loss(other))


@pytest.mark.parametrize(
    ("steps", "error", "says"),
    [
        ([], ValueError, ("steps", "empty", "at least one")),
        ([0.1, 0.0], ValueError, ("a step", 0, "number above 0")),
        ([-0.1], ValueError, ("a step", -0.1, "finite, above 0")),
        ([np.nan], ValueError, ("a step", "nan", "finite, above 0")),
        (["a"], TypeError, ("a step", "'a'", "number")),
        (0.1, TypeError, ("steps", 0.1, "sequence of numbers")),
    ],
)
def test_bad_steps_are_named(steps, error, says):
    with refused(error, *says):
        smoothness.probe_gradient(three_weights(), quadratic, steps)


def test_a_gradient_of_length_zero_gives_no_direction():
    with refused(ValueError, "gradient's length", 0.0):
        smoothness.probe_gradient(three_weights(), lambda n: 0 * n.weight.sum(), [0.1])


@pytest.mark.parametrize(
    ("network", "value", "says"),
    [
        (
            classifier(batch_norm=False),
            loss,
            ("network", "no batch normalization layer"),
        ),
        (
            classifier().eval(),
            loss,
            ("layer '1'", "running statistics", "network.train()"),
        ),
        (classifier(), lambda n: loss(n) + loss(n), ("layer '1'", "2 times", "once")),
        (classifier(), lambda n: n[0](X).sum(), ("layer '1'", "0 times", "once")),
    ],
    ids=["no layer", "eval mode", "called twice", "not called"],
)
def test_layer_terms_refuse_what_has_no_one_answer(network, value, says):
    with refused(ValueError, *says):
        smoothness.layer_terms(network, value)


def test_a_network_too_large_for_the_whole_hessian_is_told_what_to_use(monkeypatch):
    monkeypatch.setattr(_spectra, "MOST_PARAMETERS", 10)
    with refused(ValueError, "network", 72, "at most 10, extreme_eigenvalues"):
        smoothness.hessian(classifier(), loss)
    assert smoothness.hessian(three_weights(), quadratic).shape == (3, 3)


def test_bad_numbers_are_named():
    with refused(ValueError, "samples", 1, "integer of at least 2"):
        smoothness.hessian_trace(three_weights(), quadratic, samples=1)
    with refused(ValueError, "seed", -1, "integer of at least 0"):
        smoothness.extreme_eigenvalues(three_weights(), quadratic, seed=-1)
    with refused(TypeError, "seed", 0.5, "integer"):
        smoothness.hessian_trace(three_weights(), quadratic, seed=0.5)
