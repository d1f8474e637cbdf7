"""Compute one unit of an experiment, with everything that the runner adds."""

import json

import numpy as np

from bnlib._extras import extra
from bnlib.experiments._files import canonical, fingerprint
from bnlib.experiments._registry import Context


def progress(units, name):
    """Go through units of an experiment, with a progress bar on a terminal."""
    with extra("data"):
        from tqdm import tqdm

    return tqdm(units, desc=name, unit="unit", disable=None)


def compute_unit(experiment, parameters, unit, device, datasets):
    """Return the results of one unit, plain values by name.

    Parameters
    ----------
    experiment : Experiment
    parameters : dict
        The parameters of the whole run.
    unit : dict
        The swept values of this unit.
    device : torch.device
    datasets : dict
        The experiment's data sets by name.

    Raises
    ------
    ValueError
        If the experiment returns something that JSON cannot hold, or a swept name.
    """
    context = Context(device, _seed_sequence(experiment, unit), datasets)
    shared = set(parameters) - set(experiment.sweep.values())
    arguments = unit | {name: parameters[name] for name in shared}
    del arguments["seed"]
    try:
        result = experiment.function(context, **arguments)
    except Exception as error:
        error.add_note(f"in {experiment.id} at {unit}")
        raise
    return _plain(result, unit, experiment.id)


def _seed_sequence(experiment, unit):
    """Return the unit's random stream, which only paired arguments do not change."""
    own = {k: v for k, v in unit.items() if k not in experiment.paired}
    entropy = int(fingerprint([experiment.id, own]), 16)
    return np.random.SeedSequence(entropy)


def _plain(result, unit, id):
    """Return the result as JSON would give it back, so resuming changes nothing."""
    try:
        plain = json.loads(canonical(result))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{id} at {unit} returned {result!r}: {error}") from None
    if not isinstance(plain, dict) or plain.keys() & unit.keys():
        raise ValueError(
            f"{id} at {unit} returned {result!r}, not a dict with names of its own"
        )
    return plain
