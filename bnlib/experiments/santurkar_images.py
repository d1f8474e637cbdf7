"""Santurkar et al.: BN, noise and no norm in a convolutional network on CIFAR-10."""

import numpy as np
from torch import nn

from bnlib.experiments._registry import experiment
from bnlib.experiments._training import generators, split_on
from bnlib.experiments._watch import watch
from bnlib.shift import with_noise

CLASSES = 10


def convolutional(channels, batch_norm, generator):
    """Build pairs of 3 x 3 convolutions, with or without BN; a pair halves the image.

    The weights are Glorot's, as in the paper's VGG, and the biases are 0.
    """
    layers, inputs = [], 3
    for outputs in channels:
        for _ in range(2):
            conv = nn.utils.skip_init(nn.Conv2d, inputs, outputs, 3, padding=1)
            norm = [nn.BatchNorm2d(outputs)] if batch_norm else []
            layers += [conv, *norm, nn.ReLU()]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    linear = nn.utils.skip_init(nn.Linear, inputs, CLASSES)
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear)
    for module in network:
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.xavier_normal_(module.weight, generator=generator)
            nn.init.zeros_(module.bias)
    return network


def _images(context):
    """Return the subset, channels first, each with mean 0 and standard deviation 1."""
    images = context.datasets["cifar10_subset"]
    # Sums are float64; for the images float32 is enough.
    mean, std = (
        f(images.x_train, axis=(0, 1, 2)).astype(np.float32) for f in (np.mean, np.std)
    )
    x_train, x_test = (
        ((x - mean) / std).transpose(0, 3, 1, 2)
        for x in (images.x_train, images.x_test)
    )
    return split_on(context.device, x_train, images.y_train, x_test, images.y_test)


@experiment(
    id="santurkar-noise-conv",
    title="BN with noise after it, on CIFAR-10 (subset: 10,000 + 2,000)",
    chapter="01-covariate-shift",
    source="santurkar2018",
    sweep={"arm": "arms", "learning_rate": "learning_rates", "seed": "seeds"},
    paired=("arm", "learning_rate"),
    data=("cifar10_subset",),
    threads=1,
    live={
        "arms": ["plain", "batch_norm", "noisy"],
        "learning_rates": [0.1],
        "seeds": [0],
        "channels": [8, 16],
        "batch_size": 64,
        "steps": 20,
        "looks": 3,
    },
    paper={
        "arms": ["plain", "batch_norm", "noisy"],
        "learning_rates": [0.1],
        "seeds": [0, 1, 2, 3, 4],
        "channels": [8, 16, 32],
        "batch_size": 64,
        "steps": 300,
        "looks": 6,
    },
)
def santurkar_noise_conv(
    context, arm, learning_rate, channels, batch_size, steps, looks
):
    """Run `santurkar-noise` with a small VGG: pairs of convolutions between poolings.

    The noise is drawn once per example and channel, for all positions.
    """
    weights, order, noise = generators(context, 3)
    network = convolutional(channels, arm != "plain", weights)
    if arm == "noisy":
        network = with_noise(network, noise)
    network.to(context.device)
    options = {"batch_size": batch_size, "steps": steps, "looks": looks}
    data = _images(context)
    return watch(network, data, rate=learning_rate, order=order, **options)
