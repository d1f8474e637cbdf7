"""The registry of claims: what a claim is, and the list of all claims."""

import difflib
import importlib
import inspect
import pkgutil
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bnlib import _checks
from bnlib.claims.check import Check

KINDS = ("definition", "theorem", "algorithm", "empirical", "remark")
VERDICTS = (
    "holds",
    "conditional",
    "misprint",
    "wrong",
    "ambiguous",
    "contradiction",
    "empirical",
    "conjecture",
)

# The modules beside the chapters' files.
_OTHERS = ("check", "judging", "pages", "registry", "sharpness")
_CLAIMS = {}


@dataclass(eq=False)
class Claim:
    """A statement of the book and the functions that check it.

    Attributes
    ----------
    id, kind, verdict, statement, chapter, source : str
        ``statement`` is Markdown with LaTeX; ``chapter`` the notebook's file
        name without ending; ``source`` the origin of the statement, a key of the
        bibliography or "book".
    printed, printed_in : str or None
        The claim as another text prints it, if that differs, and the key of that text;
        if several texts print it, their keys, joined by commas.
    """

    id: str
    kind: str
    verdict: str
    statement: str
    chapter: str
    source: str
    printed: str | None
    printed_in: str | None
    functions: dict[str, Callable[..., Check]] = field(default_factory=dict, repr=False)

    @property
    def is_checked(self) -> bool:
        """Return True if there is something to check: a remark is only shown."""
        return self.kind != "remark"

    def check(self, seed: int = 0) -> Check:
        """Check one random instance.

        Parameters
        ----------
        seed : int
            The seed of this claim's stream of random numbers.

        Returns
        -------
        Check

        Raises
        ------
        ValueError
            If the claim is a remark, which is shown and not checked.
        """
        return self._run("check", self._generator(seed))

    def control(self, seed: int = 0) -> Check:
        """Make the same comparison for a similar but false claim: it must not hold."""
        return self._run("control", self._generator(seed))

    def printed_check(self, seed: int = 0) -> Check:
        """Run the printed form on its counterexample: it must not hold.

        The counterexample is fixed; ``seed`` has no effect, and makes the three methods
        alike.
        """
        return self._run("printed")

    def code(self, role: str = "check") -> str:
        """Return the source of the check, the control or the printed form.

        Parameters
        ----------
        role : str
            "check", "control" or "printed".

        Raises
        ------
        ValueError
            If the claim has no such function.
        """
        return inspect.getsource(self._function(role))

    def _generator(self, seed):
        _checks.check_integer("seed", seed, 0)
        return np.random.default_rng([int(seed), zlib.crc32(self.id.encode())])

    def _run(self, role, *arguments):
        if not self.is_checked and role != "printed":
            raise ValueError(f"claim {self.id!r} is a remark: it is not checked")
        return self._function(role)(*arguments)

    def _function(self, role):
        if role not in self.functions:
            raise ValueError(f"claim {self.id!r} has no function {role!r}")
        return self.functions[role]


class _Definition:
    """The decorators for a claim's other functions, in place of its check."""

    def __init__(self, defined):
        self._functions = defined.functions

    def control(self, function):
        """Register the same comparison for a claim that is deliberately false."""
        self._functions["control"] = function
        return function

    def printed(self, function):
        """Register the printed form on its counterexample."""
        self._functions["printed"] = function
        return function


def claim(
    *,
    id: str,
    chapter: str,
    kind: str,
    verdict: str,
    statement: str,
    source: str,
    printed: str | None = None,
    printed_in: str | None = None,
) -> Callable[[Callable[..., Check]], _Definition]:
    """Register the decorated function as a claim's check.

    The function takes a `numpy.random.Generator`, makes one random instance and returns
    a `Check`. Decorating it returns an object with two decorators: ``control``, for the
    same comparison for a similar but false claim (takes a generator), and ``printed``,
    for the printed form on its counterexample (takes nothing).

    Parameters
    ----------
    id, chapter, statement, source : str
        As in `Claim`.
    kind, verdict : str
        One of `KINDS` and of `VERDICTS`.
    printed, printed_in : str, optional
        The claim as another text prints it, and the key of that text, or the keys
        joined by commas; give both or neither.

    Returns
    -------
    callable
        The decorator.

    Raises
    ------
    ValueError
        If the id is taken, kind or verdict are unknown, or only one of
        ``printed`` and ``printed_in`` is given.

    Examples
    --------
    >>> @claim(id="bn-range", chapter="02-transform", kind="theorem",
    ...        verdict="holds", statement="...", source="ioffe2015")
    ... def taken(rng): ...
    Traceback (most recent call last):
    ValueError: claim 'bn-range' is defined twice
    """
    for name, value, known in (("kind", kind, KINDS), ("verdict", verdict, VERDICTS)):
        if value not in known:
            raise ValueError(
                f"claim {id!r}: {name} is {value!r}, give one of {', '.join(known)}"
            )

    if (printed is None) is not (printed_in is None):
        raise ValueError(f"claim {id!r}: give both printed and printed_in, or neither")

    def register(function):
        if id in _CLAIMS:
            raise ValueError(f"claim {id!r} is defined twice")
        texts = (statement, chapter, source, printed, printed_in)
        defined = Claim(id, kind, verdict, *texts)
        defined.functions["check"] = function
        _CLAIMS[id] = defined
        return _Definition(defined)

    return register


def all_claims(chapter: str | None = None, verdict: str | None = None) -> list[Claim]:
    """Return the claims in the order of the chapters, as a list.

    Parameters
    ----------
    chapter, verdict : str, optional
        Only those of this chapter (file name without ending) or verdict.

    Returns
    -------
    list of Claim

    Raises
    ------
    ValueError
        If no claim belongs to the chapter, or the verdict is unknown.

    Examples
    --------
    >>> "bn-forward" in [claim.id for claim in all_claims(chapter="02-transform")]
    True
    """
    _load()
    chapters = sorted({entry.chapter for entry in _CLAIMS.values()})
    for name, value, known in (
        ("chapter", chapter, chapters),
        ("verdict", verdict, VERDICTS),
    ):
        if value is not None and value not in known:
            raise ValueError(f"{name} is {value!r}: give one of {', '.join(known)}")
    found = [
        entry
        for entry in _CLAIMS.values()
        if chapter in (None, entry.chapter) and verdict in (None, entry.verdict)
    ]
    # Sort by file: a call for a single claim may have loaded a later file first.
    files = {entry: entry.functions["check"].__module__ for entry in found}
    return sorted(found, key=lambda entry: (entry.chapter, files[entry]))


def get(id: str) -> Claim:
    """Return the claim of this id.

    Parameters
    ----------
    id : str

    Returns
    -------
    Claim

    Raises
    ------
    ValueError
        If there is none; the message names similar ids.

    Examples
    --------
    >>> get("bn-range").kind
    'theorem'
    """
    if id not in _CLAIMS:
        _load(id)
    if id not in _CLAIMS:
        _load()
        near = difflib.get_close_matches(str(id), _CLAIMS, n=3)
        hint = f"did you mean {' or '.join(near)}?"
        if not near:
            hint = f"there are {', '.join(sorted(_CLAIMS))}"
        raise ValueError(f"no claim {id!r}: {hint}")
    return _CLAIMS[id]


def _load(id=None):
    """Import the chapters' files, which register claims, or only the file of an id.

    Files that start with an underscore hold no claims: they are modules that several
    chapters share, such as random instances.
    """
    folder = Path(__file__).parent
    for module in pkgutil.iter_modules([str(folder)]):
        if re.fullmatch(r"chapter\d\d_\w+", module.name):
            text = (folder / f"{module.name}.py").read_text("utf-8") if id else ""
            if id and f'id="{id}"' not in text:
                continue
            importlib.import_module(f"{__package__}.{module.name}")
        elif module.name not in _OTHERS and module.name[0] != "_":
            raise ImportError(
                f"bnlib/claims/{module.name}.py holds no chapter's claims: name it "
                "chapterNN_topic.py, or _instances_topic.py if claims share it"
            )
