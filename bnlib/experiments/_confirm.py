"""Confirm a record: compute some of its units with the present code and compare."""

import math
from dataclasses import replace
from pathlib import Path

from bnlib import data
from bnlib._files import write_whole
from bnlib.experiments._machine import (
    choose_device,
    describe,
    now,
    torch_threads,
    versions,
)
from bnlib.experiments._records import RECORDS, load_record, to_json
from bnlib.experiments._registry import get
from bnlib.experiments._source import source_hash
from bnlib.experiments._units import compute_unit, progress


def confirm(id, units=8, *, device="auto", folder=RECORDS):
    """Compute units of a record again; where all agree, write that into the record.

    A value agrees if it is the recorded one to its last digit. Times are not compared.

    Parameters
    ----------
    id : str
        Of the experiment.
    units : int
        How many to compute, spread over the sweep.
    device : str
        As for `bnlib.experiments.run`.
    folder : path, optional
        Where the record is.

    Returns
    -------
    Record
        As it is now written.

    Raises
    ------
    FileNotFoundError
        If there is no such record.
    ValueError
        If a value differs, which is named with the unit, the recorded value and the
        present one; if the experiment is about time; or if its parameters or data are
        no longer those of the record. Nothing is written.
    """
    experiment, record = get(id), load_record(id, folder)
    _check(experiment, record, units)
    chosen = choose_device(device)
    source, rows = source_hash(experiment), spread_out(units, len(record.results))
    with torch_threads(experiment.threads):
        _compare(experiment, record, rows, chosen)
        confirmed = {
            "source": source,
            "units": rows,
            "of": len(record.results),
            "left_out": list(experiment.timed),
            "date": now(),
            "device": describe(chosen),
            "versions": versions(),
        }
    if load_record(id, folder) != record:
        raise ValueError(f"the record {id} has changed meanwhile; nothing is written")
    record = replace(record, confirmed=confirmed)
    write_whole(Path(folder) / f"{id}.json", to_json(record))
    return record


def spread_out(count, total):
    """Return so many of the numbers below `total`, in order and far apart.

    They step by the golden section, which keeps no time with the lengths of a sweep.
    """
    chosen, step, at = set(), (math.sqrt(5) - 1) / 2, 0.0
    while len(chosen) < count:
        chosen.add(int(at * total))
        at = (at + step) % 1
    return sorted(chosen)


def _check(experiment, record, units):
    id = experiment.id
    if experiment.timed is True:
        raise ValueError(
            f"{id} measures times, which no second run repeats; "
            f"make it anew: {record.command} --force"
        )
    if not 1 <= units <= len(record.results):
        raise ValueError(f"{id} has {len(record.results)} units, not {units}")
    if experiment.parameters(record.scale, record.parameters) != record.parameters:
        raise ValueError(f"{id} has parameters that its record does not know")
    for name in experiment.data:
        if data.checksum(data.load(name)) != record.data.get(name):
            raise ValueError(f"{id} was recorded with other data of the name {name}")


def _compare(experiment, record, rows, device):
    datasets = {name: data.load(name) for name in experiment.data}
    units = experiment.units(record.parameters)
    for row in progress(rows, experiment.id):
        unit = units[row]
        found = compute_unit(experiment, record.parameters, unit, device, datasets)
        stored = {k: v for k, v in record.results[row].items() if k not in unit}
        for name in experiment.timed:
            stored.pop(name, None)
            found.pop(name, None)
        differences = list(_differences("", stored, found))
        if differences:
            raise ValueError(_told(experiment.id, unit, differences, record.command))


def _differences(name, stored, found):
    """Yield the name, recorded value and present value of each value that differs."""
    kinds = {type(stored), type(found)}
    if kinds == {dict} and stored.keys() == found.keys():
        for key in stored:
            yield from _differences(f"{name}{key}", stored[key], found[key])
    elif kinds == {list} and len(stored) == len(found):
        for place, pair in enumerate(zip(stored, found, strict=True)):
            yield from _differences(f"{name}[{place}]", *pair)
    elif stored != found:
        yield name, stored, found


def _told(id, unit, differences, command):
    name, stored, found = differences[0]
    sizes = [
        abs(a - b)
        for _, a, b in differences
        if isinstance(a, int | float) and isinstance(b, int | float)
    ]
    largest = f", the largest by {max(sizes):.3g}" if sizes else ""
    return (
        f"{id} at {unit}: {name or 'the row'} is recorded as {stored} and is now "
        f"{found}; {len(differences)} values differ{largest}. Nothing is written. "
        f"To make the record anew: {command} --force"
    )
