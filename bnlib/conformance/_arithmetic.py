"""Cases of arithmetic: values, gradients, dtypes and layouts."""

import itertools

import torch

from bnlib._reference import definition, reference
from bnlib.conformance._cases import (
    NotOffered,
    Otherwise,
    case,
    expect,
    expect_close,
    expect_error,
    gradient,
)


def _plain(library, **options):
    """Return the functional form in training mode, as a function of the input."""
    return lambda x: library.batch_norm(x, None, None, training=True, **options)


@case(1, "training normalises with the variance over m, and tracks that over m - 1")
def _(library):
    layer = library.nn.BatchNorm1d(3, momentum=1.0)
    x = torch.rand(4, 3, 4)
    expect_close(layer(x), definition(x), 1e-6)
    unbiased = x.double().transpose(0, 1).reshape(3, -1).var(dim=1, correction=1)
    expect_close(layer.running_var, unbiased, 1e-6, "the tracked variance")


@case(2, "over many batches of two the tracked variance tends to that of the data")
def _(library):
    layer = library.nn.BatchNorm1d(200, momentum=None)
    for _ in range(100):
        layer(torch.randn(2, 200))
    tracked = layer.running_var.mean().item()
    expect(abs(tracked - 1) < 0.1, f"it tends to {tracked:.1f}")


@case(9, "means of 1e4 and 1e6 times the deviation: an error of at most 2e-7")
def _(library):
    shapes = [(4096, 4), (32, 4, 16, 16), (32, 4, 16, 16), (8, 3), (4, 3, 5)]
    formats = [torch.contiguous_format] * 2 + [torch.channels_last]
    formats += [torch.contiguous_format] * 2
    for mean, deviation in ((1e4, 1.0), (1e6, 1.0), (1e4, 1e-2)):
        for shape, layout in zip(shapes, formats):
            x = (torch.randn(shape) * deviation + mean).contiguous(memory_format=layout)
            dy = torch.randn(shape)
            expect_close(_plain(library)(x), definition(x), 2e-7)
            found = gradient(_plain(library), x, dy)
            expect_close(found, reference(x, dy)[1], 2e-7, "the gradient")


@case(10, "a constant channel: the output is exactly beta")
def _(library):
    beta = torch.tensor([0.3, -1.0, 7.0])
    x = torch.tensor([3.7, 100.0, 1e8]).expand(64, 3).contiguous()
    for shape in ((64, 3), (4, 3, 4, 4)):
        x = torch.tensor([3.7, 100.0, 1e8]).reshape(1, 3, *[1] * (len(shape) - 2))
        x = x.expand(shape).contiguous()
        y = library.batch_norm(x, None, None, torch.ones(3), beta, training=True)
        error = (y - beta.reshape(1, 3, *[1] * (len(shape) - 2))).abs().max().item()
        expect(error == 0, f"the output is off by {error:.0e}")
        dy = torch.randn(shape)
        axes = [0, *range(2, len(shape))]
        right = (dy - dy.mean(dim=axes, keepdim=True)) / 1e-5**0.5
        expect_close(gradient(_plain(library), x, dy), right, 1e-6, "the gradient")
    _expect_constants(library)


def _expect_constants(library):
    """Expect exactly beta for constants of many sizes, shapes and layouts."""
    values = torch.tensor([3.7, 100, 1e8, 0.1, -1 / 3, 0.0, 1e-30, 3e38])
    beta = torch.linspace(-7, 3, 8)
    for shape, dtype, layout in itertools.product(
        [(2, 8), (7, 8), (1000, 8), (3, 8, 50), (9, 8, 700)],
        [torch.float32, torch.bfloat16],
        [torch.clone, _channels_last],
    ):
        column = (-1, *[1] * (len(shape) - 2))
        x = layout(values.to(dtype).view(column).expand(shape).contiguous())
        y = library.batch_norm(x, None, None, torch.ones(8), beta, training=True)
        expect(bool((y == beta.to(dtype).view(column)).all()), f"not beta in {dtype}")


def _channels_last(x):
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


@case(11, "half precision with large deviations or many values: no overflow")
def _(library):
    wide = (torch.randn(2, 2, 256, 128) * 200).half()
    narrow = (torch.randn(65536, 2) * 0.1 + 5).bfloat16()
    for x in (wide, narrow):
        y = _plain(library)(x)
        expect(bool(y.isfinite().all()), "the output is not finite")
        expect_close(y, definition(x), torch.finfo(x.dtype).eps)
        mean, var = torch.zeros(2), torch.ones(2)
        library.batch_norm(x, mean, var, training=True, momentum=1.0)
        values = x.double().movedim(1, 0).flatten(1)
        expect_close(mean, values.mean(1), 1e-5, "the tracked mean")
        expect_close(var, values.var(1), 1e-4, "the tracked variance")


@case(12, "dtypes may differ from the parameters': the output has the input's")
def _(library):
    for inside, outside, affine in (
        (torch.float16, torch.float32, False),
        (torch.float16, torch.float32, True),
        (torch.bfloat16, torch.float32, True),
        (torch.float64, torch.float32, True),
    ):
        layer = library.nn.BatchNorm1d(3, affine=affine, dtype=outside)
        x = torch.randn(16, 3).to(inside)
        try:
            y = layer(x)
        except RuntimeError as error:
            what = f"a {inside} input with {outside} buffers is refused"
            raise Otherwise(what.replace("torch.", "")) from error
        expect(y.dtype == inside, f"an output of {y.dtype} from {inside}")
        expect_close(y, definition(x), 2 * torch.finfo(inside).eps)
    dtypes = torch.float16, torch.bfloat16, torch.float32, torch.float64
    for inside, outside, scaled, shifted, training in itertools.product(
        dtypes, dtypes, (True, False), (True, False), (True, False)
    ):
        x = torch.randn(6, 2).to(inside).requires_grad_()
        mean, var, weight, bias = (torch.rand(2).to(outside) for _ in range(4))
        given = [weight.requires_grad_() if scaled else None]
        given += [bias.requires_grad_() if shifted else None]
        leaves = [x, *(each for each in given if each is not None)]
        y = library.batch_norm(x, mean, var, *given, training=training)
        grads = torch.autograd.grad(y.sum(), leaves)
        what = f"from {inside} beside {outside}"
        expect(y.dtype == inside, f"an output of {y.dtype} {what}")
        kept = all(g.dtype == leaf.dtype for g, leaf in zip(grads, leaves))
        expect(kept, f"a gradient of another dtype {what}")
        expect(mean.dtype == var.dtype == outside, f"buffers of another dtype {what}")


@case(13, "transposed, sliced, expanded, channels-last inputs: the same values")
def _(library):
    x = torch.randn(6, 4, 5, 8)
    views = {
        "channels_last": x.contiguous(memory_format=torch.channels_last),
        "transposed": x.transpose(2, 3).contiguous().transpose(2, 3),
        "sliced": torch.stack([x, x], dim=-1)[..., 0],
        "flipped": x.flip(0).flip(0),
    }
    dy = torch.randn_like(x)
    right = _plain(library)(x)
    for name, view in views.items():
        expect_close(_plain(library)(view), right, 1e-6, f"{name}: the output")
        found = gradient(_plain(library), view, dy)
        expect_close(found, gradient(_plain(library), x, dy), 1e-5, f"{name}: dx")
    y = _plain(library)(views["channels_last"])
    kept = y.is_contiguous(memory_format=torch.channels_last)
    expect(kept, "the layout is not kept")
    expanded = torch.randn(6, 4, 1, 1).expand(6, 4, 5, 8)
    expect_close(_plain(library)(expanded), definition(expanded), 1e-6, "expanded: it")
    _expect_values_of_all_strides(library)
    _expect_layouts_kept(library)


def _orders(x):
    """Return copies of a tensor in several orders of memory."""
    backwards = tuple(reversed(range(x.ndim)))
    return {
        "contiguous": x.clone(),
        "channels last": _channels_last(x),
        "last two axes swapped": x.mT.contiguous().mT,
        "axes backwards": x.permute(backwards).contiguous().permute(backwards),
        "examples last": x.transpose(0, -1).contiguous().transpose(0, -1),
        "channels first": x.transpose(0, 1).contiguous().transpose(0, 1),
    }


def _strided(x):
    """Return tensors in several orders, with gaps, repeated and at an offset."""
    return _orders(x) | {
        "every second": torch.repeat_interleave(x, 2, dim=0)[::2],
        "offset": torch.cat([x, x], dim=-1)[..., x.shape[-1] :],
        "repeated values": x[..., :1].expand(x.shape),
        "repeated examples": x[:1].expand(x.shape),
        "channels last, flipped": _channels_last(x.flip(-1)).flip(-1),
    }


def _expect_values_of_all_strides(library):
    for shape in ((6, 5), (3, 4, 5), (2, 3, 4, 5)):
        x, dy = torch.randn((2, *shape), dtype=torch.float64)
        for (name, view), (other, upstream) in itertools.product(
            _strided(x).items(), _strided(dy).items()
        ):
            before = view.clone()
            y, dx, *_ = reference(view, upstream)
            found = _plain(library)(view)
            expect_close(found, y, 1e-11, f"{name}: the output", least=1.0)
            leaf = view.detach().requires_grad_()
            (found,) = torch.autograd.grad(_plain(library)(leaf), leaf, upstream)
            what = f"{name}, upstream {other}: dx"
            expect_close(found, dx, 1e-11, what, least=1.0)
            expect(torch.equal(view, before), f"{name}: the input has changed")


def _expect_layouts_kept(library):
    """Expect channels-last outputs, and gradients, of channels-last images."""
    last, volumes = torch.channels_last, torch.channels_last_3d
    for shape, layout in (
        ((2, 3, 4, 5), last),
        ((1, 3, 4, 5), last),
        ((2, 3, 4, 5, 2), volumes),
    ):
        for training in (True, False):
            x = torch.randn(shape).to(memory_format=layout).requires_grad_()
            mean, var = torch.zeros(3), torch.ones(3)
            y = library.batch_norm(x, mean, var, training=training)
            expect(y.is_contiguous(memory_format=layout), "the layout is not kept")


@case(14, "the backward pass in evaluation mode: a fixed affine map's")
def _(library):
    layer = library.nn.BatchNorm1d(3).double()
    layer(torch.randn(20, 3, dtype=torch.float64) * 3 + 1)
    layer.eval()
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    dy = torch.randn(5, 3, dtype=torch.float64)
    dx, dgamma, dbeta = torch.autograd.grad(layer(x), [x, layer.weight, layer.bias], dy)
    inv_std = (layer.running_var + layer.eps).rsqrt()
    x_hat = (x - layer.running_mean) * inv_std
    expect_close(dx, layer.weight * inv_std * dy, 1e-12, "dx")
    expect_close(dgamma, (dy * x_hat).sum(dim=0), 1e-12, "dgamma")
    expect_close(dbeta, dy.sum(dim=0), 1e-12, "dbeta")


@case(15, "second derivatives, in both modes, with and without parameters")
def _(library):
    for training in (True, False):
        for affine in (True, False):
            buffers = torch.randn(2, 3, dtype=torch.float64).abs()
            given = [None, None] if training else list(buffers)
            leaves = [torch.randn(4, 3, dtype=torch.float64, requires_grad=True)]
            if affine:
                leaves += [
                    torch.randn(3, dtype=torch.float64, requires_grad=True)
                    for _ in range(2)
                ]

            def function(x, *parameters, given=given, training=training):
                return library.batch_norm(x, *given, *parameters, training=training)

            passed = torch.autograd.gradgradcheck(
                function, leaves, raise_exception=False
            )
            expect(passed, f"wrong ones: training={training}, affine={affine}")


@case(16, "an upstream gradient of ones gives nothing in training mode")
def _(library):
    x = torch.randn(50, 3, dtype=torch.float64)
    found = gradient(_plain(library), x, torch.ones(50, 3, dtype=torch.float64))
    size = found.abs().max().item()
    expect(size < 1e-12, f"dx is {size:.0e}")


@case(22, "padded sequences with a mask: padding counts nowhere, and may be NaN")
def _(library):
    if library.name == "torch":
        raise NotOffered("no mask is taken")
    x, mask = torch.randn(4, 3, 9), torch.rand(4, 9) < 0.7
    hidden = ~mask[:, None].expand_as(x)
    x = x.masked_fill(hidden, torch.nan)
    kept = x.movedim(1, -1)[mask]
    for padding in (0, 5):
        longer = torch.nn.functional.pad(x, (0, padding), value=torch.nan)
        keep = torch.nn.functional.pad(mask, (0, padding))
        layer = library.nn.BatchNorm1d(3, momentum=1.0)
        longer.requires_grad_()
        y = layer(longer, mask=keep)
        expect_close(y.movedim(1, -1)[keep], definition(kept), 1e-6)
        expect(not y.movedim(1, -1)[~keep].any(), "padding is not 0 in the output")
        y.square().sum().backward()
        expect(not longer.grad.movedim(1, -1)[~keep].any(), "padding has a gradient")
        expect_close(layer.running_mean, kept.mean(dim=0), 1e-5, "the mean")


@case(28, "BN(c x) is BN(x) with eps / c^2, for c from 1e-3 to 1e3")
def _(library):
    x = torch.randn(64, 3) + 1
    for factor in (1e-3, 1e-1, 1e1, 1e3):
        found = _plain(library)(x * factor)
        expect_close(found, definition(x, eps=1e-5 / factor**2), 1e-5)


@case(29, "NaN or infinity in one channel: only that channel is affected")
def _(library):
    for shape in ((64, 3), (4, 3, 5, 5)):
        for bad in (float("nan"), float("inf")):
            x = torch.randn(shape)
            right = _plain(library)(x)
            x[0, 1] = bad
            y = _plain(library)(x)
            others = [0, 2]
            expect_close(y[:, others], right[:, others], 1e-6)
            expect(not y[:, 1].isfinite().all(), "the channel looks healthy")
    _expect_channels_apart(library)


def _expect_channels_apart(library):
    """Expect that a bad value, or upstream value, moves no bit of another channel."""

    def results(x, dy, training):
        x = x.detach().requires_grad_()
        mean, var = torch.zeros(3), torch.ones(3)
        y = library.batch_norm(x, mean, var, training=training)
        (dx,) = torch.autograd.grad(y, x, dy)
        return [each.movedim(1, 0)[::2] for each in (y, dx)] + [mean[::2], var[::2]]

    for shape, layout, training, bad in itertools.product(
        [(9, 3), (70, 3), (5, 3, 6), (9, 3, 600)],
        [torch.clone, _channels_last],
        (True, False),
        [float("nan"), float("inf"), -float("inf")],
    ):
        x, dy = layout(torch.randn(shape)), torch.randn(shape)
        right = results(x, dy, training)
        for spoilt in (x.clone(), dy), (x, dy.clone()):
            spoilt[spoilt[0] is x][1, 1] = bad
            pairs = zip(results(*spoilt, training), right)
            same = all(torch.equal(one, other) for one, other in pairs)
            expect(same, f"{bad} reaches another channel")


@case(33, "one image of height 1 whose strides fit two layouts: right gradients")
def _(library):
    x = torch.randn(16, 5, 1, 1).transpose(0, 3)
    dy = torch.randn(1, 5, 1, 16)
    weight = torch.ones(5, requires_grad=True)
    bias = torch.zeros(5, requires_grad=True)
    y = library.batch_norm(x, None, None, weight, bias, training=True)
    dgamma, dbeta = torch.autograd.grad(y, [weight, bias], dy)
    expect_close(dbeta, dy.sum(dim=(0, 2, 3)), 1e-5, "dbeta")
    right = (dy.double() * definition(x)).sum(dim=(0, 2, 3))
    expect_close(dgamma, right, 1e-5, "dgamma")
    _expect_gradients_of_all_orders(library)


def _expect_gradients_of_all_orders(library):
    for shape in (
        (1, 3, 1, 4),
        (1, 3, 4, 1),
        (1, 3, 4, 5),
        (2, 3, 1, 5),
        (1, 3, 2, 2, 2),
    ):
        x, dy = torch.randn((2, *shape), dtype=torch.float64)
        given = [each.requires_grad_() for each in torch.randn(2, 3).double().unbind()]
        right = reference(x, dy, *given)
        for (name, view), (other, upstream) in itertools.product(
            _orders(x).items(), _orders(dy).items()
        ):
            leaves = [view.requires_grad_(), *given]
            y = library.batch_norm(view, None, None, *given, training=True)
            found = y, *torch.autograd.grad(y, leaves, upstream)
            for what, one, exact in zip(("y", "dx", "dgamma", "dbeta"), found, right):
                detail = f"{name}, upstream {other}: {what}"
                expect_close(one, exact, 1e-10, detail)
            view.requires_grad_(False)


@case(30, "wrong ranks, feature counts, kinds and devices: an error that names them")
def _(library):
    layer = library.nn.BatchNorm2d(3)
    expect_error(lambda: layer(torch.randn(2, 3, 4)))
    expect_error(lambda: layer(torch.randn(2, 4, 4, 4)), "4")
    expect_error(lambda: layer(torch.ones(2, 3, 4, 4, dtype=torch.int64)), "int64")
    expect_error(lambda: layer(torch.ones(2, 3, 4, 4).numpy()), "ndarray")
    expect_error(lambda: layer(torch.ones(2, 3, 4, 4, device="meta")), "meta", "cpu")
