"""bnlib.data: the formats that data sets come in, read into arrays; their checksum."""

import functools
import gzip
import hashlib
import io
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import scipy.sparse
from refusals import refused

from bnlib import data
from bnlib.data import _formats, _sets
from bnlib.data._files import DataFile

# a9a, in LIBSVM's text.


def test_libsvm_text_gives_sparse_rows_of_123_features_in_both_parts():
    train = b"-1 3:1 11:1 123:1 \n+1 1:1 \n"
    test = b"+1 2:1 122:1 \n"
    x_train, y_train, x_test, y_test = _formats.a9a(train, test)
    assert (x_train.format, x_train.dtype, x_train.shape) == ("csr", float, (2, 123))
    assert (x_test.format, x_test.dtype, x_test.shape) == ("csr", float, (1, 123))
    # Its indices count from 1, NumPy's from 0.
    assert np.argwhere(x_train.toarray()).tolist() == [
        [0, 2],
        [0, 10],
        [0, 122],
        [1, 0],
    ]
    assert np.argwhere(x_test.toarray()).tolist() == [[0, 1], [0, 121]]
    assert x_train.data.tolist() == [1.0] * 4
    assert (y_train.dtype, y_train.tolist()) == (np.int64, [-1, 1])
    assert (y_test.dtype, y_test.tolist()) == (np.int64, [1])


def test_a_part_whose_lowest_feature_is_not_the_first_is_not_shifted():
    x_train, _, _, _ = _formats.a9a(b"+1 5:1\n", b"+1 1:1\n")
    assert np.argwhere(x_train.toarray()).tolist() == [[0, 4]]


# MNIST, in idx files.


def idx(values):
    lengths = b"".join(length.to_bytes(4, "big") for length in values.shape)
    return bytes([0, 0, 8, values.ndim]) + lengths + bytes(values.ravel().tolist())


def test_idx_files_give_images_with_a_channel_and_int64_labels():
    images = np.arange(2 * 28 * 28).reshape(2, 28, 28) % 256
    labels = np.array([7, 9])
    arrays = _formats.mnist(idx(images), idx(labels), idx(images[:1]), idx(labels[:1]))
    assert [array.shape for array in arrays] == [
        (2, 28, 28, 1),
        (2,),
        (1, 28, 28, 1),
        (1,),
    ]
    assert [array.dtype for array in arrays] == [np.uint8, np.int64] * 2
    np.testing.assert_array_equal(arrays[0][..., 0], images)
    np.testing.assert_array_equal(arrays[1], labels)
    np.testing.assert_array_equal(arrays[2][..., 0], images[:1])
    arrays[0][:] = 0


# CIFAR-10: Python 2 wrote the batches, so they are written here byte by byte.

CLASSES = 10
SIZES = {**{f"data_batch_{n}": 3 for n in (3, 4, 5)}, "test_batch": 2500}
SIZES |= {"data_batch_1": 10_000, "data_batch_2": 20}


def string(text):
    return b"T" + len(text).to_bytes(4, "little") + text


def whole_number(value):
    return b"J" + value.to_bytes(4, "little", signed=True)


def python2_batch(rows, labels):
    """A dict of labels and a uint8 array, as Python 2 and its NumPy pickled it."""
    dtype = (
        b"cnumpy\ndtype\n"
        + string(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + string(b"|")
        + b"NNN"
        + whole_number(-1) * 2
        + b"K\x00tb"
    )
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        + string(b"b")
        + b"\x87R(K\x01"
        + b"".join(map(whole_number, rows.shape))
        + b"\x86"
        + dtype
        + b"\x89"
        + string(rows.tobytes())
        + b"tb"
    )
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    entries = string(b"data") + array + string(b"labels") + listed
    return b"\x80\x02}(" + entries + b"u."


@functools.cache
def expected(name):
    """Images of a batch, channels last, and labels: all places differ, by a rule."""
    batch = sorted(SIZES).index(name)
    number = np.arange(SIZES[name])
    of_image = (7 * batch + 3 * number + 17 * (number // 256)) % 256
    row, column, channel = np.ogrid[:32, :32, :3]
    of_place = (5 * row + 11 * column + 101 * channel) % 256
    images = of_image.astype(np.uint8)[:, None, None, None] + of_place.astype(np.uint8)
    return images, (number + number // 7 + batch) % CLASSES


def put_in(archive, name, content):
    entry = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


@pytest.fixture(scope="module")
def cifar_archive():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        put_in(archive, "batches.meta", b"not a batch")
        # The official archive does not hold the batches in order either.
        for name in SIZES:
            images, labels = expected(name)
            rows = np.moveaxis(images, 3, 1).reshape(SIZES[name], 3 * 1024)
            put_in(archive, name, python2_batch(rows, labels.tolist()))
    return packed.getvalue()


@pytest.mark.filterwarnings("ignore:dtype.*align")
def test_python_2_pickles_of_these_tests_are_what_pickle_reads():
    rows = np.arange(6, dtype=np.uint8).reshape(2, 3)
    pickled = python2_batch(rows, [4, 5])
    read = pickle.loads(pickled, encoding="bytes")
    np.testing.assert_array_equal(read[b"data"], rows)
    assert (read[b"data"].dtype, read[b"labels"]) == (np.uint8, [4, 5])


def test_the_official_cifar_archive_gives_batches_in_order_channels_last(cifar_archive):
    parse = _sets.SOURCES["cifar10"].routes[0].parse
    x_train, y_train, x_test, y_test = parse(cifar_archive)
    train = [expected(f"data_batch_{number}") for number in range(1, 6)]
    np.testing.assert_array_equal(x_train, np.concatenate([x for x, _ in train]))
    np.testing.assert_array_equal(y_train, np.concatenate([y for _, y in train]))
    np.testing.assert_array_equal(x_test, expected("test_batch")[0])
    np.testing.assert_array_equal(y_test, expected("test_batch")[1])
    assert (x_train.dtype, x_test.dtype) == (np.uint8, np.uint8)
    assert (y_train.dtype, y_test.dtype) == (np.int64, np.int64)
    assert x_train.flags["C_CONTIGUOUS"]
    x_train[0] = 0


@functools.cache
def subset_by_hand():
    """The subset of these tests' images, image by image."""
    left_out = {4298, 5929, 5949, 6825, 7066, 7237, 7248, 7630, 8006, 8831, 8968, 9415}
    first, second = expected("data_batch_1"), expected("data_batch_2")
    images, labels = (np.concatenate(pair) for pair in zip(first, second))
    train = [number for number in range(10_012) if number not in left_out]
    test_images, test_labels = expected("test_batch")
    of_class = [np.flatnonzero(test_labels == one) for one in range(CLASSES)]
    test = []
    for rank in range(203):
        for one in range(CLASSES):
            if rank not in {135, 151, 155} if one == 8 else rank < 200:
                test.append(of_class[one][rank])
    return images[train], labels[train], test_images[test], test_labels[test]


@pytest.fixture
def stand_in_hashes(monkeypatch):
    """The checksums of the subset of these tests' images."""
    hashes = {
        key: hashlib.sha256(array.astype("u1").tobytes()).hexdigest()
        for key, array in zip(_formats.CIFAR10_SUBSET, subset_by_hand(), strict=True)
    }
    monkeypatch.setattr(_formats, "CIFAR10_SUBSET", hashes)


def test_the_subset_is_cut_from_the_official_archive(cifar_archive, stand_in_hashes):
    cut = _sets.SOURCES["cifar10_subset"].routes[-1].parse(cifar_archive)
    assert [array.shape[0] for array in cut] == [10_000, 10_000, 2000, 2000]
    for found, wanted in zip(cut, subset_by_hand(), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert [array.dtype for array in cut] == [np.uint8, np.int64] * 2


def test_another_subset_than_the_known_one_is_refused(cifar_archive):
    with refused(ValueError, "x_train", "not subset, sha256"):
        _formats.cifar10_subset_cut(cifar_archive)


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def subset_arrays():
    arrays = dict(zip(_formats.CIFAR10_SUBSET, subset_by_hand(), strict=True))
    return {key: array.astype(np.uint8) for key, array in arrays.items()}


def test_the_subset_is_read_from_its_npz_file(stand_in_hashes, tmp_path, monkeypatch):
    monkeypatch.setenv("BNLIB_DATA", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    content = npz(**subset_arrays(), classes=np.array(["a"]))
    (tmp_path / "cifar10/cifar10_10k_2k.npz").write_bytes(content)
    read = data.load("cifar10_subset")[:4]
    for found, wanted in zip(read, subset_by_hand(), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert [array.dtype for array in read] == [np.uint8, np.int64] * 2


@pytest.mark.parametrize("key", ["x_train", "y_train", "x_test", "y_test"])
def test_a_subset_with_one_other_value_is_refused(stand_in_hashes, key):
    arrays = subset_arrays()
    arrays[key].flat[-1] ^= 1
    with refused(ValueError, key, "not subset, sha256"):
        _formats.cifar10_subset_npz(npz(**arrays))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "npz subset"),
        (b"no npz file", "pickled"),
        (npz(x_train=np.zeros(3)), "npz subset y_train"),
        (npz(x_train=np.array([{}])), "allow_pickle"),
        (npz(x_train=np.zeros(300))[:400], "npz subset"),
    ],
    ids=["empty", "text", "a key only", "a pickle", "cut short"],
)
def test_what_is_no_npz_file_of_the_subset_is_refused(content, says):
    with refused(ValueError, says):
        _formats.cifar10_subset_npz(content)


class Malicious:
    def __reduce__(self):
        return print, ("this code has run",)


def test_a_pickle_that_holds_more_than_arrays_runs_nothing(capsys):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        put_in(archive, "test_batch", pickle.dumps({b"data": Malicious()}))
    with refused(pickle.UnpicklingError, "builtins.print", "no part of an array"):
        _formats.cifar10(packed.getvalue())
    assert capsys.readouterr().out == ""


# The power plant's workbook.

TABLE = b"8.34\t40.77\t1010.84\t90.01\t480.48\n5\t41.1\t1000.2\t73\t463.26\n"


def sheet(rows):
    """A worksheet as spreadsheet programs write it: a head of shared words, numbers."""
    head = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>'
    body = "".join(
        f"<row>{''.join(f'<c><v>{value}</v></c>' for value in row)}</row>"
        for row in rows
    )
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return f'<worksheet xmlns="{space}"><sheetData>{head}{body}</sheetData></worksheet>'


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def official_archive(*sheets):
    parts = {f"xl/worksheets/sheet{n}.xml": text for n, text in enumerate(sheets, 1)}
    workbook = zipped(**parts, **{"xl/workbook.xml": "<workbook/>"})
    return zipped(**{"CCPP/Readme.txt": "words", "CCPP/Folds5x2_pp.xlsx": workbook})


FIRST, SECOND = (line.split() for line in TABLE.decode().splitlines())
# A double's seventeen digits: what such programs write for 1010.84.
LONG = ["8.34", "40.770000000000003", "1010.8399999999999", "90.01", "480.48"]
PLANT = DataFile(
    "uci/plant.zip", hashlib.sha256(TABLE).hexdigest(), (), _formats.sheets
)


@pytest.mark.parametrize("first", [FIRST, LONG], ids=["as text", "seventeen digits"])
def test_the_sheet_with_the_known_rows_in_their_order_is_taken(first):
    archive = official_archive(sheet([SECOND, first]), sheet([first, SECOND]))
    assert PLANT.content(archive) == TABLE


@pytest.mark.parametrize(
    "archive",
    [
        official_archive(sheet([SECOND, FIRST])),
        official_archive(sheet([FIRST, ["5.01", *SECOND[1:]]])),
        official_archive(sheet([FIRST, SECOND, SECOND])),
        official_archive("<worksheet"),
        official_archive(),
        zipped(**{"CCPP/Readme.txt": "words"}),
        zipped(**{"CCPP/Folds5x2_pp.xlsx": "words"}),
        b"<html>no such file</html>",
    ],
    ids=[
        *("other order", "other value", "a row more", "broken sheet", "no sheet"),
        *("no workbook", "broken workbook", "no archive"),
    ],
)
def test_an_archive_without_the_known_rows_is_not_taken(archive):
    assert PLANT.content(archive) is None


def test_the_power_plants_target_is_the_last_column():
    x, y = _formats.power_plant(TABLE)
    np.testing.assert_array_equal(
        x, [[8.34, 40.77, 1010.84, 90.01], [5, 41.1, 1000.2, 73]]
    )
    np.testing.assert_array_equal(y, [480.48, 463.26])
    assert x.dtype == y.dtype == np.float64


def test_packed_content_is_unpacked_and_other_content_left():
    assert _formats.unpacked(gzip.compress(TABLE)) == (TABLE,)
    assert _formats.unpacked(TABLE) == (TABLE,)


# The checksum of sparse matrices and of images.


def sparse_set(x, dtype=np.float64):
    labels = np.array([1, -1])
    x = scipy.sparse.csr_matrix(np.array(x, dtype=dtype))
    return data.Dataset(x, labels, x.copy(), labels, "sparse", "2024")


ROWS = [[0, 2, 0], [3, 0, 4]]


def test_checksum_of_a_sparse_set_depends_on_values_places_shape_and_dtype():
    sets = [
        sparse_set(ROWS),
        sparse_set([[0, 2, 0], [3, 0, 5]]),
        sparse_set([[2, 0, 0], [3, 0, 4]]),
        sparse_set([[0, 2, 0, 0], [3, 0, 4, 0]]),
        sparse_set(ROWS, np.float32),
        sparse_set(ROWS)._replace(x_train=np.array(ROWS, dtype=float)),
    ]
    assert len({data.checksum(each) for each in sets}) == len(sets)


def test_checksum_of_a_sparse_set_is_that_of_its_rows_columns_and_values():
    numbers = [("<i8", [0, 1, 3]), ("<i8", [1, 0, 2]), ("<f8", [2.0, 3.0, 4.0])]
    matrix = b"csr (2, 3)" + b"".join(
        f"{kind} (3,)".encode() + np.array(values, kind).tobytes()
        for kind, values in numbers
    )
    labels = b"<i8 (2,)" + np.array([1, -1], "<i8").tobytes()
    wanted = hashlib.sha256((matrix + labels) * 2).hexdigest()
    assert data.checksum(sparse_set(ROWS)) == wanted


def test_checksum_of_a_sparse_set_does_not_depend_on_how_it_is_stored():
    plain = sparse_set(ROWS)
    x = plain.x_train
    stored_zero = scipy.sparse.csr_matrix(
        (np.array([2.0, 0.0, 4.0, 3.0]), np.array([1, 2, 2, 0]), np.array([0, 2, 4])),
        shape=(2, 3),
    )
    wide = x.copy()
    wide.indices, wide.indptr = wide.indices.astype("i8"), wide.indptr.astype("i8")
    for other in (x.tocsc(), x.tocoo(), scipy.sparse.csr_array(x), stored_zero, wide):
        before = other.nnz
        assert data.checksum(plain._replace(x_train=other)) == data.checksum(plain)
        assert other.nnz == before


def test_checksum_of_images_depends_on_every_pixel_and_on_the_axes():
    images = np.arange(2 * 3 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3, 3)
    labels = np.array([0, 1])
    one = data.Dataset(images, labels, images, labels, "images", "2024")
    nudged = images.copy()
    nudged[-1, -1, -1, -1] += 1
    sets = [
        one,
        one._replace(x_test=nudged),
        one._replace(x_test=images.view(np.int8)),
        one._replace(x_test=images.transpose(0, 3, 1, 2)),
        one._replace(x_test=images.reshape(2, 27)),
    ]
    assert len({data.checksum(each) for each in sets}) == len(sets)
