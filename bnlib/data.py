"""Data sets, each with one fixed split into training and test rows.

Those here ship with scikit-learn and need no network. Values are as measured:
nothing is scaled or centred.
"""

import hashlib
from functools import partial
from typing import NamedTuple

import numpy as np


class Dataset(NamedTuple):
    """Features and targets of both parts of a data set, and where it is from.

    `x_train` and `x_test` have shape (n, d), one row an example; `y_train` and
    `y_test` have shape (n,). `source` is a citation.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    name: str
    source: str


def _shipped(name, classes, source, **options):
    # Importing scikit-learn takes most of a second, which readers of records
    # need not wait for.
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True, **options)
    parts = train_test_split(
        x.astype(np.float64),
        y.astype(np.int64 if classes else np.float64),
        test_size=0.25,
        random_state=0,
        stratify=y if classes else None,
    )
    x_train, x_test, y_train, y_test = parts
    return Dataset(x_train, y_train, x_test, y_test, name, source)


# One entry a data set: a name and a function that returns its Dataset.
_LOADERS = {
    "digits": partial(
        _shipped,
        "digits",
        classes=True,
        source="E. Alpaydin, C. Kaynak. Optical Recognition of Handwritten Digits. "
        "UCI Machine Learning Repository, 1998. doi:10.24432/C50P49 (its test part)",
    ),
    "breast_cancer": partial(
        _shipped,
        "breast_cancer",
        classes=True,
        source="W. Wolberg, O. Mangasarian, N. Street, W. Street. Breast Cancer "
        "Wisconsin (Diagnostic). UCI Machine Learning Repository, 1993. "
        "doi:10.24432/C5DW2B",
    ),
    "diabetes": partial(
        _shipped,
        "diabetes",
        classes=False,
        source="B. Efron, T. Hastie, I. Johnstone, R. Tibshirani. Least angle "
        "regression. Annals of Statistics 32(2), 407-499, 2004",
        # scikit-learn's scaled columns depend on how a machine rounds a sum.
        scaled=False,
    ),
    "iris": partial(
        _shipped,
        "iris",
        classes=True,
        source="R. A. Fisher. The use of multiple measurements in taxonomic "
        "problems. Annals of Eugenics 7(2), 179-188, 1936. doi:10.24432/C56C76",
    ),
    "wine": partial(
        _shipped,
        "wine",
        classes=True,
        source="S. Aeberhard, M. Forina. Wine. UCI Machine Learning Repository, "
        "1992. doi:10.24432/C5PC7J",
    ),
}


#: The data sets that `load` knows.
NAMES = tuple(_LOADERS)


def available():
    """The data sets that `load` gives without a download.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import bnlib
    >>> "digits" in bnlib.data.available()
    True
    """
    return list(NAMES)


def load(name):
    """Load a data set by name.

    A quarter of the rows, drawn once and for all, is the test part; where the
    target is a class, both parts hold the classes in equal proportion.

    =============  ====  ==  ===================================================
    name           rows  d   values
    =============  ====  ==  ===================================================
    digits         1797  64  8 x 8 pixels row by row, whole numbers from 0 (no
                             ink) to 16; the target is the digit, 0 to 9
    breast_cancer  569   30  sizes and shapes of cell nuclei, in pixels and
                             ratios; 0 malignant, 1 benign
    diabetes       442   10  age (years), sex (1 or 2), body mass index, blood
                             pressure (mm Hg), six blood values; the target is
                             the disease's progress in a year, 25 to 346
    iris           150   4   lengths and widths of sepal and petal, cm; three
                             species
    wine           178   13  chemical analysis; three growers
    =============  ====  ==  ===================================================

    Parameters
    ----------
    name : str
        A name of the table.

    Returns
    -------
    Dataset
        Float64 features of shape (n, d); int64 labels, or float64 targets for
        diabetes.

    Raises
    ------
    ValueError
        If there is no data set of that name.

    Examples
    --------
    >>> import bnlib
    >>> digits = bnlib.data.load("digits")
    >>> digits.x_train.shape, digits.x_test.shape
    ((1347, 64), (450, 64))
    >>> float(digits.x_train.min()), float(digits.x_train.max())
    (0.0, 16.0)
    """
    if name not in _LOADERS:
        raise ValueError(f"no data set {name!r}; there are {', '.join(NAMES)}")
    return _LOADERS[name]()


def checksum(dataset):
    """SHA-256 of a data set's four arrays, the same on every machine.

    It covers dtypes, shapes and values (as little-endian bytes) of `x_train`,
    `y_train`, `x_test` and `y_test`, in that order. Records carry it.

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
        array = array.astype(array.dtype.newbyteorder("<"))
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
