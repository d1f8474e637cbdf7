"""Data sets, each with one fixed split into training and test rows.

Some ship with scikit-learn and need no network; the larger ones are downloaded
from their official addresses once. Values are as measured: nothing is scaled or
centred.

`load` looks for files in the folder that the environment variable `BNLIB_DATA` names,
then in the cache: `$BNLIB_CACHE/data`, or the system's folder for caches. Downloads go
into the cache.
"""

import hashlib
from typing import Any, NamedTuple

import numpy as np

from bnlib.data._sets import SOURCES

__all__ = ["NAMES", "Dataset", "available", "checksum", "load"]

#: The data sets that `load` knows.
NAMES = tuple(SOURCES)


class Dataset(NamedTuple):
    """Features and targets of both parts of a data set, and its source.

    `x_train` and `x_test` hold one example per row: an array of shape (n, d), a SciPy
    CSR matrix of that shape, or images (n, height, width, channels). `y_train` and
    `y_test` are arrays of shape (n,). `source` is a citation.
    """

    x_train: Any
    y_train: np.ndarray
    x_test: Any
    y_test: np.ndarray
    name: str
    source: str


def available() -> list[str]:
    """Return the names of the data sets that `load` needs no download for.

    It looks for the files and does not read them: `load` checks their content.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import bnlib
    >>> "digits" in bnlib.data.available()
    True
    """
    return [name for name, source in SOURCES.items() if source.is_here]


def load(name: str) -> Dataset:
    """Load a data set by name, downloading it if it is not on this machine.

    ==============  ======  ==========  ===========================================
    name            rows    x           values
    ==============  ======  ==========  ===========================================
    digits          1797    64          8 x 8 pixels row by row, whole numbers from
                                        0 (no ink) to 16; the target is the digit
    breast_cancer   569     30          sizes and shapes of cell nuclei, in pixels
                                        and ratios; 0 malignant, 1 benign
    diabetes        442     10          age (years), sex (1 or 2), body mass index,
                                        blood pressure (mm Hg), six blood values;
                                        the target is the disease's progress in a
                                        year, 25 to 346
    iris            150     4           lengths and widths of sepal and petal, cm;
                                        three species
    wine            178     13          chemical analysis; three growers
    a9a             48,842  123         facts about a person, 0 or 1, sparse; 1 if
                                        the income is over 50,000 dollars, else -1
    mnist           70,000  28, 28, 1   grey values, 0 (no ink) to 255; the digit
    cifar10         60,000  32, 32, 3   red, green, blue, 0 to 255; 0 to 9 for
                                        airplane, automobile, bird, cat, deer, dog,
                                        frog, horse, ship, truck
    cifar10_subset  12,000  32, 32, 3   10,000 training and 2,000 test images of
                                        cifar10
    power_plant     9568    4           temperature (°C), exhaust vacuum (cm Hg),
                                        pressure (mbar), relative humidity (%); the
                                        target is the electrical output, MW
    ==============  ======  ==========  ===========================================

    If the source has a test part (a9a, mnist, cifar10), it is the test part here.
    Otherwise the test part is a quarter of the rows, drawn once and for all; if the
    target is a class, both parts hold the classes in equal proportion.

    Downloads, in MB: a9a 3.5, mnist 12, cifar10 and its subset 170, power_plant
    about 4. Every file that is read, downloaded or not, is checked against a stored
    SHA-256 each time.

    cifar10_subset is cut from the official archive by a fixed rule, or read from
    `cifar10/cifar10_10k_2k.npz` in a data folder. power_plant is one sheet of the
    workbook in UCI's archive, the one with the rows of the text file
    `uci/power-plant.txt`; if a data folder has this file, it is read instead.

    UCI's data are under CC BY 4.0, MNIST under CC BY-SA 3.0; CIFAR-10 states no
    licence.

    Parameters
    ----------
    name : str
        A name from the table.

    Returns
    -------
    Dataset
        Float64 features of shape (n, d), for a9a a SciPy CSR matrix; uint8 images
        of the shape (n, height, width, channels). Int64 labels, or float64 targets
        for diabetes and power_plant.

    Raises
    ------
    ValueError
        If there is no data set of that name, or a file on this machine has the wrong
        content.
    OSError
        If a file is not on this machine and cannot be downloaded, or the cache cannot
        be written to. The message says what to do.

    Examples
    --------
    >>> import bnlib
    >>> digits = bnlib.data.load("digits")
    >>> digits.x_train.shape, digits.x_test.shape
    ((1347, 64), (450, 64))
    >>> float(digits.x_train.min()), float(digits.x_train.max())
    (0.0, 16.0)
    """
    if name not in NAMES:
        raise ValueError(f"no data set {name!r}; there are {', '.join(NAMES)}")
    source = SOURCES[name]
    return Dataset(*source.arrays(), name, source.citation)


def checksum(dataset: Dataset) -> str:
    """Return a SHA-256 of a data set's four arrays, the same on every machine.

    It covers dtypes, shapes and values (as little-endian bytes) of `x_train`,
    `y_train`, `x_test` and `y_test`, in that order. For a sparse matrix it covers the
    CSR form without stored zeros. Records contain it.

    Parameters
    ----------
    dataset : Dataset

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> import bnlib
    >>> bnlib.data.checksum(bnlib.data.load("iris"))[:8]
    '8ad389b7'
    """
    digest = hashlib.sha256()
    for array in dataset[:4]:
        if hasattr(array, "tocsr"):
            digest.update(f"csr {array.shape}".encode())
        for part in _dense_parts(array):
            little = part.astype(part.dtype.newbyteorder("<"), copy=False)
            digest.update(f"{little.dtype.str} {little.shape}".encode())
            digest.update(little.tobytes())
    return digest.hexdigest()


def _dense_parts(array):
    """Return the array, or the three arrays of a sparse matrix in its one CSR form."""
    if not hasattr(array, "tocsr"):
        return [array]
    csr = array.tocsr(copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    # The width of SciPy's indices depends on how the matrix was made.
    return [csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data]
