"""The hash of the code that results depend on: what changes it and what does not."""

import dataclasses

import pytest
from refusals import refused

from bnlib import experiments
from bnlib.experiments import _definitions, _source

OWN = "experiments/own.py"
OWN_TEXT = """
from bnlib import transform
from bnlib.experiments._registry import experiment
from bnlib.functional import normalise as norm

RATE = 0.5


@experiment(id="own", title="Text", live={"steps": 1})
def unit(context):
    try:
        return transform.f(RATE) + norm(1) + _help(context)
    except transform.Wrong:
        import bnlib

        return bnlib.rooms.g(2)


def _help(x):
    return x


def another(x):
    return transform.unused(x)
"""
PACKAGE = {
    "__init__.py": "",
    "transform.py": '''"""Text."""

from bnlib import _checks, data


class Wrong(Exception):
    """Text."""


def f(x: float = 1.0):
    """Text."""
    data.load("a")
    _checks.check(x)
    return x + 1


def unused(x):
    return x - 1
''',
    "_checks.py": """
def check(x):
    if x < 0:
        raise ValueError(f"x is {x}")


def unused():
    return 1
""",
    "functional.py": """
from bnlib import kernels


def normalise(x):
    return kernels.module("a").forward(x)
""",
    "kernels/__init__.py": """
import importlib


def module(name):
    return importlib.import_module(f"bnlib.kernels._{name}")
""",
    "kernels/_a.py": "\ndef forward(x):\n    return x * 3\n",
    "kernels/a.c": "int f(int x) { return x; /* why */ }\n",
    "rooms/__init__.py": "from bnlib.rooms._g import g\n\n__all__ = ['g']\n",
    "rooms/_g.py": """
from bnlib.rooms import _h

SIZES = []
SIZES.append(4)


def g(x):
    return [_h.h(y) for y in range(x)]
""",
    "rooms/_h.py": "def h(x):\n    return x\n\n\ndef unused():\n    return 1\n",
    "data/__init__.py": "def load(name):\n    return 1\n",
    "plotting.py": "color = 1\n",
    "experiments/_registry.py": "def experiment(**fields):\n    return lambda f: f\n",
    "experiments/_units.py": """
from bnlib.experiments._registry import seed


def compute_unit(experiment):
    return seed(1)
""",
    "experiments/_runner.py": "run = 1\n",
    OWN: OWN_TEXT,
}
PACKAGE["experiments/_registry.py"] += "\n\ndef seed(x):\n    return x + 7\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(_source, "PACKAGE", tmp_path)
    return tmp_path


def hash_of(file, function="unit", **fields):
    """Hash the experiment whose function stands in a file, which is not run."""
    code = compile("\n" * 8 + f"def {function}(): pass", str(file), "exec")
    scope = {}
    exec(code, scope)
    entry = experiments.get("digits-learning-rate")
    return _source.source_hash(
        dataclasses.replace(entry, function=scope[function], **fields)
    )


def edited(package, name, old, new):
    """Hash before and after an edit of one file."""
    before = hash_of(package / OWN)
    text = (package / name).read_text()
    assert old in text
    (package / name).write_text(text.replace(old, new))
    return before, hash_of(package / OWN)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("transform.py", "x + 1", "x + 2"),
        ("transform.py", "x + 1", "x - 1"),
        ("transform.py", "x + 1", "x + 1.0"),
        ("transform.py", "= 1.0", "= 2.0"),
        ("transform.py", '    """Text."""\n    data', "    print('Text.')\n    data"),
        ("_checks.py", "x < 0", "x <= 0"),
        ("_checks.py", "ValueError", "TypeError"),
        ("rooms/_h.py", "return x", "return -x"),
        ("rooms/_g.py", "append(4)", "append(5)"),
        ("rooms/_g.py", "_h.h(y)", "y"),
        ("kernels/_a.py", "x * 3", "x * 4"),
        ("kernels/a.c", "return x", "return -x"),
        ("experiments/_registry.py", "x + 7", "x + 8"),
        ("experiments/_units.py", "seed(1)", "seed(2)"),
        (OWN, "RATE = 0.5", "RATE = 0.6"),
        (OWN, "return x", "return -x"),
        (OWN, "norm(1)", "norm(2)"),
    ],
)
def test_an_edit_of_what_computes_changes_the_hash(package, name, old, new):
    before, after = edited(package, name, old, new)
    assert before != after


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("transform.py", '"""Text."""', '"""Other text."""'),
        ("transform.py", '    """Text."""\n    data', "    data"),
        ("transform.py", "x + 1", "(x\n    + 1)  # why"),
        ("transform.py", "x: float", "x"),
        ("transform.py", "(x: float = 1.0):", "(x: int = 1.0) -> float:"),
        ("transform.py", "x - 1", "x - 2"),
        ("_checks.py", "x is", "give another x, not"),
        ("_checks.py", "return 1", "return 2"),
        ("kernels/a.c", "/* why */", "/* two\n * lines */"),
        ("rooms/_h.py", "return 1", "return 2"),
        ("data/__init__.py", "1", "2"),
        ("plotting.py", "1", "2"),
        ("experiments/_registry.py", "lambda f: f", "print"),
        ("experiments/_runner.py", "1", "2"),
        (OWN, "\n\n\n@experiment", '\n\n"""Text."""\n\n@experiment'),
        (OWN, '"steps": 1', '"steps": 2'),
        (OWN, "def another(x)", "def another(x, y)"),
        (OWN, "import normalise as norm", "import normalise as norm  # why"),
    ],
)
def test_an_edit_of_words_or_of_what_is_not_used_keeps_the_hash(
    package, name, old, new
):
    before, after = edited(package, name, old, new)
    assert before == after


def moved(package, edits):
    before = hash_of(package / OWN)
    for name, text in edits.items():
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(text)
    return before, hash_of(package / OWN)


def test_a_module_of_another_name_keeps_the_hash(package):
    renamed = {
        "other.py": PACKAGE["transform.py"],
        OWN: OWN_TEXT.replace("import transform", "import other").replace(
            "transform.", "other."
        ),
    }
    before, after = moved(package, renamed | {"transform.py": ""})
    assert before == after


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from bnlib import deep", "deep.check"),
        ("from bnlib.deep import check", "check"),
        ("from bnlib.deep import check as check_x", "check_x"),
        ("import bnlib.deep", "bnlib.deep.check"),
        ("from bnlib.rooms import deep", "deep.check"),
    ],
)
def test_a_function_that_moves_to_another_module_keeps_the_hash(package, imports, call):
    text = PACKAGE["transform.py"].replace("import _checks, data", "import data")
    text = text.replace("from bnlib", f"{imports}\nfrom bnlib", 1)
    place = "rooms/deep.py" if "rooms" in imports else "deep.py"
    before, after = moved(
        package,
        {
            "_checks.py": "",
            place: PACKAGE["_checks.py"] + "\n\nMORE = 1\n",
            "transform.py": text.replace("_checks.check", call),
        },
    )
    assert before == after


def test_a_package_that_hands_on_the_name_of_another_keeps_the_hash(package):
    before, after = moved(
        package,
        {
            "rooms/__init__.py": "from bnlib.halls import g\n",
            "halls/__init__.py": "from bnlib.halls._g import g\n",
            "halls/_g.py": PACKAGE["rooms/_g.py"].replace("rooms", "halls"),
            "halls/_h.py": PACKAGE["rooms/_h.py"],
        },
    )
    assert before == after


def test_a_name_that_a_stub_shows_is_followed(package):
    own = OWN_TEXT.replace("transform.f", "bnlib.f")
    before, after = moved(
        package,
        {
            "__init__.pyi": (
                "from . import rooms as rooms\nfrom .transform import f as f\n"
            ),
            OWN: own,
        },
    )
    assert before == after


def test_a_local_name_is_not_the_module_of_that_name(package):
    own = OWN_TEXT.replace("return x", "return [transform.unused for transform in x]")
    (package / OWN).write_text(own)
    before, after = edited(package, "transform.py", "x - 1", "x - 2")
    assert before == after


def test_a_default_is_read_outside_the_function_that_it_names(package):
    own = "from bnlib.transform import f\n\n\ndef unit(f=f):\n    return f(1)\n"
    (package / OWN).write_text(own)
    before, after = edited(package, "transform.py", "x + 1", "x + 2")
    assert before != after


def test_a_module_that_is_handed_on_counts_as_a_whole(package):
    (package / OWN).write_text(OWN_TEXT.replace("_help(context)", "_help(transform)"))
    before, after = edited(package, "transform.py", "x - 1", "x - 2")
    assert before != after


@pytest.mark.parametrize("field", [{"paired": ("arm", "batch")}, {"threads": None}])
def test_what_else_an_experiment_gives_a_unit_counts(package, field):
    assert hash_of(package / OWN) != hash_of(package / OWN, **field)


def test_an_import_of_what_is_not_there_is_named(package):
    text = OWN_TEXT.replace("bnlib.functional", "bnlib.gone")
    (package / OWN).write_text(text)
    with refused(ValueError, "normalise", "bnlib.gone"):
        hash_of(package / OWN)


def test_the_file_of_an_experiment_counts_outside_the_package(package, tmp_path):
    hashes = set()
    for result in (1, 2):
        own = tmp_path.parent / f"{tmp_path.name}-own.py"
        own.write_text(f"def unit():\n    return {'x' * result}\n")
        hashes.add(hash_of(own))
    assert len(hashes) == 2


def test_the_text_hashed_has_no_empty_fields_as_they_depend_on_pythons_version(
    tmp_path,
):
    (tmp_path / "a.py").write_text("def f():\n    'Text.'\n    return None, 1\n")
    place = _definitions.Place(str(tmp_path / "a.py"), "f")
    assert _definitions.reached([place], tmp_path) == {
        "FunctionDef(name='f',args=arguments(),"
        "body=[Return(value=Tuple(elts=[Constant(),Constant(value=1)],ctx=Load()))])"
    }
