"""How fast, and how exact, each backend of batch normalization is on this machine.

The times differ from run to run; the numbers of other experiments do not.
"""

import numpy as np
import torch

from bnlib._reference import definition, reference
from bnlib.experiments._backends import (
    check_backends,
    first_calls,
    implementations,
    relative,
    units,
    usable,
)
from bnlib.experiments._registry import experiment
from bnlib.experiments._timing import empty_compiler_cache, interleaved, spread

__all__ = ["implementations", "interleaved", "reference", "shape_of"]

LARGE = [
    "4096x512",
    "32768x64",
    "32x64x56x56",
    "32x64x56x56 channels_last",
    "128x256x14x14",
    "128x256x14x14 channels_last",
    "256x3x32x32 channels_last",
]
SMALL = ["32x64", "256x128", "16x32x8x8", "16x32x8x8 channels_last"]


def shape_of(case, megabytes=0.0, itemsize=4):
    """Return the shape that a case names.

    Parameters
    ----------
    case : str
        Lengths joined by "x"; " channels_last" may follow.
    megabytes : float
        Choose the number of examples to make this many million bytes; with 0, use the
        number that the case names.
    itemsize : int
        The bytes of a value.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> shape_of("32x64x56x56 channels_last")
    (32, 64, 56, 56)
    >>> shape_of("32x64x56x56", megabytes=500.0)
    (623, 64, 56, 56)
    """
    examples, *rest = map(int, case.split()[0].split("x"))
    if megabytes:
        examples = int(np.ceil(megabytes * 1e6 / (itemsize * np.prod(rest))))
    return (examples, *rest)


def _random(context):
    """Return a generator on the device, for arrays too large to move there."""
    (seed,) = context.seed_sequence.generate_state(1, np.uint64)
    return torch.Generator(context.device).manual_seed(int(seed))


def _laid_out(tensor, case):
    if not case.endswith("channels_last"):
        return tensor
    return tensor.movedim(1, -1).contiguous().movedim(-1, 1)


@experiment(
    id="kernel-speed-gpu",
    title="Time of each backend on a GPU, beside torch's and a copy",
    chapter="05-kernels",
    source="paszke2019",
    sweep={
        "case": "cases",
        "dtype": "dtypes",
        "activation": "activations",
        "seed": "seeds",
    },
    threads=1,
    timed=True,
    live={
        "cases": [LARGE[2]],
        "dtypes": ["float32", "bfloat16"],
        "activations": ["none", "relu"],
        "seeds": [0],
        "backends": ["pytorch", "triton", "compiled"],
        "rounds": 5,
        "megabytes": 500.0,
    },
    paper={
        "cases": [*LARGE[1:5], LARGE[6]],
        "dtypes": ["float32", "bfloat16"],
        "activations": ["none", "relu"],
        "seeds": [0],
        "backends": ["pytorch", "triton", "compiled"],
        "rounds": 15,
        "megabytes": 500.0,
    },
)
@experiment(
    id="kernel-speed",
    title="Time of each backend on one thread, beside torch's and a copy",
    chapter="05-kernels",
    source="paszke2019",
    sweep={
        "case": "cases",
        "dtype": "dtypes",
        "activation": "activations",
        "seed": "seeds",
    },
    threads=1,
    timed=True,
    live={
        "cases": [LARGE[0], LARGE[2], LARGE[3]],
        "dtypes": ["float32"],
        "activations": ["none"],
        "seeds": [0],
        "backends": ["pytorch", "plain", "c"],
        "rounds": 3,
        "megabytes": 0.0,
    },
    paper={
        "cases": LARGE + SMALL,
        "dtypes": ["float32"],
        "activations": ["none", "relu"],
        "seeds": [0],
        "backends": ["pytorch", "plain", "torch", "c", "auto", "compiled"],
        "rounds": 15,
        "megabytes": 0.0,
    },
)
def kernel_speed(context, case, dtype, activation, backends, rounds, megabytes):
    """Check each backend against float64, then time all of them in turn.

    Lists have one value per backend, None for a backend that refuses the input. A
    speed-up is the median over the rounds of torch's time divided by the backend's. On
    a quiet machine the spreads of the times of a copy and of torch are below 0.2.
    """
    check_backends(backends)
    relu, kind, stream = activation == "relu", getattr(torch, dtype), _random(context)
    shape = shape_of(case, megabytes, kind.itemsize)
    draw = {"generator": stream, "device": context.device}
    x, dy = (_laid_out(torch.randn(shape, **draw).to(kind), case) for _ in range(2))
    arguments = x, *(torch.randn(shape[1], **draw) for _ in range(2))
    if relu:
        # Rounding decides the sign of these outputs, and so the gradients through ReLU.
        y = definition(*arguments)
        dy = torch.where(y.abs() < 1e-5 * y.abs().max(), 0, dy)
    exact = reference(x, dy, *arguments[1:], relu=relu)[:2]
    functions = usable(implementations(backends, relu), x)
    for each in arguments:
        each.requires_grad_()
    with empty_compiler_cache():
        found = first_calls(functions, arguments, dy)
    compiled = found.get("compiled")
    row = {"megabytes": x.nbytes / 1e6}
    row["compile_seconds"] = compiled and round(compiled[2], 1)
    row["error"], row["dx_error"] = _errors(backends, found, exact, relative)
    functions = {name: functions[name] for name in found}
    del found, compiled, exact
    return row | _timed(backends, interleaved(functions, arguments, dy, rounds))


def _errors(backends, found, exact, measure):
    """Return the errors of y and of dx of each backend; None for one left out."""
    return [
        [measure(found[n][i], exact[i]) if n in found else None for n in backends]
        for i in range(2)
    ]


def _timed(backends, times):
    """Return medians in milliseconds and speed-ups over torch, one per backend."""
    copy = times["copy"][:, 0]
    row = {"copy_ms": _digits(1e3 * np.median(copy))}
    row["copy_spread"] = round(spread(copy), 3)
    row["pytorch_spread"] = round(spread(times["pytorch"][:, 1]), 3)
    for column, part in enumerate(("forward", "both")):
        theirs, row[f"{part}_ms"], row[f"{part}_speedup"] = times["pytorch"], [], []
        for name in backends:
            own = times.get(name, np.full_like(theirs, np.nan))
            gain = np.median(theirs[:, column] / own[:, column])
            row[f"{part}_ms"].append(_digits(1e3 * np.median(own[:, column])))
            row[f"{part}_speedup"].append(_digits(gain))
    return row


def _digits(number):
    return None if np.isnan(number) else float(f"{number:.4g}")


def _constant(x):
    x[:, ::2] = 3.7
    return x


def _outlier(x):
    x[0] = 1e6
    return x


#: Inputs that cost digits: the number of values per channel, and a map from standard
#: normal values to the input.
HARD = {
    "mean 1e4": (2**14, lambda x: x + 1e4),
    "mean 1e6": (2**14, lambda x: x + 1e6),
    "mean 1e4, deviation 1e-2": (2**14, lambda x: x / 100 + 1e4),
    "every other channel constant": (2**14, _constant),
    "a first example of 1e6": (2**14, _outlier),
    "2^23 values a channel": (2**23, lambda x: x + 1),
    "float16, deviation 200": (2**16, lambda x: (200 * x).half()),
    "bfloat16, mean 5, deviation 0.1": (2**14, lambda x: (x / 10 + 5).bfloat16()),
}
LAYOUTS = ["rows", "planes", "channels_last"]


@experiment(
    id="kernel-errors",
    title="Error of each backend on inputs that cost digits",
    chapter="05-kernels",
    source="paszke2019",
    sweep={"input": "inputs", "layout": "layouts", "seed": "seeds"},
    live={
        "inputs": [name for name in HARD if not name.startswith("2^23")],
        "layouts": LAYOUTS,
        "seeds": [0],
        "backends": ["pytorch", "readable", "torch", "c"],
    },
    paper={
        "inputs": list(HARD),
        "layouts": LAYOUTS,
        "seeds": [0],
        "backends": ["pytorch", "readable", "torch", "c"],
    },
)
def kernel_errors(context, input, layout, backends):
    """Measure the largest errors of y and dx, divided by the largest value of each.

    Lists have one value per backend, None for a backend that refuses the input. In half
    precision there are also `units`: errors in units of the last place.
    """
    check_backends(backends)
    values, recipe = HARD[input]
    channels = 2 if values > 2**16 else 16
    shape = (
        (values, channels) if layout == "rows" else (values // 256, channels, 16, 16)
    )
    draw = {"generator": _random(context), "device": context.device}
    x = _laid_out(recipe(torch.randn(shape, **draw)), layout)
    dy = _laid_out(torch.randn(shape, **draw).to(x.dtype), layout)
    exact = reference(x, dy)[:2]
    functions = usable(implementations(backends), x)
    found = first_calls(functions, (x.requires_grad_(), None, None), dy)
    row = dict.fromkeys(("error", "dx_error", "units", "dx_units"))
    row["error"], row["dx_error"] = _errors(backends, found, exact, relative)
    if x.dtype != torch.float32:
        row["units"], row["dx_units"] = _errors(backends, found, exact, units)
    return row
