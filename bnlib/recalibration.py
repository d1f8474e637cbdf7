"""Recalibration: set running statistics to the exact ones of a data set."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from bnlib import _batches, _modules
from bnlib.statistics import batch_statistics, merge

_METHODS = ("sequential", "one_pass")

_Model = TypeVar("_Model", bound=torch.nn.Module)


@torch.no_grad()
def recalibrate(
    model: _Model, batches: Iterable[Any], *, method: str = "sequential"
) -> _Model:
    """Set the running statistics of every BatchNorm to those of a whole data set.

    "sequential" is exact: it measures layer after layer, in the order in which they
    run, in eval mode, with the layers before it already set. "one_pass" measures all
    layers at once, while each normalises batch by batch. With K layers it is K times
    faster; it is exact for the first layer and approximate for those behind it.

    Parameters
    ----------
    model : Module
        Changed in place: `running_mean`, `running_var` and
        `num_batches_tracked` (the number of inputs measured) of its BatchNorm
        layers, torch's or bnlib's, whatever their mode. Nothing else changes, and
        an error changes nothing at all. A layer stays as it is if eval mode never
        runs it, if its statistics are frozen, or if it has no running statistics and
        so normalises with every batch.
    batches : iterable
        Inputs, or tuples or lists whose first item is the input, of any sizes.
        "sequential" goes through the batches once per layer: they must hold the same
        examples every time, in any order and any split.
    method : "sequential" or "one_pass"

    Returns
    -------
    Module
        ``model``.

    Raises
    ------
    TypeError
        If ``model`` is no Module or ``batches`` no iterable of batches.
    ValueError
        If the method is unknown, there is no batch or an empty one, the model has no
        layer to set or has lazy modules, an input's mean or variance is not finite,
        statistics do not fit a buffer's dtype, a one-shot iterator is given for
        several layers, the layers' order differs from batch to batch, or, in one
        pass, an input has one value per feature.

    Notes
    -----
    The data set is the population, so its variance is divided by the number of
    values, n. (torch's `running_var` of one batch is n / (n - 1) times as large.) In
    eval mode the model then computes what it would compute in training mode on the
    whole set as one batch.

    A layer that runs several times is set to the statistics of all its inputs. If its
    inputs depend on its outputs, as in a recurrent net, they are measured with the
    statistics that it held before.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.BatchNorm1d(1), torch.nn.ReLU())
    >>> batches = [torch.tensor([[1.0], [2.0]]), torch.tensor([[6.0]])]
    >>> model = recalibrate(model, batches)
    >>> model[0].running_mean.item(), round(model[0].running_var.item(), 4)
    (3.0, 4.6667)

    References
    ----------
    Ioffe and Szegedy 2015, algorithm 2; chapter 04, "Inference".
    """
    names = _named_layers(model)
    _check_batches(batches, method, len(names))
    with _borrowed(model, names):
        measure = _one_pass if method == "one_pass" else _sequential
        statistics = measure(model, names, batches)
    for layer, (mean, var, count) in statistics.items():
        layer.running_mean.copy_(mean)
        layer.running_var.copy_(var)
        if layer.num_batches_tracked is not None:
            layer.num_batches_tracked.fill_(count)
    return model


def _sequential(model, names, batches):
    """Return exact statistics: repeatedly measure and set the first unset layers."""
    done, sizes = {}, []
    while len(done) < len(names):
        left = {layer: name for layer, name in names.items() if layer not in done}
        inputs, size = _run(model, left, batches, first_only=True)
        sizes.append(size)
        if size != sizes[0]:
            raise ValueError(
                f"batches gave {sizes[0]} batches in the first pass and {size} in pass "
                f"{len(sizes)}: give a list or a DataLoader, the same in every pass"
            )
        if not inputs:
            break
        for layer, measured in inputs.items():
            done[layer] = _joined(layer, names[layer], measured)
            layer.running_mean, layer.running_var, _ = done[layer]
    _check_any(done, sizes[0])
    return done


def _one_pass(model, names, batches):
    for layer in names:
        # Training mode without tracking: normalise by the batch, write nothing.
        layer.training, layer.track_running_stats = True, False
    inputs, size = _run(model, names, batches, first_only=False)
    _check_any(inputs, size)
    return {layer: _joined(layer, names[layer], inputs[layer]) for layer in inputs}


def _run(model, names, batches, first_only):
    """Run all batches; return each layer's input statistics and the number of batches.

    With ``first_only``, leave out a layer that some batch ran behind another one.
    """
    found, in_front, behind, size = {}, set(), set(), 0

    def record(layer, args, kwargs):
        if first_only and in_front and layer not in in_front:
            behind.add(layer)
            return
        in_front.add(layer)
        where = f"batch {size} gives layer {names[layer]!r}"
        found.setdefault(layer, []).append(_measured(layer, where, *args, **kwargs))

    with contextlib.ExitStack() as hooks:
        for layer in names:
            hook = layer.register_forward_pre_hook(record, with_kwargs=True)
            hooks.enter_context(hook)
        for batch in batches:
            in_front.clear()
            model(_input(batch, size))
            size += 1
    first = {layer: found[layer] for layer in found if layer not in behind}
    if behind and not first:
        listed = ", ".join(sorted(names[layer] for layer in behind))
        raise ValueError(
            f"layers {listed} run in another order from batch to batch, so none is "
            'the first to set: use method="one_pass"'
        )
    return first, size


def _measured(layer, where, input, mask=None):
    """Return the statistics of one input of a layer; raise if there are none."""
    layer._check_input_dim(input)
    x = input if mask is None else _batches.kept_rows(input, mask)
    if x.numel() == 0:
        raise ValueError(f"{where} an empty input, of shape {tuple(x.shape)}")
    if layer.training and x.numel() == x.shape[1]:
        raise ValueError(
            f"{where} an input of shape {tuple(x.shape)}, one value per feature: "
            'give larger batches, or method="sequential"'
        )
    statistics = batch_statistics(x)
    if not all(torch.isfinite(s).all() for s in statistics[:2]):
        raise ValueError(f"{where} an input of no finite mean and variance")
    return statistics


def _check_any(measured, size):
    if size == 0:
        raise ValueError("batches is empty: give at least one batch")
    if not measured:
        raise ValueError("model ran none of its BatchNorm layers in eval mode")


def _joined(layer, name, measured):
    """Return mean and variance in the dtype of the layer's buffers, and the count."""
    means, variances, counts = zip(*measured)
    whole = merge(torch.stack(means), torch.stack(variances), counts)
    mean = whole.mean.to(layer.running_mean)
    var = whole.var.to(layer.running_var)
    if not (torch.isfinite(mean).all() and torch.isfinite(var).all()):
        raise ValueError(
            f"the statistics of layer {name!r} do not fit its buffers' {var.dtype}"
        )
    return mean, var, len(measured)


@contextlib.contextmanager
def _borrowed(model, layers):
    """Put the model in eval mode; restore its modes and buffers afterwards."""
    for buffer in (buffer for layer in layers for buffer in layer.buffers()):
        # Let torch raise its error for a read-only buffer now, not at the end.
        buffer.copy_(buffer.clone())
    modes = [(module, module.training) for module in model.modules()]
    kept = [(x, x.running_mean, x.running_var, x.track_running_stats) for x in layers]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, training in modes:
            module.training = training
        for layer, mean, var, tracking in kept:
            layer.running_mean, layer.running_var = mean, var
            layer.track_running_stats = tracking


def _named_layers(model):
    """Return the BatchNorm layers that have running statistics, and their names."""
    _modules.check_module("model", model)
    if any(map(is_lazy, [*model.parameters(), *model.buffers()])):
        raise ValueError("model has lazy modules: run a batch through it first")
    names = {
        layer: name
        for name, layer in _modules.batch_norm_layers(model).items()
        if layer.running_mean is not None
        and layer.running_var is not None
        and not getattr(layer, "frozen_statistics", False)
    }
    if not names:
        raise ValueError(
            f"model, a {type(model).__name__}, has no BatchNorm layer with running "
            "statistics: there is nothing to recalibrate"
        )
    return names


def _check_batches(batches, method, num_layers):
    if method not in _METHODS:
        raise ValueError(f"method is {method!r}: give one of {', '.join(_METHODS)}")
    if isinstance(batches, torch.Tensor | np.ndarray | str | dict) or not isinstance(
        batches, Iterable
    ):
        raise TypeError(
            f"batches is a {type(batches).__name__}: give an iterable of batches, such "
            "as a list of tensors or a DataLoader"
        )
    if method == "sequential" and num_layers > 1 and isinstance(batches, Iterator):
        raise ValueError(
            f"batches is a {type(batches).__name__}, which can be gone through once, "
            f"and there are {num_layers} layers to set, a pass each: give a list or a "
            'DataLoader, or method="one_pass"'
        )


def _input(batch, index):
    if not isinstance(batch, list | tuple):
        return batch
    if not batch:
        raise ValueError(f"batch {index} is an empty {type(batch).__name__}")
    return batch[0]
