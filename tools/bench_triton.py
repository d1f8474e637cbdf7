"""Compile the Triton kernels for GPUs that this machine need not have.

``python -m tools.bench_triton``. The backend's launches are recorded instead of run,
and compiled as Triton would compile them on such a GPU. No kernel may use local
memory, which is the slow place for what does not fit in the registers. Loads and
stores of values must be as wide as the shape allows, 128 bits at most.
"""

import itertools
import re
import subprocess
import sys
import tempfile
import types
from collections import Counter
from typing import NamedTuple
from unittest import mock

import torch

from bnlib.kernels import Options, _triton

TARGETS = (80, 90)
#: Triton's own choice for a program: 4 warps.
THREADS = 128
DTYPES = (torch.float32, torch.bfloat16)
#: Shapes of the bench, and one whose planes are too odd for wide loads.
SHAPES = ((32768, 64), (4096, 3), (32, 64, 56, 56), (128, 256, 14, 14), (64, 512, 7, 7))
#: How many tensors of values a kernel reads and writes; the other kernels only merge.
STREAMS = {
    "sum_values": (1, 0),
    "normalise": (1, 1),
    "sum_gradients": (2, 0),
    "differentiate": (2, 1),
}


class Launch(NamedTuple):
    """A kernel and the arguments of its launch."""

    kernel: object
    arguments: dict


class Compiled(NamedTuple):
    """The resources of a compiled kernel.

    `bits` is the widest load or store of values that the shape allows, and `is_wide`
    tells whether all of them are that wide; both are None if the kernel only merges.
    """

    registers: int
    local_bytes: int
    bits: int | None
    is_wide: bool | None


def launches(x, relu=True):
    """Record the launches of a training step on a batch, without running them.

    Parameters
    ----------
    x : Tensor
        On the CPU; its values do not matter.
    relu : bool

    Returns
    -------
    list of Launch
    """
    kernels, recorded = _triton._kernels(), []

    def recorder(kernel):
        def launch(*arguments, **constants):
            named = dict(zip(kernel.arg_names, arguments)) | constants
            recorded.append(Launch(kernel, named))

        return mock.MagicMock(__getitem__=lambda _, grid: launch)

    replaced = types.SimpleNamespace(**vars(kernels))
    for name, kernel in vars(kernels).items():
        if hasattr(kernel, "arg_names"):
            setattr(replaced, name, recorder(kernel))
    channels = x.shape[1]
    weight, bias, mean, var = (torch.ones(channels) for _ in range(4))
    given = weight, bias, Options(True, 0.1, 1e-5, relu)
    with mock.patch.object(_triton, "_kernels", return_value=replaced):
        y, statistics = _triton.forward(x, mean, var, *given)
        _triton.backward(y, x, statistics, *given)
    return recorded


def compile_for(launch, capability):
    """Compile a recorded launch for a GPU of a given capability, such as 90.

    Parameters
    ----------
    launch : Launch
    capability : int

    Returns
    -------
    Compiled
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature, constants, attributes = {}, {}, {}
    for place, name in enumerate(launch.kernel.arg_names):
        value = launch.arguments[name]
        signature[name], wide = _kind(value, launch.kernel.params[place])
        if signature[name] == "constexpr":
            constants[name] = value
        elif wide:
            attributes[place,] = [["tt.divisibility", 16]]
    source = ASTSource(launch.kernel, signature, constants, attributes)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    used = _resources(made.asm["cubin"])
    local = used["STACK"] + used["LOCAL"]
    return Compiled(used["REG"], local, *_width(launch, made.asm["ptx"]))


def _kind(value, parameter):
    """Return an argument's type in a kernel's signature, and whether 16 divides it."""
    from triton.runtime.jit import mangle_type

    if isinstance(value, torch.Tensor):
        return mangle_type(value), value.data_ptr() % 16 == 0
    # Triton takes an integer 1 as a constant too.
    if parameter.is_constexpr or value is None or (type(value) is int and value == 1):
        return "constexpr", False
    kind = parameter.annotation_type or mangle_type(value)
    return kind, type(value) is int and value % 16 == 0


def _resources(cubin):
    """Return the registers, the stack and the local memory that machine code uses."""
    import triton

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name: int(n) for name, n in re.findall(r"([A-Z]+):(\d+)", told.stdout)}


def _width(launch, ptx):
    """Return the widest access for the shape, in bits, and whether all are as wide."""
    if launch.kernel.__name__ not in STREAMS:
        return None, None
    itemsize = launch.arguments["x"].itemsize
    bits = 8 * min(16, launch.arguments["UNIT"] * itemsize)
    moved = re.findall(r"(ld|st)\.global\S*?(?:\.v(\d))?\.b(\d+)", ptx)
    found = Counter((way, int(count or 1) * int(size)) for way, count, size in moved)
    each = 8 * itemsize * _triton._kernels().TILE.value // (THREADS * bits)
    tensors = dict(zip(("ld", "st"), STREAMS[launch.kernel.__name__]))
    return bits, all(found[way, bits] >= n * each for way, n in tensors.items())


def faults(name, compiled):
    """Yield what a compiled kernel does although it must not, in words."""
    if compiled.local_bytes:
        yield f"{name} uses {compiled.local_bytes} bytes of local memory"
    if compiled.is_wide is False:
        yield f"{name} moves values less than {compiled.bits} bits at a time"


def report():
    """Print a row for each kernel, shape and dtype; return what is wrong with them."""
    if not _triton._is_installed() or _triton._interpreted():
        print("Triton's compiler is not here: its kernels were not compiled\n")
        return []
    print("Triton, compiled for GPUs of capability", *TARGETS)
    print(f"{'kernel':18} {'shape':20} {'dtype':9} registers, local bytes, bits")
    wrong = []
    for shape, dtype in itertools.product(SHAPES, DTYPES):
        kind = str(dtype).removeprefix("torch.")
        for launch in launches(torch.empty(shape, dtype=dtype)):
            name = f"{launch.kernel.__name__:18} {shape!s:20} {kind:9}"
            row = name
            for target in TARGETS:
                made = compile_for(launch, target)
                row += f"{made.registers:5} {made.local_bytes} {made.bits or '-'}"
                wrong += faults(f"{name.strip()} for sm_{target}", made)
            print(row, flush=True)
    print(*wrong, "", sep="\n")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(report()))
