"""The list of data sets: their sources, and how to get their arrays."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from bnlib._extras import extra
from bnlib.data import _formats
from bnlib.data._files import DataFile, Route, is_here, read

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


class Source(NamedTuple):
    """The function that returns a data set's four arrays, and the works to cite.

    If there are no `routes`, the data set ships with scikit-learn.
    """

    citation: str
    arrays: Callable
    routes: tuple = ()

    @property
    def is_here(self):
        return not self.routes or any(map(is_here, self.routes))


def _split(x, y, stratify=None):
    """Split off a quarter of the rows to test on, drawn once and for all."""
    # Importing scikit-learn takes most of a second: only those who load data wait.
    with extra("data"):
        from sklearn.model_selection import train_test_split

    x_train, x_test, y_train, y_test = train_test_split(
        x, y, test_size=0.25, random_state=0, stratify=stratify
    )
    return x_train, y_train, x_test, y_test


def _shipped(name, citation, classes=True, **options):
    def arrays():
        with extra("data"):
            from sklearn import datasets

        x, y = getattr(datasets, f"load_{name}")(return_X_y=True, **options)
        x = x.astype(np.float64)
        if classes:
            return _split(x, y.astype(np.int64), stratify=y)
        return _split(x, y.astype(np.float64))

    return Source(citation, arrays)


def _fetched(name, citation, *routes):
    return Source(citation, partial(read, name, routes), routes)


def _a9a():
    train = "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"
    test = "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"
    files = [("a9a", train), ("a9a.t", test)]
    return Route(
        tuple(DataFile(f"a9a/{n}", sha256, (_LIBSVM + n,)) for n, sha256 in files),
        _formats.a9a,
    )


def _mnist():
    # Checksums of the unpacked files: the packed ones differ between addresses.
    files = {
        "train-images-idx3": "ba891046e6505d7aadcbbe25680a0738"
        "ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1": "65a50cbbf4e906d70832878ad85ccda5"
        "333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3": "0fa7898d509279e482958e8ce81c8e77"
        "db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1": "ff7bcfd416de33731a308c3f266cc351"
        "222c34898ecbeaf847f06e48f7ec33f2",
    }
    return Route(
        tuple(
            DataFile(
                f"mnist/{name}-ubyte.gz",
                sha256,
                tuple(f"{address}{name}-ubyte.gz" for address in _MNIST),
                _formats.unpacked,
            )
            for name, sha256 in files.items()
        ),
        _formats.mnist,
    )


_CIFAR10 = DataFile(
    "cifar10/cifar-10-python.tar.gz",
    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
)
_CIFAR10_SUBSET = DataFile("cifar10/cifar10_10k_2k.npz", None)

_POWER_PLANT_SHA256 = "daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31"
_POWER_PLANT = DataFile("uci/power-plant.txt", _POWER_PLANT_SHA256)
# The archive holds a workbook of five sheets, with the same rows in five orders. There
# is no known checksum of the archive, so the checksum of the table as text decides.
_POWER_PLANT_ARCHIVE = DataFile(
    "uci/combined+cycle+power+plant.zip",
    _POWER_PLANT_SHA256,
    (
        "https://archive.ics.uci.edu/static/public/294/combined+cycle+power+plant.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00294/CCPP.zip",
    ),
    _formats.sheets,
)


def _power_plant(text):
    return _split(*_formats.power_plant(text))


_KRIZHEVSKY = (
    "A. Krizhevsky. Learning multiple layers of features from tiny images. "
    "Technical report, University of Toronto, 2009"
)

SOURCES = {
    "digits": _shipped(
        "digits",
        "E. Alpaydin, C. Kaynak. Optical Recognition of Handwritten Digits. "
        "UCI Machine Learning Repository, 1998. doi:10.24432/C50P49 (its test part)",
    ),
    "breast_cancer": _shipped(
        "breast_cancer",
        "W. Wolberg, O. Mangasarian, N. Street, W. Street. Breast Cancer "
        "Wisconsin (Diagnostic). UCI Machine Learning Repository, 1993. "
        "doi:10.24432/C5DW2B",
    ),
    "diabetes": _shipped(
        "diabetes",
        "B. Efron, T. Hastie, I. Johnstone, R. Tibshirani. Least angle "
        "regression. Annals of Statistics 32(2), 407-499, 2004",
        classes=False,
        # scikit-learn's scaled columns depend on how a machine rounds sums.
        scaled=False,
    ),
    "iris": _shipped(
        "iris",
        "R. A. Fisher. The use of multiple measurements in taxonomic "
        "problems. Annals of Eugenics 7(2), 179-188, 1936. doi:10.24432/C56C76",
    ),
    "wine": _shipped(
        "wine",
        "S. Aeberhard, M. Forina. Wine. UCI Machine Learning Repository, "
        "1992. doi:10.24432/C5PC7J",
    ),
    "a9a": _fetched(
        "a9a",
        "B. Becker, R. Kohavi. Adult. UCI Machine Learning Repository, 1996. "
        "doi:10.24432/C5XW20 (as 123 binary features in the LIBSVM data)",
        _a9a(),
    ),
    "mnist": _fetched(
        "mnist",
        "Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied "
        "to document recognition. Proceedings of the IEEE 86(11), 2278-2324, 1998",
        _mnist(),
    ),
    "cifar10": _fetched(
        "cifar10",
        _KRIZHEVSKY,
        Route((_CIFAR10,), _formats.cifar10),
    ),
    "cifar10_subset": _fetched(
        "cifar10_subset",
        f"{_KRIZHEVSKY} (subset: 10,000 + 2,000)",
        Route((_CIFAR10_SUBSET,), _formats.cifar10_subset_npz),
        Route((_CIFAR10,), _formats.cifar10_subset_cut),
    ),
    "power_plant": _fetched(
        "power_plant",
        "P. Tüfekci, H. Kaya. Combined Cycle Power Plant. UCI Machine Learning "
        "Repository, 2014. doi:10.24432/C5002N",
        Route((_POWER_PLANT,), _power_plant),
        Route((_POWER_PLANT_ARCHIVE,), _power_plant),
    ),
}
