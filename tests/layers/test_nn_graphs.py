"""The layers within torch's tools: checkpointing, compile, export, func, autocast."""

import copy
import warnings

import pytest
import torch
from refusals import refused
from torch import nn
from torch.utils.checkpoint import checkpoint

from bnlib.nn import BatchNorm1d, BatchNorm2d, SyncBatchNorm, freeze

ACTIVATIONS = pytest.mark.parametrize("activation", [None, "relu"])


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_takes_the_batch_in_once(reentrant):
    x = torch.randn(8, 3, 4, 4)
    block = nn.Sequential(nn.Conv2d(3, 3, 3), BatchNorm2d(3, momentum=None), nn.ReLU())
    plain = copy.deepcopy(block)
    plain(x).square().sum().backward()
    x = x.clone().requires_grad_()
    checkpoint(block, x, use_reentrant=reentrant).square().sum().backward()
    for ours, theirs in zip(block.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    for ours, theirs in zip(block.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert block[1].num_batches_tracked == 1


def compiled(layer):
    """Compile into one graph; without a working compiler, the graph alone."""
    return torch.compile(layer, fullgraph=True, backend="aot_eager")


@ACTIVATIONS
@pytest.mark.parametrize("state", ["train", "eval", "frozen"])
def test_compile_makes_one_graph_with_the_same_results(state, activation):
    eager = BatchNorm2d(3, activation=activation)
    eager(torch.randn(5, 3, 4, 4) * 2 + 1)
    if state == "frozen":
        freeze(eager, affine=False)
    eager.train(state != "eval")
    other = copy.deepcopy(eager)
    x = torch.randn(4, 3, 5, 5)
    ours, theirs = compiled(other)(x), eager(x)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    torch.testing.assert_close(
        other.weight.grad, eager.weight.grad, rtol=1e-4, atol=1e-4
    )
    for a, b in zip(other.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@ACTIVATIONS
@pytest.mark.parametrize("training", [True, False])
def test_export_gives_a_program_with_the_same_results(training, activation):
    layer = BatchNorm2d(3, activation=activation)
    layer(torch.randn(5, 3, 4, 4) * 2 + 1)
    layer.train(training)
    x = torch.randn(4, 3, 5, 5)
    program = torch.export.export(copy.deepcopy(layer), (x,))
    torch.testing.assert_close(program.module()(x), layer(x), rtol=1e-5, atol=1e-6)


def test_jacrev_gives_the_jacobian():
    layer = BatchNorm1d(3, track_running_stats=False).double()
    x = torch.randn(4, 3, dtype=torch.float64)
    with warnings.catch_warnings():
        # Some torch warns of an operation that it cannot batch.
        warnings.simplefilter("ignore", UserWarning)
        found = torch.func.jacrev(layer)(x)
    expected = torch.autograd.functional.jacobian(layer, x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_functional_call_and_grad_of_a_tracking_layer_in_evaluation():
    layer = BatchNorm1d(3).double()
    layer(torch.randn(9, 3, dtype=torch.float64))
    layer.eval()
    x = torch.randn(4, 3, dtype=torch.float64)

    def loss(parameters):
        return torch.func.functional_call(layer, parameters, (x,)).square().sum()

    found = torch.func.grad(loss)(dict(layer.named_parameters()))
    loss(dict(layer.named_parameters())).backward()
    torch.testing.assert_close(found["weight"], layer.weight.grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@ACTIVATIONS
def test_autocast_leaves_the_layer_its_input(dtype, activation):
    """As with torch's layer, which is in none of autocast's lists."""
    model = nn.Sequential(nn.Linear(4, 3), BatchNorm1d(3, activation=activation))
    theirs = nn.Sequential(model[0], nn.BatchNorm1d(3))
    x = torch.randn(16, 4)
    with torch.autocast("cpu", dtype=dtype):
        ours, expected = model(x), theirs(x)
    assert ours.dtype == expected.dtype
    expected = expected if activation is None else expected.relu()
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(ours, expected, rtol=4 * eps, atol=4 * eps)


@pytest.mark.parametrize("device", ["meta"])
def test_a_layer_is_made_and_moved_without_memory(device):
    layer = BatchNorm2d(3, device=device, dtype=torch.float64)
    assert layer.weight.device.type == "meta"
    moved = layer.to_empty(device="cpu")
    moved.reset_parameters()
    moved(torch.randn(4, 3, 2, 2, dtype=torch.float64))
    assert moved.running_mean.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("kind", [BatchNorm1d, SyncBatchNorm])
def test_moving_a_layer_to_a_dtype_moves_its_buffers(kind, dtype):
    layer = kind(3).to(dtype)
    layer(torch.randn(8, 3).to(dtype))
    assert {b.dtype for b in layer.buffers()} == {dtype, torch.int64}


def test_an_activation_that_is_not_there_is_named():
    with refused(ValueError, "activation", "'gelu'", "None or 'relu'"):
        BatchNorm1d(3, activation="gelu")
