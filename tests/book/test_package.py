"""The package as a whole: lazy, complete, one version."""

import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import bnlib
from bnlib import _EXPORTS

ROOT = Path(__file__).resolve().parents[2]
SUBMODULES = [
    module.name
    for module in pkgutil.iter_modules(bnlib.__path__)
    if not module.name.startswith("_")
]


def python(code):
    """Run code in a fresh interpreter; return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_none_of_its_heavy_parts():
    heavy = ["matplotlib", "numpy", "scipy", "sklearn", "torch"]
    loaded = python(
        f"import sys, bnlib; print([name for name in {heavy} if name in sys.modules])"
    )
    assert loaded == "[]"


def test_listing_the_names_loads_nothing():
    loaded = python("import sys, bnlib; dir(bnlib); print('torch' in sys.modules)")
    assert loaded == "False"


def test_the_array_functions_need_no_torch():
    loaded = python(
        "import sys, numpy, bnlib; bnlib.batch_norm_forward(numpy.eye(3)); "
        "bnlib.RunningStatistics(3).update(numpy.eye(3)); print('torch' in sys.modules)"
    )
    assert loaded == "False"


@pytest.mark.parametrize("name", SUBMODULES)
def test_every_submodule_is_an_attribute(name):
    module = getattr(bnlib, name)
    assert module is sys.modules[f"bnlib.{name}"]
    assert name in bnlib.__all__
    assert name in dir(bnlib)


@pytest.mark.parametrize("name", _EXPORTS)
def test_the_names_at_the_top_are_those_of_the_submodules(name):
    assert getattr(bnlib, name) is getattr(getattr(bnlib, _EXPORTS[name]), name)
    assert name in bnlib.__all__


def test_a_submodule_is_reached_in_a_fresh_interpreter():
    code = "import bnlib; print(bnlib.statistics.convert_momentum(0.75))"
    assert python(code) == "0.25"


@pytest.mark.parametrize("name", ["nothing", "_private", "Transform", "__wrapped__"])
def test_an_unknown_attribute_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"'bnlib' has no attribute '{name}'"):
        getattr(bnlib, name)
    assert not hasattr(bnlib, name)


def test_a_star_import_gives_every_public_name():
    names = {}
    exec("from bnlib import *", names)
    assert {*_EXPORTS, *SUBMODULES} == names.keys() - {"__builtins__"}


def test_the_version_is_that_of_the_project_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert bnlib.__version__ == project["project"]["version"]
