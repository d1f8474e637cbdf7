"""What an error or a warning says, checked by its content and not by its sentence.

A refusal names the argument, what was given and what is taken. A test says these
three; the words between them are free.

    with refused(ValueError, "eps", -1, "at least 0"):
        normalise(x, eps=-1)
"""

import re
from collections import Counter
from contextlib import contextmanager

import pytest

# Ways to write one bound.
BOUNDS = [
    (r"\bno less than\b|\bat least\b|≥", ">="),
    (r"\bno more than\b|\bat most\b|≤", "<="),
    (r"(-?\d\S*) or more\b", r">= \1"),
    (r"(-?\d\S*) or (?:fewer|less)\b", r"<= \1"),
    (r"\b(?:more|greater|larger) than\b|\babove\b", ">"),
    (r"\b(?:fewer|less|smaller) than\b|\bbelow\b", "<"),
]
# Words that a reworded message may leave out.
FILLERS = frozenset(
    "a an and are as at be but for give has in is it its of or such takes that the "  # noqa: SIM905
    "this to use was were with".split()
)
ENTRY = r"[^()\[\]\s,]+"
TOKEN = re.compile(
    rf"""
    (?<![\w'])'[^'\s]*'                                    # 'quoted'
    | [(\[] (?: {ENTRY},\s* (?:{ENTRY},\s*)* (?:{ENTRY})? )? [)\]]   # (3, 1), (m, C)
    | [<>=!]=? | [-+*] (?=\s)                              # a sign between two terms
    | -?\w (?: [\w.+/-]* \w )?                             # a word, a name, a number
    """,
    re.VERBOSE,
)


def tokens(text):
    """List the words, names, numbers, shapes and quoted values of a text."""
    for written, sign in BOUNDS:
        text = re.sub(written, sign, text)
    return [_canonical(token) for token in TOKEN.findall(text)]


def _canonical(token):
    """Write a number in one way (-1, -1.0), and a shape without its blanks."""
    try:
        return repr(float(token))
    except ValueError:
        return re.sub(r"\s", "", token)


def _text(value):
    """A text stands for itself; a type for its name; all else as Python prints it."""
    if isinstance(value, str):
        return value
    return value.__name__ if isinstance(value, type) else repr(value)


def assert_named(error, named="", given="", taken=""):
    """Check that a message names the argument, what was given and what is taken.

    Each of the three is a text, or a value as Python prints it. Its words may stand
    in any order, but each must be there as a whole (1 is not in 12, in -1, in 1.5 or
    in (1, 2)), once for each time that it is asked for.
    """
    wanted = {"name": named, "given": given, "taken": taken}
    wanted = {
        role: [token for token in tokens(_text(value)) if token not in FILLERS]
        for role, value in wanted.items()
    }
    assert any(wanted.values()), "nothing is asked of the message"
    found = Counter(tokens(str(error)))
    missing = [
        f"{token} ({role})"
        for role, asked in wanted.items()
        for token in asked
        if not _strike(token, found)
    ]
    assert not missing, f"missing {', '.join(missing)} in the message: {error}"


def _strike(token, found):
    """Strike a token from what was found, and say whether it was there.

    A value may stand in quotes, a name with its module, a file with its folder.
    """
    forms = [token, f"'{token}'"]
    if not token[0].isdigit():
        ends = (f".{token}", f"/{token}")
        forms += [name for name in found if name.strip("'").endswith(ends)]
    for form in forms:
        if found[form] > 0:
            found[form] -= 1
            return True
    return False


@contextmanager
def refused(error, named="", given="", taken=""):
    """Check that the block raises ``error``, and its message with `assert_named`."""
    with pytest.raises(error) as raised:
        yield raised
    assert_named(raised.value, named, given, taken)


@contextmanager
def warned(category, named="", given="", taken=""):
    """Check that the block gives one such warning, and what it says."""
    with pytest.warns(category) as given_out:
        yield given_out
    (warning,) = (one for one in given_out if issubclass(one.category, category))
    assert_named(warning.message, named, given, taken)
