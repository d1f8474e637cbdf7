"""The Triton backend: how tensors are cut into tiles, and the kernels launched.

Each direction takes three launches: sums of parts, their merge, and the result. A
channel is split over programs; one program per channel would leave most of a GPU idle.
"""

import importlib.util
from functools import cache
from math import gcd
from typing import NamedTuple

import torch

from bnlib.kernels._backend import Options, mark_written

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
#: Programs that sum parts: about eight for each processor of the largest GPUs.
PROGRAMS = 1024


def refusal(input):
    """Return why Triton cannot take this tensor, as a clause; None if it can."""
    if input.dtype not in DTYPES:
        return f"input has dtype {input.dtype}: it takes float32, float16, bfloat16"
    if not _is_installed():
        return "triton is not installed: on Linux, pip install triton"
    if input.device.type == "cpu" and not _interpreted():
        return (
            "input is on the cpu: it takes tensors on a GPU, or any when Python was "
            "started with TRITON_INTERPRET=1"
        )
    if input.device.type not in ("cpu", "cuda"):
        return f"input is on {input.device.type}: it takes tensors on a CUDA GPU"
    return _fault(input.device)


@cache
def _is_installed():
    return importlib.util.find_spec("triton") is not None


@cache
def _interpreted():
    import triton

    return not isinstance(_kernels().normalise, triton.JITFunction)


@cache
def _fault(device):
    """Return what goes wrong in a first launch, such as a missing compiler, or None."""
    try:
        probe = torch.zeros(2, 1, device=device)
        forward(probe, None, None, None, None, Options(True, 0.1, 1.0, False))
    except Exception as error:
        said = str(error).strip().partition("\n")[0]
        return f"triton fails on {device}: {type(error).__name__}: {said}"
    return None


@cache
def _kernels():
    # Imported here, because triton is optional and slow to import.
    from bnlib.kernels import _triton_kernels

    return _triton_kernels


class Cut(NamedTuple):
    """How the kernels see memory: `height` x `units * unit` values, cut into tiles."""

    planes: bool
    channels: int
    height: int
    units: int
    unit: int
    width: int
    blocks: int
    tiles: int

    @property
    def size(self):
        return self.height, self.channels, self.units

    @property
    def constants(self):
        return {"UNIT": self.unit, "WIDTH": self.width, "PLANES": self.planes}

    @property
    def run(self):
        """How many tiles a program sums: a power of 2, to compile few variants."""
        enough = -(-self.tiles * self.blocks // PROGRAMS)
        return _power(min(self.tiles, enough))

    @property
    def splits(self):
        return -(-self.tiles // self.run)

    @property
    def parts(self):
        """The number of parts of each channel to merge."""
        columns = self.channels if self.planes else self.units * self.unit
        return self.splits * columns // self.channels

    @property
    def merging(self):
        """The grid of a merge, and how many steps one takes."""
        kernels = _kernels()
        groups = -(-self.channels // kernels.GROUP.value)
        return (groups,), _power(-(-self.parts // kernels.PARTS.value))


def cut(input):
    """Cut a tensor whose memory is rows of channels, or planes."""
    channels, planes = input.shape[1], not _is_rows(input)
    if planes:
        height, length = len(input), input[0, 0].numel()
        width = _power(length)
        if length > 256:
            width = min((1024, 512, 256), key=lambda step: -(-length // step) * step)
    else:
        height, length = input.numel() // channels, channels
        # Several pixels to a row, until rows are multiples of the widest load.
        while length % 16 and height % 2 == 0:
            height, length = height // 2, length * 2
        width = min(64, _power(length))
    unit = gcd(length, 16)
    down = -(-height // (_kernels().TILE.value // width))
    across = -(-length // width)
    blocks, tiles = (channels, down * across) if planes else (across, down)
    return Cut(planes, channels, height, length // unit, unit, width, blocks, tiles)


def _power(number):
    """Return the least power of 2 that is not below a number."""
    return 1 << (number - 1).bit_length()


def _is_rows(tensor):
    return tensor.movedim(1, -1).is_contiguous()


def _dense(tensor, like):
    """Return a tensor as rows or planes; if possible, in the layout of `like`."""
    rows = _is_rows(like)
    if _is_rows(tensor) if rows else tensor.is_contiguous():
        return tensor
    if not rows:
        return tensor.contiguous()
    return tensor.movedim(1, -1).contiguous().movedim(-1, 1)


def _plain(*vectors):
    """Return vectors as the kernels read them: contiguous, or None."""
    return [None if vector is None else vector.contiguous() for vector in vectors]


def forward(input, running_mean, running_var, weight, bias, options, keep=True):
    """Return the output and the statistics, float64 (3, C).

    They are computed for the output anyway, so ``keep`` saves nothing here.
    """
    training, momentum, eps, relu = options
    like = torch.empty_like(input)
    x = _dense(input, like)
    plan, kernels = cut(x), _kernels()
    grid, chunks = plan.merging
    running = _plain(running_mean, running_var)
    statistics = x.new_empty((3, plan.channels), dtype=torch.float64)
    partial = None
    y = like if like.stride() == x.stride() else torch.empty_like(x)
    with torch.cuda.device_of(x):
        if training:
            shape = 3, plan.parts, plan.channels
            partial = x.new_empty(shape, dtype=torch.float64)
            kernels.sum_values[plan.blocks, plan.splits](
                x, partial, *plan.size, **plan.constants, TILES=plan.run
            )
        kernels.finish_statistics[grid](
            *(partial, statistics, *running, plan.parts, plan.channels),
            *(momentum, eps),
            TRAINING=training,
            CHUNKS=chunks,
        )
        kernels.normalise[(plan.blocks * plan.tiles,)](
            *(x, y, statistics, *_plain(weight, bias), *plan.size, plan.blocks),
            **plan.constants,
            RELU=relu,
        )
    for buffer, updated in zip((running_mean, running_var), running):
        if not training or buffer is None:
            continue
        if updated is buffer:
            mark_written(buffer)
        else:
            buffer.copy_(updated)
    return (y if y is like else like.copy_(y)), statistics


def backward(grad_output, input, statistics, weight, bias, options):
    """Return the gradients of input, weight and bias; None for one that is None."""
    x = _dense(input, torch.empty_like(input))
    dy, dx = _dense(grad_output, x), torch.empty_like(x)
    plan, kernels, affine = cut(x), _kernels(), _plain(weight, bias)
    grid, chunks = plan.merging
    sums = x.new_empty((2, plan.channels), dtype=torch.float64)
    grads = [None if each is None else torch.empty_like(each) for each in affine]
    given = statistics, *affine
    with torch.cuda.device_of(x):
        if options.training or grads != [None, None]:
            shape = 2, plan.parts, plan.channels
            partial = x.new_empty(shape, dtype=torch.float64)
            kernels.sum_gradients[plan.blocks, plan.splits](
                *(dy, x, partial, *given, *plan.size),
                **plan.constants,
                RELU=options.relu,
                TILES=plan.run,
            )
            kernels.finish_gradients[grid](
                *(partial, sums, *grads, plan.parts, plan.channels), CHUNKS=chunks
            )
        kernels.differentiate[(plan.blocks * plan.tiles,)](
            *(dy, x, dx, sums, *given, x.numel() // plan.channels),
            *(*plan.size, plan.blocks),
            **plan.constants,
            RELU=options.relu,
            TRAINING=options.training,
        )
    return dx, *grads
