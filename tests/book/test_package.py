"""The package as a whole: lazy, complete, and what of it works without extras."""

import json
import pkgutil
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
import yaml
from refusals import refused

import bnlib
from tools.files import own_files

ROOT = Path(__file__).resolve().parents[2]
SUBMODULES = [
    module.name
    for module in pkgutil.iter_modules(bnlib.__path__)
    if not module.name.startswith("_")
]
AT_THE_TOP = {
    "batch_norm_forward": "transform",
    "batch_norm_backward": "transform",
    "batch_norm_backward_steps": "transform",
    "batch_norm_inference": "transform",
    "RunningStatistics": "statistics",
    "fold": "folding",
    "recalibrate": "recalibration",
}


def python(code, *options):
    """Run code in a fresh interpreter; return what it prints."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True
    )
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
    assert name in dir(bnlib)


@pytest.mark.parametrize("name", AT_THE_TOP)
def test_the_names_at_the_top_are_those_of_the_submodules(name):
    assert getattr(bnlib, name) is getattr(getattr(bnlib, AT_THE_TOP[name]), name)


def test_editors_and_the_interpreter_see_the_same_names():
    assert sorted(bnlib.__all__) == sorted([*AT_THE_TOP, *SUBMODULES])


def test_a_submodule_is_reached_in_a_fresh_interpreter():
    code = "import bnlib; print(bnlib.statistics.convert_momentum(0.75))"
    assert python(code) == "0.25"


@pytest.mark.parametrize("name", ["nothing", "_private", "Transform", "__wrapped__"])
def test_an_unknown_attribute_is_an_attribute_error(name):
    with refused(AttributeError, name):
        getattr(bnlib, name)
    assert not hasattr(bnlib, name)


def test_a_star_import_gives_every_public_name():
    names = {}
    exec("from bnlib import *", names)
    assert {*AT_THE_TOP, *SUBMODULES} == names.keys() - {"__builtins__"}


def test_a_clone_that_is_not_installed_knows_its_version():
    # -S: without the folder in which packages and their metadata are installed.
    found = python(
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]; import types; "
        "lazy = sys.modules['lazy_loader'] = types.ModuleType('lazy_loader'); "
        "lazy.attach_stub = lambda *_: (None, None, []); "
        "import bnlib; print(bnlib.__version__)",
        "-I",
        "-S",
    )
    assert found == bnlib.__version__


def test_the_citation_has_the_version_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == bnlib.__version__


def readme_example():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]


# What needs an extra: the call, the package that it misses, the extra.
NEEDY = [
    ("data.load('digits')", "sklearn", "data"),
    ("data.load('a9a')", "pooch", "data"),
    ("experiments.run('digits-learning-rate')", "sklearn", "data"),
    ("claims.get('p-maxmargin').check()", "sklearn", "data"),
    ("plotting.use_style()", "matplotlib", "plot"),
    ("landscape.film(None, None, ['a', 'b'], 'alt')", "matplotlib", "plot"),
]
WITHOUT_EXTRAS = f"""
import importlib.abc
import json
import sys


class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {{"matplotlib", "pooch", "sklearn", "tqdm"}}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Missing())

{readme_example()}
from bnlib import *

said = {{}}
for call in {[call for call, _, _ in NEEDY]}:
    try:
        said[call] = repr(eval(call))
    except ModuleNotFoundError as error:
        said[call] = str(error)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory):
    """Return what README's example prints without extras, and what calls say then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BNLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("BNLIB_DATA", raising=False)
        *example, said = python(WITHOUT_EXTRAS).splitlines()
    return "\n".join(example), json.loads(said)


def test_the_readmes_example_and_a_star_import_need_no_extra(without_extras):
    assert without_extras[0].startswith("holds: error ")


@pytest.mark.parametrize(("call", "package", "extra"), NEEDY)
def test_what_needs_an_extra_says_which(call, package, extra, without_extras):
    message = without_extras[1][call]
    assert package in message
    assert f"pip install 'batch-normalization-proved-and-run[{extra}]'" in message


def build(folder, *options, root=ROOT):
    command = [sys.executable, "-m", "hatchling", "build", "-d", folder, *options]
    subprocess.run(command, cwd=root, check=True, capture_output=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build a source distribution and a wheel; return the paths of both."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return source, wheel


def files_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_the_library_and_nothing_else(built):
    library = ROOT / "bnlib"
    ours = [path for path in own_files(ROOT) if path.is_relative_to(library)]
    there = {path.relative_to(ROOT).as_posix() for path in ours}
    assert files_of(built[1]) == there
    assert {"bnlib/py.typed", "bnlib/__init__.pyi"} <= there


def test_the_source_distribution_builds_the_same_wheel(built, tmp_path):
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        tmp_path,
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert files_of(wheel) == files_of(built[1])


def test_the_wheel_says_what_it_is(built):
    with zipfile.ZipFile(built[1]) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    assert metadata["Name"] == "batch-normalization-proved-and-run"
    assert metadata["Version"] == bnlib.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    core = [r for r in metadata.get_all("Requires-Dist") if "extra ==" not in r]
    assert not {"matplotlib", "scikit-learn", "pooch", "tqdm"} & {
        re.match(r"[\w.-]+", requirement)[0] for requirement in core
    }
