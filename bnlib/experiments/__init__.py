"""The book's experiments: run live at a small scale, recorded at paper scale.

An experiment is a function that computes one unit (say one network, one learning rate
and one seed), with the parameters that span its units. Each file of this folder whose
name has no leading underscore holds experiments; a new file needs no other
registration.
"""

from bnlib.experiments._records import RECORDS, Record, load_record
from bnlib.experiments._registry import (
    Context,
    Experiment,
    all_experiments,
    experiment,
    get,
)
from bnlib.experiments._runner import AlreadyRunning, run

__all__ = [
    "RECORDS",
    "AlreadyRunning",
    "Context",
    "Experiment",
    "Record",
    "all_experiments",
    "experiment",
    "get",
    "load_record",
    "run",
]
