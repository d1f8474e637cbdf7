"""Cases of usage: arguments, saving and loading, several processes."""

import copy
import io
import pickle
import subprocess
import sys
import tempfile

import torch
from torch import distributed

from bnlib.conformance._cases import (
    NotOffered,
    Otherwise,
    case,
    expect,
    expect_error,
)

#: The seconds after which two processes count as hanging.
_SECONDS = 120


@case(4, "nonsense in the constructor: a ValueError with the value and the range")
def _(library):
    kind = library.nn.BatchNorm1d
    for momentum in (1.5, -0.1, float("nan")):
        expect_error(lambda m=momentum: kind(3, momentum=m), str(momentum))
    expect_error(lambda: kind(3, eps=-1.0), "-1")
    expect_error(lambda: kind(0), "0")


@case(6, "one value per channel in training: an error with the shape")
def _(library):
    layer = library.nn.BatchNorm2d(3)
    expect_error(lambda: layer(torch.randn(1, 3, 1, 1)), "1, 3, 1, 1")
    layer(torch.randn(1, 3, 1, 4))
    layer.eval()(torch.randn(1, 3, 1, 1))


@case(7, "the same without tracking in evaluation: not called training")
def _(library):
    layer = library.nn.BatchNorm2d(3, track_running_stats=False).eval()
    try:
        layer(torch.randn(1, 3, 1, 1))
    except ValueError as error:
        expect("training" not in str(error), "the error speaks of training")
    else:
        expect(False, "no error")


@case(31, "state dicts, copies and pickles go both ways")
def _(library):
    layer = library.nn.BatchNorm2d(3, momentum=0.3)
    layer(torch.randn(4, 3, 2, 2) + 1)
    torch.nn.BatchNorm2d(3).load_state_dict(layer.state_dict(), strict=True)
    saved = io.BytesIO()
    torch.save(layer, saved)
    saved.seek(0)
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    copies.append(torch.load(saved, weights_only=False))
    x = torch.randn(4, 3, 2, 2)
    right = copy.deepcopy(layer)(x)
    for other in copies:
        expect(torch.equal(other(x), right), "a copy computes something else")


@case(32, "the first of PyTorch's own test inputs: its result")
def _(library):
    if library.name == "torch":
        raise NotOffered("it is the reference")
    # The tests run all inputs; this case takes the first of each kind of module.
    for dims, shape in ((1, (4, 10)), (2, (2, 3, 6, 6)), (3, (2, 3, 4, 4, 4))):
        ours = getattr(library.nn, f"BatchNorm{dims}d")(shape[1])
        theirs = getattr(torch.nn, f"BatchNorm{dims}d")(shape[1])
        x = torch.randn(shape)
        error = (ours(x) - theirs(x)).abs().max().item()
        expect(error < 1e-5, f"the output is off by {error:.0e}")


@case(21, "shards of unequal size on two processes: as one process with both")
def _(library):
    if not (distributed.is_available() and distributed.is_gloo_available()):
        raise NotOffered("this torch has no gloo")
    if library.name == "torch":
        raise NotOffered("on a GPU only")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bnlib.conformance._shards", folder]
        processes = [
            subprocess.Popen([*command, str(rank)], stderr=subprocess.PIPE, text=True)
            for rank in range(2)
        ]
        try:
            for process in processes:
                _, said = process.communicate(timeout=_SECONDS)
                expect(process.returncode == 0, said.strip().rpartition("\n")[2])
        except subprocess.TimeoutExpired as error:
            raise Otherwise(f"no end within {_SECONDS} seconds") from error
        finally:
            for process in processes:
                process.kill()
                process.communicate()
