"""Which normalization at which batch size: a small convolutional net on digits."""

import torch
from torch import nn
from torch.nn import functional

from bnlib.experiments._registry import experiment
from bnlib.experiments._training import generators, split_on, train
from bnlib.networks import accuracy
from bnlib.recalibration import recalibrate

GROUPS = 4
#: The layers to compare: functions from the number of channels to a layer.
LAYERS = {
    "none": lambda channels: nn.Identity(),
    "batch": nn.BatchNorm2d,
    "layer": lambda channels: nn.GroupNorm(1, channels),
    "group": lambda channels: nn.GroupNorm(GROUPS, channels),
    "instance": lambda channels: nn.GroupNorm(channels, channels),
}


def _network(arm, channels, generator):
    """Return two convolutions, each with the layer and a ReLU, and a linear map."""
    layers = []
    for inputs, outputs in ((1, channels), (channels, 2 * channels)):
        convolution = nn.utils.skip_init(
            nn.Conv2d, inputs, outputs, 3, stride=len(layers) // 3 + 1, padding=1
        )
        nn.init.kaiming_normal_(
            convolution.weight, nonlinearity="relu", generator=generator
        )
        nn.init.zeros_(convolution.bias)
        layers += [convolution, LAYERS[arm](outputs), nn.ReLU()]
    linear = nn.utils.skip_init(nn.Linear, 2 * channels, 10)
    nn.init.kaiming_normal_(linear.weight, nonlinearity="relu", generator=generator)
    nn.init.zeros_(linear.bias)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear)


@experiment(
    id="digits-norms",
    title="Digits: batch, layer, group and instance norm against the batch size",
    chapter="15-practice",
    source="wu2018",
    sweep={
        "arm": "arms",
        "batch_size": "batch_sizes",
        "learning_rate": "learning_rates",
        "seed": "seeds",
    },
    paired=("arm", "batch_size", "learning_rate"),
    data=("digits",),
    threads=1,
    live={
        "arms": ["batch", "group"],
        "batch_sizes": [2, 64],
        "learning_rates": [0.1],
        "seeds": [0],
        "channels": 8,
        "epochs": 1,
    },
    paper={
        "arms": list(LAYERS),
        "batch_sizes": [2, 4, 8, 16, 32, 64, 128, 256],
        "learning_rates": [0.03, 0.1, 0.3, 1.0],
        "seeds": [0, 1, 2],
        "channels": 8,
        "epochs": 5,
    },
)
def digits_norms(context, arm, batch_size, learning_rate, channels, epochs):
    """Train one network with plain SGD; measure it after the last epoch.

    All arms start from the same weights and see the same minibatches. An epoch shows
    each image at most once, since an incomplete last batch is left out; runs of small
    batches take more steps. Batch norm is evaluated twice: with running averages, and
    with exact statistics by recalibration. A run ends when its loss is not finite.
    """
    network, images, outcome = _trained(
        context,
        *(arm, channels),
        {"rate": learning_rate, "batch_size": batch_size},
        lambda images: epochs * (images // batch_size),
    )
    x_train, y_train = images
    with torch.no_grad():
        fit = functional.cross_entropy(network.train()(x_train), y_train).item()
    return outcome | {"loss": fit if fit < float("inf") else None}


@experiment(
    id="digits-norms-steps",
    title="Digits: the same layers after the same number of steps",
    chapter="15-practice",
    source="wu2018",
    sweep={
        "arm": "arms",
        "batch_size": "batch_sizes",
        "learning_rate": "learning_rates",
        "seed": "seeds",
    },
    paired=("arm", "batch_size", "learning_rate"),
    data=("digits",),
    threads=1,
    live={
        "arms": ["none", "batch"],
        "batch_sizes": [2, 64],
        "learning_rates": [0.1],
        "seeds": [0],
        "channels": 8,
        "steps": 20,
    },
    paper={
        "arms": list(LAYERS),
        "batch_sizes": [2, 8, 32, 128],
        "learning_rates": [0.03, 0.1, 0.3, 1.0],
        "seeds": [0, 1, 2],
        "channels": 8,
        "steps": 300,
    },
)
def digits_norms_steps(context, arm, batch_size, learning_rate, channels, steps):
    """Train as `digits_norms` does, but for a number of steps, whatever the batch size.

    There a large batch takes few steps, so that batch size and number of steps change
    together; here only the batch size changes, and with it the number of images seen.
    """
    options = {"rate": learning_rate, "batch_size": batch_size}
    return _trained(context, arm, channels, options, lambda images: steps)[2]


def _trained(context, arm, channels, options, steps):
    """Train a network; return it, the images that it saw, and how it did.

    ``steps`` gives the number of steps for a number of images.
    """
    weights, order = generators(context, 2)
    dataset = context.datasets["digits"]
    x_train, y_train, x_test, y_test = split_on(
        context.device,
        *(dataset.x_train / 8 - 1, dataset.y_train),
        *(dataset.x_test / 8 - 1, dataset.y_test),
    )
    x_train, x_test = (x.reshape(-1, 1, 8, 8) for x in (x_train, x_test))
    network = _network(arm, channels, weights).to(context.device)
    options = options | {"steps": steps(len(x_train))}
    finite = train(network, x_train, y_train, order=order, **options)
    right = exact = accuracy(network, x_test, y_test)
    if arm == "batch" and finite:
        exact = accuracy(recalibrate(network, [x_train]), x_test, y_test)
    outcome = {
        "accuracy": round(right, 4),
        "recalibrated_accuracy": round(exact, 4),
        "diverged": not finite,
    }
    return network, (x_train, y_train), outcome
