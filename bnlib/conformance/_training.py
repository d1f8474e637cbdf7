"""Cases of training: running statistics, modes, freezing, accumulation, weights."""

import copy
import itertools

import torch
from torch import nn
from torch.optim import swa_utils

import bnlib
from bnlib._reference import definition
from bnlib.conformance._cases import (
    NotOffered,
    case,
    expect,
    expect_close,
)


@case(3, "momentum is the weight of the batch; a converter knows other conventions")
def _(library):
    layer = library.nn.BatchNorm1d(3, momentum=0.1)
    x = torch.randn(8, 3) + 5
    layer(x)
    expect_close(layer.running_mean, 0.1 * x.mean(dim=0), 1e-6, "the mean")
    for _ in range(8):
        layer(x)
    expect_close(layer.running_mean, (1 - 0.9**9) * x.mean(dim=0), 1e-5, "the mean")
    if library.name == "torch":
        raise NotOffered("the rule is right; no converter")
    converted = bnlib.statistics.convert_momentum(0.9, "keras", "torch")
    expect(abs(converted - 0.1) < 1e-12, f"0.9 of Keras becomes {converted}")


def _recalibrated(library, model, batches):
    """Recalibrate the running statistics with the library's function for it."""
    if library.name == "torch":
        swa_utils.update_bn(batches, model)
    else:
        bnlib.recalibrate(model, batches)
    return model.eval()


def _stack(library, *widths):
    layers = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), library.nn.BatchNorm1d(outputs)]
    return nn.Sequential(*layers).double()


def _expect_exact(library, model, x):
    """Expect eval mode to give what training mode gives on all data as one batch."""
    right = copy.deepcopy(model).train()(x)
    found = _recalibrated(library, model, list(x.split(16)))(x)
    expect_close(found, right, 1e-9, "evaluation with recalibrated statistics")


@case(5, "lagging statistics can be made exact, for the whole data set")
def _(library):
    model, x = _stack(library, 4, 5, 3), torch.randn(80, 4).double() + 3
    for part in x.split(16)[:3]:
        model(part)
    _expect_exact(library, model, x)


@case(25, "averaged weights: statistics made for the average, the donors left alone")
def _(library):
    donors = [_stack(library, 4, 5, 3) for _ in range(2)]
    x = torch.randn(80, 4).double() + 3
    for donor in donors:
        donor(x)
    before = copy.deepcopy([donor.state_dict() for donor in donors])
    average = swa_utils.AveragedModel(donors[0])
    for donor in donors:
        average.update_parameters(donor)
    _expect_exact(library, average, x)
    for donor, state in zip(donors, before):
        for name, value in donor.state_dict().items():
            expect(torch.equal(value, state[name]), f"a donor's {name} moved")


@case(17, "the four states of mode and tracking, flipped after construction")
def _(library):
    x = torch.randn(16, 3) * 2 + 5
    for tracks in (True, False):
        layer = library.nn.BatchNorm1d(3, track_running_stats=not tracks)
        other = library.nn.BatchNorm1d(3, track_running_stats=tracks)
        layer.track_running_stats = tracks
        if layer.running_mean is None:
            # A flipped layer without buffers can only normalise with the batch.
            expect_close(layer.train()(x), definition(x), 1e-6)
            expect_close(layer.eval()(x), definition(x), 1e-6)
            continue
        before = layer.running_mean.clone()
        expect_close(layer.train()(x), definition(x), 1e-6)
        moved = not torch.equal(layer.running_mean, before)
        expect(moved is tracks, f"tracking={tracks} and the buffers moved={moved}")
        expect_close(other.train()(x), definition(x), 1e-6)


@case(18, "momentum=None: the plain average over the batches")
def _(library):
    layer = library.nn.BatchNorm1d(3, momentum=None)
    batches = torch.randn(4, 10, 3) + 2
    for batch in batches:
        layer(batch)
    expect_close(layer.running_mean, batches.mean(dim=(0, 1)), 1e-6, "the mean")
    expect_close(
        layer.running_var, batches.var(dim=1).mean(dim=0), 1e-6, "the variance"
    )


@case(19, "freezing: statistics and parameters apart, and train() does not thaw")
def _(library):
    if library.name == "torch":
        raise NotOffered("eval() freezes the statistics, and train() thaws them")
    for statistics, affine, name in (
        (True, False, "statistics"),
        (False, True, "affine"),
        (True, True, "all"),
    ):
        layer = library.nn.BatchNorm1d(3)
        library.nn.freeze(layer, statistics=statistics, affine=affine).train()
        layer(torch.randn(8, 3) + 4)
        expect(layer.frozen == name, f"train() made {name} {layer.frozen}")
        moved = bool(layer.running_mean.any())
        expect(moved is not statistics, f"{name}: the statistics moved={moved}")
        expect(layer.weight.requires_grad is not affine, f"{name}: the weight learns")


@case(20, "evaluation never writes a buffer; training does, in any gradient mode")
def _(library):
    for mode in (torch.no_grad, torch.enable_grad, torch.inference_mode):
        layer = library.nn.BatchNorm1d(3)
        with mode():
            layer.eval()(torch.randn(8, 3) + 4)
            expect(not layer.running_mean.any(), "evaluation wrote a buffer")
            layer.train()(torch.randn(8, 3) + 4)
            expect(bool(layer.running_mean.any()), "training wrote none")


@case(8, "an empty batch: an empty output, and nothing counted")
def _(library):
    layer = library.nn.BatchNorm1d(5)
    y = layer(torch.empty(0, 5, 9))
    expect(y.shape == (0, 5, 9), f"the output has shape {tuple(y.shape)}")
    expect(not layer.running_mean.any(), "the running mean moved")
    counted = int(layer.num_batches_tracked)
    expect(counted == 0, f"it counts {counted} batch")
    for shape in ((0, 5), (4, 5, 0), (0, 5, 2, 2)):
        for training in (True, False):
            mean, var = torch.zeros(5), torch.ones(5)
            leaves = [torch.zeros(size).requires_grad_() for size in (shape, 5, 5)]
            given = leaves[0], mean, var, *leaves[1:]
            y = library.batch_norm(*given, training=training)
            expect(y.shape == shape, f"the output has shape {tuple(y.shape)}")
            grads = torch.autograd.grad(y.sum(), leaves)
            expect(not any(grad.any() for grad in grads), "a gradient is not 0")
            expect(not mean.any() and bool((var == 1).all()), "a buffer moved")


@case(23, "micro-batches: the gradients and statistics of the whole batch on offer")
def _(library):
    if library.name == "torch":
        raise NotOffered("each micro-batch is normalised by itself")
    x = torch.randn(64, 4).double() + 1
    whole = _stack(library, 4, 5, 3)
    parts = copy.deepcopy(whole)

    def loss(model, batch):
        return (model(batch) ** 3).sum()

    loss(whole, x).backward()
    bnlib.nn.accumulate(parts, loss, x.split(16))
    for ours, right in zip(parts.parameters(), whole.parameters()):
        error = (ours.grad - right.grad).abs().max().item()
        expect(error < 1e-10, f"a gradient is off by {error:.0e}")
    for ours, right in zip(parts.buffers(), whole.buffers()):
        expect_close(ours, right, 1e-12, "a buffer")


@case(26, "weights in front of BN: their gradient is orthogonal, whatever the decay")
def _(library):
    linear, layer = nn.Linear(6, 4, bias=False).double(), library.nn.BatchNorm1d(4)
    model = nn.Sequential(linear, layer.double())
    x, rate, decay = torch.randn(32, 6).double(), 0.1, 0.01
    optimizer = torch.optim.SGD([linear.weight], lr=rate, weight_decay=decay)
    model(x)[:16].pow(3).sum().backward()
    weight, slope = linear.weight.detach().clone(), linear.weight.grad.clone()
    inner = (weight * slope).sum(dim=1)
    lengths = weight.norm(dim=1) * slope.norm(dim=1)
    # Only eps keeps the product from 0.
    expect((inner / lengths).abs().max() < 1e-3, "the gradient is not orthogonal")
    optimizer.step()
    grown = (1 - rate * decay) ** 2 * weight.square().sum(dim=1)
    grown += rate**2 * slope.square().sum(dim=1)
    grown -= 2 * (1 - rate * decay) * rate * inner
    expect_close(linear.weight.square().sum(dim=1), grown, 1e-12, "the length")


@case(27, "weight normalization of a zero row: an error, never NaN")
def _(library):
    linear = nn.Linear(3, 2)
    with torch.no_grad():
        linear.weight[1] = 0
    rule = nn.utils.parametrizations.weight_norm
    if library.name == "bnlib":
        rule = bnlib.nn.weight_norm
    try:
        y = rule(linear)(torch.ones(1, 3))
    except ValueError:
        return
    expect(not y.isnan().any(), "NaN")
    expect(False, "no error")


@case(24, "folding into the layer before: exact, and refused in training mode")
def _(library):
    fold = bnlib.fold if library.name == "bnlib" else _torchs_fold
    for layer, dims in (
        (nn.Linear(4, 6, bias=False), 0),
        (nn.Conv1d(4, 6, 3), 1),
        (nn.Conv2d(4, 6, 3, groups=2, bias=False), 2),
        (nn.Conv3d(4, 6, 3), 3),
        (nn.ConvTranspose2d(4, 6, 3), 2),
    ):
        norm = getattr(library.nn, f"BatchNorm{max(dims, 1)}d")(6)
        pair = nn.Sequential(layer, norm).double()
        x = torch.randn(8, 4, *[5] * dims).double() + 1
        with torch.no_grad():
            norm.weight.copy_(torch.tensor([1.0, -2.0, 0.0, 0.5, 3.0, -0.1]))
            norm.bias.normal_()
        pair(x)
        right = pair.eval()(x)
        name = type(layer).__name__
        expect_close(fold(layer, norm)(x), right, 1e-12, f"a folded {name}")
        try:
            fold(layer.train(), norm.train())
        except (ValueError, AssertionError):
            continue
        expect(False, "folded in training mode")


def _torchs_fold(layer, norm):
    fusion = nn.utils.fusion
    if isinstance(layer, nn.Linear):
        return fusion.fuse_linear_bn_eval(layer, norm)
    transposed = isinstance(layer, nn.modules.conv._ConvTransposeNd)
    return fusion.fuse_conv_bn_eval(layer, norm, transpose=transposed)
