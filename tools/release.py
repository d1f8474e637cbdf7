"""Say what a release still needs: ``python -m tools.release``, or make release-check.

A release is a tag ``vVERSION``. The changelog and the citation must name its version,
both addresses must be set, and every record must come from the present code.
"""

import re
import subprocess
import sys
from pathlib import Path

import yaml

from tools import repository

ROOT = Path(__file__).resolve().parent.parent
HEADING = re.compile(
    r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.M
)
VERSION = re.compile(r'^__version__ = "(.+)"$', re.M)
#: How the list of experiments marks a record that the present code did not make.
STALE_RECORD = re.compile(r"older code|(?<=  )broken(?=  )")


def git(root, *arguments):
    """Return what git prints, without the final newline."""
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
    )
    return done.stdout.rstrip("\n")


def package_version(root):
    """Return the version of the package, from which ``pyproject.toml`` takes it."""
    text = (root / "bnlib/__init__.py").read_text(encoding="utf-8")
    return VERSION.search(text)[1]


def addresses(root):
    """Find which of the two addresses is not set."""
    if not repository.is_set(repository.current_address(root)):
        yield (
            "the repository's address is not set: "
            "python -m tools.repository https://github.com/YOUR-NAME/YOUR-REPOSITORY"
        )
    if not repository.current_site(root).startswith("https://"):
        yield (
            "the site's address (html: baseurl in _config.yml) is not set: "
            "python -m tools.repository writes it too"
        )


def changelog(root):
    """Find what the changelog lacks for this version."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = [*HEADING.finditer(text)]
    ends = [part.start() for part in parts[1:]] + [len(text)]
    told = {
        part["name"]: (part["date"], text[part.end() : end].strip())
        for part, end in zip(parts, ends)
    }
    version = package_version(root)
    date, changes = told.get(version, (None, ""))
    if version not in told:
        yield f"CHANGELOG.md has no heading: ## [{version}] - YYYY-MM-DD"
    elif date is None:
        yield f"CHANGELOG.md gives {version} no date: ## [{version}] - YYYY-MM-DD"
    elif not changes:
        yield f"CHANGELOG.md says nothing under {version}"
    if told.get("Unreleased", ("", ""))[1]:
        yield f"CHANGELOG.md: what stands under Unreleased belongs under {version}"


def citation(root):
    """Find where the citation differs from the project and the changelog."""
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    version = package_version(root)
    if str(cited["version"]) != version:
        yield f"CITATION.cff names version {cited['version']}, bnlib {version}"
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    dates = {part["name"]: part["date"] for part in HEADING.finditer(text)}
    released = cited.get("date-released")
    if released is None or str(released) != dates.get(version):
        yield (
            f"CITATION.cff has date-released {released}, CHANGELOG.md "
            f"{dates.get(version)} for {version}"
        )


def tree(root):
    """Find uncommitted files, and tags that disagree with the version or the commit."""
    if changed := git(root, "status", "--porcelain"):
        files = ", ".join(line[3:] for line in changed.splitlines())
        yield f"not committed: {files}"
    tag, head = f"v{package_version(root)}", git(root, "rev-parse", "HEAD")
    here = [name for name in git(root, "tag", "--points-at", "HEAD").split()]
    if others := [name for name in here if name.startswith("v") and name != tag]:
        yield f"the tag here is {', '.join(others)}, bnlib is {tag}"
    if git(root, "tag", "--list", tag) and tag not in here:
        yield (
            f"{tag} is a release already, of another commit than {head[:9]}: "
            "raise __version__ in bnlib/__init__.py"
        )


def records(root):
    """Find the records that older code made, or that cannot be read."""
    done = subprocess.run(
        [sys.executable, "-m", "bnlib.experiments", "list"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    for line in done.stdout.splitlines():
        if match := STALE_RECORD.search(line):
            name = line.split()[0]
            yield f"the record of {name}: {match[0].strip()}; run it at paper scale"


CHECKS = (addresses, changelog, citation, tree, records)


def problems(root=ROOT, checks=CHECKS):
    """List what a release still needs, a line for each; empty if nothing is missing.

    Parameters
    ----------
    root : Path
        The folder of the repository.
    checks : sequence of callables
        Each takes the folder and yields lines.

    Returns
    -------
    list of str
    """
    return [line for check in checks for line in check(root)]


def main():
    """Print what is missing; return 1 if anything is."""
    found = problems()
    for line in found:
        print(f"- {line}", file=sys.stderr)
    tag = f"v{package_version(ROOT)}"
    if found:
        print(f"not ready for {tag}: {len(found)} thing(s)", file=sys.stderr)
        return 1
    print(f"ready: git tag {tag} && git push origin {tag}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
