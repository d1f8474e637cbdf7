"""The transform and its gradients: against autograd, torch and the definition."""

import numpy as np
import pytest
import torch
from common import PRESENT, SHAPES
from transform_reference import (
    EPS,
    along,
    assert_close,
    by_autograd,
    case,
    tensor,
)

from bnlib.conformance import definition
from bnlib.transform import (
    batch_norm_backward,
    batch_norm_backward_steps,
    batch_norm_forward,
    batch_norm_inference,
)

# The same values in other memory layouts.


def transposed(array):
    return array.T.copy().T


def every_second(array):
    padded = np.full((2 * array.shape[0], *array.shape[1:]), np.nan)
    padded[::2] = array
    return padded[::2]


def backwards(array):
    flipped = np.flip(array).copy()
    return np.flip(flipped)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def offset(array):
    """Unaligned: one byte past where a float64 may start."""
    raw = np.empty(array.nbytes + 1, np.uint8)[1:]
    view = raw.view(np.float64).reshape(array.shape)
    view[...] = array
    return view


def torch_transposed(array):
    return torch.from_numpy(array.T.copy()).permute(*reversed(range(array.ndim)))


def torch_every_second(array):
    return torch.from_numpy(np.repeat(array, 2, axis=-1))[..., ::2]


def torch_channels_last(array):
    moved = np.ascontiguousarray(np.moveaxis(array, 1, -1))
    return torch.from_numpy(moved).movedim(-1, 1)


LAYOUTS = [
    np.array,
    np.asfortranarray,
    transposed,
    every_second,
    backwards,
    read_only,
    offset,
    tensor,
    torch_transposed,
    torch_every_second,
    torch_channels_last,
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward_and_backward_agree_with_autograd(shape, layout):
    for present in PRESENT:
        x, dy, gamma, beta = case(shape, present)
        y, dx, dgamma, dbeta = by_autograd(x, dy, gamma, beta)
        x, dy = layout(x), layout(dy)
        kind = torch.from_numpy if isinstance(x, torch.Tensor) else np.array
        gamma, beta = (None if a is None else kind(a) for a in (gamma, beta))
        found, cache = batch_norm_forward(x, gamma, beta, EPS)
        assert type(found) is type(x)
        assert_close(found, y)
        for name, side in zip(
            ("dx", "dgamma", "dbeta"), batch_norm_backward(dy, cache), strict=True
        ):
            assert_close(side, {"dx": dx, "dgamma": dgamma, "dbeta": dbeta}[name])
        steps = batch_norm_backward_steps(dy, cache)
        assert_close(steps.dx, dx)
        assert_close(steps.dgamma, dgamma)
        assert_close(steps.dbeta, dbeta)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[-1] > 1], ids=str)
def test_a_zero_stride_agrees_with_its_copy(shape):
    x, dy, gamma, beta = case(shape)
    x, dy = (np.broadcast_to(array[..., :1], shape) for array in (x, dy))
    y, dx, dgamma, dbeta = by_autograd(x, dy, gamma, beta)
    expanded = [torch.tensor(a[..., :1].copy()).expand(shape) for a in (x, dy)]
    assert 0 in expanded[0].stride()
    assert 0 in x.strides
    for kind, (values, upstream) in ((np.array, (x, dy)), (torch.tensor, expanded)):
        found, cache = batch_norm_forward(values, kind(gamma), kind(beta), EPS)
        assert_close(found, y)
        for side, expected in zip(
            batch_norm_backward(upstream, cache), (dx, dgamma, dbeta)
        ):
            assert_close(side, expected)


# The chain rule, one step at a time: autograd of the graph cut at that variable.


def cut_gradients(x, dy, gamma, beta):
    """Return each step's gradient with everything before it held fixed."""
    x, dy, gamma, beta = map(tensor, (x, dy, gamma, beta))
    axes = [axis for axis in range(x.ndim) if axis != 1]

    def gradient(leaf, rest):
        leaf = leaf.detach().requires_grad_()
        return torch.autograd.grad(rest(leaf), leaf, dy)[0]

    def affine(x_hat):
        return x_hat * along(gamma, x.ndim) + along(beta, x.ndim)

    def spread(mean):
        return ((x - mean) ** 2).mean(dim=axes, keepdim=True)

    def after_mean(mean):
        return affine((x - mean) / (spread(mean) + EPS) ** 0.5)

    mean = x.mean(dim=axes, keepdim=True)
    var = spread(mean)
    x_hat = (x - mean) / (var + EPS) ** 0.5
    return {
        "dx_hat": gradient(x_hat, affine),
        "dvar": gradient(var, lambda v: affine((x - mean) / (v + EPS) ** 0.5)).ravel(),
        "dmean": gradient(mean, after_mean).ravel(),
        "dx": gradient(x, lambda v: definition(v, gamma, beta, eps=EPS)),
        "dgamma": gradient(gamma, lambda g: x_hat * along(g, x.ndim)),
        "dbeta": gradient(beta, lambda b: along(b, x.ndim).expand(x.shape)),
    }


@pytest.mark.parametrize("step", ["dx_hat", "dvar", "dmean", "dx", "dgamma", "dbeta"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_step_of_the_chain_rule_is_autograd_of_the_cut_graph(shape, step):
    x, dy, gamma, beta = case(shape)
    expected = cut_gradients(x, dy, gamma, beta)[step].numpy()
    steps = batch_norm_backward_steps(dy, batch_norm_forward(x, gamma, beta, EPS)[1])
    assert_close(getattr(steps, step), expected)
    assert steps._fields == ("dx_hat", "dvar", "dmean", "dx", "dgamma", "dbeta")


def test_the_gradient_agrees_with_finite_differences():
    x, dy, gamma, _ = case((4, 2, 3))
    found = batch_norm_backward(dy, batch_norm_forward(x, gamma, eps=EPS)[1])[0]
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += 1e-5
        down[index] -= 1e-5
        change = (
            batch_norm_forward(up, gamma, eps=EPS)[0]
            - (batch_norm_forward(down, gamma, eps=EPS)[0])
        )
        assert abs((dy * change).sum() / 2e-5 - found[index]) < 1e-7


# Other axes: layer, instance and group norm.


def layer_norm(x, weight, bias):
    return torch.nn.functional.layer_norm(x, x.shape[1:], weight[0], bias[0], EPS)


def instance_norm(x, weight, bias):
    return torch.nn.functional.instance_norm(
        x, weight=weight, bias=bias, use_input_stats=True, eps=EPS
    )


def group_norm(x, weight, bias):
    flat = torch.nn.functional.group_norm(
        x.flatten(1, 2), x.shape[1], weight.flatten(), bias.flatten(), EPS
    )
    return flat.reshape(x.shape)


OTHER_NORMS = [
    (layer_norm, (4, 6), (1,), (1, 6)),
    (layer_norm, (4, 3, 5, 2), (1, 2, 3), (1, 3, 5, 2)),
    (instance_norm, (2, 3, 4, 5), (2, 3), (3,)),
    (instance_norm, (2, 3, 7), (-1,), (3,)),
    (group_norm, (2, 3, 2, 4, 5), (2, 3, 4), (1, 3, 2, 1, 1)),
]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("norm", "shape", "axes", "size"),
    OTHER_NORMS,
    ids=lambda v: getattr(v, "__name__", str(v)),
)
def test_other_axes_give_torchs_norm_and_its_gradients(norm, shape, axes, size, kind):
    rng = np.random.default_rng(3)
    x, dy = rng.standard_normal((2, *shape)) * 2 + 5
    gamma, beta = rng.standard_normal((2, *size))
    leaves = [tensor(array).requires_grad_() for array in (x, gamma, beta)]
    expected = norm(*leaves)
    gradients = torch.autograd.grad(expected, leaves, tensor(dy))
    if kind == "torch":
        x, dy, gamma, beta = map(tensor, (x, dy, gamma, beta))
    y, cache = batch_norm_forward(x, gamma, beta, EPS, axes=axes)
    assert_close(y, expected.detach().numpy())
    steps = batch_norm_backward_steps(dy, cache)
    for found in (batch_norm_backward(dy, cache), (steps.dx, *steps[4:])):
        for side, gradient in zip(found, gradients, strict=True):
            assert_close(side, gradient.numpy())


def test_averaging_over_every_axis_takes_one_statistic():
    x = np.arange(6.0).reshape(2, 3)
    y, cache = batch_norm_forward(x, eps=0.0, axes=(0, 1))
    assert cache.mean.shape == ()
    assert float(cache.mean) == 2.5
    assert_close(y, (x - 2.5) / np.sqrt(35 / 12))


def test_a_batch_axis_last_takes_one_parameter_a_feature():
    x, _, gamma, beta = case((6, 4))
    expected, _ = batch_norm_forward(x, gamma, beta)
    moved = np.moveaxis(x[:, :, None], 1, 2)
    y, _ = batch_norm_forward(moved, gamma, beta, axes=(0, 1))
    assert_close(np.moveaxis(y, 2, 1)[:, :, 0], expected)


# What the cache holds.


def test_the_cache_holds_the_biased_variance_and_adds_eps_inside_the_root():
    x = np.array([[1.0], [2.0], [6.0]])
    _, cache = batch_norm_forward(x, eps=2.0)
    assert cache.mean.tolist() == [3.0]
    assert_close(cache.var, np.array([14 / 3]))
    assert_close(cache.inv_std, np.array([(14 / 3 + 2) ** -0.5]))
    assert (cache.eps, cache.axes) == (2.0, (0,))


def test_inputs_are_left_as_they_were_and_nothing_given_is_handed_back():
    for wrap in (np.array, tensor):
        x, dy, gamma, beta = map(wrap, case((4, 3)))
        before = [array.tolist() for array in (x, dy, gamma, beta)]
        for parameters in ((None, None), (gamma, beta)):
            y, cache = batch_norm_forward(x, *parameters)
            batch_norm_backward(dy, cache)
            steps = batch_norm_backward_steps(dy, cache)
            out = batch_norm_inference(x, cache.mean, cache.var, *parameters)
            for result in (y, steps.dx_hat, out):
                result *= 0
        for array, original in zip((x, dy, gamma, beta), before):
            assert array.tolist() == original


def test_changing_the_output_in_place_leaves_the_gradient_right():
    x, dy, _, _ = case((5, 2))
    expected = by_autograd(x, dy, None, None)[1]
    y, cache = batch_norm_forward(x, eps=EPS)
    np.maximum(y, 0, out=y)
    assert_close(batch_norm_backward(dy, cache)[0], expected)


# Inference.


@pytest.mark.parametrize("kind", [np.array, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 4), (0, 3), (0, 3, 2)], ids=str)
def test_inference_agrees_with_torch(shape, kind):
    rng = np.random.default_rng(2)
    x, mean, gamma, beta = (rng.standard_normal(s) for s in (shape, *[shape[1]] * 3))
    var = rng.uniform(0.1, 3, shape[1])
    for present in PRESENT:
        parameters = [a if p else None for a, p in zip((gamma, beta), present)]
        torchs = [None if a is None else tensor(a) for a in parameters]
        expected = torch.nn.functional.batch_norm(
            tensor(x), tensor(mean), tensor(var), *torchs, eps=EPS
        )
        ours = [None if a is None else kind(a) for a in parameters]
        y = batch_norm_inference(kind(x), kind(mean), kind(var), *ours, EPS)
        assert_close(y, expected.numpy())


def test_inference_with_the_batchs_own_statistics_is_the_forward_pass():
    x, _, gamma, beta = case((5, 3, 2))
    y, cache = batch_norm_forward(x, gamma, beta)
    assert_close(batch_norm_inference(x, cache.mean, cache.var, gamma, beta), y)


def test_inference_treats_each_example_by_itself():
    x, _, gamma, beta = case((5, 3))
    statistics = np.ones(3), np.full(3, 2.0)
    whole = batch_norm_inference(x, *statistics, gamma, beta)
    one = batch_norm_inference(x[2:3], *statistics, gamma, beta)
    np.testing.assert_array_equal(whole[2:3], one)


# The conventions a user has tripped over.


def test_training_and_inference_differ_by_exactly_the_unbiased_factor():
    x = np.random.default_rng(0).random((4, 3, 4))
    y, cache = batch_norm_forward(x, eps=0.0)
    m = 16
    unbiased = cache.var * m / (m - 1)
    np.testing.assert_allclose(unbiased, x.var(axis=(0, 2), ddof=1))
    later = batch_norm_inference(x, cache.mean, unbiased, eps=0.0)
    np.testing.assert_allclose((y / later) ** 2, np.full(x.shape, m / (m - 1)))


@pytest.mark.parametrize("c", [1e-3, 0.1, 1.0, 10.0, 1e3, -2.0])
def test_a_scale_changes_the_output_by_epsilons_share_alone(c):
    x, _, _, _ = case((50, 2))
    found, _ = batch_norm_forward(c * x, eps=1e-5)
    y, _ = batch_norm_forward(x, eps=0.0)
    var = x.var(axis=0)
    effect = np.sign(c) * np.sqrt(var / (var + 1e-5 / c**2))
    assert_close(found, y * effect)


def test_an_upstream_of_ones_tells_nothing():
    x, dy, _, _ = case((50, 2))
    _, cache = batch_norm_forward(x)
    assert np.abs(batch_norm_backward(np.ones_like(x), cache)[0]).max() < 1e-14
    assert np.abs(batch_norm_backward(dy, cache)[0]).max() > 0.1
