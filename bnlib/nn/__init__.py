"""Layers, drop-in for torch's, and what is done to them.

Each is a subclass of torch's module of the same name, with its constructor, its
state dict and its repr; what differs is the arithmetic (float64 sums), that bad
arguments are refused at once, and that batch norm's can be frozen.

=========  ===================  ======  ======================  ================
mode       track_running_stats  frozen  normalises with         writes buffers
=========  ===================  ======  ======================  ================
train()    True                 no      the batch               yes, even in
                                                                ``no_grad``
train()    True                 yes     the buffers             no
train()    False                no      the batch               no buffers
eval()     True                 either  the buffers             no
eval()     False                no      the batch               no buffers
=========  ===================  ======  ======================  ================
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
