"""What the array functions share: one code for NumPy and torch, and its checks."""

import math
import operator
from typing import Any

import array_api_compat as compat
import numpy as np

#: A NumPy array or a torch tensor: one function takes both and returns its own kind.
Array = Any


def namespace(optional=None, **required):
    """Return the array namespace of the named arrays, checked by `check_arrays`."""
    check_arrays(optional, **required)
    return compat.array_namespace(next(iter(required.values())))


def check_arrays(optional=None, **required):
    """Raise unless the named arrays can be computed with together.

    They must come from one library (NumPy or torch), lie on one device, and be
    dense, real and floating. ``optional`` maps names to arrays that may be None.
    """
    given = {name: a for name, a in (optional or {}).items() if a is not None}
    given = required | given
    for name, array in given.items():
        _check_kind(name, array)
    first, reference = next(iter(given.items()))
    for name, array in given.items():
        if compat.is_torch_array(array) is not compat.is_torch_array(reference):
            raise TypeError(
                f"{first} is a {_library(reference)} but {name} is a "
                f"{_library(array)}: give both from one library"
            )
        if compat.device(array) != compat.device(reference):
            raise ValueError(
                f"{first} is on {compat.device(reference)} but {name} is on "
                f"{compat.device(array)}: put both on one device"
            )


def _check_kind(name, array):
    """Raise unless the array is dense, real and floating."""
    known = compat.is_numpy_array(array) or compat.is_torch_array(array)
    # The code would lose a mask, and `*` of two matrices is not elementwise.
    if not known or isinstance(array, np.ma.MaskedArray | np.matrix):
        raise TypeError(
            f"{name} is a {type(array).__name__}: give a plain NumPy array or a "
            "torch tensor"
        )
    if compat.is_torch_array(array) and str(array.layout) != "torch.strided":
        raise TypeError(f"{name} has layout {array.layout}: give a dense tensor")
    # Floats of one byte have no arithmetic in torch.
    xp = compat.array_namespace(array)
    if not _is_real_floating(xp, array) or array.dtype.itemsize == 1:
        raise TypeError(
            f"{name} has dtype {array.dtype}: give a real floating dtype of 16 bits "
            "or more, such as float32 or float64"
        )


def silently() -> np.errstate:
    """Let NumPy answer inf or NaN without a warning, as torch does."""
    return np.errstate(divide="ignore", invalid="ignore", over="ignore")


def detached(array):
    """Return the array without torch's record of where it came from."""
    return array.detach() if compat.is_torch_array(array) else array


def _library(array):
    return "torch tensor" if compat.is_torch_array(array) else "NumPy array"


def _is_real_floating(xp, array):
    try:
        return xp.isdtype(array.dtype, "real floating")
    except TypeError:  # NumPy's own answer for structured and string dtypes
        return False


def upcast(array):
    """Return the array in the dtype in which sums are computed.

    That is float64, or the array's dtype if it is wider. Apple's GPUs have no
    float64; there it is float32.
    """
    xp = compat.array_namespace(array)
    if getattr(compat.device(array), "type", "cpu") == "mps":
        return xp.astype(array, xp.float32, copy=False)
    return xp.astype(array, xp.result_type(array.dtype, xp.float64), copy=False)


def double(array):
    """Return a checked array in float64, or in float32 on a device without float64."""
    wide = upcast(detached(array))
    xp = compat.array_namespace(wide)
    return xp.astype(wide, xp.float64) if wide.dtype.itemsize > 8 else wide


def averaged_axes(x, axes):
    """Return the axes to average over as a sorted tuple; None means all but 1."""
    if axes is None:
        if x.ndim < 2:
            raise ValueError(
                f"x has shape {tuple(x.shape)}: give (m, C) or (N, C, *spatial), "
                "or name the axes to average over"
            )
        return tuple(axis for axis in range(x.ndim) if axis != 1)
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    if any(isinstance(axis, bool) or not hasattr(axis, "__index__") for axis in given):
        raise TypeError(f"axes is {axes!r}: give an int or a tuple of ints")
    numbers = [operator.index(axis) for axis in given]
    if not numbers or any(not -x.ndim <= axis < x.ndim for axis in numbers):
        raise ValueError(
            f"axes is {axes!r} for an x of shape {tuple(x.shape)}: give at least one "
            f"axis, each from {-x.ndim} to {x.ndim - 1}"
        )
    distinct = sorted({axis % x.ndim for axis in numbers})
    if len(distinct) < len(numbers):
        raise ValueError(f"axes is {axes!r}: name each axis once")
    return tuple(distinct)


def values_averaged(name, x, axes):
    """Return how many values each statistic averages; raise if the batch is empty."""
    count = math.prod(x.shape[axis] for axis in axes)
    if count == 0:
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, an empty batch: its mean and variance "
            "are not defined"
        )
    return count


def kept(shape, axes):
    """Return the shape of a statistic: the axes that are not averaged over."""
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def kept_as_ones(shape, axes):
    """Return the shape in which a statistic broadcasts against the array."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def parameter_shape(name, parameter, shape, axes):
    """Return the shape in which a parameter broadcasts against an array.

    A parameter of one axis lies along the features: along the only axis kept
    when a batch (axis 0) is averaged over, else along axis 1. A parameter of
    as many axes as the array broadcasts as it is.
    """
    size = tuple(parameter.shape)
    kept_axes = [axis for axis in range(len(shape)) if axis not in axes]
    feature = kept_axes[0] if 0 in axes and len(kept_axes) == 1 else 1
    if len(size) == 1 and feature < len(shape) and size[0] == shape[feature]:
        return tuple(size[0] if a == feature else 1 for a in range(len(shape)))
    if len(size) == len(shape) and all(
        own in (1, other) for own, other in zip(size, shape)
    ):
        return size
    takes = (
        f"({shape[feature]},), one value per feature, or "
        if feature < len(shape)
        else ""
    )
    raise ValueError(
        f"{name} has shape {size} for an array of shape {tuple(shape)}: give "
        f"{takes}{len(shape)} axes that broadcast against it"
    )
