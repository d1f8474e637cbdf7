"""One hash for all the code that an experiment's results depend on."""

import ast
import hashlib
import inspect
import linecache
import re
from functools import cache

from bnlib._files import PACKAGE

# They compute no result: a record read, drawn, claimed or taught otherwise is the
# same, and of the data a run keeps the checksums.
_LEFT_OUT = {
    "claims",
    "conformance",
    "course",
    "data",
    "records",
    "plotting.py",
    "experiments/__init__.py",
    "experiments/__main__.py",
    "experiments/_records.py",
}


def source_hash(function):
    """SHA-256 of the code of bnlib that the results of `function` depend on.

    It covers every module and the C of the kernels. Left out are other experiments,
    what only shows results and what loads data. An import graph would miss what
    loads lazily, and a unit computed twice costs less than a wrong one kept.
    Comments, docstrings and layout do not count.

    Parameters
    ----------
    function : function
        The experiment's; its file counts wherever it is.

    Returns
    -------
    str
        64 hexadecimal digits, the same under every version of Python.
    """
    own = inspect.unwrap(function).__code__.co_filename
    linecache.checkcache(own)
    digest = hashlib.sha256(_code("".join(linecache.getlines(own))).encode())
    for path in sorted(PACKAGE.rglob("*.*")):
        name = path.relative_to(PACKAGE)
        if path.suffix in _READ and _counts(name):
            text = _READ[path.suffix](path.read_text(encoding="utf-8"))
            digest.update(f"{name.as_posix()}\0{text}\0".encode())
    return digest.hexdigest()


def _counts(name):
    places = {name.as_posix(), *(folder.as_posix() for folder in name.parents)}
    experiment = name.parts[0] == "experiments" and not name.name.startswith("_")
    return not (experiment or places & _LEFT_OUT)


@cache
def _code(text):
    return _dump(ast.parse(text))


def _dump(node):
    """Do as `ast.dump`, whose text is another in each version of Python."""
    if isinstance(node, list):
        return f"[{','.join(_dump(item) for item in node if not _is_text(item))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    given = [(k, v) for k, v in ast.iter_fields(node) if v not in (None, [])]
    return f"{type(node).__name__}({','.join(f'{k}={_dump(v)}' for k, v in given)})"


def _c_code(text):
    """Return C without comments and layout."""
    return " ".join(re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).split())


def _is_text(node):
    """Tell a docstring, or another statement that is nothing but a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


_READ = {".py": _code, ".c": _c_code, ".h": _c_code}
