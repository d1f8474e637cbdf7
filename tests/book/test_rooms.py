"""The rooms of bnlib: what imports what, read from the source, lazy imports too."""

import ast
import graphlib
import re
from pathlib import Path

import pytest

import bnlib

PACKAGE = Path(bnlib.__file__).parent


def imports(path, package):
    """Yield (line, dotted name below the package) of all that a file imports from it.

    ``from bnlib.a import b`` gives ``a.b``: whether b is a module does not matter here.
    After ``import bnlib``, ``bnlib.a`` in the code is an import of a.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        else:
            continue
        for name in names:
            if name.startswith(f"{package.name}."):
                yield node.lineno, name.removeprefix(f"{package.name}.")


def room(path, package):
    """Return the first name below the package; a hall's module is its own room."""
    return path.relative_to(package).with_suffix("").parts[0]


def sources(package):
    """Return the files of all rooms, without the package's own `__init__`."""
    return sorted(set(package.rglob("*.py")) - {package / "__init__.py"})


def graph(package):
    """Return which rooms each room imports, including those of the hall."""
    rooms = {room(path, package): set() for path in sources(package)}
    for path in sources(package):
        here = room(path, package)
        there = {name.partition(".")[0] for _, name in imports(path, package)}
        rooms[here] |= (there & rooms.keys()) - {here}
    return rooms


def cycle(package):
    """Return the rooms of one cycle, or nothing."""
    try:
        graphlib.TopologicalSorter(graph(package)).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def private_crossings(package):
    """Return where a room imports a private name of another room."""
    return [
        f"{path.relative_to(package)}:{line}: {name}"
        for path in sources(package)
        for line, name in imports(path, package)
        if name.partition(".")[0] != room(path, package) and re.search(r"\._[^_]", name)
    ]


def owned_alone(package):
    """Return the hall's modules that fewer than two rooms import."""
    users = graph(package)

    def rooms_that_use(name, seen):
        for user in users:
            if name in users[user] and user not in seen:
                seen.add(user)
                if user.startswith("_"):
                    rooms_that_use(user, seen)
        return {user for user in seen if not user.startswith("_")}

    halls = [name for name in users if name.startswith("_")]
    return [name for name in halls if len(rooms_that_use(name, set())) < 2]


def claims_that_import_claims(package):
    """Return where a file of `claims` imports from a chapter's."""
    return [
        f"{path.name}:{line}: {name}"
        for path in sorted((package / "claims").glob("*.py"))
        for line, name in imports(path, package)
        if re.match(r"claims\.chapter\d\d_", name)
    ]


RULES = (cycle, private_crossings, owned_alone, claims_that_import_claims)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rooms_keep_to_the_rule(rule):
    assert rule(PACKAGE) == []


def package_of(folder, files):
    """Write a small package: a text for each file's path."""
    package = folder / "toy"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


SOUND = {
    "__init__.py": "from toy.a import f",
    "_hall.py": "",
    "a/__init__.py": "from toy.a._own import f",
    "a/_own.py": "from toy import _hall",
    "b.py": "from toy import _hall\nfrom toy.a import f",
    "claims/_instances.py": "from toy.a import f",
    "claims/chapter01_one.py": "from toy.claims._instances import g",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_sound_package_breaks_no_rule(rule, tmp_path):
    assert rule(package_of(tmp_path, SOUND)) == []


@pytest.mark.parametrize(
    ("rule", "changed", "found"),
    [
        (cycle, {"a/_own.py": "def f():\n    from toy import b"}, ["a", "b", "a"]),
        (
            cycle,
            {"_hall.py": "import toy.b", "a/_own.py": ""},
            ["_hall", "b", "_hall"],
        ),
        (private_crossings, {"b.py": "import toy.a._own"}, ["b.py:1: a._own"]),
        (private_crossings, {"b.py": "from toy.a import _g"}, ["b.py:1: a._g"]),
        (cycle, {"a/_own.py": "import toy\n\ntoy.b.f()"}, ["a", "b", "a"]),
        (
            private_crossings,
            {"b.py": "def f():\n    from toy.a._own import g"},
            ["b.py:2: a._own.g"],
        ),
        (owned_alone, {"b.py": "", "a/_own.py": "import toy._hall"}, ["_hall"]),
        (owned_alone, {"_alone.py": "from toy import _hall"}, ["_alone"]),
        (
            claims_that_import_claims,
            {"claims/chapter02_two.py": "from toy.claims.chapter01_one import g"},
            ["chapter02_two.py:1: claims.chapter01_one.g"],
        ),
        (
            claims_that_import_claims,
            {"claims/_instances.py": "from toy.claims import chapter01_one"},
            ["_instances.py:1: claims.chapter01_one"],
        ),
    ],
)
def test_a_broken_rule_is_named(rule, changed, found, tmp_path):
    broken = rule(package_of(tmp_path, SOUND | changed))
    assert sorted(set(broken)) == sorted(set(found))


def test_a_hall_module_used_through_another_is_shared(tmp_path):
    changed = {"_hall.py": "from toy import _deep", "_deep.py": ""}
    assert owned_alone(package_of(tmp_path, SOUND | changed)) == []
