"""Collect the files of a learning platform; one bad archive stops nobody else's."""

import io
import re
import shutil
import zipfile
from collections import defaultdict
from pathlib import Path, PurePosixPath

from nbgrader.plugins import ExtractorPlugin

from grading.submission import MAX_FILE

#: An id that no shell, table or path takes for anything else.
_ID = r"(?P<student_id>[^\W_](?:[^\W_]|[ .@+'-])*)"
MAX_MEMBERS = 5000
MAX_NESTED = 2


def pattern(names):
    """Return nbgrader's pattern of the file names that learning platforms give.

    It matches ``ada_1-transform.ipynb``, ``ada_12_34_1-transform-1.ipynb``, and a
    folder or an archive for each student: ``Ada Lovelace_12_file_/1-transform.ipynb``.
    """
    sets = "|".join(map(re.escape, names))
    return rf".*[/\\]{_ID}_(?:[^/\\]*[_/\\])?(?P<file_id>{sets})(?![^\W_])[^/\\]*$"


class Archives(ExtractorPlugin):
    """A collector that takes notebooks out of archives and names what it leaves."""

    def extract(self, archive_path, extracted_path):
        """Copy every notebook, from files and archives, into a folder.

        Parameters
        ----------
        archive_path, extracted_path : str
        """
        top, to = Path(archive_path), Path(extracted_path)
        for path in sorted(p for p in top.rglob("*") if p.is_file()):
            beside = path.relative_to(top)
            try:
                if path.suffix.lower() == ".zip":
                    self._unpack(path.read_bytes(), path, to / beside.with_suffix(""))
                elif path.suffix == ".ipynb":
                    (to / beside).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, to / beside)
                else:
                    self.log.warning("Skipped %s: no notebook and no zip", path)
            except (zipfile.BadZipFile, OSError, RuntimeError, ValueError) as error:
                self.log.error("Skipped %s: %s", path, error)
        self._set_aside_twice(to)

    def _unpack(self, data, path, to, depth=1):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [m for m in archive.infolist() if not m.is_dir()]
            if len(members) > MAX_MEMBERS:
                raise ValueError(f"{len(members)} files; {MAX_MEMBERS} are taken")
            for member in members:
                name = PurePosixPath(member.filename.replace("\\", "/"))
                wanted = (".ipynb", ".zip") if depth < MAX_NESTED else (".ipynb",)
                if name.suffix.lower() not in wanted:
                    continue
                if ".." in name.parts or name.is_absolute() or ":" in name.parts[0]:
                    self.log.error("Skipped %s in %s: it leads outside", name, path)
                    continue
                with archive.open(member) as file:
                    content = file.read(MAX_FILE + 1)
                if len(content) > MAX_FILE:
                    most = MAX_FILE // 2**20
                    self.log.error("Skipped %s in %s: over %d MiB", name, path, most)
                elif name.suffix.lower() == ".zip":
                    self._unpack(content, path, to / name.with_suffix(""), depth + 1)
                else:
                    place = to / re.sub(r"[\x00-\x1f\x7f]", "?", str(name))
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(content)

    def _set_aside_twice(self, folder):
        """Remove files that a student has twice: nbgrader would collect nobody's."""
        expression = self.config.FileNameCollectorPlugin.named_regexp
        found = defaultdict(list)
        for path in sorted(folder.rglob("*.ipynb")):
            known = re.match(expression, str(path))
            if known:
                found[known["student_id"], known["file_id"]].append(path)
        for (student, name), paths in found.items():
            if len({path.read_bytes() for path in paths}) > 1:
                shown = ", ".join(str(path.relative_to(folder)) for path in paths)
                self.log.error(
                    "Skipped %s of %s, who has two: %s. Keep one, and collect again",
                    *(name, student, shown),
                )
                paths.append(None)
            for path in paths[1:] if paths[-1] else paths[:-1]:
                path.unlink()
