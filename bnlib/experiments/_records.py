"""Records: measured results with everything needed to measure them again."""

import itertools
import json
import os
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from bnlib._files import PACKAGE, write_whole
from bnlib.experiments._registry import all_experiments, get
from bnlib.experiments._source import source_hash

RECORDS = PACKAGE / "records"
#: The layout of the JSON files; a reader refuses any other.
FORMAT = 3

#: The fields of `Record.confirmed`.
CONFIRMED = ("source", "units", "of", "left_out", "date", "device", "versions")


@dataclass(frozen=True)
class Record:
    """The result of one run of an experiment, and how it was made.

    Attributes
    ----------
    id, title, scale : str
        The experiment, and the scale of the run.
    parameters : dict
        All parameters of the run.
    axes : list of str
        The parameters that list swept values, the slowest first.
    results : list of dict
        One row per unit: its swept values and its results.
    source : str
        A hash of the code of bnlib that computed the results.
    versions : dict
        The versions of Python and the libraries.
    device : str
        The device of the run, in words.
    seconds : float
        The time spent on the units, added up over resumed runs.
    peak_memory : dict
        `mib`, or None if it is unknown, and how it was `measured`.
    data : dict
        `bnlib.data.checksum` of each data set used, by name.
    command : str
        The command that computes it again.
    date : str
        The time of its completion, UTC.
    confirmed : dict or None
        If later code gave exactly the same results for some units: the `source` of that
        code, the rows of the `units`, the total number `of` units, the results
        `left_out` as measured times, and `date`, `device`, `versions`.
    """

    id: str
    title: str
    scale: str
    parameters: dict[str, Any]
    axes: list[str]
    results: list[dict[str, Any]]
    source: str
    versions: dict[str, str]
    device: str
    seconds: float
    peak_memory: dict[str, Any]
    data: dict[str, str]
    command: str
    date: str
    confirmed: dict | None

    @property
    def standing(self):
        """How far its numbers are those of the present code, in words.

        It is "of the present code"; or "confirmed on 12 of 190 units, 2026-12-01" if
        the present code gave the same results for 12 units; or "older code".
        """
        present = source_hash(get(self.id))
        if self.source == present:
            return "of the present code"
        if self.confirmed is None or self.confirmed["source"] != present:
            return "older code"
        return self.confirmation

    @property
    def confirmation(self):
        """What later code confirmed, "confirmed on 12 of 190 units, DAY", or None."""
        if self.confirmed is None:
            return None
        day = self.confirmed["date"].partition(" ")[0]
        units = f"{len(self.confirmed['units'])} of {self.confirmed['of']} units"
        return f"confirmed on {units}, {day}"

    @property
    def seeds(self) -> list[int]:
        """The seeds of the run, a list."""
        return self.parameters["seeds"]

    def array(self, name: str) -> np.ndarray:
        """Return one result over the whole sweep as an array.

        Parameters
        ----------
        name : str
            A result that every row has: a number, or lists of numbers (a curve,
            a matrix) of one shape in all rows. None stands for a missing number,
            or for a missing list.

        Returns
        -------
        numpy.ndarray of float64
            One axis for each of `axes`, in that order, then the axes of a row's
            lists. It is NaN where a row has None; False is 0 and True is 1.

        Raises
        ------
        ValueError
            If a row lacks the result, has something other than numbers, or has lists
            of another shape than the rows before it.

        Examples
        --------
        >>> import bnlib
        >>> record = bnlib.experiments.load_record("digits-learning-rate")
        >>> record.axes
        ['arms', 'learning_rates', 'seeds']
        >>> record.array("accuracy").shape
        (2, 19, 5)
        """
        values = [self._numbers(name, row) for row in range(len(self.results))]
        inner = next((value.shape for value in values if value is not None), ())
        for row, value in enumerate(values):
            if value is None:
                values[row] = np.full(inner, np.nan)
            elif value.shape != inner:
                raise ValueError(
                    f"{name} has shape {value.shape} in {self._place(row)}, "
                    f"and {inner} in the rows before"
                )
        sweep = [len(self.parameters[axis]) for axis in self.axes]
        return np.reshape(values, (*sweep, *inner))

    def _numbers(self, name, row):
        """Return one result of a row as an array, or None if it is missing."""
        result = self.results[row]
        if name not in result:
            raise ValueError(
                f"no result {name!r} in {self._place(row)}, "
                f"which has {', '.join(result)}"
            )
        try:
            value = result[name]
            return None if value is None else np.array(value, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} in {self._place(row)} is {value!r}: "
                "neither a number nor lists of equal lengths"
            ) from None

    def _place(self, row):
        swept = [self.parameters[axis] for axis in self.axes]
        values = list(itertools.product(*swept))[row]
        of = ", ".join(f"{axis} {value}" for axis, value in zip(self.axes, values))
        return f"row {row} ({of})"


def to_json(record):
    """Return JSON with sorted keys, one line per field and per row of the results."""
    lines = []
    for name, value in sorted((asdict(record) | {"format": FORMAT}).items()):
        if name == "results":
            rows = [json.dumps(row, sort_keys=True) for row in value]
            text = "[\n  " + ",\n  ".join(rows) + "\n ]"
        else:
            text = json.dumps(value, sort_keys=True)
        lines.append(f' "{name}": {text}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def check_target(id, folder, force):
    """Raise if a folder cannot hold the record or, without `force`, has it already."""
    if not str(folder):
        raise ValueError("folder is empty: name the folder for the record")
    path = Path(folder) / f"{id}.json"
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(f"{folder} is no folder; a record needs one")
    if path.exists() and not force:
        raise FileExistsError(
            f"there is a record {path} ({_scale_of(path)} scale) already: replace it "
            "with --force (force=True), or write elsewhere with --folder (folder=...)"
        )
    there = next(each for each in path.absolute().parents if each.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise OSError(f"no record can be written to {folder}: {error}") from None


def _scale_of(path):
    try:
        return load_record(path.stem, path.parent).scale
    except ValueError:
        return "unknown"


def write_record(record, folder, force):
    check_target(record.id, folder, force)
    path = Path(folder) / f"{record.id}.json"
    write_whole(path, to_json(record))
    return path


def load_record(id: str, folder: str | os.PathLike[str] = RECORDS) -> Record:
    """Read a measured result.

    Parameters
    ----------
    id : str
        The experiment's id.
    folder : path, optional
        The records' folder; the default is the records that come with bnlib.

    Returns
    -------
    Record

    Raises
    ------
    FileNotFoundError
        If there is no such record; the message says how to make it.
    ValueError
        If the file is not a record that this version of bnlib reads.

    Examples
    --------
    >>> import bnlib
    >>> record = bnlib.experiments.load_record("digits-learning-rate")
    >>> record.scale, record.seeds
    ('paper', [0, 1, 2, 3, 4])
    """
    there = sorted(path.stem for path in Path(folder).glob("*.json"))
    if id not in there:
        raise FileNotFoundError(
            f"no record {id!r} in {folder}; there are {', '.join(there) or 'none'}. "
            + _how_to_make(id)
        )
    path = Path(folder) / f"{id}.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    found = content.pop("format", None) if isinstance(content, dict) else None
    if found != FORMAT:
        raise ValueError(f"{path} has record format {found}, bnlib reads {FORMAT}")
    _check_fields(path, "whole record", content, [each.name for each in fields(Record)])
    if content["confirmed"] is not None:
        _check_fields(
            path, "record that was confirmed", content["confirmed"], CONFIRMED
        )
    return Record(**content)


def _check_fields(path, what, content, expected):
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no {what}: {content!r} holds no fields")
    if set(content) != set(expected):
        wrong = ", ".join(sorted({*content} ^ {*expected}))
        raise ValueError(f"{path} is no {what}: missing or unknown {wrong}")


def _how_to_make(id):
    known = [entry.id for entry in all_experiments()]
    if id in known:
        return f"Make it: python -m bnlib.experiments run {id} --scale paper"
    return f"No experiment has that id either; there are {', '.join(known)}"
