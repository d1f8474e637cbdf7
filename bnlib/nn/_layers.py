"""Batch normalization as modules."""

from typing import TYPE_CHECKING

import torch

from bnlib import _checks
from bnlib._torch_internals import BatchNormBase, is_in_backward_pass
from bnlib.functional import batch_norm
from bnlib.statistics import averaging_share


class Layer(BatchNormBase):
    """The base of the layers: checks, the states, and the running statistics."""

    #: Whether training mode also normalises with the buffers, without updating them.
    frozen_statistics = False
    activation = None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str | None = None,
        **bias: bool,
    ):
        _checks.check_integer("num_features", num_features, 1)
        _checks.check_number("eps", eps, 0)
        _checks.check_momentum(momentum)
        _checks.check_activation(activation)
        super().__init__(
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
            device=device,
            dtype=dtype,
            **bias,
        )
        if activation is not None:
            self.activation = activation

    if TYPE_CHECKING:
        # Of a module's call torch says only that it returns anything.
        def __call__(
            self, input: torch.Tensor, mask: torch.Tensor | None = None
        ) -> torch.Tensor: ...

    def forward(
        self, input: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        if not isinstance(input, torch.Tensor):
            raise TypeError(f"input is a {type(input).__name__}: give a torch tensor")
        self._check_input_dim(input)
        _checks.check_features("input", input, self.num_features)
        _checks.check_momentum(self.momentum)
        updates = self.training and self.track_running_stats
        updates = updates and not (self.frozen_statistics or recomputes())
        without = self.running_mean is self.running_var is None
        uses_batch = (self.training or without) and not self.frozen_statistics
        passed = updates or not uses_batch
        tracked = self.num_batches_tracked
        counted = updates and self.momentum is None and tracked is not None
        share = averaging_share(self.momentum, int(tracked) if counted else 0)
        output, has_values = self._normalised(
            input,
            self.running_mean if passed else None,
            self.running_var if passed else None,
            uses_batch,
            share,
            mask,
        )
        if updates and tracked is not None and has_values:
            tracked.add_(1)
        return output

    def _normalised(self, input, mean, var, uses_batch, share, mask):
        """Return the output, and whether the batch has any values."""
        if torch.compiler.is_compiling() and mask is None:
            # torch's compilers can fuse its own operation.
            output = torch.nn.functional.batch_norm(
                input, mean, var, self.weight, self.bias, uses_batch, share, self.eps
            )
            return output if self.activation is None else torch.relu(output), True
        output = batch_norm(
            input,
            mean,
            var,
            self.weight,
            self.bias,
            uses_batch,
            share,
            self.eps,
            activation=self.activation,
            mask=mask,
        )
        return output, input.numel() > 0 and (mask is None or bool(mask.any()))

    @property
    def frozen(self) -> str | None:
        """What is frozen: None, "statistics", "affine" or "all"."""
        parameters = [p for p in (self.weight, self.bias) if p is not None]
        affine = bool(parameters) and not any(p.requires_grad for p in parameters)
        if self.frozen_statistics:
            return "all" if affine or not parameters else "statistics"
        return "affine" if affine else None

    def extra_repr(self):
        own = "" if self.activation is None else f", activation={self.activation!r}"
        frozen = "" if self.frozen is None else f", frozen={self.frozen!r}"
        return super().extra_repr() + own + frozen


def recomputes():
    """Return True inside a backward pass, where activation checkpointing recomputes."""
    return not torch.compiler.is_compiling() and is_in_backward_pass()


class BatchNorm1d(Layer, torch.nn.BatchNorm1d):
    """Batch normalization of (N, C) or (N, C, L).

    Call it with the batch and, for padded sequences, a mask: bool, of shape
    (N,) or (N, L), true for what is kept.

    Parameters
    ----------
    num_features : int
        C, at least 1.
    eps : float, at least 0
    momentum : float in [0, 1] or None
        The weight of a batch in the running statistics; None averages all batches.
    affine : bool
        Whether to learn ``weight`` and ``bias``, shape (C,).
    track_running_stats : bool
        Whether to keep ``running_mean``, ``running_var`` and ``num_batches_tracked``.
    device, dtype
        The device and dtype of the parameters and buffers.
    activation : None or "relu", keyword only
        The function to apply to the output, in the same kernel if possible.
    bias : bool, keyword only
        False leaves out ``bias``, as torch 2.13 and later allow.

    Attributes
    ----------
    frozen : None, "statistics", "affine" or "all"
        See `freeze`.

    Raises
    ------
    TypeError, ValueError
        At construction and in a call, naming what was given; nothing has
        changed then. An empty batch gives an empty output and updates nothing.

    Notes
    -----
    Inside `torch.compile` and `torch.export` the layer is torch's own operation, so the
    compiler can fuse it. It still fits, but sums and dtype rules are torch's, some
    checks are missing, and an empty batch counts.

    Activation checkpointing runs a layer twice, the second time inside the backward
    pass; the batch updates the running statistics once. Any forward pass inside a
    backward pass, such as in a hook, counts as such a repetition.

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
    Ioffe and Szegedy 2015; chapters 02, 04 and 15.
    """


class BatchNorm2d(Layer, torch.nn.BatchNorm2d):
    """Batch normalization of images (N, C, H, W), one mean and variance per channel.

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


class BatchNorm3d(Layer, torch.nn.BatchNorm3d):
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
