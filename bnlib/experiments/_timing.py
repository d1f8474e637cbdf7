"""Time functions of tensors so that disturbances of the machine affect all alike."""

import os
import tempfile
import time
from contextlib import contextmanager
from unittest import mock

import numpy as np
import torch


def interleaved(functions, arguments, dy, rounds):
    """Time functions in turn, in both orders: forward, and forward with backward.

    Parameters
    ----------
    functions : dict of callables
        Each takes `arguments` and returns a tensor of the shape of ``dy``.
    arguments : sequence of Tensors
        The backward pass differentiates by those that require a gradient.
    dy : Tensor
    rounds : int
        The number of rounds; a first round to warm up does not count.

    Returns
    -------
    dict of ndarray, shape (rounds, 2)
        The seconds of one call, by name. "copy" is the time of copying a tensor.

    Examples
    --------
    >>> x = torch.ones(4, 2, requires_grad=True)
    >>> times = interleaved({"double": lambda x: 2 * x}, (x,), torch.ones(4, 2), 3)
    >>> sorted(times), times["double"].shape, bool((times["double"] > 0).all())
    (['copy', 'double'], (3, 2), True)

    References
    ----------
    Chapter 05, "Kernels".
    """
    mark, seconds = _clock(dy.device)
    leaves = [each for each in arguments if each.requires_grad]
    # One call on a small tensor is too short for the clock.
    calls = max(1, 2**18 // dy.numel())
    target = torch.empty_like(dy)
    times = {name: [] for name in ("copy", *functions)}
    # Each function pays for the state in which the one before it left the caches.
    orders = [list(functions.items()), list(reversed(functions.items()))]
    for number in range(rounds + 1):
        start = mark()
        for _ in range(calls):
            target.copy_(dy)
        times["copy"].append([seconds(start, mark()) / calls] * 2)
        for name, function in orders[number % 2]:
            start = mark()
            outputs = [function(*arguments) for _ in range(calls)]
            middle = mark()
            for y in outputs:
                torch.autograd.grad(y, leaves, dy)
            stop = mark()
            # Free the memory before the next call needs it.
            del outputs, y
            pair = seconds(start, middle), seconds(start, stop)
            times[name].append([each / calls for each in pair])
    return {name: np.array(pairs[1:]) for name, pairs in times.items()}


def _clock(device):
    """Return two functions: one sets a mark, one returns the seconds between marks."""
    if device.type != "cuda":
        return time.perf_counter, lambda start, stop: stop - start

    def mark():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(start, stop):
        stop.synchronize()
        return start.elapsed_time(stop) / 1e3

    return mark, seconds


def spread(times):
    """Return the range of the middle half of the times, divided by their median.

    Parameters
    ----------
    times : array

    Returns
    -------
    float

    Examples
    --------
    >>> spread([1.0, 2.0, 4.0, 5.0, 9.0])
    0.75

    References
    ----------
    Chapter 05, "Kernels".
    """
    low, middle, high = np.quantile(times, [0.25, 0.5, 0.75])
    return float((high - low) / middle)


@contextmanager
def empty_compiler_cache():
    """Hide from torch.compile what earlier runs compiled."""
    with tempfile.TemporaryDirectory() as folder:
        found = {"TORCHINDUCTOR_CACHE_DIR": folder}
        with mock.patch.dict(os.environ, found):
            torch.compiler.reset()
            yield
