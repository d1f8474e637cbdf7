"""Files that an interrupted run does not damage."""

import hashlib
import json
import os
from pathlib import Path

from bnlib._files import write_whole


def canonical(value):
    """Return JSON text that is the same for equal values; refuse NaN and infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(value):
    return hashlib.sha256(canonical(value).encode()).hexdigest()


class Partial:
    """The file of an unfinished run's finished units: a header, then a line per unit.

    Parameters
    ----------
    folder : Path
    id : str
        Of the experiment.
    header : dict
        Everything that the results depend on. The file's name and first line contain
        it, so a run never reads the units of another run.
    """

    def __init__(self, folder, id, header):
        self.header = canonical(header)
        self.path = Path(folder) / f"{id}-{fingerprint(header)[:16]}.jsonl"

    def read(self):
        """Return the stored entries; drop a line that was only half written."""
        lines = self._whole_lines()
        if not lines or lines[0] != self.header:
            write_whole(self.path, self.header + "\n")
            return []
        entries = []
        for line in lines[1:]:
            try:
                entries.append(json.loads(line))
            except ValueError:
                break
        kept = lines[: len(entries) + 1]
        write_whole(self.path, "\n".join(kept) + "\n")
        return entries

    def _whole_lines(self):
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8", errors="replace")
        return text.split("\n")[:-1]

    def append(self, entry):
        with self.path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(canonical(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def remove(self):
        self.path.unlink(missing_ok=True)
