"""Batch normalization of a batch by its definition, in float64: what is right.

It shares no arithmetic with `bnlib.transform`, so that each can be held to the other.
"""

import torch


def definition(x, weight=None, bias=None, *, eps=1e-5, relu=False):
    """Normalise a batch in float64, in torch's own operations.

    Parameters
    ----------
    x : Tensor, shape (N, C) or (N, C, *spatial), any real floating dtype
    weight, bias : Tensors of shape (C,), or None
    eps : float, at least 0, keyword only
    relu : bool, keyword only
        Whether the ReLU follows.

    Returns
    -------
    Tensor of float64
        Shape of ``x``, differentiable any number of times.

    Raises
    ------
    IndexError, RuntimeError
        If shapes do not fit; they are torch's.

    Examples
    --------
    >>> import torch
    >>> definition(torch.tensor([[1.0], [3.0]]), eps=0.0).tolist()
    [[-1.0], [1.0]]

    References
    ----------
    Ioffe and Szegedy 2015, algorithm 1; chapter 02, "The transform".
    """
    x = x.double()
    axes = [axis for axis in range(x.ndim) if axis != 1]
    column = (-1, *[1] * (x.ndim - 2))
    centred = x - x.detach().mean(axes, keepdim=True)
    # Once more, for what the first mean rounded away.
    centred = centred - centred.mean(axes, keepdim=True)
    y = centred / (centred.square().mean(axes, keepdim=True) + eps).sqrt()
    y = y if weight is None else y * weight.double().view(column)
    y = y if bias is None else y + bias.double().view(column)
    return y.relu() if relu else y


def reference(x, dy=None, weight=None, bias=None, *, eps=1e-5, relu=False):
    """Output and gradients of a batch in float64: autograd of the `definition`.

    Parameters
    ----------
    x : Tensor, shape (N, C) or (N, C, *spatial), any real floating dtype
    dy : Tensor of the same shape, or None
        The gradient of the output; None stands for ones.
    weight, bias : Tensors of shape (C,), or None
    eps : float, at least 0, keyword only
    relu : bool, keyword only
        Whether the ReLU follows.

    Returns
    -------
    y, dx : Tensors of float64, shape of ``x``
    dweight, dbias : Tensors of float64, shape (C,), or None
        None for a parameter that is None.

    Raises
    ------
    IndexError, RuntimeError
        If shapes do not fit; they are torch's.

    Examples
    --------
    >>> import torch
    >>> y, dx, *_ = reference(torch.tensor([[1.0], [3.0]]), torch.ones(2, 1))
    >>> y.round(decimals=4).tolist(), dx.tolist()
    ([[-1.0], [1.0]], [[0.0], [0.0]])

    References
    ----------
    Chapters 03, "The gradient through the batch", and 05, "Kernels".
    """
    given = [
        None if each is None else each.detach().double().requires_grad_()
        for each in (x, weight, bias)
    ]
    with torch.enable_grad():
        y = definition(*given, eps=eps, relu=relu)
    dy = torch.ones_like(y) if dy is None else dy.double()
    leaves = [leaf for leaf in given if leaf is not None]
    found = iter(torch.autograd.grad(y, leaves, dy))
    return y.detach(), *(None if leaf is None else next(found) for leaf in given)
