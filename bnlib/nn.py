"""BatchNorm modules, drop-in for torch's.

Each is a subclass of torch's module of the same name, with its constructor, its
state dict and its repr; what differs is the arithmetic (float64 sums) and that
bad arguments are refused at once.

=========  ===================  ======================  ======================
mode       track_running_stats  normalises with         updates the buffers
=========  ===================  ======================  ======================
train()    True                 the batch               yes, grad mode or not
train()    False                the batch               no buffers
eval()     True                 the buffers             no
eval()     False                the batch               no buffers
=========  ===================  ======================  ======================
"""

import torch

from bnlib import _arrays
from bnlib.functional import batch_norm
from bnlib.statistics import averaging_share


class _BatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
        **bias,
    ):
        _arrays.check_integer("num_features", num_features, 1)
        _arrays.check_number("eps", eps, 0)
        _arrays.check_momentum(momentum)
        super().__init__(
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
            device,
            dtype,
            **bias,
        )

    def forward(self, input):
        if not isinstance(input, torch.Tensor):
            raise TypeError(f"input is a {type(input).__name__}: give a torch tensor")
        self._check_input_dim(input)
        _arrays.check_features("input", input, self.num_features)
        _arrays.check_momentum(self.momentum)
        updates = self.training and self.track_running_stats
        uses_batch = self.training or (self.running_mean is self.running_var is None)
        passed = updates or not uses_batch
        tracked = self.num_batches_tracked
        counted = self.momentum is None and tracked is not None
        share = averaging_share(self.momentum, int(tracked) if counted else 0)
        output = batch_norm(
            input,
            self.running_mean if passed else None,
            self.running_var if passed else None,
            self.weight,
            self.bias,
            uses_batch,
            share,
            self.eps,
        )
        if updates and tracked is not None and input.numel() > 0:
            tracked.add_(1)
        return output


class BatchNorm1d(_BatchNorm, torch.nn.BatchNorm1d):
    """Batch normalization of (N, C) or (N, C, L).

    Parameters
    ----------
    num_features : int
        C, at least 1.
    eps : float, at least 0
    momentum : float in [0, 1] or None
        Weight of a batch in the running statistics; None averages all batches.
    affine : bool
        Learn ``weight`` and ``bias``, shape (C,).
    track_running_stats : bool
        Keep ``running_mean``, ``running_var`` and ``num_batches_tracked``.
    device, dtype
        Of the parameters and buffers.
    bias : bool, keyword only
        False leaves ``bias`` out, as torch 2.13 and later allow.

    Raises
    ------
    TypeError, ValueError
        At construction and in a call, naming what was given; nothing has
        changed then. An empty batch gives an empty output and updates nothing.

    Examples
    --------
    >>> import torch
    >>> layer = BatchNorm1d(1, eps=0.0)
    >>> layer(torch.tensor([[1.0], [3.0]])).detach().ravel().tolist()
    [-1.0, 1.0]
    >>> layer.running_var
    tensor([1.1000])

    References
    ----------
    Ioffe and Szegedy 2015; chapters 02 and 04.
    """


class BatchNorm2d(_BatchNorm, torch.nn.BatchNorm2d):
    """Batch normalization of images (N, C, H, W), one mean and variance a channel.

    Arguments and errors are those of `BatchNorm1d`.

    Examples
    --------
    >>> import torch
    >>> BatchNorm2d(3)(torch.randn(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])

    References
    ----------
    Ioffe and Szegedy 2015, section 3.2; chapter 02.
    """


class BatchNorm3d(_BatchNorm, torch.nn.BatchNorm3d):
    """Batch normalization of volumes or video, (N, C, D, H, W).

    Arguments and errors are those of `BatchNorm1d`.

    Examples
    --------
    >>> import torch
    >>> BatchNorm3d(3)(torch.randn(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 4, 4, 4])

    References
    ----------
    Ioffe and Szegedy 2015, section 3.2; chapter 02.
    """
