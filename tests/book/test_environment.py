"""environment.yml and constraints.txt give what pyproject.toml asks for."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions

import pytest
import yaml
from packaging.requirements import Requirement
from refusals import refused

from tools import environment

PROJECT = tomllib.loads((environment.ROOT / "pyproject.toml").read_text())["project"]
STORED = (environment.ROOT / "environment.yml").read_text()
PINS = (environment.ROOT / "constraints.txt").read_text()


def specs():
    """Return the stored conda specs by name: what follows the name, in words."""
    listed = yaml.safe_load(STORED)["dependencies"]
    words = [item.replace("=", " =", 1).split() for item in listed[:1]]
    words += [item.split() for item in listed[1:] if isinstance(item, str)]
    return {name: rest for name, *rest in words}


def test_the_stored_file_is_what_the_tool_writes():
    assert environment.environment_text(environment.ROOT) == STORED, (
        "run: python -m tools.environment"
    )


@pytest.mark.parametrize("requirement", environment.requirements(PROJECT, "lab"))
def test_every_requirement_stands_in_it_with_its_range(requirement):
    wanted = Requirement(requirement)
    name = "pytorch" if wanted.name == "torch" else wanted.name
    assert set(specs()[name][0].split(",")) == {str(s) for s in wanted.specifier}


def test_pytorch_is_the_build_for_the_cpu():
    assert specs()["pytorch"][1] == "cpu*"


def test_python_is_the_one_that_is_tested_and_allowed():
    assert specs()["python"] == ["=3.11"]
    assert "3.11.0" in Requirement(f"python{PROJECT['requires-python']}").specifier


def test_binder_installs_the_package_itself():
    assert {"pip": ["-e ."]} in yaml.safe_load(STORED)["dependencies"]


@pytest.mark.parametrize(
    "requirement", ["book[lab]", "triton>=3; sys_platform == 'linux'"]
)
def test_what_conda_cannot_say_is_refused(requirement):
    with refused(ValueError, "", repr(requirement), "name, range"):
        environment.conda_spec(requirement)


def requirements(*extras):
    return [Requirement(text) for text in environment.requirements(PROJECT, *extras)]


def canonical(name):
    return name.lower().replace("_", "-")


def pinned():
    """Return the versions of constraints.txt by name."""
    lines = [Requirement(p) for p in PINS.splitlines() if not p.startswith("#")]
    return {canonical(p.name): str(p.specifier).removeprefix("==") for p in lines}


@pytest.mark.parametrize(
    "wanted", requirements(*PROJECT["optional-dependencies"]), ids=str
)
def test_every_requirement_has_a_pin_within_its_range(wanted):
    assert pinned().get(canonical(wanted.name), "none") in wanted.specifier


def test_a_pin_is_of_no_build_and_from_no_index():
    lines = [line for line in PINS.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    assert "://" not in PINS


def imports(node, extra=None):
    """Yield each module that a file imports, with the extra that the file names."""
    if isinstance(node, ast.Import):
        yield from ((alias.name.partition(".")[0], extra) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield node.module.partition(".")[0], extra
    elif isinstance(node, ast.With):
        context = ast.unparse(node.items[0].context_expr)
        named = re.fullmatch(r"extra\('(\w+)'\)", context)
        extra = named[1] if named else extra
    for child in ast.iter_child_nodes(node):
        yield from imports(child, extra)


@cache
def brought(*extras):
    return {canonical(wanted.name) for wanted in requirements(*extras)}


@cache
def distributions():
    return packages_distributions()


def homes(name):
    """Return the distributions that a top-level module may come from."""
    return {canonical(home) for home in distributions().get(name, [name])}


def undeclared(folder, *extras, everywhere=False):
    """Return the packages that a folder's files import but no requirement brings.

    By default only the imports at the top of a file count, since the file does not
    load without them; with `everywhere`, all imports count.
    """
    paths = sorted((environment.ROOT / folder).rglob("*.py"))
    known = sys.stdlib_module_names | {
        "bnlib",
        "grading",
        "tools",
        *(p.stem for p in [*paths, *(environment.ROOT / "_ext").glob("*.py")]),
    }
    return {
        name
        for path in paths
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if everywhere or isinstance(node, ast.Import | ast.ImportFrom)
        for name, extra in imports(node)
        if name not in known
        and not homes(name) & brought(*extras, *([extra] if extra else []))
    }


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("grading", ["course"]),
        ("tools", ["book"]),
        ("_ext", ["book"]),
        ("tests", ["book", "test"]),
    ],
)
def test_what_is_imported_is_declared(folder, extras):
    assert undeclared(folder, *extras) == set()


def test_the_library_imports_what_an_extra_brings_only_where_it_says_so():
    # A style can be set without IPython, and PyTorch brings Triton for GPUs.
    optional = {"IPython", "matplotlib_inline", "triton"}
    assert undeclared("bnlib", everywhere=True) == optional
