"""Parse the contents of data files into arrays."""

import gzip
import hashlib
import io
import pickle
import re
import tarfile
import zipfile
import zlib
from xml.etree import ElementTree

import numpy as np

from bnlib._extras import extra

# LIBSVM's index stops at 122 in the test part: the width must be given.
A9A_FEATURES = 123


def unpacked(raw):
    """Return the content of a gz file, even if a server has unpacked it already."""
    return (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw,)


def a9a(train, test):
    """Parse LIBSVM's text: features (n, 123) as CSR float64, labels +-1 as int64."""
    with extra("data"):
        from sklearn.datasets import load_svmlight_file

    parts = []
    for content in (train, test):
        x, y = load_svmlight_file(
            io.BytesIO(content), n_features=A9A_FEATURES, zero_based=False
        )
        parts += [x, y.astype(np.int64)]
    return parts


def mnist(train_images, train_labels, test_images, test_labels):
    """Parse four idx files: images (n, 28, 28, 1) as uint8, labels as int64."""
    return [
        _idx(train_images)[..., None],
        _idx(train_labels).astype(np.int64),
        _idx(test_images)[..., None],
        _idx(test_labels).astype(np.int64),
    ]


def _idx(content):
    """Parse an idx file of bytes: four bytes, the last the rank; lengths; values."""
    rank = content[3]
    shape = np.frombuffer(content, ">i4", count=rank, offset=4)
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * rank)
    return values.reshape(shape).copy()


# CIFAR-10: five batches to train on and one to test on, pickled by Python 2.

_BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler of arrays and plain values alone: others could run any code."""

    def find_class(self, module, name):
        known = {
            ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): _dtype,
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of an array")
        return known[module, name]


def _dtype(code, align, copy):
    """Return NumPy's dtype; some versions warn of Python 2's numbers for flags."""
    return np.dtype(code.decode("ascii"), align=bool(align), copy=bool(copy))


def cifar10(archive):
    """Unpack the official archive: images (n, 32, 32, 3) as uint8, labels int64."""
    found = {}
    # Read in the archive's order: going back means unpacking it again.
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as members:
        for member in members:
            name = member.name.rpartition("/")[2]
            if name in _BATCHES:
                file = members.extractfile(member)
                found[name] = _ArrayUnpickler(file, encoding="bytes").load()
    batches = [found[name] for name in _BATCHES]
    images = [_images(batch[b"data"]) for batch in batches]
    labels = [np.array(batch[b"labels"], dtype=np.int64) for batch in batches]
    return [
        np.concatenate(images[:5]),
        np.concatenate(labels[:5]),
        images[5],
        labels[5],
    ]


def _images(rows):
    """Turn rows of 1024 red, green and blue values each into images, channels last."""
    planes = rows.reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


#: SHA-256 of the raw bytes of the subset's arrays, all uint8.
CIFAR10_SUBSET = {
    "x_train": "708a744214a7830ea9b0ab9625469fd83b49cb42d85e0a52f7e96f8fcbac1f72",
    "y_train": "d77b09c6add4f415ed11a307ef0857afa9bf8231c130398ffb5fac6c11a5b932",
    "x_test": "7f2043426ab6438bb7df84c9ef9ebabbbe3c8659ed4dc2e41409aee9e9dedc4d",
    "y_test": "377062008171287b50e1c598a9a3401cb7a360276cd751d0bc28af977854ec96",
}


def cifar10_subset_npz(content):
    """Read the subset from its npz file."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            arrays = [stored[key] for key in CIFAR10_SUBSET]
    except (EOFError, KeyError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"not an npz file of the subset: {error}") from error
    return _subset_checked(arrays)


def cifar10_subset_cut(archive):
    """Cut the subset from the official archive."""
    x_train, y_train, x_test, y_test = cifar10(archive)
    train, test = subset_train_positions(), subset_test_positions(y_test)
    return _subset_checked([x_train[train], y_train[train], x_test[test], y_test[test]])


def _subset_checked(arrays):
    for (key, sha256), array in zip(CIFAR10_SUBSET.items(), arrays, strict=True):
        if hashlib.sha256(array.astype(np.uint8).tobytes()).hexdigest() != sha256:
            raise ValueError(f"{key} is not that of the subset, sha256 {sha256}")
    x_train, y_train, x_test, y_test = arrays
    return [x_train, y_train.astype(np.int64), x_test, y_test.astype(np.int64)]


def subset_train_positions():
    """Return the positions of the subset's 10,000 training images in batches 1 to 5."""
    out = (4298, 5929, 5949, 6825, 7066, 7237, 7248, 7630, 8006, 8831, 8968, 9415)
    return np.setdiff1d(np.arange(10_012), out)


def subset_test_positions(labels):
    """Return the positions of the subset's test images in the test batch.

    ``labels`` are those of the test batch. The subset has the first 200 images of each
    class, except for class 8: the first 203 without three of them. Their order is the
    first of every class, then the second of every class, and so on.
    """
    ranks = np.empty_like(labels)
    for label in range(10):
        of_class = labels == label
        ranks[of_class] = np.arange(of_class.sum())
    in_eight = (labels == 8) & (ranks < 203) & ~np.isin(ranks, (135, 151, 155))
    kept = np.flatnonzero(in_eight | (labels != 8) & (ranks < 200))
    return kept[np.lexsort((labels[kept], ranks[kept]))]


# The power plant: a table as text, or the workbook that UCI serves.

_WORKBOOK = "CCPP/Folds5x2_pp.xlsx"
_XML = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def sheets(raw):
    """Yield each sheet of the official workbook as text: five columns, tabs."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        workbook = io.BytesIO(archive.read(_WORKBOOK))
    with zipfile.ZipFile(workbook) as parts:
        for name in parts.namelist():
            if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name):
                yield _sheet_text(parts.read(name))


def _sheet_text(xml):
    lines = []
    for row in ElementTree.fromstring(xml).iter(f"{_XML}row"):
        # The head row's cells hold words; numbers have no type, or the type "n".
        values = [
            float(cell.findtext(f"{_XML}v"))
            for cell in row
            if cell.get("t", "n") == "n" and cell.find(f"{_XML}v") is not None
        ]
        if values:
            lines.append("\t".join(f"{value:g}" for value in values) + "\n")
    return "".join(lines).encode()


def power_plant(text):
    """Parse the table: features (9568, 4) and target (9568,), float64."""
    table = np.loadtxt(io.BytesIO(text))
    return table[:, :-1].copy(), table[:, -1].copy()
