"""What Ioffe and Szegedy promise: speed, larger steps, easier starts, regularity."""

import numpy as np
import torch
from torch import nn

from bnlib.experiments._registry import experiment
from bnlib.experiments._training import (
    checkpoints,
    generators,
    rounded,
    split_on,
    standardised,
    train,
)
from bnlib.networks import accuracy, feed_forward

NORMS = {"plain": None, "batch_norm": nn.BatchNorm1d}
ARMS = list(NORMS)
CLASSES = 10
FIRST = 1000


@experiment(
    id="ioffe-mnist",
    title="A sigmoid network on MNIST, by learning rate and initial scale",
    chapter="01-covariate-shift",
    source="ioffe2015",
    sweep={
        "arm": "arms",
        "learning_rate": "learning_rates",
        "scale": "scales",
        "seed": "seeds",
    },
    paired=("arm", "learning_rate", "scale"),
    data=("mnist",),
    threads=1,
    live={
        "arms": ARMS,
        "learning_rates": [0.1],
        "scales": [0.1],
        "seeds": [0],
        "width": 100,
        "hidden_layers": 3,
        "batch_size": 60,
        "steps": 2000,
        "looks": 20,
    },
    paper={
        "arms": ARMS,
        "learning_rates": [0.01, 0.1, 1.0],
        "scales": [0.01, 0.1],
        "seeds": [0, 1, 2, 3, 4],
        "width": 100,
        "hidden_layers": 3,
        "batch_size": 60,
        "steps": 5000,
        "looks": 14,
    },
)
def ioffe_mnist(
    context, arm, learning_rate, scale, width, hidden_layers, batch_size, steps, looks
):
    """Measure test accuracy over training, and percentiles of one unit's input.

    Pixels are 1 above half intensity and 0 otherwise. `scale` is the standard deviation
    of the initial weights. The unit is the first of the last hidden layer; its input is
    the input of its sigmoid, on the first 1,000 test images, in eval mode.
    """
    weights, order = generators(context, 2)
    mnist = context.datasets["mnist"]
    x_train, x_test = (
        (x.reshape(len(x), -1) > 127) for x in (mnist.x_train, mnist.x_test)
    )
    x_train, y_train, x_test, y_test = split_on(
        context.device, x_train, mnist.y_train, x_test, mnist.y_test
    )
    widths = [x_train.shape[1], *[width] * hidden_layers, CLASSES]
    network = feed_forward(
        widths,
        norm=NORMS[arm],
        activation=nn.Sigmoid,
        scale=lambda _: scale,
        generator=weights,
    )
    network.to(context.device)
    upto = network[:-2]  # without the last sigmoid and the classifier
    at = checkpoints(steps, looks)
    found = {"steps": at, "accuracy": [], "percentiles": []}

    def look():
        found["accuracy"].append(round(accuracy(network, x_test, y_test), 4))
        network.eval()
        with torch.no_grad():
            unit = upto(x_test[:FIRST])[:, 0].cpu().numpy()
        network.train()
        found["percentiles"].append(
            [rounded(v) for v in np.percentile(unit, [15, 50, 85])]
        )

    def look_and_step(step, x, y, take):
        look()
        return np.isfinite(take())

    options = {"rate": learning_rate, "batch_size": batch_size, "steps": steps}
    options |= {"order": order, "at": at, "look": look_and_step}
    finite = train(network, x_train, y_train, **options)
    # The last look comes after all steps; after a run ends, all looks are the same.
    for _ in range(len(at) - len(found["accuracy"])):
        look()
    return found | {"final_accuracy": found["accuracy"][-1], "diverged": not finite}


@experiment(
    id="ioffe-starts",
    title="Accuracy on digits by learning rate and scale of the initial weights",
    chapter="01-covariate-shift",
    source="ioffe2015",
    sweep={
        "arm": "arms",
        "factor": "factors",
        "learning_rate": "learning_rates",
        "seed": "seeds",
    },
    paired=("arm", "factor", "learning_rate"),
    data=("digits",),
    threads=1,
    live={
        "arms": ARMS,
        "factors": [0.1, 1.0, 4.0],
        "learning_rates": [0.01, 0.1, 1.0],
        "seeds": [0],
        "width": 64,
        "hidden_layers": 3,
        "batch_size": 64,
        "steps": 200,
    },
    paper={
        "arms": ARMS,
        "factors": [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0],
        "learning_rates": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0],
        "seeds": [0, 1, 2, 3, 4],
        "width": 64,
        "hidden_layers": 3,
        "batch_size": 64,
        "steps": 400,
    },
)
def ioffe_starts(
    context, arm, factor, learning_rate, width, hidden_layers, batch_size, steps
):
    """Train a ReLU network from He's weights times `factor`; measure it at the end.

    A run whose loss is not finite stops, is flagged `diverged`, and keeps its accuracy
    at that point, about that of a guess.
    """
    weights, order = generators(context, 2)
    data = standardised(context.datasets["digits"], context.device)
    x_train, y_train, x_test, y_test = data
    widths = [x_train.shape[1], *[width] * hidden_layers, CLASSES]
    network = feed_forward(
        widths,
        norm=NORMS[arm],
        scale=lambda n: factor * (2 / n) ** 0.5,
        generator=weights,
    )
    network.to(context.device)
    options = {"rate": learning_rate, "batch_size": batch_size, "steps": steps}
    finite = train(network, x_train, y_train, order=order, **options)
    right = accuracy(network, x_test, y_test)
    return {"accuracy": round(right, 4), "diverged": not finite}


@experiment(
    id="ioffe-dropout",
    title="Regularisation: BN and dropout, alone and together",
    chapter="01-covariate-shift",
    source="ioffe2015",
    sweep={
        "arm": "arms",
        "dropout": "dropouts",
        "learning_rate": "learning_rates",
        "seed": "seeds",
    },
    paired=("arm", "dropout", "learning_rate"),
    data=("digits",),
    threads=1,
    live={
        "arms": ARMS,
        "dropouts": [0.0, 0.5],
        "learning_rates": [0.1],
        "seeds": [0],
        "width": 128,
        "hidden_layers": 2,
        "examples": 300,
        "batch_size": 30,
        "steps": 300,
    },
    paper={
        "arms": ARMS,
        "dropouts": [0.0, 0.2, 0.5],
        "learning_rates": [0.03, 0.1, 0.3],
        "seeds": [0, 1, 2, 3, 4],
        "width": 256,
        "hidden_layers": 2,
        "examples": 300,
        "batch_size": 30,
        "steps": 1500,
    },
)
def ioffe_dropout(
    context,
    arm,
    dropout,
    learning_rate,
    width,
    hidden_layers,
    examples,
    batch_size,
    steps,
):
    """Train on a few random digits, and compare training accuracy with test accuracy.

    The test set is all other digits, so it is large. Dropout draws from torch's global
    generator, which the unit seeds and then restores.
    """
    weights, order, choice, noise = generators(context, 4)
    x_train, y_train, x_test, y_test = standardised(
        context.datasets["digits"], context.device
    )
    x, y = torch.cat([x_train, x_test]), torch.cat([y_train, y_test])
    shuffled = torch.randperm(len(x), generator=choice).to(x.device)
    few, rest = shuffled[:examples], shuffled[examples:]
    widths = [x.shape[1], *[width] * hidden_layers, CLASSES]
    network = feed_forward(
        widths,
        norm=NORMS[arm],
        scale=lambda n: (2 / n) ** 0.5,
        dropout=dropout,
        generator=weights,
    )
    network.to(context.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(noise.initial_seed() % 2**63)
        options = {"rate": learning_rate, "batch_size": batch_size, "steps": steps}
        finite = train(network, x[few], y[few], order=order, **options)
    return {
        "train_accuracy": round(accuracy(network, x[few], y[few]), 4),
        "accuracy": round(accuracy(network, x[rest], y[rest]), 4),
        "diverged": not finite,
    }
