"""Exact gradients of a large batch, from micro-batches that fit into memory."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from bnlib import _arrays, _batches, _checks, _modules
from bnlib.nn._layers import recomputes
from bnlib.nn._sync import is_shared
from bnlib.statistics import (
    Statistics,
    averaging_share,
    batch_statistics,
    merge,
)
from bnlib.transform import batch_norm_inference


def accumulate(
    model: torch.nn.Module, loss: Callable[..., torch.Tensor], batches: Sequence[Any]
) -> torch.Tensor:
    r"""Accumulate the exact gradients of one large batch from its micro-batches.

    The usual way, a backward pass for each micro-batch, computes something else with
    batch normalization: it normalises each micro-batch with its own statistics. Here
    all are normalised with the statistics of their union. The loss is a function of the
    parameters and of every layer's mean and variance; its derivative by these is
    computed from the last layer to the first, with one pass over the micro-batches for
    each layer.

    Parameters
    ----------
    model : Module
        Gradients are added to ``.grad`` of its parameters. Its BatchNorm layers,
        torch's or bnlib's, that normalise with the batch update their running
        statistics once, with the whole batch.
    loss : callable
        ``loss(model, batch)`` runs the model and returns a scalar. The objective is
        the **sum** over the micro-batches: divide by the number of all examples if
        you want their mean.
    batches : sequence
        The micro-batches, in any form that ``loss`` takes, and of any sizes.

    Returns
    -------
    Tensor
        The sum of the losses, without a graph.

    Raises
    ------
    TypeError
        If ``model`` is no Module, or ``batches`` no list or tuple.
    ValueError
        If there is no micro-batch, a layer's momentum is out of range, it shares
        its statistics with other processes, runs twice or in another order from one
        micro-batch to the next, all together have one value per feature, or a loss
        is no scalar. No gradient and no buffer has changed then.

    Notes
    -----
    With K layers that normalise with the batch, it makes K + 1 forward passes without a
    graph and K + 1 with one, over all micro-batches. It needs the memory of one
    micro-batch and a second copy of the gradients. Every pass repeats the same random
    draws (dropout); a layer of another kind that changes itself in a forward pass does
    so in every pass. Hooks on the parameters' gradients do not run, so
    DistributedDataParallel does not see these gradients. If the whole batch fits into
    memory, there is no gain.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1))
    >>> batches = [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0]])]
    >>> loss = lambda model, batch: model(batch).square().sum()
    >>> total = accumulate(model, loss, batches)
    >>> model[0].running_mean
    tensor([0.2000, 0.1500])

    References
    ----------
    Chapter 15, "Practice".
    """
    _modules.check_module("model", model)
    if not isinstance(batches, list | tuple):
        raise TypeError(f"batches is a {type(batches).__name__}: give a list or tuple")
    if not batches:
        raise ValueError("batches is empty: give at least one micro-batch")
    layers = {
        layer: _Borrowed(layer, name)
        for name, layer in _modules.batch_norm_layers(model).items()
        if _uses_batch(layer)
    }
    for layer, borrowed in layers.items():
        _check_layer(layer, borrowed.name)
    passes = _Passes(model, loss, batches)
    # The devices are named: fork_rng warns if it takes several by default.
    devices = range(torch.cuda.device_count()) or None
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices))
        for layer, borrowed in layers.items():
            stack.enter_context(_forward_replaced(layer, borrowed))
        order = _set_statistics(passes, list(layers.values()))
        _set_adjoints(passes, order)
        total, gradients = _parameter_gradients(passes, order)
    for parameter, gradient in gradients:
        old = parameter.grad
        parameter.grad = gradient if old is None else old + gradient
    for layer, borrowed in layers.items():
        borrowed.update(layer)
    return total


def _uses_batch(layer):
    without = layer.running_mean is layer.running_var is None
    frozen = getattr(layer, "frozen_statistics", False)
    return (layer.training or without) and not frozen


def _check_layer(layer, name):
    """Raise unless the layer's statistics can be borrowed."""
    _checks.check_momentum(layer.momentum)
    shares = layer.training and isinstance(layer, torch.nn.SyncBatchNorm)
    if shares and is_shared(layer.process_group):
        raise ValueError(
            f"layer {name!r} is a SyncBatchNorm that shares its statistics with other "
            "processes, which see none of these micro-batches: accumulate on one "
            "process"
        )


class _Passes:
    """An iterable of all micro-batches, with the same random draws in every pass."""

    def __init__(self, model, loss, batches):
        self.model, self.loss, self.batches = model, loss, batches
        self.seeds = torch.randint(2**62, (len(batches),)).tolist()

    def __iter__(self):
        """Yield a function for each micro-batch that returns its loss."""
        for seed, batch in zip(self.seeds, self.batches):
            torch.manual_seed(seed)
            yield lambda batch=batch: self._checked(self.loss(self.model, batch))

    def _checked(self, value):
        if not isinstance(value, torch.Tensor) or value.ndim > 0:
            kind = getattr(value, "shape", type(value).__name__)
            raise ValueError(f"loss returned {kind}: give a scalar tensor")
        return value


class _Borrowed:
    """A layer whose forward and statistics are borrowed during the computation."""

    def __init__(self, layer, name):
        self.layer, self.name = layer, name
        self.mean, self.var, self.count = None, None, None
        self.adjoint, self.moments, self.calls = None, None, 0

    def forward(self, input, mask=None):
        self.layer._check_input_dim(input)
        _checks.check_features("input", input, self.layer.num_features)
        self.calls += not recomputes()
        if self.calls > 1:
            raise ValueError(f"layer {self.name!r} runs twice in one forward pass")
        if mask is None:
            return self._run(input)
        return _batches.scatter(self._run(_batches.kept_rows(input, mask)), input, mask)

    def _run(self, x):
        if self.mean is None:
            raise _Unset(self, batch_statistics(x) if x.numel() > 0 else None)
        layer = self.layer
        if self.adjoint is not None:
            axes, wide = _arrays.averaged_axes(x, None), _arrays.upcast(x)
            mean = self.mean.detach().reshape([1, -1] + [1] * (x.ndim - 2))
            sums = wide.sum(dim=axes), (wide - mean).square().sum(dim=axes)
            self.moments = [each / self.count for each in sums]
        y = batch_norm_inference(
            x, self.mean, self.var, layer.weight, layer.bias, layer.eps
        )
        return torch.relu(y) if getattr(layer, "activation", None) else y

    def set(self, statistics):
        """Set mean and variance to the merged ones of all micro-batches."""
        found = [each for each in statistics if each is not None]
        count = sum(each.count for each in found)
        if count < 2:
            raise ValueError(
                f"batches give layer {self.name!r} {count} values per feature: batch "
                "statistics need at least two"
            )
        means, variances, counts = zip(*found)
        whole = merge(torch.stack(means), torch.stack(variances), counts)
        self.mean, self.var, self.count = whole

    def take_adjoint(self):
        """Return the adjoint's contribution to the objective of this micro-batch."""
        terms = [(a * m).sum() for a, m in zip(self.adjoint, self.moments)]
        return terms[0] + terms[1]

    def update(self, layer):
        """Update the running statistics once, with the whole batch."""
        updates = layer.training and layer.track_running_stats
        if self.mean is None or layer.running_mean is None or not updates:
            return
        tracked = layer.num_batches_tracked
        share = averaging_share(
            layer.momentum, int(tracked) if tracked is not None else 0
        )
        batch = Statistics(self.mean.detach(), self.var.detach(), self.count)
        _batches.update_running(layer.running_mean, layer.running_var, batch, share)
        if tracked is not None:
            tracked.add_(1)


class _Unset(BaseException):
    """Raised at a layer without statistics, to end the forward pass there.

    It is no Exception, so a model that catches exceptions does not catch it.
    """

    def __init__(self, borrowed, statistics):
        super().__init__()
        self.borrowed, self.statistics = borrowed, statistics


@contextlib.contextmanager
def _forward_replaced(layer, borrowed):
    """Replace the layer's forward by that of ``borrowed`` inside the block."""
    had = layer.__dict__.get("forward")
    layer.forward = borrowed.forward
    try:
        yield
    finally:
        del layer.forward
        if had is not None:
            layer.forward = had


def _set_statistics(passes, layers):
    """Set the statistics layer by layer, in the order in which they run."""
    order = []
    while True:
        reached = [_first_unset(run, layers) for run in passes]
        found = {unset.borrowed if unset else None for unset in reached}
        if len(found) > 1:
            names = sorted(repr(each.name) if each else "none" for each in found)
            raise ValueError(
                f"layers {', '.join(names)} run in another order from one micro-batch "
                "to the next: give micro-batches that take one way through the model"
            )
        (borrowed,) = found
        if borrowed is None:
            return order
        borrowed.set([unset.statistics for unset in reached])
        order.append(borrowed)


@torch.no_grad()
def _first_unset(run, layers):
    _begin(layers)
    try:
        run()
    except _Unset as reached:
        return reached
    return None


def _begin(layers):
    for borrowed in layers:
        borrowed.calls, borrowed.moments = 0, None


def _set_adjoints(passes, order):
    """Set the objective's derivatives by the layers' statistics, last layer first."""
    for place in reversed(range(len(order))):
        borrowed = order[place]
        leaves = [s.requires_grad_() for s in (borrowed.mean, borrowed.var)]
        sums = [torch.zeros_like(leaf) for leaf in leaves]
        for run in passes:
            _, objective = _objective(run, order, order[place + 1 :])
            if not objective.requires_grad:
                continue
            found = torch.autograd.grad(objective, leaves, allow_unused=True)
            for total, gradient in zip(sums, found):
                if gradient is not None:
                    total += gradient
        borrowed.mean, borrowed.var = (leaf.detach() for leaf in leaves)
        borrowed.adjoint = sums


def _objective(run, order, behind):
    """Return a micro-batch's loss, and the loss plus its statistics times adjoints."""
    _begin(order)
    value = objective = run()
    for borrowed in behind:
        objective = objective + borrowed.take_adjoint().to(value.dtype)
    return value, objective


def _parameter_gradients(passes, order):
    """Return the sum of the losses, and pairs of a parameter and its gradient."""
    parameters = [p for p in passes.model.parameters() if p.requires_grad]
    sums, total = [torch.zeros_like(p) for p in parameters], 0.0
    used = set()
    for run in passes:
        value, objective = _objective(run, order, order)
        total = total + value.detach()
        if not objective.requires_grad:
            continue
        found = torch.autograd.grad(objective, parameters, allow_unused=True)
        for place, gradient in enumerate(found):
            if gradient is not None:
                sums[place] += gradient
                used.add(place)
    return total, [(parameters[place], sums[place]) for place in sorted(used)]
