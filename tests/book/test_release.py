"""What a release needs, and that each thing that is missing is named."""

import subprocess

import pytest

from tools import release, repository

ADDRESS = "https://github.com/someone/a-book"
CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.0] - 2026-12-24

- A change.

## [1.1.0] - 2026-11-01

- An older change.
"""
FILES = {
    "_config.yml": f"repository:\n  url: {ADDRESS}\nhtml:\n  baseurl: https://a.example/\n",
    "bnlib/__init__.py": '__version__ = "1.2.0"\n',
    "CHANGELOG.md": CHANGELOG,
    "CITATION.cff": "version: 1.2.0\ndate-released: 2026-12-24\n",
}
#: A list of experiments needs a whole package; it has a test of its own.
CHECKS = [check for check in release.CHECKS if check is not release.records]


@pytest.fixture
def tree(tmp_path):
    """A committed repository that is ready for its release."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(tree, *arguments):
    who = ("-c", "user.name=Someone", "-c", "user.email=someone@example.org")
    subprocess.run(["git", *who, *arguments], cwd=tree, check=True)


def commit(tree):
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "A commit")


def problems(tree):
    return release.problems(tree, CHECKS)


def edit(tree, name, before, after):
    text = (tree / name).read_text()
    assert before in text
    (tree / name).write_text(text.replace(before, after))
    commit(tree)


def test_a_tree_that_has_everything_is_ready(tree):
    assert problems(tree) == []
    git(tree, "tag", "v1.2.0")
    assert problems(tree) == []


@pytest.mark.parametrize(
    ("name", "before", "after", "named"),
    [
        ("_config.yml", "someone", "OWNER", "the repository's address is not set"),
        ("_config.yml", "https://a.example/", '""', "html: baseurl"),
        ("bnlib/__init__.py", "1.2.0", "1.3.0", "no heading: ## [1.3.0]"),
        ("CHANGELOG.md", " - 2026-12-24", "", "gives 1.2.0 no date"),
        ("CHANGELOG.md", "- A change.\n", "", "says nothing under 1.2.0"),
        ("CHANGELOG.md", "[Unreleased]\n", "[Unreleased]\n\n- New\n", "Unreleased"),
        ("CITATION.cff", "version: 1.2.0", "version: 1.1.0", "names version 1.1.0"),
        ("CITATION.cff", "date-released: 2026-12-24", "a: 1", "date-released None"),
        ("CITATION.cff", "2026-12-24", "2026-12-25", "date-released 2026-12-25"),
    ],
)
def test_what_is_missing_is_named(tree, name, before, after, named):
    edit(tree, name, before, after)
    assert any(named in line for line in problems(tree)), problems(tree)


def test_what_is_not_committed_is_named(tree):
    (tree / "new.txt").touch()
    assert problems(tree) == ["not committed: new.txt"]


def test_a_tag_of_another_version_is_named(tree):
    git(tree, "tag", "v2.0.0")
    (line,) = problems(tree)
    assert "v2.0.0" in line
    assert "v1.2.0" in line


def test_a_version_that_was_released_is_not_released_again(tree):
    git(tree, "tag", "v1.2.0")
    edit(tree, "CHANGELOG.md", "- An older", "- A much older")
    (line,) = problems(tree)
    assert line.startswith("v1.2.0 is a release already")


def test_a_record_of_older_code_or_a_broken_one_is_named(tree, monkeypatch):
    listing = (
        "id         chapter  recorded                title\n"
        "first-one  01-a     2026-11-30              There is no doubt\n"
        "second     02-b     2026-11-30, older code  A title\n"
        "third      03-c     broken                  A title\n"
        "fourth     04-d     no                      Not run yet\n"
    )
    done = subprocess.CompletedProcess([], 0, listing, "")
    monkeypatch.setattr(release.subprocess, "run", lambda *_, **__: done)
    assert [line.split(":")[0] for line in release.records(tree)] == [
        "the record of second",
        "the record of third",
    ]


def test_while_the_address_is_unset_this_book_is_not_released(monkeypatch, capsys):
    monkeypatch.setattr(
        repository, "current_address", lambda root=None: repository.UNSET
    )
    monkeypatch.setattr(release, "problems", lambda: [*release.addresses(release.ROOT)])
    assert release.main() == 1
    assert "python -m tools.repository https://" in capsys.readouterr().err


def test_this_tree_has_one_version_everywhere():
    import bnlib

    assert release.package_version(release.ROOT) == bnlib.__version__
    assert not [line for line in release.citation(release.ROOT) if "names" in line]
    text = (release.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{bnlib.__version__}]" in text
