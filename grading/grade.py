"""Grade submissions in a judge's process, which is watched from outside."""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grading.room import furnish
from grading.worker import REPOSITORY, Limits, small_environment

#: Seconds that the tests' own work may take beyond the submission's limit.
GRACE = 30.0
#: How often a judge may end early before its submission stays without a grade.
ATTEMPTS = 2
MAX_TOLD = 8 * 2**20


@dataclass
class Grading:
    """The tests' findings: why each failed, or None, and remarks on the submission.

    If there is a `fault`, grading ended early twice. The messages are then not the
    student's doing, and there is no grade.
    """

    messages: dict = field(default_factory=dict)
    remarks: list = field(default_factory=list)
    fault: str | None = None
    unlocked: list = field(default_factory=list)


def grade(work, submissions, key, name, limits=None, user=None):
    """Grade submissions of a set, one after the other.

    Parameters
    ----------
    work : dict
        The set's own cells: ``locked`` and ``tests``, names and sources in order, and
        ``functions``, the names that the tests may call and their cells.
    submissions : list of list
        The cells to run of each submission, names and sources in order.
    key, name : str
        The course key and the set.
    limits : Limits, optional
    user : str, optional
        The user that the students' processes run as, if this process may choose.

    Returns
    -------
    list of Grading
        One for each submission, with a message for every test.

    Raises
    ------
    RuntimeError
        If grading cannot start on this machine, or the set's own cells fail.
    """
    _can_limit()
    limits = limits or Limits()
    owner = None if user is None else _owner(user)
    found = [Grading() for _ in submissions]
    job = {"key": key, "set": name, **work}
    job |= {"limits": asdict(limits), "owner": owner}
    waiting = [*range(len(found))]
    for attempt in range(ATTEMPTS):
        again = [Grading() for _ in waiting]
        job["submissions"] = [submissions[number] for number in waiting]
        with _folder(owner) as place:
            job["folder"] = str(place / "student")
            seconds = len(waiting) * limits.total + GRACE
            fault, ready = _judge(job, again, seconds, place / "judge")
        if not ready:
            if attempt:
                break
            raise RuntimeError(f"grading cannot start: {fault}")
        for number, grading in zip(waiting, again):
            found[number] = grading
        waiting = [n for n in waiting if len(found[n].messages) < len(work["tests"])]
        if not waiting:
            break
    for number in waiting:
        found[number].fault = fault
        for test, _ in work["tests"]:
            found[number].messages.setdefault(test, f"Not graded: {fault}.")
    return found


def _can_limit():
    if importlib.util.find_spec("resource") is None:
        raise RuntimeError(
            "grading needs a Unix system for its limits: on Windows, take WSL or a "
            "container"
        )


def _owner(user):
    """Return the numbers of a user and its group, to start a process as that user."""
    import pwd

    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise ValueError(f"this machine has no user {user!r}") from None
    if os.geteuid() != 0:
        raise ValueError(f"only root can run students' code as {user!r}")
    return entry.pw_uid, entry.pw_gid


class _folder:
    """Separate folders for judge and student, removed whatever is in them.

    A student's process could write into a home folder that a library reads.
    """

    def __init__(self, owner):
        self.owner = owner

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="bnlib-course-"))
        self.path.chmod(0o711)
        (self.path / "judge").mkdir(mode=0o700)
        for name in ("student", "student/files", "student/room"):
            (self.path / name).mkdir()
            (self.path / name).chmod(0o755)
        furnish(self.path / "student/room")
        for cached in _font_lists():
            shutil.copyfile(cached, self.path / "student" / cached.name)
        return self.path

    def __exit__(self, *raised):
        shutil.rmtree(self.path, ignore_errors=True)


def _font_lists():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("MPLCONFIGDIR") or Path(cache, "matplotlib"))
    return [p for p in folder.glob("fontlist-*.json") if p.is_file()]


def _judge(job, found, seconds, folder):
    """Run a judge's process and fill in the results that it sends.

    Returns
    -------
    fault : str or None
        Why it stopped early.
    ready : bool
        Whether it came to the first submission.
    """
    ours, theirs = socket.socketpair()
    own = [REPOSITORY, os.environ.get("PYTHONPATH")]
    paths = os.pathsep.join(filter(None, own))
    with ours, tempfile.TemporaryFile() as told_on_error:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "grading.judge"],
                stdin=subprocess.PIPE,
                stdout=theirs.fileno(),
                stderr=told_on_error,
                cwd=folder,
                env=small_environment(str(folder)) | {"PYTHONPATH": paths},
                start_new_session=True,
            )
        told = _Told(found)
        try:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps(job).encode())
            deadline = time.monotonic() + seconds
            fault = _listen(ours, told, deadline)
        finally:
            _end(process, told.started)
        told_on_error.seek(0)
        last = told_on_error.read()[-2000:].decode(errors="replace").strip()
    if fault is None and process.returncode:
        fault = "the grading process ended early"
        if last:
            fault += f" ({last.splitlines()[-1][:300]})"
    return fault, told.ready


@dataclass
class _Told:
    """The results that the judge has sent so far."""

    found: list
    started: list = field(default_factory=list)
    ready: bool = False

    def take(self, line):
        fields = json.loads(line)
        if "started" in fields:
            self.started.append(fields["started"])
        elif "ready" in fields:
            self.ready = True
            for grading in self.found:
                grading.unlocked = fields["ready"]
        elif "test" in fields:
            grading = self.found[fields["submission"]]
            grading.messages[fields["test"]] = fields["message"]
        else:
            self.found[fields["submission"]].remarks += fields["remarks"]


def _listen(channel, told, deadline):
    """Read the judge's results until it ends; return why it ended early, or None."""
    rest, size = b"", 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return "grading took too long"
        channel.settimeout(left)
        try:
            part = channel.recv(2**16)
        except TimeoutError:
            return "grading took too long"
        except OSError:
            return None
        size += len(part)
        if not part or size > MAX_TOLD:
            return None
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            told.take(line)


def _end(process, started):
    """End the judge, and the last student's process if it is still there."""
    ended = process.poll() == 0
    if process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    with suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if not ended and process.returncode and started:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(started[-1], signal.SIGKILL)
