"""The machine under an experiment: device, versions, memory."""

import platform
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

import bnlib

try:
    import resource
except ModuleNotFoundError:  # Windows has no such module.
    resource = None


def available_devices():
    """Return the names that `choose_device` takes on this machine, besides "auto"."""
    names = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    return names + ["mps"] * torch.backends.mps.is_available()


def choose_device(name):
    """Return the torch device of that name; raise if this machine does not have it.

    "auto" is the first CUDA device, or the CPU if there is none: Apple's mps lacks
    float64.
    """
    there = available_devices()
    if name == "auto":
        name = "cuda" if "cuda:0" in there else "cpu"
    chosen = "cuda:0" if name == "cuda" else name
    if chosen not in there:
        raise ValueError(
            f"no device {name!r} on this machine; there are auto, {', '.join(there)}"
        )
    return torch.device(chosen)


def describe(device):
    """Return the device in words that do not identify the machine."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return f"{_cpu_name()}, mps"
    threads = torch.get_num_threads()
    return f"{_cpu_name()}, {threads} thread{'s' * (threads > 1)}"


def _cpu_name():
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@contextmanager
def torch_threads(count):
    """Let torch use `count` threads inside the block; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def now():
    """Return the time in UTC, to the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M")


def versions():
    names = ("numpy", "torch", "scipy", "scikit-learn")
    own = {"python": platform.python_version(), "bnlib": bnlib.__version__}
    return own | {name: version(name) for name in names}


def peak_memory(device):
    """Return the peak so far in MiB (None if unknown) and how it is measured."""
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device) / 2**20
        return {"mib": round(peak, 1), "measured": "torch's allocations on the GPU"}
    measured = "largest resident set of the process"
    if resource is None:
        return {"mib": None, "measured": measured}
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    return {"mib": round(peak, 1), "measured": measured}
