"""Making a course: student versions, solutions, and a folder for nbgrader."""

import hashlib
import io
import zipfile
from pathlib import Path

from bnlib._files import write_whole
from grading import sets
from grading.keys import KEY_FILE, checked_key, read_key

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


def make(names, key, out):
    """Write the versions of sets that students and teachers get.

    Parameters
    ----------
    names : sequence of str
        Sets; none for all of them.
    key : str
    out : path-like
        The folder for ``student``, ``solution``, a zip a set, and ``SHA256SUMS``.

    Returns
    -------
    list of Path
        The zips.
    """
    out = Path(out)
    rendered = {
        name: sets.load_source(name, checked_key(key))
        for name in names or sets.set_names()
    }
    sums = out / "SHA256SUMS"
    for folder in ("student", "solution"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    # Written anew at the end: until then no sum vouches for a file.
    sums.unlink(missing_ok=True)
    zips = []
    for name, source in rendered.items():
        student, _ = sets.student_version(source)
        write_whole(out / f"student/{name}.ipynb", _text(student))
        solution = _text(sets.solution_version(source))
        write_whole(out / f"solution/{name}.ipynb", solution)
        zips.append(out / f"{name}.zip")
        write_whole(zips[-1], _zipped({f"{name}/{name}.ipynb": _text(student)}))
    made = [*out.glob("*.zip"), *out.glob("student/*.ipynb")]
    write_whole(sums, "".join(map(_sum_line, sorted(made))))
    return zips


def make_course(names, key, folder, course):
    """Write a course folder for nbgrader: sources, configuration and key.

    Parameters
    ----------
    names : sequence of str
    key : str
    folder : path-like
        Only its owner may look into it.
    course : str
        The course's name, as nbgrader's exchange uses it.

    Raises
    ------
    ValueError
        If the folder is that of another key.
    """
    folder, key = Path(folder), checked_key(key)
    if (folder / KEY_FILE).exists() and read_key(folder) != key:
        raise ValueError(f"{folder} was made with another key: name another folder")
    rendered = {name: sets.load_source(name, key) for name in names or sets.set_names()}
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    write_whole(folder / KEY_FILE, f"{key}\n", mode=0o600)
    for name, source in rendered.items():
        (folder / "source" / name).mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"source/{name}/{name}.ipynb", _text(source))
    config = folder / "nbgrader_config.py"
    # A teacher's own settings stay.
    if not config.exists():
        write_whole(config, CONFIG.format(course=course, repository=str(REPOSITORY)))


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
