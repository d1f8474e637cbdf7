"""What a backend of `bnlib.functional.batch_norm` is."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor
from torch.autograd.graph import increment_version


class Options(NamedTuple):
    """What is asked of a backend besides tensors; ``relu``: the ReLU follows."""

    training: bool
    momentum: float
    eps: float
    relu: bool


class Backend(Protocol):
    """A module of `bnlib.kernels`, ``_name.py``, that computes batch norm.

    What it is given has been checked by `bnlib.functional.batch_norm`: floating
    tensors on one device, vectors of shape (C,), an input that has values, at least
    two a channel in training, and statistics in evaluation.

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
        """Normalise, and bring the running statistics up to date.

        Returns
        -------
        output : Tensor
            Shape, dtype and memory layout of ``input``.
        statistics : Tensor of float64, shape (3, C), or None
            What was normalised with, a row each: the mean; its rest, which is to be
            added to it where float64 has not digits enough; 1 / sqrt(var + eps).
            None without a `backward`, and allowed where ``keep`` is false.

        Raises
        ------
        MemoryError
            If there is no memory. No running statistics have changed then. Whatever
            else may be wrong, `refusal` has to say.

        Notes
        -----
        In training the running statistics are updated in place, with ``momentum`` as
        the weight of the batch and its unbiased variance, and their version counters
        go up, as with any operation of torch that writes; see `mark_written`. No other
        argument and no other state changes.
        """


def mark_written(*buffers):
    """Raise the version counters of tensors that were written past torch."""
    # A tensor made in inference mode has no counter.
    increment_version([each for each in buffers if not each.is_inference()])
