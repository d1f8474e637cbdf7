"""One of two processes that share a batch, as case 21 runs it.

It exits with 0 if output, statistics and gradient are those of one process.
"""

import datetime
import sys
from pathlib import Path

import torch
from torch import distributed

from bnlib.nn import BatchNorm1d, SyncBatchNorm

ROWS = [5, 2]


def main(folder, rank):
    """Check this process's results; raise if they differ from those of one process."""
    torch.set_num_threads(1)
    store = distributed.FileStore(str(Path(folder) / "store"), len(ROWS))
    timeout = datetime.timedelta(seconds=60)
    distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=len(ROWS), timeout=timeout
    )
    generator = torch.Generator().manual_seed(0)
    shape = (sum(ROWS), 3)
    x, dy = torch.randn((2, *shape), generator=generator, dtype=torch.float64) * 3 + 9
    whole, own = x.clone().requires_grad_(), x.split(ROWS)[rank].clone()
    alone, shared = BatchNorm1d(3).double(), SyncBatchNorm(3).double()
    y = alone(whole)
    (dx,) = torch.autograd.grad(y, whole, dy)
    own.requires_grad_()
    found = shared(own)
    (gradient,) = torch.autograd.grad(found, own, dy.split(ROWS)[rank])
    pairs = [(found, y.split(ROWS)[rank]), (gradient, dx.split(ROWS)[rank])]
    for ours, right in pairs + list(zip(shared.buffers(), alone.buffers())):
        torch.testing.assert_close(ours, right, rtol=0, atol=1e-12)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
