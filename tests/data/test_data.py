"""bnlib.data: fixed splits of the data sets that scikit-learn ships."""

import numpy as np
import pytest
from data_server import sorted_rows
from refusals import refused
from sklearn import datasets

from bnlib import data

SHAPES = {
    "digits": (1797, 64),
    "breast_cancer": (569, 30),
    "diabetes": (442, 10),
    "iris": (150, 4),
    "wine": (178, 13),
}
CLASSES = [name for name in SHAPES if name != "diabetes"]


@pytest.mark.parametrize("name", SHAPES)
def test_a_quarter_of_the_rows_is_held_out(name):
    dataset = data.load(name)
    rows, features = SHAPES[name]
    held_out = -(-rows // 4)
    assert dataset.x_train.shape == (rows - held_out, features)
    assert dataset.x_test.shape == (held_out, features)
    assert dataset.y_train.shape == (rows - held_out,)
    assert dataset.y_test.shape == (held_out,)


@pytest.mark.parametrize("name", SHAPES)
def test_each_row_of_the_original_is_in_one_part_with_its_target(name):
    options = {"scaled": False} if name == "diabetes" else {}
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True, **options)
    dataset = data.load(name)
    original = np.column_stack([x, y])
    assert sorted_rows(dataset) == sorted(map(tuple, original))


@pytest.mark.parametrize("name", CLASSES)
def test_both_parts_hold_the_classes_in_equal_proportion(name):
    dataset = data.load(name)
    whole = np.bincount(np.concatenate([dataset.y_train, dataset.y_test]))
    held_out = np.bincount(dataset.y_test)
    expected = whole * dataset.y_test.size / whole.sum()
    np.testing.assert_allclose(held_out, expected, atol=1)


def test_features_are_float64_and_targets_labels_but_for_diabetes():
    for name in SHAPES:
        dataset = data.load(name)
        target = np.float64 if name == "diabetes" else np.int64
        assert dataset.x_train.dtype == dataset.x_test.dtype == np.float64
        assert dataset.y_train.dtype == dataset.y_test.dtype == target


def test_checksums_are_those_of_the_split_that_the_records_were_made_on():
    starts = {name: data.checksum(data.load(name))[:8] for name in SHAPES}
    assert starts == {
        "digits": "209a647f",
        "breast_cancer": "fbc8d799",
        "diabetes": "9e50b683",
        "iris": "8ad389b7",
        "wine": "e55c00af",
    }


def test_checksum_depends_on_values_dtypes_shapes_and_order():
    iris = data.load("iris")
    nudged = iris.x_train.copy()
    nudged[0, 0] = np.nextafter(nudged[0, 0], 9)
    others = [
        iris._replace(x_train=nudged),
        iris._replace(y_test=iris.y_test.view(np.uint64)),
        iris._replace(x_train=iris.x_train.reshape(4, -1)),
        iris._replace(x_train=iris.x_train[::-1]),
    ]
    checksums = {data.checksum(other) for other in [iris, *others]}
    assert len(checksums) == 5


def test_checksum_does_not_depend_on_memory_layout_or_byte_order():
    iris = data.load("iris")
    stored_otherwise = iris._replace(
        x_train=np.asfortranarray(iris.x_train),
        y_train=iris.y_train.astype(iris.y_train.dtype.newbyteorder(">")),
    )
    assert data.checksum(stored_otherwise) == data.checksum(iris)


def test_two_loads_share_no_memory():
    first = data.load("iris")
    first.x_train[:] = 0
    assert data.load("iris").x_train.any()


@pytest.mark.parametrize("name", SHAPES)
def test_source_is_a_citation_with_a_year(name):
    dataset = data.load(name)
    assert dataset.name == name
    assert any(year in dataset.source for year in map(str, range(1930, 2030)))


def test_an_unknown_name_is_refused_with_the_names_there_are():
    with refused(ValueError, "data set", "'cats'", "digits, breast_cancer"):
        data.load("cats")


def test_what_ships_with_scikit_learn_is_available():
    assert set(SHAPES) <= set(data.available()) <= set(data.NAMES)
