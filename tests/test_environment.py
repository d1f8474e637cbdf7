"""environment.yml gives Binder and conda what pyproject.toml asks for."""

import tomllib

import pytest
import yaml
from packaging.requirements import Requirement

from tools import environment

PROJECT = tomllib.loads((environment.ROOT / "pyproject.toml").read_text())["project"]
STORED = (environment.ROOT / "environment.yml").read_text()


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


def test_check_writes_nothing_and_names_the_command(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["numpy>=2"]\n'
        '[project.optional-dependencies]\nlab = ["jupyterlab>=4"]\n'
    )
    text = environment.environment_text(tmp_path)
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "environment_text", lambda: text)
    with pytest.raises(SystemExit, match=r"run: python -m tools\.environment"):
        environment.main(["--check"])
    assert not (tmp_path / "environment.yml").exists()
    environment.main([])
    assert "  - numpy >=2\n" in (tmp_path / "environment.yml").read_text()
    environment.main(["--check"])
