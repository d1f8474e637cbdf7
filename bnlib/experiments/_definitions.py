"""Follow names from definition to definition through bnlib, and turn each into text.

The text of a definition does not name its module, so it stays the same when the
definition moves to another module.
"""

import ast
import linecache
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

#: Modules in which names are not followed, because they compute no results.
LEFT_OUT = {"claims", "data", "plotting", "records"}


class Place(NamedTuple):
    """A definition: its file and its name in the file; None means the whole file."""

    path: str
    name: str | None


def reached(places, package):
    """Return the texts of these definitions and of all definitions they refer to.

    Parameters
    ----------
    places : list of Place
    package : Path
        The folder of bnlib.

    Returns
    -------
    set of str
    """
    files = (path for path in package.rglob("*.*") if path.suffix in _READ)
    code = _code(package, tuple((str(path), _stamp(path)) for path in sorted(files)))
    texts, seen, waiting = set(), set(), list(places)
    while waiting:
        place = waiting.pop()
        if place not in seen:
            seen.add(place)
            found, further = code.read(place)
            texts |= found
            waiting += further
    return texts


_READ = {".py", ".pyi", ".c", ".h"}


def _stamp(path):
    status = path.stat()
    return status.st_mtime_ns, status.st_size


class _Code:
    """The package at one moment; each definition is read once."""

    def __init__(self, package, files):
        self.package, self.files = package, dict(files)
        self.modules, self.readings = {}, {}

    def read(self, place):
        """Return the texts of a place and the places that it refers to."""
        if place.path not in self.files:
            return self._read(place, _module_outside(place.path))
        if place not in self.readings:
            self.readings[place] = self._read(place, self.module(place.path))
        return self.readings[place]

    def _read(self, place, module):
        reader = _Reader(self, module)
        nodes = module.effects + module.nodes(place.name)
        texts = {reader.read(node) for node in nodes}
        if reader.imports_at_run_time:
            paths = map(Path, self.files)
            inside = [p for p in paths if p.is_relative_to(Path(place.path).parent)]
            reader.found += [Place(str(p), None) for p in inside if p.suffix == ".py"]
            texts |= {_c_code(p) for p in inside if p.suffix in (".c", ".h")}
        return texts, reader.found

    def module(self, path):
        if path not in self.modules:
            text = Path(path).read_text(encoding="utf-8")
            self.modules[path] = _Module(path, text, self.package)
        return self.modules[path]

    def find(self, module, name):
        """Return the places that a name of a module refers to, or a module's name."""
        if LEFT_OUT & {*module.split(".")[1:2]}:
            return []
        path = self._file(module)
        if name is None:
            return module
        if path is None:
            raise ValueError(f"{name} is imported from {module}, which is not in bnlib")
        if name in self.module(path).definitions:
            return [Place(path, name)]
        for file in filter(self.files.get, (path, f"{path}i")):
            # `from . import a` only says that a package has this module.
            imports = [*self.module(file).imports.get(name, [])]
            if imports := [each for each in imports if each != (module, name)]:
                return self.follow(imports)
        submodule = f"{module}.{name}"
        if self._file(submodule) or submodule.split(".")[1] in LEFT_OUT:
            return self.find(submodule, None)
        # Only running the module would show how the name is bound.
        return [] if name.startswith("__") else [Place(path, None)]

    def follow(self, imports):
        """Return where the imports of one name lead."""
        ends = [self.find(*each) for each in imports]
        if len(ends) == 1 or isinstance(ends[0], str):
            return ends[0]
        return [place for end in ends for place in end]

    def whole(self, module):
        """Return the place that stands for a whole module."""
        return Place(self._file(module), None)

    def _file(self, module):
        base = self.package.joinpath(*module.split(".")[1:])
        files = (base / "__init__.py", base.with_name(f"{base.name}.py"))
        return next((str(path) for path in files if str(path) in self.files), None)


_code = cache(_Code)


def _module_outside(path):
    """Return a module outside bnlib: a user's file, or a notebook's cell."""
    linecache.checkcache(path)
    return _Module(path, "".join(linecache.getlines(path)), None)


def _c_code(path):
    """Return C without comments and layout."""
    text = path.read_text(encoding="utf-8")
    return " ".join(re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).split())


class _Module:
    """The statements of a file: definitions by name, imports of bnlib, and the rest."""

    def __init__(self, path, text, package):
        self.path, self.package = path, package
        self.definitions, self.imports, self.effects = {}, {}, []
        tree = ast.parse(text)
        for node in tree.body:
            names = _defined(node)
            for name in names:
                self.definitions.setdefault(name, []).append(node)
            if not (names or _does_nothing(node)):
                self.effects.append(node)
        self.definitions.pop("__all__", None)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)

    def nodes(self, name):
        if name is not None:
            return self.definitions.get(name, [])
        return [node for nodes in self.definitions.values() for node in nodes]

    def _import(self, node):
        for alias in node.names:
            first = alias.name if alias.asname else alias.name.partition(".")[0]
            self._note(alias.asname or first, first, None)

    def _import_from(self, node):
        base = node.module or ""
        if node.level and self.package:
            folder = Path(self.path).relative_to(self.package).parents[node.level - 1]
            base = ".".join(["bnlib", *folder.parts, *filter(None, [base])])
        for alias in node.names:
            self._note(alias.asname or alias.name, base, alias.name)

    def _note(self, local, module, name):
        if module.partition(".")[0] == "bnlib":
            self.imports.setdefault(local, []).append((module, name))


def _defined(node):
    """Return the names that a statement defines, if it does nothing else."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    flat = [n for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
    simple = all(isinstance(each, ast.Name) for each in flat)
    return [each.id for each in flat] if simple else []


def _does_nothing(node):
    """Return True if a statement computes nothing when its module is imported."""
    as_script = isinstance(node, ast.If) and "__main__" in ast.dump(node.test)
    return as_script or isinstance(node, _IMPORT) or _is_text(node)


def _is_text(node):
    """Return True for a docstring, or another statement that is only a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


_AT_RUN_TIME = {"import_module", "__import__"}
_IMPORT = ast.Import | ast.ImportFrom
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class _Reader:
    """A reader that turns a module's code into text and keeps the places it uses."""

    def __init__(self, code, module):
        self.code, self.module, self.found, self.scopes = code, module, [], []
        self.imports_at_run_time = False

    def read(self, node):
        """Return a text like `ast.dump`'s, but the same in every version of Python."""
        if isinstance(node, list):
            kept = [n for n in node if not (_is_text(n) or isinstance(n, _IMPORT))]
            return f"[{','.join(map(self.read, kept))}]"
        if not isinstance(node, ast.AST):
            return repr(node)
        names = _chain(node)
        self.imports_at_run_time |= not _AT_RUN_TIME.isdisjoint(names)
        if names and (text := self._resolved(names)) is not None:
            return text
        return self._read_fields(node)

    def _read_fields(self, node):
        kind, fields = type(node), dict(ast.iter_fields(node))
        if kind is ast.Raise and isinstance(node.exc, ast.Call):
            fields = {"exc": node.exc.func}
        # Annotations change nothing; `experiment` changes only a record's parameters.
        fields.pop("annotation", None)
        fields.pop("returns", None)
        if decorators := fields.pop("decorator_list", None):
            fields["decorator_list"] = [d for d in decorators if not _registers(d)]
        for outer in _outside(node, fields):
            self.read(outer)
        self.scopes.append(_bound(node))
        kept = [(k, self.read(v)) for k, v in fields.items() if v not in (None, [])]
        self.scopes.pop()
        return f"{kind.__name__}({','.join(f'{k}={v}' for k, v in kept)})"

    def _resolved(self, names):
        """Return the text of a reference to bnlib, whatever its module, or None."""
        first, *rest = names
        if any(first in scope for scope in self.scopes):
            return None
        if first in self.module.definitions:
            end = [Place(self.module.path, first)]
        elif first in self.module.imports:
            end = self.code.follow(self.module.imports[first])
        else:
            return None
        named = first
        while isinstance(end, str) and rest:
            named = rest.pop(0)
            end = self.code.find(end, named)
        if isinstance(end, str):
            # The module is passed on as a value, so all of it may be used.
            named, end = "module", [self.code.whole(end)]
        self.found += end
        named = end[0].name if end and end[0].name else named
        return ".".join([f"Name({named})", *rest])


def _chain(node):
    """Return the names of ``a.b.c``, or nothing for another expression."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def _registers(decorator):
    """Return True for the decorator that registers an experiment."""
    return isinstance(decorator, ast.Call) and "experiment" in _chain(decorator.func)


def _outside(node, fields):
    """Return the parts of a scope that are evaluated outside it."""
    if isinstance(node, _FUNCTION):
        given = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        return [*fields.get("decorator_list", []), *given]
    return [node.generators[0].iter] if isinstance(node, _COMPREHENSION) else []


def _bound(node):
    """Return the names that are local to a function or a comprehension."""
    if not isinstance(node, _FUNCTION | _COMPREHENSION):
        return set()
    names, parts = set(), list(ast.iter_child_nodes(node))
    while parts:
        part = parts.pop()
        if isinstance(part, ast.arg):
            names.add(part.arg)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
        elif isinstance(part, ast.FunctionDef | ast.ClassDef):
            names.add(part.name)
        if not isinstance(part, _FUNCTION | _COMPREHENSION | ast.ClassDef):
            parts += ast.iter_child_nodes(part)
    return names
