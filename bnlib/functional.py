"""Batch normalization with torch's own signature, on the backend that fits best."""

import math

import torch

from bnlib import _arrays, _batches, _checks, kernels
from bnlib.kernels import _readable

# Asked for often, and so by shorter ways.
_PLAIN, _STRIDED = kernels.PLAIN, torch.strided
_FLOATS = {torch.float32, torch.float64, torch.float16, torch.bfloat16}


def batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
    *,
    activation=None,
    mask=None,
    backend="auto",
):
    """Normalise a batch, as torch.nn.functional.batch_norm does.

    Whatever the backend, the output has the dtype of ``input`` and every other
    tensor keeps its own. All backends but "native" take their sums in float64.

    Parameters
    ----------
    input : Tensor, shape (N, C) or (N, C, *spatial), any real floating dtype
    running_mean, running_var : Tensors of shape (C,), or None
        Give both or neither. Used when ``training`` is false; when it is true
        they take in the batch, in place, and may be None.
    weight, bias : Tensors of shape (C,), or None
        Scale and shift. Their dtypes may differ from that of ``input``.
    training : bool
        Normalise with the batch's statistics rather than the running ones.
    momentum : float in [0, 1]
        The weight of the batch in the running statistics. The variance enters
        them unbiased.
    eps : float, at least 0
    activation : "relu" or None
        What to apply to the output, in the same pass over memory.
    mask : Tensor of bool, shape (N, *spatial), or None
        True keeps a position. The statistics are those of the kept positions;
        all others may hold anything, NaN too, and their outputs and gradients
        are 0.
    backend : "auto", "readable", "native", "cpu" or "triton"
        What computes it; see `bnlib.kernels`. The environment variable
        ``BNLIB_BACKEND`` changes what "auto" means.

    Returns
    -------
    Tensor
        Shape and dtype of ``input``, differentiable twice. An empty input (or an
        empty mask) gives an empty output (or zeros) and leaves the running
        statistics alone.

    Raises
    ------
    TypeError
        If an argument is no tensor, or its dtype is not real and floating.
    ValueError
        If shapes or devices do not fit, a number is out of range, ``training``
        is true with one value per feature, or it is false and there are no
        running statistics; if there is no such backend, or it cannot take the
        input. Nothing has changed then.

    Examples
    --------
    >>> import torch
    >>> mean, var = torch.zeros(1), torch.ones(1)
    >>> batch_norm(torch.tensor([[1.0], [3.0]]), mean, var, training=True, eps=0.0)
    tensor([[-1.],
            [ 1.]])
    >>> mean, var
    (tensor([0.2000]), tensor([1.1000]))

    Sequences of two lengths: what lies beyond the end of one has no influence.

    >>> x = torch.tensor([[[1.0, 3.0]], [[2.0, torch.nan]]])
    >>> mask = torch.tensor([[True, True], [True, False]])
    >>> batch_norm(x, None, None, training=True, mask=mask).tolist()[1]
    [[0.0, 0.0]]

    References
    ----------
    Chapters 02, "The transform", 04, "Inference", and 05, "Kernels".
    """
    vectors = running_mean, running_var, weight, bias
    if not _is_plain(input, vectors, momentum, eps):
        _check(input, *vectors, momentum, eps)
        if training and running_mean is not None:
            _check_writable("running_mean", running_mean)
            _check_writable("running_var", running_var)
    if activation is not None:
        _checks.check_activation(activation)
    if not training and running_mean is None:
        raise ValueError(
            "running_mean and running_var are None and training is False: there "
            "are no statistics to normalise with"
        )
    options = bool(training), momentum, eps, activation == "relu"
    name = kernels.choose(backend, input, *vectors)
    if mask is None:
        return _normalise(name, input, vectors, *options)
    return _masked(name, input, mask, vectors, options)


def _normalise(name, input, vectors, training, momentum, eps, relu):
    """Normalise an input that was checked, on a backend that takes it."""
    values = input.numel()
    if values == 0:
        # Statistics that are never used, so that the parameters get their zeros.
        nothing = torch.zeros((2, input.shape[1]), device=input.device)
        return _readable.batch_norm(input, *nothing, *vectors[2:], False, 0, 1, relu)
    if training and values == input.shape[1]:
        _checks.check_training_count("input", input, _arrays.averaged_axes(input, None))
    backend = kernels.module(name)
    if name in ("readable", "native"):
        return backend.batch_norm(input, *vectors, training, momentum, eps, relu)
    mean, var, weight, bias = vectors
    if torch.is_grad_enabled() and (
        input.requires_grad
        or (weight is not None and weight.requires_grad)
        or (bias is not None and bias.requires_grad)
    ):
        return _apply(
            input, weight, bias, backend, mean, var, training, momentum, eps, relu
        )
    return backend.forward(input, *vectors, training, momentum, eps, relu, False)[0]


class _Fast(torch.autograd.Function):
    """A fast backend's two passes; further derivatives by differentiable formulas."""

    @staticmethod
    def forward(
        ctx, input, weight, bias, backend, mean, var, training, momentum, eps, relu
    ):
        output, statistics = backend.forward(
            input, mean, var, weight, bias, training, momentum, eps, relu
        )
        ctx.save_for_backward(input, weight, bias, statistics)
        ctx.given = backend, training, eps, relu
        return output

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias, statistics = ctx.saved_tensors
        backend, training, eps, relu = ctx.given
        if torch.is_grad_enabled():
            grads = _readable.gradients(
                grad_output, input, statistics, weight, bias, training, eps, relu
            )
        else:
            grads = backend.backward(
                grad_output, input, statistics, weight, bias, training, relu
            )
        needed = ctx.needs_input_grad
        return *[g if n else None for g, n in zip(grads, needed)], *_NO_GRADIENTS


# Without what torch does about torch.func first: fast backends are never inside it.
_apply = super(torch.autograd.Function, _Fast).apply
_NO_GRADIENTS = (None,) * 7


def _masked(name, input, mask, vectors, options):
    """Normalise the kept positions as rows of a matrix, and put them back."""
    rows = _batches.kept_rows(input, mask)
    if len(rows) == 1 and options[0]:
        raise ValueError(
            f"mask keeps one position of an input of shape {tuple(input.shape)}, one "
            "value per feature: batch statistics need at least two"
        )
    return _batches.scatter(_normalise(name, rows, vectors, *options), input, mask)


def _is_plain(input, vectors, momentum, eps):
    """Say, as quickly as can be, that `_check` would find nothing; False if unsure."""
    if (
        type(input) not in _PLAIN
        or input.dtype not in _FLOATS
        or not (type(momentum) is type(eps) is float)
        or not (0 <= momentum <= 1 and 0 <= eps < math.inf)
        or (vectors[0] is None) is not (vectors[1] is None)
    ):
        return False
    shape, layout, device = input.shape[1:2], _STRIDED, input.device
    for vector in vectors:
        if vector is not None and not (
            type(vector) in _PLAIN
            and vector.dtype in _FLOATS
            and vector.shape == shape
            and vector.layout is layout
            and vector.device == device
            and vector.is_contiguous()
            and not vector.is_inference()
        ):
            return False
    return len(shape) == 1 and input.layout is layout


def _check(input, running_mean, running_var, weight, bias, momentum, eps):
    optional = {
        "running_mean": running_mean,
        "running_var": running_var,
        "weight": weight,
        "bias": bias,
    }
    given = {name: value for name, value in optional.items() if value is not None}
    for name, value in {"input": input, **given}.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} is a {type(value).__name__}: give a torch tensor")
    _arrays.check_arrays(input=input, optional=given)
    if input.ndim < 2:
        raise ValueError(
            f"input has shape {tuple(input.shape)}: give (N, C) or (N, C, *spatial)"
        )
    for name, value in given.items():
        if value.shape != (input.shape[1],):
            raise ValueError(
                f"{name} has shape {tuple(value.shape)} for an input of shape "
                f"{tuple(input.shape)}: give ({input.shape[1]},)"
            )
    if (running_mean is None) is not (running_var is None):
        raise ValueError("give both running_mean and running_var, or neither")
    _checks.check_number("momentum", momentum, 0, 1)
    _checks.check_number("eps", eps, 0)


def _check_writable(name, buffer):
    """Raise now if torch would refuse to write into the buffer later."""
    if buffer is None:
        return
    if buffer.stride(0) == 0 and len(buffer) > 1:
        raise ValueError(f"{name} is an expanded tensor: give one that can be written")
    if buffer.is_inference() and not torch.is_inference_mode_enabled():
        raise ValueError(
            f"{name} was made in inference mode and cannot be written outside it"
        )
