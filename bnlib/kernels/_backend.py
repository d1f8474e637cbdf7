"""The protocol of a backend of `bnlib.functional.batch_norm`."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor
from torch.autograd.graph import increment_version


class Options(NamedTuple):
    """The options of a call to a backend; with ``relu`` the ReLU follows."""

    training: bool
    momentum: float
    eps: float
    relu: bool


class Backend(Protocol):
    """A module of `bnlib.kernels`, ``_name.py``, that computes batch norm.

    `bnlib.functional.batch_norm` has checked the arguments: floating tensors on one
    device, vectors of shape (C,), an input that is not empty, at least two values per
    channel in training, and statistics in evaluation.

    Examples
    --------
    >>> from bnlib import kernels
    >>> readable: Backend = kernels.module("readable")
    >>> readable.backward is None
    True

    References
    ----------
    Chapter 05, "Kernels".
    """

    #: ``backward(grad_output, input, statistics, weight, bias, options)`` returns the
    #: gradients of input, weight and bias, each in the dtype of what it belongs to,
    #: and None for weight or bias that is None. ``statistics`` are what `forward`
    #: returned; ``input`` has not changed since. It writes to none of its arguments.
    #:
    #: None instead of a function: `forward` consists of torch's operations, autograd
    #: differentiates its output, and torch.func and traces see through it.
    backward: Callable[..., tuple[Tensor, Tensor | None, Tensor | None]] | None

    def refusal(self, input: Tensor) -> str | None:
        """Return why the backend cannot take an input, as a clause; None if it can."""

    def forward(
        self,
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        options: Options,
        keep: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Normalise the input and update the running statistics.

        Returns
        -------
        output : Tensor
            Shape, dtype and memory layout of ``input``.
        statistics : Tensor of float64, shape (3, C), or None
            The rows hold the mean; its rest, which is added to the mean if float64 does
            not have enough digits; and 1 / sqrt(var + eps). It is None without a
            `backward`, and may be None if ``keep`` is false.

        Raises
        ------
        MemoryError
            If there is no memory; no running statistics have then changed. `refusal`
            must report every other obstacle.

        Notes
        -----
        In training the running statistics are updated in place, with ``momentum`` as
        the weight of the batch and its unbiased variance. Their version counters go up,
        as after any operation of torch that writes; see `mark_written`. No other
        argument and no other state changes.
        """


def mark_written(*buffers):
    """Increase the version counters of tensors that were written without torch."""
    # A tensor made in inference mode has no counter.
    increment_version([each for each in buffers if not each.is_inference()])
