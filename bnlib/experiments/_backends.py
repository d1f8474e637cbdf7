"""The backends of batch normalization, compared, and the error of each."""

import time

import torch

from bnlib import kernels
from bnlib.functional import batch_norm

EPS = 1e-5
#: Measured beside bnlib's backends; `implementations` explains them.
OTHERS = ("pytorch", "plain", "compiled")


def _axes(x):
    """Return the axes to average over, and the shape in which channels broadcast."""
    return [axis for axis in range(x.ndim) if axis != 1], (-1, *[1] * (x.ndim - 2))


def implementations(names, relu=False):
    """Return functions of input, weight and bias that normalise a batch, by name.

    Parameters
    ----------
    names : sequence of str
        Names from `bnlib.kernels.BACKENDS`; "auto"; "pytorch" (torch's batch norm and
        relu, called without bnlib); "compiled" (the same through torch.compile);
        "plain" (the formula as a sequence of torch's operations).
    relu : bool
        Whether a ReLU follows.

    Returns
    -------
    dict of callables

    Examples
    --------
    >>> import torch
    >>> made = implementations(["pytorch", "readable"], relu=True)
    >>> x, weight, bias = torch.tensor([[1.0], [3.0]]), torch.ones(1), torch.zeros(1)
    >>> [f(x, weight, bias).round(decimals=4).tolist() for f in made.values()]
    [[[0.0], [1.0]], [[0.0], [1.0]]]

    References
    ----------
    Chapter 05, "Kernels".
    """

    def torchs(x, weight, bias):
        given = x, None, None, weight, bias
        y = torch.nn.functional.batch_norm(*given, training=True, eps=EPS)
        return torch.relu(y) if relu else y

    def ours(backend):
        options = {"activation": "relu" if relu else None, "backend": backend}
        return lambda x, weight, bias: batch_norm(
            *(x, None, None, weight, bias), training=True, eps=EPS, **options
        )

    def plain(x, weight, bias):
        axes, column = _axes(x)
        var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        y = (x - mean) / torch.sqrt(var + EPS) * weight.view(column) + bias.view(column)
        return torch.relu(y) if relu else y

    made = {"pytorch": torchs, "plain": plain}
    if "compiled" in names:
        made["compiled"] = torch.compile(torchs, dynamic=False)
    return {name: made.get(name) or ours(name) for name in names}


def usable(functions, x):
    """Return the functions without the backends that refuse this input."""
    return {
        name: function
        for name, function in functions.items()
        if name not in kernels.BACKENDS or kernels.refusal(name, x) is None
    }


def first_calls(functions, arguments, dy):
    """Call each function for the first time.

    Returns
    -------
    dict of (y, dx, seconds)
        By name; without "compiled" if there is no compiler.
    """
    found = {}
    for name, function in functions.items():
        start = time.perf_counter()
        try:
            y = function(*arguments)
            (dx,) = torch.autograd.grad(y, arguments[:1], dy)
        except RuntimeError:
            if name != "compiled":
                raise
            continue
        found[name] = y.detach(), dx, time.perf_counter() - start
    return found


def relative(found, exact):
    """Return the largest error divided by the largest value; 1e300 if not finite."""
    return _number((found - exact).abs().max() / exact.abs().max())


def units(found, exact):
    """Return the largest error, in units of the last place of each value.

    Values below a 64th of the largest value are measured in the unit at that 64th.
    """
    size = exact.abs().clamp(min=exact.abs().max() / 64)
    unit = torch.finfo(found.dtype).eps * torch.exp2(size.log2().floor())
    return _number(((found - exact) / unit).abs().max())


def _number(error):
    return float(f"{torch.nan_to_num(error, 1e300, 1e300):.3g}")


def check_backends(backends):
    """Raise ValueError for an unknown name, or if pytorch is not among them."""
    known = (*OTHERS, "auto", *kernels.BACKENDS)
    if "pytorch" not in backends or not set(backends) <= set(known):
        raise ValueError(
            f"backends are pytorch and any others of {', '.join(known[1:])}; "
            f"got {', '.join(backends)}"
        )
