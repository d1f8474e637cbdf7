"""Run an experiment: unit by unit, resumable, into a record."""

import os
import shlex
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import torch

from bnlib import data
from bnlib._files import runs_folder
from bnlib.experiments._files import Partial, canonical
from bnlib.experiments._machine import (
    choose_device,
    describe,
    now,
    peak_memory,
    torch_threads,
    versions,
)
from bnlib.experiments._records import RECORDS, Record, check_target, write_record
from bnlib.experiments._registry import Experiment, get
from bnlib.experiments._source import source_hash
from bnlib.experiments._units import compute_unit, progress


class AlreadyRunning(RuntimeError):
    """Raised if another process computes the same run."""


def run(
    id: str,
    scale: str = "live",
    *,
    device: str = "auto",
    folder: str | os.PathLike[str] | None = None,
    force: bool = False,
    **parameters: Any,
) -> Record:
    """Run an experiment and return its record.

    At paper scale with the registered parameters, or with `folder`, the record is also
    written. A run at paper scale, or with `folder`, keeps each finished unit in a cache
    folder (`$BNLIB_CACHE`, or `.experiments` in the source tree). If the run is
    stopped, the same call continues it, unless code that it computes with has changed.
    A live run takes seconds and stays in memory.

    On a CPU the same call gives the same results on the same machine.

    Parameters
    ----------
    id : str
        `bnlib.experiments.all_experiments` lists the ids.
    scale : {"live", "paper"}
        The parameters to start from: a live run takes seconds, a run at paper scale
        minutes to hours.
    device : str
        "auto" (CUDA if there is one, otherwise the CPU), "cpu", "cuda", "cuda:0",
        "mps".
    folder : path, optional
        The folder to write the record to.
    force : bool
        Whether to replace a record that exists already.
    **parameters
        Values to use in place of the scale's.

    Returns
    -------
    Record

    Raises
    ------
    ValueError, TypeError
        If the id, the scale, the device, a parameter or its value is unknown.
    FileExistsError
        If the record exists already; nothing is computed then.
    AlreadyRunning
        If another process computes the same run.

    Examples
    --------
    >>> import bnlib
    >>> record = bnlib.experiments.run(
    ...     "digits-learning-rate", device="cpu",
    ...     arms=["batch_norm"], learning_rates=[0.3], seeds=[0],
    ... )
    >>> bool(record.array("accuracy").mean() > 0.9)
    True
    """
    return prepare(
        id, scale, device=device, folder=folder, force=force, **parameters
    ).execute()


def prepare(id, scale, *, device="auto", folder=None, force=False, **parameters):
    """Check all arguments of `run`; return the run, not yet started."""
    experiment = get(id)
    values = experiment.parameters(scale, parameters)
    chosen = choose_device(device)
    registered = experiment.parameters("paper")
    if folder is None and scale == "paper" and values == registered:
        folder = RECORDS
    if folder is not None:
        check_target(id, folder, force)
    return _Run(experiment, scale, values, chosen, folder, force)


@dataclass(frozen=True)
class _Run:
    experiment: Experiment
    scale: str
    parameters: dict
    device: torch.device
    folder: Path | None
    force: bool

    def execute(self):
        with torch_threads(self.experiment.threads):
            return self._execute()

    def _execute(self):
        datasets = {name: data.load(name) for name in self.experiment.data}
        checksums = {name: data.checksum(each) for name, each in datasets.items()}
        source = source_hash(self.experiment)
        if self.scale != "paper" and self.folder is None:
            return self._record(self._compute(datasets, [], None), checksums, source)
        header = self._header(checksums, source)
        partial = Partial(runs_folder(), self.experiment.id, header)
        with ExitStack() as stack:
            stack.enter_context(_only_process(partial.path))
            entries = self._compute(datasets, partial.read(), partial)
            record = self._record(entries, checksums, source)
            if self.folder is not None:
                write_record(record, self.folder, self.force)
            partial.remove()
        return record

    def _header(self, checksums, source):
        """Return everything that the results depend on."""
        return {
            "id": self.experiment.id,
            "scale": self.scale,
            "parameters": self.parameters,
            "device": f"{self.device}: {describe(self.device)}",
            "data": checksums,
            "source": source,
            "versions": versions(),
        }

    def _compute(self, datasets, finished, partial):
        """Return the entries of all units in order; do not compute `finished` ones."""
        entries = {canonical(entry["unit"]): entry for entry in finished}
        units = self.experiment.units(self.parameters)
        try:
            for unit in progress(units, self.experiment.id):
                if canonical(unit) not in entries:
                    entry = self._compute_unit(unit, datasets)
                    if partial is not None:
                        partial.append(entry)
                    entries[canonical(unit)] = entry
        except BaseException as error:
            if partial is not None:
                error.add_note(
                    f"{len(entries)} of {len(units)} units are kept in "
                    f"{partial.path}; run the same again to go on from there "
                    "(with changed code of bnlib it starts anew)"
                )
            raise
        return [entries[canonical(unit)] for unit in units]

    def _compute_unit(self, unit, datasets):
        start = time.perf_counter()
        result = compute_unit(
            self.experiment, self.parameters, unit, self.device, datasets
        )
        return {
            "unit": unit,
            "result": result,
            "seconds": time.perf_counter() - start,
            "peak_memory": peak_memory(self.device),
        }

    def _record(self, entries, checksums, source):
        return Record(
            id=self.experiment.id,
            title=self.experiment.title,
            scale=self.scale,
            parameters=self.parameters,
            axes=list(self.experiment.sweep.values()),
            results=[entry["unit"] | entry["result"] for entry in entries],
            source=source,
            versions=versions(),
            device=describe(self.device),
            seconds=round(sum(entry["seconds"] for entry in entries), 1),
            peak_memory=max(
                (entry["peak_memory"] for entry in entries), key=lambda m: m["mib"] or 0
            ),
            data=checksums,
            command=self._command(),
            date=now(),
            confirmed=None,
        )

    def _command(self):
        id, scale, device = self.experiment.id, self.scale, str(self.device)
        registered = self.experiment.parameters(scale)
        changed = {k: v for k, v in self.parameters.items() if v != registered[k]}
        if not changed:
            words = ["run", id, "--scale", scale, "--device", device]
            return shlex.join(["python", "-m", "bnlib.experiments", *words])
        given = "".join(f", {name}={value!r}" for name, value in changed.items())
        call = f"bnlib.experiments.run({id!r}, {scale!r}, device={device!r}{given})"
        return shlex.join(["python", "-c", f"import bnlib; {call}"])


def _only_process(path):
    """Hold a lock that the system frees when this process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return filelock.FileLock(path.with_suffix(".lock")).acquire(timeout=0)
    except filelock.Timeout:
        raise AlreadyRunning(
            f"another process is at this run (it holds {path.with_suffix('.lock')}); "
            "wait for it or stop it"
        ) from None
