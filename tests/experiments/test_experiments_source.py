"""The hash of the code that results depend on: what changes it and what does not."""

import pytest

from bnlib.experiments import _source

PACKAGE = {
    "transform.py": '"""Text."""\n\ndef f(x):\n    """Text."""\n    return x + 1\n',
    "plotting.py": "color = 1\n",
    "claims/chapter.py": "claim = 1\n",
    "data/_files.py": "file = 1\n",
    "experiments/__main__.py": "line = 1\n",
    "experiments/_records.py": "record = 1\n",
    "experiments/_runner.py": "run = 1\n",
    "experiments/other.py": "other = 1\n",
    "experiments/own.py": "def unit():\n    return 1\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(_source, "PACKAGE", tmp_path)
    return tmp_path


def hash_of(file):
    scope = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    return _source.source_hash(scope["unit"])


def edited(package, name, old, new):
    """Hash before and after an edit of one file."""
    own = package / "experiments/own.py"
    before = hash_of(own)
    text = (package / name).read_text()
    assert old in text
    (package / name).write_text(text.replace(old, new))
    return before, hash_of(own)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("transform.py", "x + 1", "x + 2"),
        ("transform.py", "x + 1", "x - 1"),
        ("transform.py", "x + 1", "x + 1.0"),
        ("transform.py", "def f", "def g"),
        ("transform.py", '    """Text."""\n', "    print('Text.')\n"),
        ("experiments/_runner.py", "1", "2"),
        ("experiments/own.py", "return 1", "return 2"),
    ],
)
def test_an_edit_of_what_computes_changes_the_hash(package, name, old, new):
    before, after = edited(package, name, old, new)
    assert before != after


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("transform.py", '"""Text."""', '"""Other text."""'),
        ("transform.py", '    """Text."""\n', ""),
        ("transform.py", "x + 1", "(x\n    + 1)  # why"),
        ("experiments/own.py", "def unit", '"""Text."""\n\ndef unit'),
        ("plotting.py", "1", "2"),
        ("claims/chapter.py", "1", "2"),
        ("data/_files.py", "1", "2"),
        ("experiments/__main__.py", "1", "2"),
        ("experiments/_records.py", "1", "2"),
        ("experiments/other.py", "1", "2"),
    ],
)
def test_an_edit_of_words_or_of_what_computes_nothing_keeps_the_hash(
    package, name, old, new
):
    before, after = edited(package, name, old, new)
    assert before == after


def test_a_module_of_another_name_changes_the_hash(package):
    own = package / "experiments/own.py"
    before = hash_of(own)
    (package / "transform.py").rename(package / "statistics.py")
    assert hash_of(own) != before


def test_the_file_of_an_experiment_counts_outside_the_package(package, tmp_path):
    hashes = set()
    for result in (1, 2):
        own = tmp_path.parent / f"{tmp_path.name}-{result}.py"
        own.write_text(f"def unit():\n    return {result}\n")
        hashes.add(hash_of(own))
    assert len(hashes) == 2


def test_the_text_hashed_has_no_empty_fields_as_they_depend_on_pythons_version():
    assert _source._code("def f():\n    'Text.'\n    return None, 1\n") == (
        "Module(body=[FunctionDef(name='f',args=arguments(),"
        "body=[Return(value=Tuple(elts=[Constant(),Constant(value=1)],ctx=Load()))])])"
    )
