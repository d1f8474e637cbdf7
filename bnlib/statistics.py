"""Statistics of a batch, of several batches merged, and running statistics."""

import math
from typing import NamedTuple

import array_api_compat as compat
import numpy as np

from bnlib import _arrays, _checks
from bnlib._arrays import Array

__all__ = [
    "RunningStatistics",
    "Statistics",
    "averaging_share",
    "batch_statistics",
    "convert_momentum",
    "merge",
    "running_update",
]

#: What each framework's momentum (or decay) multiplies: the old value or the batch's.
_MOMENTUM_WEIGHS_BATCH = {
    "torch": True,
    "keras": False,
    "tensorflow": False,
    "flax": False,
    "onnx": False,
    "paddle": False,
    "mxnet": False,
}


class Statistics(NamedTuple):
    """Mean, population variance (divided by the count) and count of some values."""

    mean: Array
    var: Array
    count: float


@_arrays.silently()
def batch_statistics(
    x: Array, *, axes: int | tuple[int, ...] | None = None
) -> Statistics:
    """Return a batch's exact mean and population variance, feature by feature.

    Parameters
    ----------
    x : array, shape (m, C) or (N, C, *spatial), any real floating dtype
    axes : int or tuple of int, optional
        The axes to average over; None means all but axis 1.

    Returns
    -------
    Statistics
        ``mean`` and ``var`` in float64, of the shape of the other axes, and
        ``count``, the number of values behind each. ``var`` divides by the
        count; multiply by ``count / (count - 1)`` for the unbiased variance.

    Raises
    ------
    TypeError
        If ``x`` is no NumPy array or torch tensor of a real floating dtype, or
        ``axes`` no integers.
    ValueError
        If the batch is empty, or ``x`` lacks one of ``axes``.

    Examples
    --------
    >>> import numpy as np
    >>> stats = batch_statistics(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> stats.mean.tolist(), stats.var.tolist(), stats.count
    ([2.0, 5.0], [1.0, 0.0], 2)

    References
    ----------
    Chapter 02, "The transform".
    """
    xp = _arrays.namespace(x=x)
    axes = _arrays.averaged_axes(x, axes)
    count = _arrays.values_averaged("x", x, axes)
    return _of_batch(xp, x, axes, count)


def _of_batch(xp, x, axes, count):
    mean, _, var = centre(x, axes)
    shape = _arrays.kept(x.shape, axes)
    return Statistics(xp.reshape(mean, shape), xp.reshape(var, shape), count)


def centre(x, axes):
    """Return the mean, the deviations from it and the variance, in float64.

    The mean of the deviations is subtracted too. This removes the rounding error of
    the first mean, and the deviations of a constant feature are exactly 0 (Chan, Golub
    and LeVeque 1983 correct the two-pass variance in this way).

    It needs about three float64 copies of ``x``. Nothing is checked.

    Parameters
    ----------
    x : array, any shape and real floating dtype
    axes : tuple of int
        Those averaged over, from 0.

    Returns
    -------
    mean : array of float64
        It keeps the averaged axes with size 1, as ``var`` does.
    deviations : array of float64, shape of ``x``
    var : array of float64
        Over m, the number of values averaged.

    Examples
    --------
    >>> import numpy as np
    >>> mean, deviations, var = centre(np.array([[1.0], [3.0]]), (0,))
    >>> mean.tolist(), deviations.tolist(), var.tolist()
    ([[2.0]], [[-1.0], [1.0]], [[1.0]])

    References
    ----------
    Chan, Golub and LeVeque 1983; chapter 02, "The transform".
    """
    xp = compat.array_namespace(x)
    count = math.prod(x.shape[axis] for axis in axes)
    wide = _arrays.upcast(x)  # (m, C)

    def average(values):
        return xp.sum(values, axis=axes, keepdims=True) / count  # (1, C)

    mean = average(wide)  # (1, C)
    deviations = wide - mean  # (m, C)
    rest = average(deviations)  # (1, C)
    deviations = deviations - rest  # (m, C)
    return mean + rest, deviations, average(deviations * deviations)


@_arrays.silently()
def merge(means: Array, variances: Array, counts: Array) -> Statistics:
    """Merge the statistics of several batches into those of all their values.

    The mean is weighted by the counts. The variance is the variance within the batches
    plus the variance between their means. Both equal the statistics of the concatenated
    batches, up to rounding.

    Parameters
    ----------
    means, variances : arrays, shape (k, ...)
        The k batches' means and population variances.
    counts : array of shape (k,) or sequence of k numbers
        The number of values in each batch: at least 0, and not all 0. A batch of
        count 0 is left out, whatever its mean.

    Returns
    -------
    Statistics
        ``mean`` and ``var`` in float64, shape (...), and the total ``count``.

    Raises
    ------
    TypeError
        If ``means`` or ``variances`` is no NumPy array or torch tensor, the two are
        mixed, a dtype is not real and floating, or ``counts`` holds no numbers.
    ValueError
        If the shapes or devices do not fit, a variance is negative, a count is
        negative or not finite, or all counts are 0.

    Examples
    --------
    >>> import numpy as np
    >>> means, variances = np.array([[1.0], [4.0]]), np.array([[0.0], [1.0]])
    >>> stats = merge(means, variances, [1, 2])
    >>> stats.mean.tolist(), round(stats.var.item(), 4), stats.count
    ([3.0], 2.6667, 3)

    References
    ----------
    Chan, Golub and LeVeque 1983, equation 2.1.
    """
    xp = _arrays.namespace(means=means, variances=variances)
    numbers = _check_counts(counts)
    if means.ndim < 1 or means.shape != variances.shape or len(numbers) != len(means):
        raise ValueError(
            f"means has shape {tuple(means.shape)}, variances "
            f"{tuple(variances.shape)} and there are {len(numbers)} counts: give "
            "(k, ...), (k, ...) and k"
        )
    total = sum(numbers)
    if not 0 < total < math.inf:
        raise ValueError(f"counts is {numbers}: give a finite total above 0")
    if bool(xp.any(variances < 0)):
        raise ValueError("variances has values below 0")
    used = [index for index, number in enumerate(numbers) if number > 0]
    means, variances = (
        xp.stack([_arrays.upcast(array)[index, ...] for index in used])
        for array in (means, variances)
    )
    weights = xp.reshape(
        xp.asarray(
            [numbers[index] / total for index in used],
            dtype=means.dtype,
            device=compat.device(means),
        ),
        (len(used),) + (1,) * (means.ndim - 1),
    )
    pivot = means[0, ...]  # (...)
    shift = xp.sum(weights * (means - pivot), axis=0)  # (...)
    between = means - (pivot + shift)  # (k, ...)
    var = xp.sum(weights * (variances + between * between), axis=0)  # (...)
    return Statistics(pivot + shift, var, total)


def _check_counts(counts):
    numbers = counts.tolist() if hasattr(counts, "tolist") else counts
    if not isinstance(numbers, list | tuple):
        raise TypeError(f"counts is {counts!r}: give a list or array of numbers")
    for index, number in enumerate(numbers):
        _checks.check_number(f"counts[{index}]", number, 0)
    return numbers


class RunningStatistics:
    """Running mean and variance of batches, as torch's BatchNorm keeps them.

    They start at mean 0 and variance 1, and every batch updates them:
    ``new = (1 - momentum) * old + momentum * batch``. The batch's variance enters
    unbiased, divided by m - 1. With ``momentum=None`` they are the plain averages
    over the batches.

    Parameters
    ----------
    num_features : int
        C, at least 1.
    momentum : float in [0, 1] or None

    Attributes
    ----------
    mean, var : arrays, shape (C,), float64
        In the library and on the device of the batches; NumPy before the first.
    num_batches : int

    Raises
    ------
    TypeError, ValueError
        If ``num_features`` is no integer of at least 1, or ``momentum`` neither None
        nor a number in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> running = RunningStatistics(1, momentum=None)
    >>> running.update(np.array([[1.0], [3.0]]))
    >>> running.update(np.array([[5.0], [5.0]]))
    >>> running.mean.tolist(), running.var.tolist()
    ([3.5], [1.0])

    References
    ----------
    Ioffe and Szegedy 2015, algorithm 2.
    """

    def __init__(self, num_features: int, momentum: float | None = 0.1) -> None:
        _checks.check_integer("num_features", num_features, 1)
        _checks.check_momentum(momentum)
        self.num_features = num_features
        self.momentum = momentum
        self.num_batches = 0
        self.mean: Array = np.zeros(num_features)
        self.var: Array = np.ones(num_features)

    @_arrays.silently()
    def update(self, x: Array) -> None:
        """Update the statistics with a batch, shape (m, C) or (N, C, *spatial).

        Raises
        ------
        TypeError, ValueError
            If the batch is no real floating array, has another number of features,
            fewer than two values per feature, or another library or device than the
            batches before it. The statistics then stay as they were.
        """
        _checks.check_momentum(self.momentum)
        first = self.num_batches == 0
        state = {"mean": None if first else self.mean}
        xp = _arrays.namespace(x=x, optional=state)
        axes = _arrays.averaged_axes(x, None)
        _checks.check_features("x", x, self.num_features)
        count = _checks.check_training_count("x", x, axes)
        batch = _of_batch(xp, _arrays.detached(x), axes, count)
        old_mean, old_var = (
            xp.asarray(old, dtype=batch.mean.dtype, device=compat.device(x))
            for old in (self.mean, self.var)
        )
        share = averaging_share(self.momentum, self.num_batches)
        self.mean, self.var = running_update(old_mean, old_var, batch, share)
        self.num_batches += 1

    def __repr__(self):
        return (
            f"RunningStatistics({self.num_features}, momentum={self.momentum}) "
            f"after {self.num_batches} batches"
        )


def averaging_share(momentum: float | None, num_batches: int) -> float:
    """Return the weight of the next batch in a running average.

    Parameters
    ----------
    momentum : float in [0, 1] or None
        None gives every batch the same weight.
    num_batches : int
        The number of batches before it.

    Returns
    -------
    float

    Examples
    --------
    >>> averaging_share(0.1, 3), averaging_share(None, 3)
    (0.1, 0.25)
    """
    return 1 / (num_batches + 1) if momentum is None else momentum


def running_update(
    mean: Array, var: Array, batch: Statistics, share: float
) -> tuple[Array, Array]:
    """Return the running mean and variance after one more batch.

    Parameters
    ----------
    mean, var : arrays, shape (C,)
        The running mean and variance before the batch.
    batch : Statistics
        The statistics of the batch, with a count above 1: its variance enters
        unbiased.
    share : float in [0, 1]
        The weight of the batch.

    Returns
    -------
    mean, var : arrays, shape (C,)

    Examples
    --------
    >>> import numpy as np
    >>> batch = Statistics(np.array([4.0]), np.array([1.0]), 2)
    >>> running_update(np.array([0.0]), np.array([1.0]), batch, 0.5)
    (array([2.]), array([1.5]))
    """
    unbiased = batch.var * (batch.count / (batch.count - 1))
    return (
        (1 - share) * mean + share * batch.mean,
        (1 - share) * var + share * unbiased,
    )


def convert_momentum(
    value: float, source: str = "keras", target: str = "torch"
) -> float:
    """Convert the BatchNorm momentum of one framework into that of another.

    torch's momentum is the weight of the new batch. For Keras, TensorFlow, flax,
    ONNX, Paddle and MXNet it is the weight of the old value.

    Parameters
    ----------
    value : float in [0, 1]
    source, target : str
        "torch", "keras", "tensorflow", "flax", "onnx", "paddle" or "mxnet".

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        If ``value`` is no number in [0, 1], or a framework is unknown.

    Examples
    --------
    >>> convert_momentum(0.75, source="keras", target="torch")
    0.25
    """
    for name, framework in (("source", source), ("target", target)):
        if framework not in list(_MOMENTUM_WEIGHS_BATCH):
            raise ValueError(
                f"{name} is {framework!r}: give one of "
                f"{', '.join(_MOMENTUM_WEIGHS_BATCH)}"
            )
    _checks.check_number("value", value, 0, 1)
    same = _MOMENTUM_WEIGHS_BATCH[source] is _MOMENTUM_WEIGHS_BATCH[target]
    return value if same else 1 - value
