"""The tree's style: lint, format, docstrings, and nothing of one machine."""

import ast
import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import bnlib
import tools
from tools.files import own_files

ROOT = Path(__file__).resolve().parents[2]
# Written in pieces, so that this file does not find itself.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.$}~/-])/(?:ho" + r"me|op" + r"t|ro" + r"ot|tm"
    r"p|wo" + r"rk)(?=[/\s\"'`:;,)]|$)",
    "a package registry's host": r"(?:py" + r"pi|npm" + r"js|ana" + r"conda|python"
    r"hosted|deb\.deb" + r"ian|download\.py" + r"torch)\.(?:org|com)\b",
}


def forbidden(path):
    """Return what a file says although it must not, a line for each."""
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
    """Return True if a class only holds fields, or names an error."""
    return inspect.isclass(value) and (
        dataclasses.is_dataclass(value)
        or hasattr(value, "_fields")
        or issubclass(value, Exception)
    )


def gives_a_value(function):
    """Return True if a function has a return statement with a value of its own."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    nodes = list(ast.iter_child_nodes(tree.body[0]))
    for node in nodes:
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            nodes.extend(ast.iter_child_nodes(node))
    return False


def wanted_sections(value):
    """Return the sections that a docstring needs."""
    if is_plain_record(value):
        return []
    sections = ["Examples"]
    if inspect.isfunction(value) and gives_a_value(value):
        sections.insert(0, "Returns")
    if inspect.isfunction(value) and inspect.signature(value).parameters:
        sections.insert(0, "Parameters")
    return sections


def undocumented(module):
    """Return what a module's public objects lack: a docstring or its sections."""
    # What these files define is run from a registry, by its id.
    registered = module.__name__.startswith(
        ("bnlib.claims.chapter", "bnlib.experiments.")
    )
    found = []
    for name, value in public_objects(module):
        text = inspect.getdoc(value) if value.__doc__ else None
        if not text:
            found.append(f"{module.__name__}.{name}: no docstring")
        elif not registered:
            found += [
                f"{module.__name__}.{name}: no {section} section"
                for section in wanted_sections(value)
                if f"{section}\n-" not in text
            ]
    return found


def ruff(*arguments, folder=ROOT, **options):
    command = [sys.executable, "-m", "ruff", *arguments]
    options |= {"capture_output": True, "text": True, "cwd": folder}
    return subprocess.run(command, **options)


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


def test_no_file_names_a_path_of_one_machine_or_a_registry():
    found = [line for path in own_files(ROOT) for line in forbidden(path)]
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
def test_what_the_tree_must_not_speak_of_is_found(tmp_path, line):
    (tmp_path / "note.md").write_text(f"first line\n{line}\n")
    assert [found[:9] for found in forbidden(tmp_path / "note.md")] == ["note.md:2"]


def test_every_public_name_has_a_whole_docstring():
    found = [line for module in modules(bnlib) for line in undocumented(module)]
    assert not found, "\n".join(found)


def test_what_a_docstring_lacks_is_named(monkeypatch):
    def bare():
        pass

    def told(x):
        """Do a thing."""
        return x

    def whole(x):
        """Do a thing.

        Parameters
        ----------
        x : float

        Examples
        --------
        >>> whole(2)
        """
        print(list(map(lambda value: value, [x])))

    bare.__module__ = told.__module__ = whole.__module__ = "bnlib.plotting"
    monkeypatch.setattr(bnlib.plotting, "bare", bare, raising=False)
    monkeypatch.setattr(bnlib.plotting, "told", told, raising=False)
    monkeypatch.setattr(bnlib.plotting, "whole", whole, raising=False)
    assert undocumented(bnlib.plotting) == [
        "bnlib.plotting.bare: no docstring",
        "bnlib.plotting.told: no Parameters section",
        "bnlib.plotting.told: no Returns section",
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
    for block in blocks:
        said = ruff("check", "--stdin-filename", "bnlib/shown.py", "-", input=block)
        assert said.returncode == 0, said.stdout
    # In a process of its own: the example of a claim would stay registered.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
