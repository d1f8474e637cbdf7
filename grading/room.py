"""The room in which a student's code runs: Python, NumPy, Matplotlib, nothing else.

A room is a folder with links to the libraries that students may import. On Linux a
process locks itself in there before a student's first line runs. It uses two means that
the kernel offers to every user and that no process can undo:

- Landlock: no file can be opened but Python's own, the room's, and those in the
  process's folder; no process outside can be signalled or looked into;
- a seccomp filter: no process can be started, no socket opened, and nothing be left in
  the kernel's own memory for a later process.

Students' processes import this module, so it needs the standard library alone.
"""

import ctypes
import os
import platform
import signal
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

#: What students may import, beside the standard library and `bnlib.course`.
ALLOWED = ("numpy", "matplotlib")

# Landlock: the rights that the kernel can refuse, by the version that introduced them.
_READ_FILE, _READ_DIR, _TRUNCATE = 1 << 2, 1 << 3, 1 << 14
_ACCESS_FILES = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: 1 << 15}
_ACCESS_TCP = {4: 0b11}
_SIGNALS = {6: 0b11}
_OF_A_FILE = 0b111 | _TRUNCATE
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2

# The filter's machines, and system calls by name: x86-64's number, then ARM's.
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_REFUSED = {
    **{"fork": (57, None), "vfork": (58, None)},
    **{"execve": (59, 221), "execveat": (322, 281), "socket": (41, 198)},
    **{"shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186)},
    **{"mq_open": (240, 180), "add_key": (248, 217), "keyctl": (250, 219)},
    **{"request_key": (249, 218), "ptrace": (101, 117), "tkill": (200, 130)},
    **{"process_vm_readv": (310, 270), "process_vm_writev": (311, 271)},
    **{"rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240)},
    **{"setpriority": (141, 140), "sched_setparam": (142, 118)},
    **{"sched_setscheduler": (144, 119), "sched_setattr": (314, 274)},
    **{"ioprio_set": (251, 30), "pidfd_open": (434, 434)},
    **{"io_uring_setup": (425, 425), "bpf": (321, 280), "userfaultfd": (323, 282)},
    **{"perf_event_open": (298, 241), "unshare": (272, 97), "setns": (308, 268)},
    **{"open_by_handle_at": (304, 265)},
}
#: Calls a process may make on itself alone: its number, or 0, is the first argument.
_OF_ITSELF = {
    **{"kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261)},
    **{"sched_setaffinity": (203, 122)},
}
_CLONE, _CLONE3 = (56, 220), (435, 435)
_NEW_THREAD = 0x10000
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x50000
_EPERM, _ENOSYS = 1, 38
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06


def furnish(folder):
    """Fill a folder with the libraries that a student's process imports.

    Parameters
    ----------
    folder : Path
        An empty folder, which becomes the only one on the process's path.
    """
    for source in _installed():
        (folder / source.name).symlink_to(source)
    ours = Path(__file__).resolve().parent
    for package, files in {
        "bnlib": [ours.parent / "bnlib/course.py"],
        "grading": [ours / name for name in ("room.py", "student.py", "wire.py")],
    }.items():
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text(_STUB)
        for file in files:
            (folder / package / file.name).write_bytes(file.read_bytes())


_STUB = """\
def __getattr__(name):
    raise AttributeError(f"{__name__}.{name} is not there in grading: NumPy alone")
"""


def _installed():
    """Return the files and folders of the allowed libraries and what they require."""
    import re
    from importlib import metadata
    from importlib.util import find_spec

    found, waiting = {}, list(ALLOWED)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            library = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            found[name] = []
            continue
        tops = {Path(file).parts[0] for file in library.files or []}
        places = [Path(library.locate_file(top)).resolve() for top in tops - {".."}]
        spec = None if library.files else find_spec(name)
        places += [Path(spec.origin).parent] if spec else []
        kept = [p for p in places if p.suffix not in (".dist-info", ".pth")]
        found[name] = [p for p in kept if p.exists() and p.name != "__pycache__"]
        for wanted in library.requires or []:
            if "extra ==" not in wanted:
                waiting.append(re.match(r"[\w.-]+", wanted)[0])
    return sorted({place for places in found.values() for place in places})


class NotHere:
    """An importer that is asked last and says why a library is not there."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Refuse a module that no other importer has found."""
        top = name.partition(".")[0]
        if path is None and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(
                f"{top} is not there in grading: NumPy alone", name=name
            )


def lock(folder, writable):
    """Lock this process in a room, for good.

    Parameters
    ----------
    folder : str
        The room.
    writable : str
        Where the process may write.

    Returns
    -------
    list of str
        What could not be locked here, and why; empty if everything was.
    """
    sys.meta_path.append(NotHere)
    if sys.platform != "linux":
        _guard_imports()
        return [f"files, network and processes are open to it on {sys.platform}"]
    control = ctypes.CDLL(None, use_errno=True)
    control.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    missing = []
    if not _lock_files(control, folder, writable):
        _guard_imports()
        missing.append("files are open to it: this kernel has no Landlock")
    if not _filter_calls(control):
        missing.append("network and processes are open to it: no seccomp filter here")
    return missing


def _guard_imports():
    """Refuse imports of libraries if files cannot be locked: a hurdle, not a wall."""
    names = {*sys.stdlib_module_names, *os.listdir(sys.path[0]), "__main__"}
    allowed = frozenset(name.removesuffix(".py") for name in names)

    def guard(event, given, allowed=allowed):
        if event == "import":
            top = given[0].partition(".")[0]
            if top not in allowed:
                raise ImportError(f"{top} is not there in grading: NumPy alone")
        elif event == "object.__setattr__" and given[1] in ("__code__", "__defaults__"):
            raise TypeError("functions cannot be changed in grading")

    sys.addaudithook(guard)


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("files", "tcp", "scoped")]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def _lock_files(control, folder, writable):
    """Have Landlock refuse all files but the room's; return True if it could."""
    version = control.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    asked = [
        sum(bits for since, bits in by_version.items() if since <= version)
        for by_version in (_ACCESS_FILES, _ACCESS_TCP, _SIGNALS)
    ]
    # A kernel that knows a shorter structure requires the rest to be zero, which it is.
    rules = control.syscall(
        _CREATE_RULESET, ctypes.byref(_Ruleset(*asked)), ctypes.c_size_t(24), 0
    )
    if rules < 0:
        return False
    reading = _READ_FILE | _READ_DIR
    for path in {*_python(), *_libraries(), *_rooms(folder)}:
        _allow(control, rules, path, reading)
    for path in _python_folders():
        _allow(control, rules, path, _READ_DIR)
    _allow(control, rules, writable, asked[0])
    _allow(control, rules, "/dev/null", asked[0])
    done = control.syscall(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return done


def _allow(control, rules, path, access):
    """Allow access beneath a path, if it is there."""
    with suppress(OSError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not os.path.isdir(path):
            access &= _OF_A_FILE
        rule = _Beneath(access, place)
        control.syscall(_ADD_RULE, rules, 1, ctypes.byref(rule), 0)
        os.close(place)


def _python_folders():
    return {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}


def _python():
    """Return the paths of the standard library, without anything installed into it."""
    for folder in _python_folders():
        yield from _entries(folder, lambda name: not name.endswith("-packages"))


def _libraries():
    """Return the system's shared libraries: Python's own modules load some."""
    for folder in ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"):
        yield from _entries(folder, lambda name: not name.startswith("python"))
    lib = sysconfig.get_config_var("LIBDIR") or ""
    yield from _entries(lib, lambda name: name.startswith("lib") and ".so" in name)


def _entries(folder, wanted):
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if wanted(entry.name):
                yield entry.path


def _rooms(folder):
    yield folder
    for entry in os.scandir(folder):
        if entry.is_symlink():
            yield os.path.realpath(entry.path)


def _filter_calls(control):
    """Have the kernel refuse system calls; return True if it could."""
    column, machine = _MACHINES.get(platform.machine(), (None, None))
    if column is None:
        return False
    own = os.getpid()
    refuse = (_RETURN, 0, 0, _ERRNO | _EPERM)
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        # x86-64 has a second set of numbers (x32) from here on.
        (_AT_LEAST, 0, 1, 0x40000000),
        refuse,
        (_EQUAL, 0, 1, _CLONE3[column]),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
    ]
    for numbers in _REFUSED.values():
        if numbers[column] is not None:
            program += [(_EQUAL, 0, 1, numbers[column]), refuse]
    first, allow = (_LOAD, 0, 0, 16), (_RETURN, 0, 0, _ALLOW)
    for numbers in _OF_ITSELF.values():
        program += [(_EQUAL, 0, 5, numbers[column]), first, (_EQUAL, 2, 0, own)]
        program += [(_EQUAL, 1, 0, 0), refuse, allow]
    # A thread may be started, but no process: the flag is in the first argument.
    program += [(_EQUAL, 0, 3, _CLONE[column]), first]
    program += [(_ANY_BIT, 1, 0, _NEW_THREAD), refuse, allow]
    step = ctypes.c_ushort, ctypes.c_ubyte, ctypes.c_ubyte, ctypes.c_uint32

    class Step(ctypes.Structure):
        _fields_ = list(zip(("code", "yes", "no", "value"), step))

    class Program(ctypes.Structure):
        _fields_ = [("size", ctypes.c_ushort), ("steps", ctypes.POINTER(Step))]

    steps = (Step * len(program))(*(Step(*each) for each in program))
    filled = Program(len(program), steps)
    return control.prctl(_SECCOMP, _FILTER, ctypes.byref(filled), 0, 0) == 0


def set_limits(memory, cpu, file_size, open_files, processes):
    """Set limits that only a privileged process could raise again.

    The number of processes counts all of a user's, so it is limited only for a user
    that runs nothing but students' code.
    """
    import resource

    limits = {
        resource.RLIMIT_CPU: cpu,
        resource.RLIMIT_FSIZE: file_size,
        resource.RLIMIT_NOFILE: open_files,
        resource.RLIMIT_CORE: 0,
    }
    if processes is not None:
        limits[resource.RLIMIT_NPROC] = processes
    # macOS knows this limit and refuses to set it.
    if sys.platform == "linux":
        limits[resource.RLIMIT_AS] = memory
        # If the judge dies, this process ends too.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))
