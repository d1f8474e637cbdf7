"""bnlib.data: the real files, where `BNLIB_DATA` names a folder that has them."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from bnlib import data
from bnlib.data import _formats

FOLDER = Path(os.environ.get("BNLIB_DATA") or "none")


def needs(path):
    """Skip a test where the data folder lacks a file."""
    return pytest.mark.skipif(
        not (FOLDER / path).is_file(), reason=f"no {path} in the folder BNLIB_DATA"
    )


@needs("a9a/a9a.t")
def test_a9a_has_the_known_rows_labels_and_features():
    a9a = data.load("a9a")
    assert (a9a.x_train.shape, a9a.x_test.shape) == ((32_561, 123), (16_281, 123))
    assert a9a.x_train.format == a9a.x_test.format == "csr"
    assert a9a.x_train.dtype == a9a.x_test.dtype == np.float64
    assert a9a.x_train.nnz == 451_592
    assert set(a9a.x_train.data) == set(a9a.x_test.data) == {1.0}
    in_a_row = np.diff(a9a.x_train.indptr)
    assert (in_a_row.min(), in_a_row.max()) == (11, 14)
    assert a9a.x_test.indices.max() == 121
    assert np.unique(a9a.y_train, return_counts=True)[1].tolist() == [24_720, 7841]
    assert np.unique(a9a.y_test, return_counts=True)[1].tolist() == [12_435, 3846]
    assert set(a9a.y_train) == {-1, 1}
    assert a9a.y_train.dtype == a9a.y_test.dtype == np.int64


@needs("mnist/train-images-idx3-ubyte.gz")
def test_mnist_has_the_known_size_mean_and_spread():
    mnist = data.load("mnist")
    assert (mnist.x_train.shape, mnist.x_test.shape) == (
        (60_000, 28, 28, 1),
        (10_000, 28, 28, 1),
    )
    assert mnist.x_train.dtype == mnist.x_test.dtype == np.uint8
    assert mnist.y_train.dtype == mnist.y_test.dtype == np.int64
    grey = mnist.x_train / np.float32(255)
    np.testing.assert_allclose(grey.mean(), 0.13066, atol=5e-6)
    np.testing.assert_allclose(grey.std(), 0.30811, atol=5e-6)
    assert np.unique(mnist.y_train).tolist() == list(range(10))
    # Ink is on the paper, not on its edge.
    assert mnist.x_train[:, 10:18, 10:18].mean() > 20 * mnist.x_train[:, :3].mean()


@needs("cifar10/cifar10_10k_2k.npz")
def test_the_cifar_subset_is_that_of_the_rule_by_which_it_is_cut():
    subset = data.load("cifar10_subset")
    with np.load(FOLDER / "cifar10/cifar10_10k_2k.npz", allow_pickle=False) as stored:
        train, ranks = stored["train_index"], stored["test_rank_in_class"]
    np.testing.assert_array_equal(_formats.subset_train_positions(), train)
    # A test batch has the stored labels at the stored ranks; the others do not matter.
    whole = np.tile(np.arange(10), 1000)
    kept = _formats.subset_test_positions(whole)
    np.testing.assert_array_equal(whole[kept], subset.y_test)
    np.testing.assert_array_equal(kept // 10, ranks)
    assert (subset.x_train.shape, subset.x_test.shape) == (
        (10_000, 32, 32, 3),
        (2000, 32, 32, 3),
    )
    assert subset.x_train.dtype == subset.x_test.dtype == np.uint8
    assert subset.y_train.dtype == subset.y_test.dtype == np.int64
    assert "subset: 10,000 + 2,000" in subset.source


@needs("uci/power-plant.txt")
def test_the_power_plant_is_split_as_the_other_tables_are():
    plant = data.load("power_plant")
    lines = (FOLDER / "uci/power-plant.txt").read_text().splitlines()
    table = np.array([line.split() for line in lines], dtype=float)
    assert table.shape == (9568, 5)
    train, test = train_test_split(table, test_size=0.25, random_state=0)
    for found, wanted in [
        (plant.x_train, train[:, :4]),
        (plant.y_train, train[:, 4]),
        (plant.x_test, test[:, :4]),
        (plant.y_test, test[:, 4]),
    ]:
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, wanted)


@needs("uci/power-plant.txt")
def test_the_power_plants_numbers_written_again_are_its_file():
    # So that the workbook's numbers can be compared with the checksum of the text.
    raw = (FOLDER / "uci/power-plant.txt").read_bytes()
    rows = np.loadtxt(FOLDER / "uci/power-plant.txt")
    cells = "".join(
        "<row>" + "".join(f"<c><v>{float(value)!r}</v></c>" for value in row) + "</row>"
        for row in rows
    )
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    assert _formats._sheet_text(f'<a xmlns="{space}">{cells}</a>') == raw


@pytest.mark.parametrize(
    ("name", "path", "start"),
    [
        ("a9a", "a9a/a9a.t", "50f59279"),
        ("mnist", "mnist/train-images-idx3-ubyte.gz", "7886a375"),
        ("cifar10_subset", "cifar10/cifar10_10k_2k.npz", "d9ba06c7"),
        ("power_plant", "uci/power-plant.txt", "92c27062"),
    ],
)
def test_checksums_are_those_that_records_hold(name, path, start):
    if not (FOLDER / path).is_file():
        pytest.skip(f"no {path} in the folder BNLIB_DATA")
    assert data.checksum(data.load(name))[:8] == start


@needs("cifar10/cifar10_10k_2k.npz")
def test_the_pixels_of_the_subset_have_the_published_sums():
    subset = data.load("cifar10_subset")
    sums = [hashlib.sha256(x).hexdigest() for x in (subset.x_train, subset.x_test)]
    assert [sum[:16] for sum in sums] == ["708a744214a7830e", "7f2043426ab6438b"]
