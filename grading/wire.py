"""Messages between the judge and a student's process: data, never objects.

A message is a line of JSON and the raw bytes of its arrays. Reading is bounded in size
and depth and yields plain values, so nothing that a student's process writes can run.
"""

import json
import math
import re
import struct
import time

import numpy as np

MAX_JSON = 4 * 2**20
MAX_ARRAYS = 64 * 2**20
MAX_DEPTH = 16
_SIZES = struct.Struct("<QQ")
_DTYPE = re.compile(r"[<>|=][biufc][0-9]{1,2}")


class Refused(Exception):
    """An error: a value cannot be sent, or a message was not understood."""


class Packer:
    """A packer of values into JSON and the bytes of their arrays.

    Attributes
    ----------
    arrays : list of ndarray
        The arrays met, in their order in the JSON.
    """

    def __init__(self):
        self.arrays = []
        self.size = 0

    def pack(self, value, depth=0):
        """Return the JSON form of a value."""
        if depth > MAX_DEPTH:
            raise Refused(f"nested more than {MAX_DEPTH} deep")
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value)
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        return self._container(value, depth + 1)

    def _container(self, value, depth):
        if isinstance(value, tuple | list):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [self.pack(item, depth) for item in value]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": [[k, self.pack(v, depth)] for k, v in value.items()]}
        raise Refused(
            f"{type(value).__name__}: only None, numbers, text, arrays of numbers, "
            "and tuples, lists and dicts of these"
        )

    def _array(self, value):
        if value.dtype.kind not in "biufc" or type(value) is np.ma.MaskedArray:
            raise Refused(f"{type(value).__name__} of {value.dtype}: only numbers")
        self.size += value.nbytes
        if self.size > MAX_ARRAYS:
            raise Refused(f"arrays of more than {MAX_ARRAYS // 2**20} MiB")
        array = np.asarray(value)
        self.arrays.append(array)
        if isinstance(value, np.generic):
            return {"scalar": array.dtype.str}
        flags = array.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "strided"
        return {"array": [array.dtype.str, list(array.shape), layout, flags.writeable]}


class Unpacker:
    """An unpacker of values from JSON and bytes, whoever wrote them.

    Attributes
    ----------
    arrays : list of ndarray
        The arrays made, in their order in the JSON.
    """

    def __init__(self, data):
        self.data = data
        self.start = 0
        self.arrays = []

    def unpack(self, tree):
        """Return the value of a JSON form."""
        try:
            return self._value(tree, 0)
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            raise Refused("malformed value") from error

    def _value(self, tree, depth):
        if depth > MAX_DEPTH:
            raise Refused(f"nested more than {MAX_DEPTH} deep")
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if not isinstance(tree, dict) or len(tree) != 1:
            raise Refused("malformed value")
        [(kind, body)] = tree.items()
        if kind == "scalar":
            return self._take(body, [])[()]
        if not isinstance(body, list):
            raise Refused("malformed value")
        if kind == "array":
            return self._array(*body)
        if kind == "complex":
            return complex(*body)
        if kind == "dict":
            return {str(key): self._value(item, depth + 1) for key, item in body}
        if kind in ("tuple", "list"):
            items = [self._value(item, depth + 1) for item in body]
            return tuple(items) if kind == "tuple" else items
        raise Refused("malformed value")

    def _take(self, dtype, shape):
        if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
            raise Refused("malformed array")
        kind = np.dtype(dtype)
        if len(shape) > 32 or any(type(n) is not int or n < 0 for n in shape):
            raise Refused("malformed array")
        count = math.prod(shape)
        flat = np.frombuffer(self.data, kind, count, self.start)
        self.start += flat.nbytes
        return flat.reshape(shape)

    def _array(self, dtype, shape, layout, writeable):
        taken = self._take(dtype, shape)
        if layout == "strided" and taken.ndim:
            # The array is not contiguous if the sender's was not.
            wide = np.zeros((*taken.shape[:-1], 2 * taken.shape[-1]), taken.dtype)
            array = wide[..., ::2]
            array[...] = taken
        else:
            array = taken.copy("F" if layout == "F" else "C")
        array.flags.writeable = bool(writeable)
        self.arrays.append(array)
        return array


def send(channel, message, arrays=()):
    """Write a message; the socket's time limit holds for the whole of it."""
    data = b"".join(array.tobytes() for array in arrays)
    text = json.dumps(message).encode()
    if len(text) > MAX_JSON:
        raise Refused(f"more than {MAX_JSON // 2**20} MiB of text and numbers")
    channel.sendall(_SIZES.pack(len(text), len(data)) + text + data)


def receive(channel, deadline=None):
    """Read a message: its JSON, and an :class:`Unpacker` for its values.

    Raises
    ------
    Refused
        If it is malformed or too large.
    EOFError
        If the other side has closed the connection.
    TimeoutError
        If it is not complete by the deadline, in seconds of the monotonic clock.
    """
    text_size, data_size = _SIZES.unpack(_exactly(channel, _SIZES.size, deadline))
    if text_size > MAX_JSON or data_size > MAX_ARRAYS:
        raise Refused("a message too large")
    text = _exactly(channel, text_size, deadline)
    data = _exactly(channel, data_size, deadline)
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused("a malformed message") from error
    if not isinstance(message, dict):
        raise Refused("a malformed message")
    return message, Unpacker(data)


def _exactly(channel, size, deadline):
    found = bytearray()
    while len(found) < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            channel.settimeout(left)
        part = channel.recv(min(size - len(found), 2**20))
        if not part:
            raise EOFError
        found += part
    return bytes(found)
