"""The judge's side of a student's process: it is started, asked, and ended in time."""

import builtins
import os
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from grading import wire

REPOSITORY = str(Path(__file__).resolve().parents[1])


class Unanswered(BaseException):
    """A call had no answer: not an ``Exception``, so that no test can catch it.

    Parameters
    ----------
    reason : str
        Why, in the grader's words.
    told : str
        What the student's process says about it, which may be anything.
    again : bool
        Whether a second try may have an answer.
    slow : str or None
        The function that took too long.
    """

    def __init__(self, reason, told="", again=False, slow=None):
        super().__init__(f"{reason}{told}")
        self.reason, self.again, self.slow = reason, again, slow


@dataclass(frozen=True)
class Limits:
    """What a submission may use: bytes, seconds, open files and processes."""

    memory: int = 2 * 2**30
    file_size: int = 16 * 2**20
    open_files: int = 64
    processes: int = 64
    start: float = 30.0
    call: float = 5.0
    cell: float = 10.0
    total: float = 60.0


def small_environment(folder):
    """Return the environment variables of a process that works in a folder."""
    kept = ("PATH", "LD_LIBRARY_PATH", "LANG")
    here = {name: os.environ[name] for name in kept if name in os.environ}
    return here | {
        "HOME": folder,
        "TMPDIR": folder,
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": folder,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # A different home would hide packages that the user installed.
        "PYTHONUSERBASE": site.getuserbase(),
    }


class Student:
    """A student's cells, loaded in a process that may end at any time.

    Parameters
    ----------
    limits : Limits
    folder : Path
        The room that its process imports from, and a folder for its files.
    functions : dict
        The names of the set's functions, and of the cells that they belong to.
    owner : pair of int or None
        The user and group that it runs as; None for those of the judge.
    started : callable
        Called with the number of every process that is started.
    """

    def __init__(self, limits, folder, functions, owner=None, started=print):
        self.limits = limits
        self.folder = Path(folder)
        self.functions = functions
        self.owner = owner
        self.started = started
        self.process = None
        self.ran = []
        self.late = {}
        self.last = None
        self.missing = []

    def open(self):
        """Start a first process, in which nothing of a student's has run yet.

        Returns
        -------
        list of str
            What could not be locked on this machine.

        Raises
        ------
        RuntimeError
            If it does not start: that is no student's fault.
        """
        self.load([])
        if self.process is None:
            raise RuntimeError("the students' process does not start")
        return self.missing

    def load(self, cells):
        """Take a submission's cells, names and sources in order; start its clock."""
        self.cells = dict(cells)
        self.remarks = []
        self.skipped = set()
        self.late = {}
        self.last = None
        self.deadline = time.monotonic() + self.limits.total
        with suppress(Unanswered):
            self._ready()

    def call(self, name, positional, named):
        """Call one of the student's functions.

        Raises
        ------
        Unanswered
            If there is no answer; the message says why.
        Exception
            The builtin exception that the function raised.
        """
        if self.late.get(name, 0) > 1:
            raise Unanswered(
                f"{name} was too slow in two tests and is not called again"
            )
        self._ready()
        packer = wire.Packer()
        tree = packer.pack([list(positional), dict(named)])
        request = {"call": [name, tree]}
        try:
            reply, unpacker = self._ask(request, packer.arrays, self.limits.call)
        except TimeoutError:
            self._in_time()
            reason = f"{name} took longer than {self.limits.call:g} s"
            raise Unanswered(reason, again=True, slow=name) from None
        except EOFError:
            reason = f"the process ended while {name} ran"
            raise Unanswered(reason, again=True) from None
        except wire.Refused as refusal:
            raise Unanswered(f"{name} answered with {refusal}") from None
        return self._result(name, reply, unpacker, packer.arrays)

    def failed(self, reason):
        """Note why a test has no answer after a second try."""
        if reason.slow:
            self.late[reason.slow] = self.late.get(reason.slow, 0) + 1
        self.remark(reason.reason)

    def remark(self, line):
        """Add a remark on the submission, unless it is there already."""
        if line not in self.remarks:
            self.remarks.append(line)

    def _result(self, name, reply, unpacker, given):
        if "missing" in reply:
            raise Unanswered(self._why_missing(name))
        if "refused" in reply:
            told = _short(reply["refused"])
            raise Unanswered(f"{name} returned what is no plain data", f": {told}")
        if "raised" in reply:
            error = _raised(name, reply["raised"])
            if isinstance(error, Unanswered) and "memory" in error.reason:
                self.remark(error.reason)
            raise error
        try:
            value = unpacker.unpack(reply.get("value"))
            changed = unpacker.unpack(reply.get("arrays"))
            for index, array in zip(reply["changed"], changed, strict=True):
                np.copyto(given[index], array)
        except (KeyError, IndexError, TypeError, ValueError, wire.Refused):
            self.stop()
            raise Unanswered(f"{name} answered with a malformed message") from None
        self.last = f"{name} returned, {_described(value)}"
        return value

    def _why_missing(self, name):
        cell = self.functions.get(name)
        if any(line.startswith(f"cell {cell} ") for line in self.remarks):
            return (
                f"there is no function {name}: see what stands at the top, under "
                f"Grading, of cell {cell}"
            )
        return f"there is no function {name} in the notebook"

    def _ready(self):
        """Ensure that there is a process in which the cells ran, one by one."""
        while True:
            if self.process is None:
                self._start()
            for name, source in self._to_run():
                self._run(name, source)
                if self.process is None:
                    # The cell ended the process: start again without that cell.
                    break
            else:
                return

    def _to_run(self):
        """Return the cells to run: from the first that changed since the last run."""
        cells = [item for item in self.cells.items() if item[0] not in self.skipped]
        same = 0
        while same < len(cells) and cells[same : same + 1] == self.ran[same : same + 1]:
            same += 1
        del self.ran[same:]
        return cells[same:]

    def _run(self, name, source):
        try:
            request = {"cell": [name, source]}
            reply, _ = self._ask(request, (), self.limits.cell)
        except (TimeoutError, EOFError, wire.Refused) as error:
            self.skipped.add(name)
            why = {
                TimeoutError: f"took longer than {self.limits.cell:g} s",
                EOFError: "ended the process",
            }.get(type(error), "answered with a malformed message")
            self.remark(f"cell {name} {why} and is left out")
            return
        self.ran.append((name, source))
        if "raised" in reply:
            error = _raised(name, reply["raised"])
            kind = "" if isinstance(error, Unanswered) else f"{type(error).__name__}: "
            self.remark(f"cell {name} failed: {kind}{error}")

    def _ask(self, message, arrays, seconds):
        """Send a request and return its reply; on any failure the process ends."""
        self._in_time()
        self.number += 1
        now = time.monotonic()
        until = min(now + seconds, self.deadline)
        try:
            self.channel.settimeout(until - now)
            wire.send(self.channel, message | {"number": self.number}, arrays)
            reply, unpacker = wire.receive(self.channel, until)
            if reply.get("number") != self.number:
                raise wire.Refused("a malformed message")
            return reply, unpacker
        except (OSError, EOFError, wire.Refused) as error:
            self.stop()
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise EOFError from error
            raise

    def _in_time(self):
        if time.monotonic() >= self.deadline:
            self.stop()
            reason = f"the submission took longer than {self.limits.total:g} s"
            self.remark(reason)
            raise Unanswered(reason)

    def _files(self):
        """Return a new folder for a process, without files that an earlier one left."""
        folder = Path(tempfile.mkdtemp(dir=self.folder / "files"))
        # If it had no list of fonts, matplotlib would spend seconds to make one.
        for fonts in self.folder.glob("fontlist-*.json"):
            shutil.copyfile(fonts, folder / fonts.name)
        if self.owner is not None:
            os.chown(folder, *self.owner)
        return str(folder)

    def _start(self):
        ours, theirs = socket.socketpair()
        files = self._files()
        with theirs:
            options = {}
            if self.owner is not None:
                user, group = self.owner
                options = {"user": user, "group": group, "extra_groups": []}
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-s", "-S", "-m", "grading.student"),
                    str(theirs.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=files,
                env=small_environment(files)
                | {"PYTHONPATH": str(self.folder / "room")},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                **options,
            )
        self.started(self.process.pid)
        self.channel = ours
        self.number = 0
        self.ran = []
        names = ("memory", "file_size", "open_files")
        limits = {name: getattr(self.limits, name) for name in names}
        limits["cpu"] = int(self.limits.total) + 5
        limits["processes"] = self.limits.processes if self.owner else None
        try:
            wire.send(self.channel, limits)
            until = time.monotonic() + self.limits.start
            self.missing = wire.receive(self.channel, until)[0]["open"]
            self._ask({"cell": ["", ""]}, (), self.limits.start)
        except (OSError, EOFError, KeyError, wire.Refused):
            self.stop()
            raise Unanswered("the student's process does not start") from None

    def stop(self):
        """End the process and all that it started."""
        if self.process is None:
            return
        self.channel.close()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
        end_children()


def end_children():
    """End processes that a student's left behind, if Linux gives them to the judge."""
    for _ in range(100):
        children = _children() if sys.platform == "linux" else []
        if not children:
            return
        for child in children:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _children():
    own = str(os.getpid())
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if entry.read_text(errors="replace").rpartition(")")[2].split()[1] == own:
                found.append(int(entry.parent.name))
    return found


def _short(text, size=300):
    """Return a reply's text as one printable line."""
    line = " ".join(str(text).split())
    return "".join(c for c in line if c.isprintable())[:size]


def _described(value):
    """Return a short description of a function's result."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, tuple | list):
        kinds = ", ".join(dict.fromkeys(type(item).__name__ for item in value))
        return f"a {type(value).__name__} of {kinds or 'nothing'}"
    return f"a {type(value).__name__}"


def _raised(name, told):
    """Return the exception that a student's process reported."""
    kind, text = map(_short, told) if _is_pair(told) else ("Exception", "")
    if kind == "NotImplementedError":
        return Unanswered(f"{name} is not written yet")
    if kind == "MemoryError":
        return Unanswered(f"{name} needs more memory than is allowed")
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        with suppress(TypeError):
            error = found(text)
            error.raised_by = name
            return error
    return Unanswered(f"{name} ended with {kind}")


def _is_pair(told):
    return isinstance(told, list) and len(told) == 2
