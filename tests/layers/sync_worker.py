"""What each process of a synchronised test does; results go to a folder."""

import datetime
import os
import sys
import traceback
from pathlib import Path

import torch
from torch import distributed

from bnlib.nn import SyncBatchNorm

#: How many rows each of four processes has; two processes use the first two.
SHARDS = {"equal": [5, 5, 5, 5], "unequal": [7, 2, 1, 4], "empty": [6, 0, 3, 0]}
OPTIONS = {
    "plain": {},
    "no affine": {"affine": False},
    "no bias": {"bias": False},
    "no momentum": {"momentum": None},
    "not tracking": {"track_running_stats": False},
    "relu": {"activation": "relu"},
}
LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "permuted": lambda x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "strided": lambda x: torch.stack([x, x * 0], dim=-1)[..., 0],
}
CHANNELS = 3


def layer_of(options):
    layer = SyncBatchNorm(CHANNELS, dtype=torch.float64, **options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(generator=generator)
    return layer


def data(rows):
    """Return inputs and upstream gradients of the joined batch, far from 0."""
    generator = torch.Generator().manual_seed(2)
    shape = (sum(rows), CHANNELS, 4, 5)
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * 3 + 100
    return x, torch.randn(shape, generator=generator, dtype=torch.float64)


def run(layer, x, dy, layout="contiguous", mask=None):
    """Two training steps' forward passes and the second's backward."""
    x = LAYOUTS[layout](x.clone()).requires_grad_()
    extra = {} if mask is None else {"mask": mask}
    layer(x.detach(), **extra)
    y = layer(x, **extra)
    y.backward(dy)
    gradients = [p.grad for p in layer.parameters()]
    return {
        "y": y.detach(),
        "dx": x.grad,
        "sums": gradients,
        "state": [*layer.buffers()],
    }


def cases(world):
    for shards in SHARDS:
        yield shards, "plain", "contiguous"
    for options in OPTIONS:
        yield "unequal", options, "contiguous"
    for layout in LAYOUTS:
        yield "unequal", "plain", layout


def compute(rank, world):
    results = {}
    for case in cases(world):
        shards, options, layout = case
        rows = SHARDS[shards][:world]
        x, dy = (part.split(rows)[rank] for part in data(rows))
        results[case] = run(layer_of(OPTIONS[options]), x, dy, layout)
    rows = SHARDS["unequal"][:world]
    x, dy = (part.split(rows)[rank] for part in data(rows))
    mask = (torch.arange(sum(rows)).split(rows)[rank] % 2 == 0)[:, None, None]
    mask = mask.expand(-1, 4, 5)
    results["mask"] = run(
        layer_of({}), x.masked_fill(~mask[:, None], torch.nan), dy, mask=mask
    )
    layer = layer_of({})
    results["eval"] = layer.eval()(x).detach()
    results["all empty"] = layer.train()(x[:0]).shape, int(layer.num_batches_tracked)
    try:
        layer(x[: 1 if rank == 0 else 0, :, :1, :1])
    except ValueError as error:
        results["one value"] = str(error), int(layer.num_batches_tracked)
    return results


def main(folder, rank, world, job):
    store = distributed.FileStore(str(Path(folder) / "store"), world)
    timeout = datetime.timedelta(seconds=10 if job == "die" else 60)
    distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=world, timeout=timeout
    )
    if job == "die":
        layer = layer_of({})
        y = layer(data([2])[0].requires_grad_())
        if rank == 1:
            os._exit(7)
        y.sum().backward()
    else:
        torch.save(compute(rank, world), Path(folder) / f"{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    try:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    except Exception:
        traceback.print_exc()
        # The interpreter's own end would wait for the other processes.
        sys.stderr.flush()
        os._exit(1)
