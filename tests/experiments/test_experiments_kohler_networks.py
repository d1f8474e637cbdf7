"""Kohler's deep networks: the descent, what is recorded, and a run that diverges."""

import math

import numpy as np
import pytest
import torch
from refusals import refused
from torch import nn
from torch.nn.functional import cross_entropy

from bnlib import data, experiments, smoothness
from bnlib.experiments import kohler_networks
from bnlib.experiments._training import checkpoints, standardised

SMALL = {"width": 6, "hidden_layers": 3, "steps": 12, "looks": 4, "samples": 2}
LISTS = ("weights", "weights_errors", "bn_directions", "bn_directions_errors")
NUMBERS = ("loss", "gradient", "central_gradient")


def dataset(rows=40, shape=(5,), seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 17, (rows, *shape)).astype(float)
    y = rng.integers(0, 10, rows)
    return data.Dataset(x, y, x[:2], y[:2], name="toy", source="")


def run(arm="batch_norm", rate=0.2, seed=0, given=None, **changed):
    sequence = np.random.SeedSequence(seed)
    sets = {"digits": given or dataset()}
    context = experiments.Context(torch.device("cpu"), sequence, sets)
    return kohler_networks.kohler_dependency(context, arm, rate, **SMALL | changed)


def network(arm, inputs=5, width=6, hidden_layers=3):
    generator = torch.Generator().manual_seed(1)
    return kohler_networks._network(arm, inputs, width, hidden_layers, generator)


# The network and its descent.


def test_batch_norm_is_put_before_every_tanh_and_changes_no_weight():
    plain, normalised = network("plain"), network("batch_norm")
    assert [type(m) for m in plain] == [nn.Linear, nn.Tanh] * 3 + [nn.Linear]
    kinds = [nn.Linear, nn.BatchNorm1d, nn.Tanh] * 3 + [nn.Linear]
    assert [type(m) for m in normalised] == kinds
    weights = [
        [m.weight for m in each if isinstance(m, nn.Linear)]
        for each in (plain, normalised)
    ]
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_weights_have_the_deviation_that_keeps_a_variance():
    made = network("plain", inputs=400, width=100)
    deviations = [m.weight.std().item() for m in made if isinstance(m, nn.Linear)]
    assert deviations == pytest.approx([0.05, 0.1, 0.1, 0.1], rel=0.05)


def test_a_step_goes_down_the_gradient_and_ten_times_as_far_for_the_lengths():
    made = network("batch_norm")
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(2))
    y = torch.arange(20) % 10
    before = {name: p.detach().clone() for name, p in made.named_parameters()}
    descent = kohler_networks._descent(made, lambda n: cross_entropy(n(x), y), 0.1, 1)
    _, value, gradients = next(descent)
    gradients = [gradient.clone() for gradient in gradients]
    assert value == pytest.approx(cross_entropy(made(x), y).item(), rel=1e-6)
    next(descent)
    moved = 0
    for (name, parameter), gradient in zip(made.named_parameters(), gradients):
        is_length = isinstance(made.get_submodule(name.split(".")[0]), nn.BatchNorm1d)
        rate = 1.0 if is_length and name.endswith("weight") else 0.1
        torch.testing.assert_close(parameter, before[name] - rate * gradient)
        moved += rate == 1.0 and bool(gradient.abs().max() > 1e-4)
    assert moved == 3


def test_a_descent_has_a_loss_for_each_step_and_before_the_first():
    made, x = network("plain"), torch.ones(10, 5)
    y = torch.arange(10)
    found = list(
        kohler_networks._descent(made, lambda n: cross_entropy(n(x), y), 0.1, 7)
    )
    assert [step for step, *_ in found] == list(range(8))


@pytest.mark.parametrize("values", [[1.0, math.nan], [1.0, math.inf], [2.0, 1.0, 2e6]])
def test_a_descent_ends_where_the_loss_leaves_all_bounds(values):
    made = nn.Sequential(nn.Linear(1, 1, bias=False))
    left = iter(values)

    def loss(network):
        return network[0].weight.sum() * 0 + next(left)

    found = list(kohler_networks._descent(made, loss, 0.1, 9))
    assert [value for _, value, _ in found] == values[:-1]


def test_inputs_have_mean_0_and_deviation_1_and_blank_ones_stay_0():
    images = dataset(shape=(3, 2, 2))
    images.x_train[:, 0, 0, 0] = 7
    x, y, *_ = standardised(images, "cpu", np.float32)
    assert x.shape == (40, 12)
    assert x.dtype == torch.float32
    assert x[:, 0].abs().max() == 0
    torch.testing.assert_close(x.mean(dim=0), torch.zeros(12), atol=1e-6, rtol=0)
    torch.testing.assert_close(x[:, 1:].std(dim=0, correction=0), torch.ones(11))
    expected = images.x_train.reshape(40, 12)[:, 5]
    expected = (expected - expected.mean()) / expected.std()
    np.testing.assert_allclose(x[:, 5], expected, rtol=1e-5)
    assert (y.numpy() == images.y_train).all()


# What is recorded.


def replayed(arm, rate, given):
    """The same descent by torch's own optimiser, from the unit's own streams."""
    sequence = np.random.SeedSequence(0)
    context = experiments.Context(torch.device("cpu"), sequence, {})
    weights, _ = kohler_networks.generators(context, 2)
    made = kohler_networks._network(arm, 5, SMALL["width"], 3, weights)
    x, y, *_ = standardised(given, "cpu", np.float32)
    lengths = [m.weight for m in made if isinstance(m, nn.BatchNorm1d)]
    rest = [p for p in made.parameters() if all(p is not g for g in lengths)]
    groups = [{"params": rest}, {"params": lengths, "lr": 10 * rate}]
    optimizer = torch.optim.SGD([group for group in groups if group["params"]], lr=rate)

    def loss(network):
        return cross_entropy(network(x), y)

    for step in range(SMALL["steps"] + 1):
        optimizer.zero_grad()
        value = loss(made)
        value.backward()
        yield step, made, loss, value.item()
        optimizer.step()


@pytest.mark.parametrize("arm", ["plain", "batch_norm"])
def test_each_look_is_at_the_network_of_its_step(arm):
    given = dataset()
    found = run(arm, given=given, samples=200)
    assert found["steps"] == checkpoints(SMALL["steps"], SMALL["looks"])
    assert not found["diverged"]
    looks = iter(range(len(found["steps"])))
    for step, made, loss, value in replayed(arm, 0.2, given):
        if step not in found["steps"]:
            continue
        look = next(looks)
        # Rounded to four digits, in float32.
        assert found["loss"][look] == pytest.approx(value, rel=1e-3)
        lengths = [p.grad.norm().item() for p in made.parameters()]
        expected = math.hypot(*lengths)
        assert found["gradient"][look] == pytest.approx(expected, rel=1e-3)
        central = [m for m in made if isinstance(m, nn.Linear)][1]
        own = central.weight.grad.norm().item()
        assert found["central_gradient"][look] == pytest.approx(own, rel=1e-3)
        for kind in kohler_networks.COORDINATES:
            exact = smoothness.block_norms(made, loss, 1, [2, 3], coordinates=kind)
            errors = np.array(found[f"{kind}_errors"][look])
            assert (abs(found[kind][look] - exact) < 4.5 * errors).all()
            assert (errors < 0.1 * exact).all()


def test_a_layer_in_the_middle_is_held_against_each_later_one():
    for hidden_layers, later in ((1, 1), (2, 1), (5, 3), (6, 3)):
        found = run(hidden_layers=hidden_layers, steps=2, looks=2)
        for name in LISTS:
            assert np.array(found[name]).shape == (2, later)


def test_arms_and_rates_begin_with_the_same_weights_and_seeds_with_others(monkeypatch):
    build, drawn = kohler_networks._network, []

    def spied(arm, *sizes):
        made = build(arm, *sizes)
        drawn.append(made[0].weight.sum().item())
        return made

    monkeypatch.setattr(kohler_networks, "_network", spied)
    experiments.run(
        "kohler-digits",
        device="cpu",
        learning_rates=[0.1, 0.2],
        seeds=[0, 1],
        steps=1,
        looks=2,
        samples=2,
    )
    assert drawn == drawn[:2] * 4
    assert drawn[0] != drawn[1]


def test_the_same_seed_gives_the_same_results():
    sizes = {"device": "cpu", "steps": 2, "looks": 2, "samples": 2}
    record = experiments.run("kohler-digits", seeds=[0, 1], **sizes)
    again = experiments.run("kohler-digits", seeds=[1], **sizes)
    assert record.array("loss").shape == (2, 1, 2, 2)
    assert record.array("weights").shape == (2, 1, 2, 2, 3)
    for name in (*LISTS, *NUMBERS):
        found, expected = record.array(name), again.array(name)
        np.testing.assert_array_equal(found[:, :, 1], expected[:, :, 0])
        assert (found[:, :, 0] != found[:, :, 1]).all()


def test_the_live_run_goes_down_with_both_networks():
    record = experiments.run(
        "kohler-digits", device="cpu", steps=40, looks=3, samples=2
    )
    losses = record.array("loss")[:, 0, 0]
    assert (losses[:, -1] < losses[:, 0] / 3).all()


# A run that diverges.


@pytest.mark.parametrize("arm", ["plain", "batch_norm"])
def test_a_diverging_run_is_recorded_as_such_and_keeps_its_looks(arm):
    found = run(arm, rate=1e30)
    assert found["diverged"]
    assert None not in (found["loss"][0], found["gradient"][0], *found["weights"][0])
    for name in NUMBERS:
        assert found[name][-1] is None
        assert len(found[name]) == len(found["steps"])
    for name in LISTS:
        assert found[name][-1] == [None, None]
        assert np.array(found[name]).shape == (len(found["steps"]), 2)


def test_a_diverging_rate_leaves_the_others_as_they_were():
    sizes = {"device": "cpu", "steps": 3, "looks": 2, "samples": 2}
    record = experiments.run("kohler-digits", learning_rates=[1e30, 0.1], **sizes)
    alone = experiments.run("kohler-digits", learning_rates=[0.1], **sizes)
    assert record.array("diverged")[:, 0].all()
    assert np.isnan(record.array("weights")[:, 0, :, -1]).all()
    for name in (*LISTS, *NUMBERS):
        np.testing.assert_array_equal(record.array(name)[:, 1], alone.array(name)[:, 0])


def test_a_unit_that_is_constant_leaves_the_blocks_of_directions_empty():
    given = dataset()
    given.x_train[:] = 3.0
    found = run("plain", given=given)
    assert found["bn_directions"][0] == [None, None]
    assert found["weights"][0][0] is not None
    assert not found["diverged"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rate": 0.0}, ("learning_rate", 0, "number above 0")),
        ({"rate": math.inf}, ("learning_rate", "inf", "finite, above 0")),
        ({"width": 0}, ("width", 0, "integer of at least 1")),
        ({"hidden_layers": 0}, ("hidden_layers", 0, "integer of at least 1")),
        ({"steps": 0}, ("steps", 0, "integer of at least 1")),
        ({"looks": 1}, ("looks", 1, "integer of at least 2")),
        ({"samples": 1}, ("samples", 1, "integer of at least 2")),
    ],
)
def test_sizes_that_make_no_run_are_refused(changed, message):
    with refused(ValueError, *message):
        run(**changed)


# CIFAR-10.


def test_cifar10_is_trained_on_as_digits_are():
    images = dataset(shape=(2, 2, 3))
    sequence = np.random.SeedSequence(0)
    context = experiments.Context(
        torch.device("cpu"), sequence, {"cifar10_subset": images}
    )
    found = kohler_networks.kohler_dependency(context, "plain", 0.2, **SMALL)
    assert found == run("plain", given=images)


@pytest.mark.skipif(
    "cifar10_subset" not in data.available(), reason="the images are not here"
)
@pytest.mark.parametrize("id", ["kohler-cifar10", "kohler-cifar10-rates"])
def test_the_live_run_on_images_ends_and_goes_down(id):
    record = experiments.run(id, device="cpu", steps=2, looks=2)
    losses = record.array("loss")[:, 0, 0]
    assert (losses[:, -1] < losses[:, 0]).all()


# What is committed.


def test_the_rate_on_images_has_the_lowest_mean_loss_of_the_recorded_search():
    search = experiments.load_record("kohler-cifar10-rates")
    means = search.array("loss")[..., -1].mean(axis=(0, 2))
    best = search.parameters["learning_rates"][int(np.nanargmin(means))]
    record = experiments.load_record("kohler-cifar10")
    assert record.parameters["learning_rates"] == [best]


SHIPPED = [
    id
    for id in ("kohler-cifar10", "kohler-digits")
    if (experiments.RECORDS / f"{id}.json").exists()
]


def test_the_images_have_a_record():
    assert "kohler-cifar10" in SHIPPED


@pytest.mark.parametrize("id", SHIPPED)
def test_the_recorded_norms_are_known_to_a_tenth(id):
    record = experiments.load_record(id)
    for kind in kohler_networks.COORDINATES:
        share = record.array(f"{kind}_errors") / record.array(kind)
        assert np.nanmedian(share) < 0.1
