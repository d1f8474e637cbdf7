"""What passes between the judge and a student's process: data, and nothing else."""

import json
import socket
import struct
import time

import numpy as np
import pytest
from refusals import refused

from grading import wire


def there_and_back(value):
    packer = wire.Packer()
    tree = json.loads(json.dumps(packer.pack(value)))
    return wire.Unpacker(b"".join(a.tobytes() for a in packer.arrays)).unpack(tree)


@pytest.mark.parametrize(
    "value",
    [None, True, 7, -(10**30), 0.1, float("inf"), "text", 1 - 2j, (), [1, (2,)], {}],
    ids=repr,
)
def test_plain_values_arrive_as_they_were(value):
    found = there_and_back(value)
    assert found == value
    assert type(found) is type(value)


def test_containers_keep_their_kinds_and_order():
    found = there_and_back({"b": [1, (2.0, "x")], "a": {"c": None}})
    assert found == {"b": [1, (2.0, "x")], "a": {"c": None}}
    assert list(found) == ["b", "a"]


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", ">f8", "c16", "g"])
def test_arrays_keep_shape_values_and_dtype(dtype):
    array = np.arange(6).reshape(2, 1, 3).astype(dtype)
    found = there_and_back(array)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


def test_a_scalar_of_numpy_stays_one():
    assert type(there_and_back(np.float32(0.5))) is np.float32


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
def test_arrays_without_axes_or_entries_arrive(shape):
    assert there_and_back(np.ones(shape)).shape == shape


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_an_array_s_order_in_memory_arrives(order):
    whole = np.arange(24.0).reshape(4, 6)
    array = whole[::2, ::3] if order == "strided" else np.array(whole, order=order)
    found = there_and_back(array)
    np.testing.assert_array_equal(found, array)
    for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS"):
        assert found.flags[flag] == array.flags[flag]


def test_a_read_only_array_stays_so():
    array = np.ones(2)
    array.flags.writeable = False
    assert not there_and_back(array).flags.writeable
    assert there_and_back(np.ones(2)).flags.writeable


def test_subclasses_of_plain_values_arrive_as_what_they_hold():
    class Count(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    assert there_and_back(Count(3)) != 4


def deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), ("object", "", "None, numbers, text")),
        (len, ("builtin_function_or_method", "", "None")),
        ({1: 2}, ("dict", "", "None")),
        ({1}, ("set", "", "None")),
        (np.array([object()]), ("ndarray of object", "", "numbers")),
        (np.array(["text"]), ("ndarray of <U4", "", "numbers")),
        (np.ma.masked_array([1.0]), ("MaskedArray float64", "", "numbers")),
        (deep(40), ("nested", "", "16")),
        (np.zeros(9 * 2**20), ("arrays", "", "64 MiB")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_data_is_refused(value, message):
    with refused(wire.Refused, *message):
        wire.Packer().pack(value)


def nested(depth):
    tree = None
    for _ in range(depth):
        tree = {"list": [tree]}
    return tree


@pytest.mark.parametrize(
    "tree",
    [
        [],
        {},
        {"object": []},
        {"list": 3},
        {"list": [1], "tuple": [2]},
        {"complex": ["a", "b"]},
        {"complex": [1, 2, 3]},
        {"dict": [1]},
        {"dict": [["a"]]},
        {"array": []},
        {"array": ["<f8", [2], "C", True]},
        {"array": ["<f8", [10**30], "C", True]},
        {"array": ["<f8", [0, 10**30], "C", True]},
        {"array": ["<f8", [-1], "C", True]},
        {"array": ["<f8", [1.5], "C", True]},
        {"array": ["<f8", "ab", "C", True]},
        {"array": ["<f8", [1] * 99, "C", True]},
        {"array": ["|O8", [1], "C", True]},
        {"array": ["<U1", [1], "C", True]},
        {"array": ["<f9", [1], "C", True]},
        {"array": [["f8"], [1], "C", True]},
        {"scalar": "|O8"},
    ],
    ids=lambda tree: json.dumps(tree)[:60],
)
def test_a_malformed_value_is_refused(tree):
    with refused(wire.Refused, "malformed"):
        wire.Unpacker(bytes(8)).unpack(tree)


def test_a_value_nested_too_deep_is_refused():
    with refused(wire.Refused, "nested", "", 16):
        wire.Unpacker(bytes(8)).unpack(nested(40))


def received(data, close=True, wait=5.0):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        if close:
            theirs.close()
        return wire.receive(ours, time.monotonic() + wait)


def framed(text, data=b""):
    return struct.pack("<QQ", len(text), len(data)) + text + data


def test_a_message_arrives_with_its_arrays():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        packer = wire.Packer()
        tree = packer.pack([np.arange(3.0), 4])
        wire.send(theirs, {"value": tree}, packer.arrays)
        message, unpacker = wire.receive(ours)
    array, four = unpacker.unpack(message["value"])
    assert (array.tolist(), four) == ([0.0, 1.0, 2.0], 4)


@pytest.mark.parametrize(
    "data",
    [
        framed(b"{"),
        framed(b"[1]"),
        framed(b"\xff"),
        framed(b"[" * 100_000),
        framed(b'{"value": ' + b"9" * 5000 + b"}"),
    ],
    ids=lambda data: repr(data[:24]),
)
def test_a_malformed_message_is_refused(data):
    with refused(wire.Refused, "malformed message"):
        received(data)


@pytest.mark.parametrize("lengths", [(2**40, 0), (2, 2**40)])
def test_a_huge_message_is_refused(lengths):
    with refused(wire.Refused, "message", "too large"):
        received(struct.pack("<QQ", *lengths))


@pytest.mark.parametrize("size", [0, 5, 17])
def test_a_message_cut_short_is_the_end(size):
    with pytest.raises(EOFError):
        received(framed(b'{"a": 1}')[:size])


def test_a_message_that_does_not_come_in_time_is_not_waited_for():
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        received(framed(b'{"a": 1}')[:9], close=False, wait=0.2)
    assert time.monotonic() - start < 3
