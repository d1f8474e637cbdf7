"""Batch normalization with torch's signature, on the backend that fits best."""

import torch
from torch import Tensor

from bnlib import _arrays, _batches, _checks, kernels

_FLOATS = {torch.float32, torch.float64, torch.float16, torch.bfloat16}
_STRIDED = torch.strided
_NAMES = ("running_mean", "running_var", "weight", "bias")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    activation: str | None = None,
    mask: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Normalise a batch, as torch.nn.functional.batch_norm does.

    With every backend, the output has the dtype of ``input`` and every other tensor
    keeps its dtype. All backends except "torch" compute sums in float64.

    Parameters
    ----------
    input : Tensor, shape (N, C) or (N, C, *spatial), any real floating dtype
    running_mean, running_var : Tensors of shape (C,), or None
        Give both or neither. If ``training`` is false, they normalise the batch. If it
        is true, the batch updates them in place, and they may be None.
    weight, bias : Tensors of shape (C,), or None
        Scale and shift. Their dtypes may differ from that of ``input``.
    training : bool
        Normalise with the batch's statistics rather than the running ones.
    momentum : float in [0, 1]
        The weight of the batch in the running statistics. The variance enters
        them unbiased.
    eps : float, at least 0
    activation : "relu" or None
        The function to apply to the output, in the same pass over memory.
    mask : Tensor of bool, shape (N, *spatial), or None
        True keeps a position. The statistics are those of the kept positions;
        all others may hold anything, NaN too, and their outputs and gradients
        are 0.
    backend : "auto", "readable", "torch", "c" or "triton"
        The implementation; see `bnlib.kernels`. The environment variable
        ``BNLIB_BACKEND`` changes the meaning of "auto".

    Returns
    -------
    Tensor
        Shape and dtype of ``input``, differentiable twice. For an empty input the
        output is empty, for an empty mask it is 0; the running statistics then stay as
        they are.

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
    _check(input, *vectors, training, momentum, eps)
    _checks.check_activation(activation)
    options = kernels.Options(bool(training), momentum, eps, activation == "relu")
    chosen = kernels.module(kernels.choose(backend, input, *vectors))
    if mask is None:
        return _normalise(chosen, input, vectors, options)
    rows = _batches.kept_rows(input, mask)
    if len(rows) == 1 and training:
        raise ValueError(
            f"mask keeps one position of an input of shape {tuple(input.shape)}, one "
            "value per feature: batch statistics need at least two"
        )
    return _batches.scatter(_normalise(chosen, rows, vectors, options), input, mask)


def _normalise(backend, input, vectors, options):
    """Normalise a checked input on a backend that takes it."""
    values = input.numel()
    if values == 0:
        # These statistics are never used; they let the parameters get gradients of 0.
        nothing = torch.zeros((2, input.shape[1]), device=input.device)
        given = input, *nothing, *vectors[2:]
        options = options._replace(training=False, eps=1)
        return kernels.module("readable").forward(*given, options)[0]
    if options.training and values == input.shape[1]:
        _checks.check_training_count("input", input, _arrays.averaged_axes(input, None))
    mean, var, weight, bias = vectors
    if backend.backward is None:
        return backend.forward(input, *vectors, options)[0]
    if torch.is_grad_enabled() and (
        input.requires_grad
        or (weight is not None and weight.requires_grad)
        or (bias is not None and bias.requires_grad)
    ):
        # One tuple, because torch inspects every separate argument.
        return _Passes.apply(input, weight, bias, (mean, var, backend, options))
    return backend.forward(input, *vectors, options, keep=False)[0]


class _Passes(torch.autograd.Function):
    """A backend's two passes; higher derivatives use differentiable formulas."""

    @staticmethod
    def forward(ctx, input, weight, bias, given):
        mean, var, backend, options = given
        output, statistics = backend.forward(input, mean, var, weight, bias, options)
        ctx.save_for_backward(input, weight, bias, statistics)
        ctx.backend, ctx.options = backend, options
        return output

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias, statistics = ctx.saved_tensors
        # If autograd records the backward pass, it must be differentiable itself.
        passed = kernels.gradients if torch.is_grad_enabled() else ctx.backend.backward
        grads = passed(grad_output, input, statistics, weight, bias, ctx.options)
        needed = ctx.needs_input_grad
        return *[g if n else None for g, n in zip(grads, needed)], None


def _check(input, running_mean, running_var, weight, bias, training, momentum, eps):
    """Raise unless batch norm can be computed; check all arguments except the mask."""
    _check_tensor("input", input)
    if input.ndim < 2:
        raise ValueError(
            f"input has shape {tuple(input.shape)}: give (N, C) or (N, C, *spatial)"
        )
    size, device = input.shape[1:2], input.device
    for name, vector in zip(_NAMES, (running_mean, running_var, weight, bias)):
        if vector is None:
            continue
        _check_tensor(name, vector)
        if vector.shape != size:
            raise ValueError(
                f"{name} has shape {tuple(vector.shape)} for an input of shape "
                f"{tuple(input.shape)}: give ({input.shape[1]},)"
            )
        if vector.device != device:
            _arrays.check_arrays(input=input, **{name: vector})
    if (running_mean is None) is not (running_var is None):
        raise ValueError("give both running_mean and running_var, or neither")
    _checks.check_number("momentum", momentum, 0, 1)
    _checks.check_number("eps", eps, 0)
    if running_mean is None:
        if not training:
            raise ValueError(
                "running_mean and running_var are None and training is False: there "
                "are no statistics to normalise with"
            )
    elif training:
        _check_writable("running_mean", running_mean)
        _check_writable("running_var", running_var)


def _check_tensor(name, value):
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}: give a torch tensor")
    if value.dtype not in _FLOATS or value.layout is not _STRIDED:
        _arrays.check_arrays(**{name: value})


def _check_writable(name, buffer):
    """Raise now if torch would refuse to write into the buffer later."""
    if not buffer.is_contiguous() and buffer.stride(0) == 0:
        raise ValueError(f"{name} is an expanded tensor: give one that can be written")
    if buffer.is_inference() and not torch.is_inference_mode_enabled():
        raise ValueError(
            f"{name} was made in inference mode and cannot be written outside it"
        )
