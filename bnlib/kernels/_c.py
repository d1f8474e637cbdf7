"""The C kernel as a backend: from tensors to addresses, and the cases C cannot take.

The forward pass rounds to the dtype of the input; half precision is rounded to float32
first. If the statistics do not fit float32, such as a variance outside 1e-30 to 1e60,
the readable form computes the result.
"""

import ctypes
import functools
import math

import torch

from bnlib.kernels import _build, _readable
from bnlib.kernels._backend import mark_written

_NUMBERS = {
    torch.float32: 0,
    torch.float64: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    None: 0,
}
_TRAINING, _RELU, _CHANNELS_LAST = 1, 2, 4
_DONE, _NO_MEMORY = 0, 1
_threads = torch.get_num_threads


@functools.cache
def _built():
    """Return the library or None, and why there is none; the first call decides."""
    try:
        library = _build.load()
    except _build.BuildError as error:
        return None, str(error)
    address, number = ctypes.c_void_p, ctypes.c_double
    library.batch_norm_forward.argtypes = [address] * 8 + [number] * 2
    library.batch_norm_backward.argtypes = [address] * 9
    return library, None


def library():
    """Return the compiled library, or None."""
    return _built()[0]


def refusal(input):
    """Return why the kernel cannot take an input, or None."""
    if not input.is_cpu:
        return f"input is on {input.device} and it takes tensors on the cpu"
    if input.dtype not in _NUMBERS:
        return f"input has dtype {input.dtype}"
    return _built()[1]


def forward(input, running_mean, running_var, weight, bias, options, keep=True):
    """Return the output and, with ``keep``, the statistics, float64 (3, C)."""
    training, momentum, eps, relu = options
    x, flags = _dense(input)
    mean, var = _contiguous(running_mean), _contiguous(running_var)
    scale, shift = _contiguous(weight), _contiguous(bias)
    shape = x.shape
    output = torch.empty_like(x)
    statistics = torch.empty_like(_statistics(shape[1])) if keep else None
    status = _built()[0].batch_norm_forward(
        _call(
            shape,
            flags + _TRAINING * training + _RELU * relu,
            _threads(),
            x.dtype,
            None if mean is None else mean.dtype,
            None if var is None else var.dtype,
            None if scale is None else scale.dtype,
            None if shift is None else shift.dtype,
        ),
        x.data_ptr(),
        output.data_ptr(),
        None if mean is None else mean.data_ptr(),
        None if var is None else var.data_ptr(),
        None if scale is None else scale.data_ptr(),
        None if shift is None else shift.data_ptr(),
        None if statistics is None else statistics.data_ptr(),
        momentum,
        eps,
    )
    if status != _DONE:
        _check_memory(status, x)
        given = input, running_mean, running_var, weight, bias
        return _beyond_float32(*given, options)
    if training and mean is not None:
        if mean is not running_mean:
            running_mean.copy_(mean)
        if var is not running_var:
            running_var.copy_(var)
        mark_written(mean, var)
    return output, statistics


def backward(grad_output, input, statistics, weight, bias, options):
    """Return the gradients with respect to input, weight and bias."""
    x, flags = _dense(input)
    if grad_output.stride() != x.stride():
        grad_output = torch.empty_like(x).copy_(grad_output)
    scale, shift = _contiguous(weight), _contiguous(bias)
    grad_input = torch.empty_like(x)
    grad_weight = None if scale is None else torch.empty_like(scale)
    grad_bias = None if shift is None else torch.empty_like(shift)
    status = _built()[0].batch_norm_backward(
        _call(
            x.shape,
            flags + _TRAINING * options.training + _RELU * options.relu,
            _threads(),
            x.dtype,
            None,
            None,
            None if scale is None else scale.dtype,
            None if shift is None else shift.dtype,
        ),
        x.data_ptr(),
        grad_output.data_ptr(),
        grad_input.data_ptr(),
        None if scale is None else scale.data_ptr(),
        None if shift is None else shift.data_ptr(),
        statistics.data_ptr(),
        None if scale is None else grad_weight.data_ptr(),
        None if shift is None else grad_bias.data_ptr(),
    )
    _check_memory(status, x)
    return grad_input, grad_weight, grad_bias


@functools.lru_cache(maxsize=64)
def _statistics(channels):
    """Return a template of the statistics: a copy takes half as long as torch.empty."""
    return torch.empty((3, channels), dtype=torch.float64, device="cpu")


@functools.lru_cache(maxsize=1024)
def _call(shape, flags, threads, *dtypes):
    """Return a struct `Call` for C."""
    run = math.prod(shape[2:])
    numbers = [_NUMBERS[dtype] for dtype in dtypes]
    return (ctypes.c_int64 * 10)(*shape[:2], run, flags, threads, *numbers)


def _dense(input):
    """Return the input in one of C's two orders, copied if it is in neither."""
    if input.is_contiguous():
        return input, 0
    if input.ndim > 2 and input.movedim(1, -1).is_contiguous():
        return input, _CHANNELS_LAST
    return input.contiguous(), 0


def _contiguous(vector):
    return None if vector is None else vector.contiguous()


def _check_memory(status, x):
    if status == _NO_MEMORY:
        raise MemoryError(f"no memory to work on an input of shape {tuple(x.shape)}")


def _beyond_float32(input, running_mean, running_var, weight, bias, options):
    """Return the readable form's output and statistics: float32 cannot hold these."""
    given = input, running_mean, running_var, weight, bias
    output, mean, var = _readable.normalise_batch(*given, options)
    inv_std = (var + options.eps).rsqrt()
    return output, torch.stack([mean, torch.zeros_like(mean), inv_std])
