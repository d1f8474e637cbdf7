"""ReLU networks without biases: ``f(x) = W_K relu(... relu(W_1 x))``, one output."""

import array_api_compat as compat

from bnlib import _arrays, _checks


def check_layers(layers):
    """Raise unless the layers are finite matrices that fit each other."""
    if not isinstance(layers, list | tuple):
        raise TypeError(f"weights is a {type(layers).__name__}: give a list of layers")
    if not layers:
        raise ValueError("weights is empty: give at least one layer")
    for k, layer in enumerate(layers):
        if layer.ndim != 2 or 0 in layer.shape:
            raise ValueError(
                f"weights[{k}] has shape {tuple(layer.shape)}: give (out, in)"
            )
        _checks.check_finite(f"weights[{k}]", layer)
        if k:
            _check_inputs(k, layer, layers[k - 1].shape[0])


def _check_inputs(k, layer, given):
    if layer.shape[1] != given:
        raise ValueError(
            f"weights[{k}] has shape {tuple(layer.shape)} and gets {given} numbers: "
            f"give (out, {given})"
        )


def check_network(layers, X):
    """Raise unless the layers take the rows of X and return one number for each."""
    check_layers(layers)
    _check_inputs(0, layers[0], X.shape[1])
    if layers[-1].shape[0] != 1:
        raise ValueError(
            f"the last layer has {layers[-1].shape[0]} rows: give one, for one output"
        )


def check_nonzero(layers):
    """Raise if a layer is zero: it has no direction, and f is then zero everywhere."""
    for k, layer in enumerate(layers):
        if not bool((layer != 0).any()):
            raise ValueError(f"weights[{k}] is zero: it has no direction")


def forward(layers, X):
    """Return f of each row, shape (n,), and the list of the layers' inputs."""
    xp = compat.array_namespace(X)
    inputs = [X]
    with _arrays.silently():
        for layer in layers[:-1]:
            hidden = inputs[-1] @ layer.T  # (n, out)
            # Not the maximum: torch gives it the slope 1/2 at 0.
            inputs.append(xp.where(hidden <= 0, xp.zeros_like(hidden), hidden))
        return inputs[-1] @ layers[-1][0], inputs


def gradients(layers, inputs, upstream):
    """Return, for each layer, the sum over the examples of ``upstream`` times df/dW."""
    signals = backward(layers, inputs, upstream)
    return [signal.T @ entering for signal, entering in zip(signals, inputs)]


def backward(layers, inputs, upstream):
    """Return the gradients with respect to each layer's output before its ReLU."""
    signals = [upstream[:, None]]  # (n, 1)
    for layer, entering in zip(layers[:0:-1], inputs[:0:-1]):
        signals.append((signals[-1] @ layer) * (entering > 0))
    return signals[::-1]
