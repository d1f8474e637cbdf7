"""The tree's style: lint, format, docstrings, and nothing of one machine."""

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bnlib
import tools

ROOT = Path(__file__).resolve().parent.parent
NOT_OURS = {"__pycache__", "_build", "build", "dist"}
# Written in pieces, so that this file does not find itself.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.$}~/-])/(?:ho" + r"me|op" + r"t|ro" + r"ot|tm"
    r"p|wo" + r"rk)(?=[/\s\"'`:;,)]|$)",
    "a package registry's host": r"(?:py" + r"pi|npm" + r"js|ana" + r"conda|python"
    r"hosted|deb\.deb" + r"ian|download\.py" + r"torch)\.(?:org|com)\b",
}


def own_files(root=ROOT):
    """Yield the tree's own files: no caches, no environment, no build."""
    for path in sorted(root.rglob("*")):
        folders = path.relative_to(root).parts[:-1]
        hidden = any(part.startswith(".") and part != ".ci" for part in folders)
        if path.is_file() and not hidden and not NOT_OURS & set(folders):
            yield path


def forbidden(path):
    """Return what a file says that it must not, a line each."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []
    return [
        f"{path.name}:{number}: {what}"
        for number, line in enumerate(lines, 1)
        for what, pattern in FORBIDDEN.items()
        if re.search(pattern, line)
    ]


def modules(package):
    """Return a package and all its modules, the command lines left out."""
    names = [package.__name__]
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        names.append(module.name)
    return [importlib.import_module(n) for n in names if not n.endswith("__main__")]


def is_private(name):
    return any(part.startswith("_") for part in name.split("."))


def public_objects(module):
    """Yield (name, object) of the functions and classes that a reader may use.

    They are those that a public module defines, or takes from a private one.
    """
    for name, value in vars(module).items():
        home = getattr(value, "__module__", None) or ""
        own = home == module.__name__ or (
            home.startswith("bnlib.") and is_private(home)
        )
        called = inspect.isfunction(value) or inspect.isclass(value)
        if own and called and not is_private(f"{module.__name__}.{name}"):
            yield name, value


def is_plain_record(value):
    """Say whether a class only holds fields, or names an error."""
    return inspect.isclass(value) and (
        dataclasses.is_dataclass(value)
        or hasattr(value, "_fields")
        or issubclass(value, Exception)
    )


def undocumented(module):
    """Return what a module's public objects lack: a docstring or an example."""
    # What these files define is run from a registry, by its id.
    registered = module.__name__.startswith(
        ("bnlib.claims.chapter", "bnlib.experiments.")
    )
    found = []
    for name, value in public_objects(module):
        text = inspect.getdoc(value) if value.__doc__ else None
        if not text:
            found.append(f"{module.__name__}.{name}: no docstring")
        elif not (registered or is_plain_record(value) or "Examples\n-" in text):
            found.append(f"{module.__name__}.{name}: no Examples section")
    return found


def ruff(*arguments, folder=ROOT):
    command = [sys.executable, "-m", "ruff", *arguments, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


@pytest.mark.parametrize("command", [("check",), ("format", "--check")], ids=" ".join)
def test_ruff_has_nothing_to_say(command):
    done = ruff(*command)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [("check",), ("format", "--check")], ids=" ".join)
def test_ruff_reads_the_cells_of_notebooks(tmp_path, command):
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    cells = (
        '{"cell_type": "code", "execution_count": null, "id": "a", "metadata": {},'
        ' "outputs": [], "source": ["import os\\n", "x=  1"]}'
    )
    (tmp_path / "bad.ipynb").write_text(
        f'{{"cells": [{cells}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}'
    )
    done = ruff(*command, folder=tmp_path)
    assert done.returncode == 1
    assert "bad.ipynb" in done.stdout + done.stderr


def test_no_file_names_a_machine_or_a_registry():
    found = [line for path in own_files() for line in forbidden(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        '"/ro' + 'ot/x"',
        "cd /tm" + "p/y",
        "/ho" + "me/someone/.cache",
        "https://py" + "pi.org/simple",
        "https://download.py" + "torch.org/whl/cpu",
    ],
)
def test_what_names_a_machine_or_a_registry_is_found(tmp_path, line):
    (tmp_path / "note.md").write_text(f"first line\n{line}\n")
    assert [found[:9] for found in forbidden(tmp_path / "note.md")] == ["note.md:2"]


def test_every_public_function_has_a_docstring_with_an_example():
    found = [line for module in modules(bnlib) for line in undocumented(module)]
    assert not found, "\n".join(found)


def test_what_lacks_a_docstring_or_an_example_is_named(monkeypatch):
    def bare():
        pass

    def told():
        """Do a thing."""

    bare.__module__ = told.__module__ = "bnlib.plotting"
    monkeypatch.setattr(bnlib.plotting, "bare", bare, raising=False)
    monkeypatch.setattr(bnlib.plotting, "told", told, raising=False)
    assert undocumented(bnlib.plotting) == [
        "bnlib.plotting.bare: no docstring",
        "bnlib.plotting.told: no Examples section",
    ]


@pytest.mark.parametrize(
    "module", [*modules(bnlib), *modules(tools)], ids=lambda module: module.__name__
)
def test_the_examples_of_a_module_run_as_printed(module, capsys):
    failed = doctest.testmod(module).failed
    assert failed == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", ["README.md", "chapters/how-to.md"])
def test_the_python_shown_on_a_page_runs(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    # In a process of its own: the example of a claim would stay registered.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
