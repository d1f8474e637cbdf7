"""Drop-in replacements for torch's layers, and functions on them.

Each layer is a subclass of torch's module of the same name, with its constructor, its
state dict and its repr. The differences: sums are in float64, bad arguments raise at
once, and batch norm layers can be frozen.

=========  ===========  ======  ===============  ===============================
mode       has buffers  frozen  normalises with  writes buffers
=========  ===========  ======  ===============  ===============================
train()    yes          no      the batch        if ``track_running_stats``, even
                                                 in ``no_grad``
train()    yes          yes     the buffers      no
train()    no           no      the batch        no buffers
eval()     yes          either  the buffers      no
eval()     no           no      the batch        no buffers
=========  ===========  ======  ===============  ===============================

A forward pass inside a backward pass counts as the repetition of activation
checkpointing, and writes no buffers (outside ``torch.compile``).
"""

from bnlib.nn._accumulate import accumulate
from bnlib.nn._convert import convert
from bnlib.nn._freeze import freeze
from bnlib.nn._layers import BatchNorm1d, BatchNorm2d, BatchNorm3d
from bnlib.nn._sync import SyncBatchNorm
from bnlib.nn._weight_norm import weight_norm

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "SyncBatchNorm",
    "accumulate",
    "convert",
    "freeze",
    "weight_norm",
]
