"""One hash for all the code that an experiment's results depend on."""

import hashlib
import inspect

from bnlib._files import PACKAGE
from bnlib.experiments._definitions import Place, reached
from bnlib.experiments._files import canonical


def source_hash(experiment):
    """Return a SHA-256 of the code that the results of an experiment depend on.

    The code is followed from the experiment's function, name by name, through bnlib: a
    definition counts if it may be used, whatever its module. A package that imports by
    names made at run time counts as a whole, with its C. Comments, docstrings, layout,
    annotations, imports, the modules of definitions, and the messages of raise
    statements do not count. Nor do claims, figures and the loading of data, because a
    run keeps the checksums of its data.

    Parameters
    ----------
    experiment : Experiment
        Its function counts whatever its file.

    Returns
    -------
    str
        64 hexadecimal digits, the same under every version of Python.
    """
    function = inspect.unwrap(experiment.function)
    own = Place(function.__code__.co_filename, function.__qualname__.split(".")[0])
    runner = Place(str(PACKAGE / "experiments/_units.py"), "compute_unit")
    run = canonical([experiment.paired, experiment.threads])
    texts = reached([own, runner], PACKAGE)
    return hashlib.sha256("\n".join([run, *sorted(texts)]).encode()).hexdigest()
