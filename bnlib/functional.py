"""Batch normalization with torch's own signature."""

import torch

from bnlib import _arrays
from bnlib.statistics import Statistics, running_update
from bnlib.transform import batch_norm_forward, batch_norm_inference


def batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
):
    """Normalise a batch, as torch.nn.functional.batch_norm does.

    This is the readable form: `bnlib.transform` on tensors, differentiated by
    autograd, any number of times. It computes in float64 and is several times
    slower than torch's own; ``make bench`` measures by how much.

    Parameters
    ----------
    input : Tensor, shape (N, C) or (N, C, *spatial), any real floating dtype
    running_mean, running_var : Tensors of shape (C,), or None
        Give both or neither. Used when ``training`` is false; when it is true
        they take in the batch, in place, and may be None.
    weight, bias : Tensors of shape (C,), or None
        Scale and shift. Their dtypes may differ from that of ``input``.
    training : bool
        Normalise with the batch's statistics rather than the running ones.
    momentum : float in [0, 1]
        The weight of the batch in the running statistics. The variance enters
        them unbiased.
    eps : float, at least 0

    Returns
    -------
    Tensor
        Shape and dtype of ``input``. An empty input gives an empty output and
        leaves the running statistics alone.

    Raises
    ------
    TypeError
        If an argument is no tensor, or its dtype is not real and floating.
    ValueError
        If shapes or devices do not fit, a number is out of range, ``training``
        is true with one value per feature, or it is false and there are no
        running statistics. Nothing has changed then.

    Examples
    --------
    >>> import torch
    >>> mean, var = torch.zeros(1), torch.ones(1)
    >>> batch_norm(torch.tensor([[1.0], [3.0]]), mean, var, training=True, eps=0.0)
    tensor([[-1.],
            [ 1.]])
    >>> mean, var
    (tensor([0.2000]), tensor([1.1000]))

    References
    ----------
    Chapters 02, "The transform", and 04, "Inference".
    """
    _check(input, running_mean, running_var, weight, bias, momentum, eps)
    if not training and running_mean is None:
        raise ValueError(
            "running_mean and running_var are None and training is False: there "
            "are no statistics to normalise with"
        )
    if not training:
        return batch_norm_inference(input, running_mean, running_var, weight, bias, eps)
    _check_writable("running_mean", running_mean)
    _check_writable("running_var", running_var)
    if input.numel() == 0:
        zeros = torch.zeros(input.shape[1], device=input.device)
        return batch_norm_inference(input, zeros, zeros + 1, weight, bias, eps)
    _arrays.check_training_count("input", input, _arrays.averaged_axes(input, None))
    output, cache = batch_norm_forward(input, weight, bias, eps)
    if running_mean is not None:
        with torch.no_grad():
            batch = Statistics(cache.mean, cache.var, input[:, 0].numel())
            # In float64, so that a half-precision buffer is rounded once.
            old = (_arrays.widen(buffer) for buffer in (running_mean, running_var))
            mean, var = running_update(*old, batch, momentum)
            running_mean.copy_(mean)
            running_var.copy_(var)
    return output


def _check(input, running_mean, running_var, weight, bias, momentum, eps):
    optional = {
        "running_mean": running_mean,
        "running_var": running_var,
        "weight": weight,
        "bias": bias,
    }
    given = {name: value for name, value in optional.items() if value is not None}
    for name, value in {"input": input, **given}.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} is a {type(value).__name__}: give a torch tensor")
    _arrays.namespace(input=input, optional=given)
    if input.ndim < 2:
        raise ValueError(
            f"input has shape {tuple(input.shape)}: give (N, C) or (N, C, *spatial)"
        )
    for name, value in given.items():
        if value.shape != (input.shape[1],):
            raise ValueError(
                f"{name} has shape {tuple(value.shape)} for an input of shape "
                f"{tuple(input.shape)}: give ({input.shape[1]},)"
            )
    if (running_mean is None) is not (running_var is None):
        raise ValueError("give both running_mean and running_var, or neither")
    _arrays.check_number("momentum", momentum, 0, 1)
    _arrays.check_number("eps", eps, 0)


def _check_writable(name, buffer):
    """Raise now if torch would refuse to write into the buffer later."""
    if buffer is None:
        return
    if buffer.stride(0) == 0 and len(buffer) > 1:
        raise ValueError(f"{name} is an expanded tensor: give one that can be written")
    if buffer.is_inference() and not torch.is_inference_mode_enabled():
        raise ValueError(
            f"{name} was made in inference mode and cannot be written outside it"
        )
