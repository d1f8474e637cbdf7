"""Files that an interrupted run does not spoil."""

import hashlib
import json
import os
from pathlib import Path

from bnlib._files import write_whole


def canonical(value):
    """JSON text that is the same for equal values; no NaN, no infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(value):
    return hashlib.sha256(canonical(value).encode()).hexdigest()


class Partial:
    """The finished units of one unfinished run: a header, then a line a unit.

    Parameters
    ----------
    folder : Path
    id : str
        Of the experiment.
    header : dict
        All that the results depend on. It names the file and opens it, so that
        a run never reads the units of another.
    """

    def __init__(self, folder, id, header):
        self.header = canonical(header)
        self.path = Path(folder) / f"{id}-{fingerprint(header)[:16]}.jsonl"

    def read(self):
        """Return the stored entries, and drop what a kill left half written."""
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
