"""Batch normalization over the processes of torch.distributed."""

from typing import Any

import torch
from torch import distributed

from bnlib import _arrays, _batches
from bnlib.nn._layers import Layer
from bnlib.statistics import Statistics, batch_statistics, merge
from bnlib.transform import batch_norm_inference


class SyncBatchNorm(Layer, torch.nn.SyncBatchNorm):
    """Batch normalization over a batch that is spread over processes.

    In training mode every process of the group gets the result of one process with the
    joined batch: means and variances are weighted by the processes' counts, which may
    differ or be 0. Without an initialised group, in a group of one process and in eval
    mode it is `BatchNorm1d`, 2d or 3d.

    It also runs on a CPU, which torch's SyncBatchNorm refuses.

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats, device, dtype
        As in `BatchNorm1d`; so are ``activation`` and ``bias``, keyword only.
    process_group : ProcessGroup, optional
        None means all processes.

    Raises
    ------
    TypeError, ValueError
        As `BatchNorm1d`; also, on every process, if all processes together have one
        value per feature. If one process alone raises an error or does not reach the
        backward pass, the others wait for it until it ends or the group's timeout has
        passed.

    Notes
    -----
    The forward pass gathers 2 C + 1 numbers and the backward pass sums 2 C, in float64.
    The gradients of ``weight`` and ``bias`` are those of the process's own examples, as
    in torch: DistributedDataParallel averages them. There are no second derivatives.

    Examples
    --------
    >>> import torch
    >>> SyncBatchNorm(2)(torch.randn(8, 2, 5)).shape
    torch.Size([8, 2, 5])

    References
    ----------
    Chapter 15, "Practice".
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ):
        # torch's constructor takes the group between two other arguments.
        super().__init__(
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
            device=device,
            dtype=dtype,
            **options,
        )
        self.process_group = process_group

    def _normalised(self, input, mean, var, uses_batch, share, mask):
        group = self.process_group
        if not (uses_batch and self.training and is_shared(group)):
            return super()._normalised(input, mean, var, uses_batch, share, mask)
        if mask is not None:
            rows = _batches.kept_rows(input, mask)
            output, taken = self._normalised(rows, mean, var, uses_batch, share, None)
            return _batches.scatter(output, input, mask), taken
        output, *batch = _Shared.apply(
            input, self.weight, self.bias, self.eps, group or distributed.group.WORLD
        )
        count = int(batch[2])
        if mean is not None and count > 0:
            _batches.update_running(mean, var, Statistics(*batch[:2], count), share)
        output = output if self.activation is None else torch.relu(output)
        return output, count > 0


def is_shared(group):
    """Return True if there are other processes to share the statistics with."""
    ready = distributed.is_available() and distributed.is_initialized()
    return ready and distributed.get_world_size(group) > 1


class _Shared(torch.autograd.Function):
    """Normalise with the statistics of the values of all processes."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps, group):
        whole = _merged(x, group)
        ctx.save_for_backward(x, whole.mean, (whole.var + eps).rsqrt(), weight, bias)
        ctx.group, ctx.count = group, whole.count
        y = batch_norm_inference(x, whole.mean, whole.var, weight, bias, eps)
        count = torch.tensor(whole.count)
        ctx.mark_non_differentiable(whole.mean, whole.var, count)
        return y, whole.mean, whole.var, count

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy, *_):
        x, mean, inv_std, weight, bias = ctx.saved_tensors
        axes = _arrays.averaged_axes(x, None)
        shape = _arrays.kept_as_ones(x.shape, axes)
        wide, inv_std = _arrays.upcast(dy), inv_std.reshape(shape)
        x_hat = (_arrays.upcast(x) - mean.reshape(shape)) * inv_std
        sums = torch.stack([wide.sum(dim=axes), (wide * x_hat).sum(dim=axes)])
        dbeta, dgamma = sums.clone()
        # Every process takes part, even if its input needs no gradient.
        distributed.all_reduce(sums, group=ctx.group)
        means = (sums / max(ctx.count, 1)).reshape(2, *shape)
        dx = inv_std * (wide - means[0] - x_hat * means[1])
        if weight is not None:
            dx = dx * _arrays.upcast(weight).reshape(shape)
        dgamma = None if weight is None else dgamma.to(weight.dtype)
        dbeta = None if bias is None else dbeta.to(bias.dtype)
        return dx.to(x.dtype), dgamma, dbeta, None, None


def _merged(x, group):
    """Return the statistics of the values of all processes."""
    channels = x.shape[1]
    own = torch.zeros(2 * channels + 1, dtype=_arrays.upcast(x[:0]).dtype)
    own = own.to(x.device)
    if x.numel() > 0:
        mean, var, count = batch_statistics(x)
        own = torch.cat([mean, var, own.new_tensor([count])])
    gathered = [torch.empty_like(own) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(gathered, own, group=group)
    means, variances, counts = torch.stack(gathered).split([channels, channels, 1], 1)
    counts = [int(count) for count in counts.flatten().tolist()]
    if sum(counts) == 1:
        raise ValueError(
            f"input has shape {tuple(x.shape)} here, and all {len(counts)} processes "
            "together have one value per feature: batch statistics need at least two"
        )
    if sum(counts) == 0:
        return Statistics(means[0], variances[0], 0)
    return merge(means, variances, counts)
