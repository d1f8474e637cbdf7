"""One hash for all the code that an experiment's results depend on."""

import hashlib
import inspect

from bnlib._files import PACKAGE
from bnlib.experiments._definitions import Place, reached
from bnlib.experiments._files import canonical


def source_hash(experiment):
    """Return a SHA-256 of the code that the results of an experiment depend on.

    From its function the code is followed from name to name through bnlib: a
    definition counts if it may be used, wherever it stands. A package that imports by
    names made at run time counts as a whole, its C too. Comments, docstrings, layout,
    annotations, imports, the modules that definitions stand in, and what errors say
    do not count, nor do claims, figures and what loads data, of which a run keeps the
    checksums.

    Parameters
    ----------
    experiment : Experiment
        Its function counts wherever its file is.

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
