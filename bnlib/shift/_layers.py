"""The layers of the experiments on covariate shift: noise, and other norms."""

import copy
import math

import torch
from torch import nn

from bnlib import _arrays, _checks, _modules
from bnlib._torch_internals import BatchNormBase


class BatchNoise(nn.Module):
    """Noise that changes the distribution of every unit at every step.

    In training mode each call draws, for each unit, mu in U(-0.5, 0.5) and sigma in
    U(1, 1.25); then for each example and unit m in U(mu - 0.1, mu + 0.1) and s in
    N(sigma, 0.1^2). A value a becomes s a + m. All positions of a channel share the
    draws of their example. In eval mode the layer changes nothing.

    Parameters
    ----------
    generator : torch.Generator
        The generator of the noise, on the CPU.

    Examples
    --------
    >>> import torch
    >>> noise = BatchNoise(torch.Generator().manual_seed(0))
    >>> noise(torch.zeros(4, 1)).abs().max() < 0.6
    tensor(True)
    >>> noise.eval()(torch.ones(2, 1)).ravel().tolist()
    [1.0, 1.0]

    References
    ----------
    Chapter 01, "Covariate shift"; Santurkar et al. 2018, figure 2.
    """

    def __init__(self, generator: torch.Generator):
        super().__init__()
        if not isinstance(generator, torch.Generator):
            raise TypeError(f"generator is {generator!r}: give a torch.Generator")
        self.generator = generator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return noisy values, shape (N, C) or (N, C, *spatial) as ``x``."""
        if not self.training:
            return x
        if x.ndim < 2:
            raise ValueError(f"x has shape {tuple(x.shape)}: give (N, C, *spatial)")
        n, units = x.shape[:2]
        options = {"generator": self.generator, "dtype": x.dtype}
        mu = torch.rand(units, **options) - 0.5
        sigma = 1 + torch.rand(units, **options) / 4
        m = mu + (torch.rand(n, units, **options) - 0.5) / 5
        s = sigma + torch.randn(n, units, **options) / 10
        shape = (n, units, *[1] * (x.ndim - 2))
        return s.to(x.device).reshape(shape) * x + m.to(x.device).reshape(shape)


def with_noise(network: nn.Module, generator: torch.Generator) -> nn.Module:
    """Return a copy of a network with `BatchNoise` after each BN layer.

    Parameters
    ----------
    network : torch.nn.Module
        With BN layers, of torch or `bnlib.nn`. Not changed.
    generator : torch.Generator
        The generator of all layers' noise.

    Returns
    -------
    torch.nn.Module

    Raises
    ------
    TypeError, ValueError
        If network is no module, or has no BN layer.

    Examples
    --------
    >>> import torch
    >>> plain = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    >>> noisy = with_noise(plain, torch.Generator())
    >>> [type(layer).__name__ for layer in noisy[1]]
    ['BatchNorm1d', 'BatchNoise']

    References
    ----------
    Chapter 01, "Covariate shift".
    """
    _modules.check_module("network", network)
    root = nn.ModuleDict({"network": copy.deepcopy(network)})
    parents = [
        (parent, name)
        for parent in root.modules()
        for name, child in parent.named_children()
        if isinstance(child, BatchNormBase)
    ]
    if not parents:
        raise ValueError("network has no batch normalization layer")
    for parent, name in parents:
        child = getattr(parent, name)
        setattr(parent, name, nn.Sequential(child, BatchNoise(generator)))
    return root["network"]


class LpBatchNorm(nn.Module):
    """Subtract each unit's mean over the batch and divide by its average l_p norm.

    That norm is ``r = (mean |x - mean|^p)^(1/p)``, or the largest ``|x - mean|`` for
    p = inf. The divisor is ``sqrt(r^2 + eps)``, so p = 2 is BN. Learnt scale, shift and
    running averages are as in BN, with r^2 in place of the variance.
    (The paper takes its norms, as we read it, before the mean is subtracted.)

    Parameters
    ----------
    num_features : int
    p : 1, 2 or inf
    eps : float, at least 0
    momentum : float in [0, 1]

    Examples
    --------
    >>> import torch
    >>> layer = LpBatchNorm(1, p=float("inf"), eps=0.0)
    >>> layer(torch.tensor([[1.0], [3.0], [8.0]])).ravel().tolist()
    [-0.75, -0.25, 1.0]

    References
    ----------
    Chapter 01, "Covariate shift"; Santurkar et al. 2018, figures 5 and 6.
    """

    def __init__(
        self, num_features: int, p: float, eps: float = 1e-5, momentum: float = 0.1
    ):
        super().__init__()
        _checks.check_integer("num_features", num_features, 1)
        _checks.check_number("eps", eps, 0)
        _checks.check_number("momentum", momentum, 0, 1)
        if p not in (1, 2, math.inf):
            raise ValueError(f"p is {p!r}: give 1, 2 or inf")
        self.p, self.eps, self.momentum = p, eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_square", torch.ones(num_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the normalised values, shape (N, C) or (N, C, *spatial) as ``x``."""
        if x.ndim < 2:
            raise ValueError(f"x has shape {tuple(x.shape)}: give (N, C, *spatial)")
        _checks.check_features("x", x, len(self.weight))
        if self.training:
            mean, square = self._measure(x)
        else:
            mean, square = self.running_mean, self.running_square
        shape = (1, -1, *[1] * (x.ndim - 2))
        scale = (self.weight / torch.sqrt(square + self.eps)).reshape(shape)
        return (x - mean.reshape(shape)) * scale + self.bias.reshape(shape)

    def _measure(self, x):
        """Return each unit's mean and squared norm; update the running averages."""
        _checks.check_training_count("x", x, _arrays.averaged_axes(x, None))
        values = x.movedim(1, -1).flatten(0, -2)
        mean = values.mean(dim=0)
        sizes = (values - mean).abs()
        if self.p == math.inf:
            square = sizes.amax(dim=0) ** 2
        else:
            # For a constant unit, the root at 0 would have an infinite slope.
            square = sizes.pow(self.p).mean(dim=0).pow(2 / self.p)
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_square.lerp_(square, self.momentum)
        return mean, square
