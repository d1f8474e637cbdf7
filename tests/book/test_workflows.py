"""What a host runs of this repository: sound, read-only, and silent in a fork."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools import build

GITHUB = build.ROOT / ".github"
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((GITHUB / "workflows").glob("*.yml"))
}
JOBS = [
    pytest.param(job, id=f"{name}-{key}")
    for name, workflow in WORKFLOWS.items()
    for key, job in workflow["jobs"].items()
]
#: The permissions that a job needs to send something out.
PUBLISHES = {"pages", "contents", "id-token"}
BAD = """
on: push
jobs:
  one:
    runs-on: ubuntu-latest
    steps:
      - run: echo ${{ github.event.issue.title }}
      - run: echo ${{ matrix.os }}
"""


def program(name):
    """Return a program of this environment, or one of the system's."""
    own = Path(sys.executable).with_name(name)
    found = str(own) if own.is_file() else shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed: the files were not checked by it")
    return found


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=build.ROOT)


def test_actionlint_finds_no_fault():
    paths = sorted((GITHUB / "workflows").glob("*.yml"))
    done = run(program("actionlint"), *paths)
    assert done.returncode == 0, done.stdout + done.stderr


def test_actionlint_finds_an_unknown_name_and_an_injected_script(tmp_path):
    (tmp_path / "bad.yml").write_text(BAD)
    done = run(program("actionlint"), tmp_path / "bad.yml")
    assert 'property "os" is not defined' in done.stdout
    assert "potentially untrusted" in done.stdout


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("github-workflows", "workflows/*.yml"),
        ("dependabot", "dependabot.yml"),
        ("github-issue-config", "ISSUE_TEMPLATE/config.yml"),
        ("github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
    ],
)
def test_each_file_has_the_form_that_the_host_asks_for(schema, pattern):
    paths = sorted(GITHUB.glob(pattern))
    assert paths
    check = program("check-jsonschema")
    done = run(check, "--builtin-schema", f"vendor.{schema}", *paths)
    assert done.returncode == 0, done.stdout


def test_the_citation_has_its_form():
    check = program("check-jsonschema")
    schema = "vendor.citation-file-format"
    done = run(check, "--builtin-schema", schema, "CITATION.cff")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_read_and_a_job_says_what_more_it_needs(name):
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    assert WORKFLOWS[name]["concurrency"]["group"].startswith(name)


def is_gated(job, jobs):
    """Return True if a job, or one that it needs, waits for the variable PUBLISH."""
    needs = job.get("needs", [])
    needs = [needs] if isinstance(needs, str) else needs
    return "vars.PUBLISH == 'true'" in job.get("if", "") or any(
        is_gated(jobs[name], jobs) for name in needs
    )


@pytest.mark.parametrize("name", WORKFLOWS)
def test_without_the_variable_that_no_fork_has_nothing_is_published(name):
    jobs = WORKFLOWS[name]["jobs"]
    for key, job in jobs.items():
        writes = {
            what for what, how in job.get("permissions", {}).items() if how == "write"
        }
        assert is_gated(job, jobs) == bool(writes & PUBLISHES), (name, key)
        assert "secrets" not in str(job)


@pytest.mark.parametrize("job", JOBS)
def test_every_job_ends_and_every_action_is_of_a_named_version(job):
    assert "uses" in job or 0 < job["timeout-minutes"] <= 60
    for step in job.get("steps", ()):
        if "uses" in step:
            assert step["uses"].partition("@")[2], step["uses"]


def test_the_tests_run_on_every_python_and_system_that_is_promised():
    matrix = WORKFLOWS["test"]["jobs"]["check"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]


def test_every_make_target_that_a_workflow_names_is_there():
    makefile = (build.ROOT / "Makefile").read_text(encoding="utf-8")
    named = {
        step["run"].removeprefix("make ")
        for workflow in WORKFLOWS.values()
        for job in workflow["jobs"].values()
        for step in job.get("steps", ())
        if step.get("run", "").startswith("make ")
    }
    assert {"check", "test", "book", "pdf", "release-check"} <= named
    for target in named:
        assert f"\n{target}:" in makefile, target
