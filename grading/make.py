"""Make a course: student versions, solutions, and a folder for nbgrader."""

import hashlib
import io
import json
import zipfile
from pathlib import Path

from bnlib._files import write_whole
from grading import sets
from grading.keys import KEY_FILE, checked_key, read_key

#: The file that notes a course's name, sets, and version.
ABOUT = "course.json"
REPOSITORY = Path(__file__).resolve().parents[1]
CONFIG = """\
# Read by nbgrader wherever it runs in this folder.
import sys
from pathlib import Path

# Where this course was made, for a Python that has no `grading` otherwise.
sys.path.append({repository!r})
from grading import configure

c = get_config()
c.CourseDirectory.course_id = {course!r}
c.CourseDirectory.root = str(Path(__file__).resolve().parent)
configure(c)
# Where grading runs as root, as in a container: whom students' code runs as.
# c.Judge.student_user = "nobody"
"""


def make(names, key, out, course=None):
    """Write the sets' versions for students and teachers.

    Parameters
    ----------
    names : sequence of str
        The sets; if empty, all of them.
    key : str
    out : path-like
        The folder for ``student``, ``solution``, a zip a set, and ``SHA256SUMS``.
    course : str, optional
        The name of a course, whose folder for nbgrader, ``course``, is then made too:
        sources, configuration and key, for its owner alone.

    Returns
    -------
    list of Path
        The zips.

    Raises
    ------
    ValueError
        If the folder holds a course that would change: one with a different key,
        different sets, a different version or name, or a file that was edited since.
        Nothing is written then.
    """
    out, key = Path(out), checked_key(key)
    names = list(names or sets.set_names())
    files = _files(names, key, is_course=course is not None)
    about = {"course": course, "sets": names, "version": version()}
    _refuse_changes(out, key, about, files)
    sums = out / "SHA256SUMS"
    # The sums are written anew at the end: until then none vouches for a file.
    sums.unlink(missing_ok=True)
    if course is not None:
        _open_course(out / "course", key, about)
    for name, content in files.items():
        write_whole(out / name, content)
    made = [*out.glob("*.zip"), *out.glob("student/*.ipynb")]
    write_whole(sums, "".join(map(_sum_line, sorted(made))))
    return [out / f"{name}.zip" for name in names]


def course_in(out):
    """Return the name of the course that a folder holds, or None."""
    return _noted(Path(out) / "course").get("course")


def _noted(folder):
    path = folder / ABOUT
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def version():
    """Return the version of the package that makes a course."""
    import bnlib

    return bnlib.__version__


def _files(names, key, is_course):
    """Return the files to write for students and teachers, by path."""
    files = {}
    for name in names:
        source = sets.load_source(name, key)
        student = _text(sets.student_version(source)[0])
        files[f"student/{name}.ipynb"] = student
        files[f"solution/{name}.ipynb"] = _text(sets.solution_version(source))
        files[f"{name}.zip"] = _zipped({f"{name}/{name}.ipynb": student})
        marking = sets.SOURCE / name / "marking.md"
        if is_course and marking.is_file():
            files[f"solution/{name}-marking.md"] = marking.read_text(encoding="utf-8")
        if is_course:
            files[f"course/source/{name}/{name}.ipynb"] = _text(source)
    return files


def _refuse_changes(out, key, about, files):
    """Raise an error that names both if the files to write differ from those there."""
    folder = out / "course"
    signs = (KEY_FILE, ABOUT, "source", "gradebook.db")
    if not any((folder / name).exists() for name in signs):
        return
    place = f"{folder} holds a course"
    if read_key(folder) != key:
        given = "the public key, 'book'" if key == sets.DEFAULT_KEY else "another key"
        raise ValueError(
            f"{place} that was made with the key in {folder / KEY_FILE}; this command "
            f"has {given}: give the course's own key, or name another folder"
        )
    known = _noted(folder)
    for what, new in about.items():
        old = known.get(what, "one that was not noted")
        if old != new:
            raise ValueError(
                f"{place} whose {what} is {_shown(old)}; this command has "
                f"{_shown(new)}: name another folder"
            )
    for name, content in files.items():
        path = out / name
        data = content.encode() if isinstance(content, str) else content
        if path.exists() and path.read_bytes() != data:
            raise ValueError(
                f"{place}, and {path} is not as this command would write it: keep it, "
                "or remove it to have it made again"
            )


def _shown(value):
    return ", ".join(value) if isinstance(value, list) else repr(value)


def _open_course(folder, key, about):
    """Make a course's folder, for its owner alone, with its key and configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    write_whole(folder / ABOUT, json.dumps(about, indent=1) + "\n")
    write_whole(folder / KEY_FILE, f"{key}\n", mode=0o600)
    config = folder / "nbgrader_config.py"
    # A teacher's settings stay.
    if not config.exists():
        text = CONFIG.format(course=about["course"], repository=str(REPOSITORY))
        write_whole(config, text)


def _text(notebook):
    import nbformat

    return nbformat.writes(notebook) + "\n"


def _zipped(files):
    """Return a zip that is the same for the same files, on any machine and day."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for name, text in files.items():
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            about.create_system = 3
            about.external_attr = 0o644 << 16
            archive.writestr(about, text)
    return data.getvalue()


def _sum_line(path):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    folder = f"{path.parent.name}/" if path.suffix == ".ipynb" else ""
    return f"{digest}  {folder}{path.name}\n"
