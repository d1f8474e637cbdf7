"""What pyproject.toml asks for, environment.yml and constraints.txt give."""

import ast
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain

import pytest
import yaml
from packaging.requirements import Requirement

from tools import environment, pins

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
    assert environment.environment_text() == STORED, "run: python -m tools.environment"


@pytest.mark.parametrize(
    "requirement",
    [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["lab"]],
)
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
    "requirement", ["bnlib[lab]", "triton>=3; sys_platform == 'linux'"]
)
def test_what_conda_cannot_say_is_refused(requirement):
    with pytest.raises(ValueError, match="a name and a range is all conda takes"):
        environment.conda_spec(requirement)


def test_the_tool_writes_what_the_project_file_says(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["numpy>=2"]\n'
        '[project.optional-dependencies]\nlab = ["jupyterlab>=4"]\n'
    )
    text = environment.environment_text(tmp_path)
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "environment_text", lambda: text)
    environment.main()
    assert "  - numpy >=2\n" in (tmp_path / "environment.yml").read_text()


def requirements(*extras):
    listed = PROJECT["optional-dependencies"]
    texts = chain(PROJECT["dependencies"], *(listed[extra] for extra in extras))
    return [Requirement(text) for text in texts]


def canonical(name):
    return name.lower().replace("_", "-")


def pinned():
    """Return the versions of constraints.txt by name."""
    lines = map(Requirement, PINS.splitlines()[1:])
    return {canonical(p.name): str(p.specifier).removeprefix("==") for p in lines}


@pytest.mark.parametrize(
    "wanted", requirements("lab", "book", "test", "course"), ids=str
)
def test_every_requirement_has_a_pin_within_its_range(wanted):
    if wanted.name != PROJECT["name"]:
        assert pinned().get(canonical(wanted.name), "none") in wanted.specifier


def imported(folder):
    """Return what a folder's files import at their top: it must be there."""
    for path in sorted((environment.ROOT / folder).rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield node.module.partition(".")[0]


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("bnlib", ["lab", "gpu"]),
        ("grading", ["course"]),
        ("tools", ["book"]),
        ("_ext", ["book"]),
        ("tests", ["lab", "book", "course", "test"]),
    ],
)
def test_what_is_imported_is_declared(folder, extras):
    beside = [p.stem for p in environment.ROOT.joinpath(folder).rglob("*.py")]
    ours = {"bnlib", "grading", "tools", *beside}
    foreign = set(imported(folder)) - sys.stdlib_module_names - ours
    homes = packages_distributions()
    declared = {canonical(wanted.name) for wanted in requirements(*extras)}
    undeclared = {
        name
        for name in foreign
        if not declared & {canonical(home) for home in homes.get(name, [name])}
    }
    assert undeclared == set()


def test_a_pin_names_no_build_of_one_index():
    assert pins.pins("torch==2.13.0+cpu\nnumpy==2.4.6\n") == (
        "torch==2.13.0\nnumpy==2.4.6\n"
    )
    assert "+" not in PINS
