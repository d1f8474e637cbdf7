"""Which learning rates a network trains at, with batch normalization and without it."""

import numpy as np

from bnlib.experiments._registry import experiment
from bnlib.experiments._training import generators, standardised
from bnlib.networks import accuracy, mlp, train_classifier

CLASSES = 10
ARMS = ["batch_norm", "plain"]


def _rates(lowest, highest, count):
    """Return learning rates at equal ratios, to two digits."""
    return [float(f"{rate:.2g}") for rate in np.geomspace(lowest, highest, count)]


@experiment(
    id="digits-learning-rate",
    title="Test accuracy on digits against the learning rate, with and without BN",
    chapter="02-transform",
    source="ioffe2015",
    sweep={"arm": "arms", "learning_rate": "learning_rates", "seed": "seeds"},
    paired=("arm",),
    data=("digits",),
    threads=1,
    live={
        "arms": ARMS,
        "learning_rates": _rates(1e-2, 1e2, 9),
        "seeds": [0, 1],
        "width": 64,
        "hidden_layers": 3,
        "epochs": 5,
        "batch_size": 64,
    },
    paper={
        "arms": ARMS,
        "learning_rates": _rates(1e-4, 1e2, 19),
        "seeds": [0, 1, 2, 3, 4],
        "width": 64,
        "hidden_layers": 3,
        "epochs": 20,
        "batch_size": 32,
    },
)
def digits_learning_rate(
    context, arm, learning_rate, width, hidden_layers, epochs, batch_size
):
    """Train one ReLU network with plain SGD; measure it after the last epoch.

    Inputs are standardised pixel by pixel. Both arms start from the same He weights and
    see the same minibatches; incomplete ones are left out. A run whose loss is not
    finite stops after that epoch, is flagged `diverged`, and keeps its accuracy at that
    point, about that of a guess.
    """
    weights, order = generators(context, 2)
    x_train, y_train, x_test, y_test = standardised(
        context.datasets["digits"], context.device
    )
    widths = [x_train.shape[1], *[width] * hidden_layers, CLASSES]
    network = mlp(widths, batch_norm=arm == "batch_norm", generator=weights)
    network.to(context.device)
    finite = train_classifier(
        network,
        x_train,
        y_train,
        learning_rate=learning_rate,
        epochs=epochs,
        batch_size=batch_size,
        generator=order,
    )
    right = accuracy(network, x_test, y_test)
    return {"accuracy": round(right, 4), "diverged": not finite}
