"""Time functions of tensors, so that what disturbs a machine meets all of them."""

import os
import tempfile
import time
from contextlib import contextmanager
from unittest import mock

import numpy as np
import torch


def interleaved(functions, arguments, dy, rounds):
    """Time functions in turn, there and back: forward, and forward with backward.

    Parameters
    ----------
    functions : dict of callables
        Each takes `arguments` and returns a tensor of the shape of ``dy``.
    arguments : sequence of Tensors
        Backward differentiates by those that require a gradient.
    dy : Tensor
    rounds : int
        A first round, which warms up, is not counted.

    Returns
    -------
    dict of ndarray, shape (rounds, 2)
        Seconds of one call. "copy" is there too: one tensor copied to another.

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
    # Each function pays for what the one before left in the caches.
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
            # Before the next call asks for memory.
            del outputs, y
            pair = seconds(start, middle), seconds(start, stop)
            times[name].append([each / calls for each in pair])
    return {name: np.array(pairs[1:]) for name, pairs in times.items()}


def _clock(device):
    """Return two functions: one sets a mark, one tells the seconds between two."""
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
    """The range of the middle half of the times, over their median.

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
    """Let torch.compile find nothing that an earlier run compiled."""
    with tempfile.TemporaryDirectory() as folder:
        found = {"TORCHINDUCTOR_CACHE_DIR": folder}
        with mock.patch.dict(os.environ, found):
            torch.compiler.reset()
            yield
