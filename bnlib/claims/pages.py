"""Rows of the ledger and entries of the errata, as Markdown for the book's pages."""

import html
import math
import re
from collections.abc import Iterable

from bnlib.claims._slips import SLIPS
from bnlib.claims.check import Check
from bnlib.claims.judging import Judgement
from bnlib.claims.registry import Claim

#: How grave a difference is, gravest first, and the verdicts that say so.
GRAVITY = {
    "wrong": ("wrong", "contradiction"),
    "misprint": ("misprint",),
    "conditional": ("conditional",),
    "ambiguous": ("ambiguous",),
}
#: The powers of ten at the ends of the bar that shows an error.
ENDS = (-17, 1)


def record(judgement: Judgement) -> dict:
    """Return a judgement's numbers, for a page or a file.

    Parameters
    ----------
    judgement : Judgement

    Returns
    -------
    dict
        ``passes``, ``sharpness`` (a text, or None), and for each of ``worst``,
        ``control`` and ``printed`` a dict of ``error``, ``allowed`` and ``relation``,
        or None.

    Examples
    --------
    >>> from bnlib.claims import get, judge
    >>> record(judge(get("bn-range"), seeds=[0]))["worst"]["relation"]
    '=='
    """
    found = {"passes": judgement.passes, "sharpness": None}
    if judgement.sharpness is not None:
        found["sharpness"] = str(judgement.sharpness)
    for name in ("worst", "control", "printed"):
        check = getattr(judgement, name)
        found[name] = check and {
            "error": float(check.error),
            "allowed": float(check.allowed),
            "relation": check.relation,
        }
    return found


def source_address(claim: Claim) -> str:
    """Return the address of the check's code on the site, from a chapter's page.

    Parameters
    ----------
    claim : Claim

    Returns
    -------
    str

    Examples
    --------
    >>> from bnlib.claims import get
    >>> source_address(get("bn-range"))
    '../_modules/bnlib/claims/chapter02_transform.html#bn_range'
    """
    function = claim.functions["check"]
    page = function.__module__.replace(".", "/")
    return f"../_modules/{page}.html#{function.__name__}"


def ledger_row(claim: Claim, judgement: Judgement) -> str:
    """Return a claim's row of the ledger: what it says, and how its check went.

    Parameters
    ----------
    claim : Claim
    judgement : Judgement

    Returns
    -------
    str
        MyST Markdown; its anchor is ``ledger-`` and the claim's id.

    Examples
    --------
    >>> from bnlib.claims import get, judge
    >>> claim = get("bn-range")
    >>> print(ledger_row(claim, judge(claim, seeds=[0])).splitlines()[1])
    :name: ledger-bn-range
    """
    function = claim.functions["check"]
    kind = "measured" if claim.kind == "empirical" else claim.kind
    # The page of the code links back to this second anchor.
    anchor = f'<span id="{function.__module__}.{function.__name__}"></span>'
    classes = f"chapter-{claim.chapter[:2]} kind-{claim.kind} print-{_in_print(claim)}"
    return f"""\
::::::{{div}} ledger-row {classes}
:name: ledger-{claim.id}

:::::{{div}} ledger-name
{_sign(judgement)} **{{prf:ref}}`{claim.id}`**{anchor}

`{claim.id}` <br> {kind}, <a href="{source_address(claim)}">its check</a>
{_correction(claim)}
:::::

:::::{{div}} ledger-says
{claim.statement}
:::::

:::::{{div}} ledger-measure
{_measure(judgement)}
:::::
::::::
"""


def _in_print(claim):
    return claim.verdict if claim.printed else "same"


def _correction(claim):
    if not claim.printed:
        return ""
    address = f"errata.html#errata-{claim.id}"
    return f'<br> in print: <a href="{address}">{claim.verdict}</a>'


def _sign(judgement):
    if judgement.worst is None:
        return '<span class="sign" title="a remark, only shown">–</span>'
    if not judgement.passes:
        return '<span class="sign" title="checked: it fails">✗</span>'
    return '<span class="sign checked" title="checked: it holds">✓</span>'


def _measure(judgement):
    """Draw the error against what is allowed, and the closest control beside it."""
    if judgement.worst is None:
        return "*only shown*"
    worst, control = judgement.worst, judgement.control
    told = f"error {short(worst.error)}, allowed {short(worst.allowed)}"
    control_told = f"control {short(control.error)}"
    bar = (
        f'<div class="bar" role="img" aria-label="{told}; {control_told}, rejected">'
        f'<span class="error" style="width:{_place(worst.error)}%"></span>'
        f'<span class="allowed" style="left:{_place(worst.allowed)}%"></span>'
        f'<span class="control" style="left:{_place(control.error)}%"></span></div>'
    )
    sharp = html.escape(str(judgement.sharpness))
    words = f"{short(worst.error)} of {short(worst.allowed)}, {control_told}"
    return f'{bar}\n<p>{words}<br><span class="sharpness">{sharp}</span></p>'


def _place(number):
    """Return the place of a number on the bar, in percent."""
    if not number:
        return 0
    first, last = ENDS
    place = (math.log10(number) - first) / (last - first)
    return round(100 * min(1, max(0.01, place)), 1)


def short(number: float) -> str:
    """Write a number with as few digits as say its size.

    Parameters
    ----------
    number : float

    Returns
    -------
    str

    Examples
    --------
    >>> short(0.2512), short(3.2e-15), short(0)
    ('0.25', '3e-15', '0')
    """
    if number == 0:
        return "0"
    return f"{number:.2g}" if 0.01 <= number < 100 else f"{number:.0e}"


def ledger_filter(claims: Iterable[Claim]) -> str:
    """Return the form that filters the ledger; ``ledger.js`` shows it and obeys it.

    Parameters
    ----------
    claims : iterable of Claim
        Those that the ledger lists.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> from bnlib.claims import all_claims
    >>> ledger_filter(all_claims("02-transform")).count("<select")
    3
    """
    claims = list(claims)
    chapters = {claim.chapter[:2]: f"chapter {claim.chapter[:2]}" for claim in claims}
    kinds = {claim.kind: claim.kind for claim in claims}
    prints = {_in_print(claim): f"in print: {_in_print(claim)}" for claim in claims}
    prints.pop("same", None)
    return (
        '<form id="ledger-filter" hidden aria-label="Filter the claims">'
        + _select("chapter", "all chapters", chapters)
        + _select("print", "any in print", {"corrected": "corrected here"} | prints)
        + _select("kind", "all kinds", kinds)
        + '<input name="text" type="search" placeholder="words, or an id" '
        'aria-label="words in the claim, or its id">'
        f'<output aria-live="polite">{len(claims)} claims</output></form>'
    )


def _select(name, everything, options):
    options = {"": everything} | dict(sorted(options.items()))
    listed = "".join(f'<option value="{k}">{v}</option>' for k, v in options.items())
    return f'<select name="{name}" aria-label="{name}">{listed}</select>'


def gravity(claim: Claim) -> str:
    """Return how grave a printed form's difference is: a key of `GRAVITY`.

    Parameters
    ----------
    claim : Claim
        One that has a printed form.

    Returns
    -------
    str

    Examples
    --------
    >>> from bnlib.claims import get
    >>> gravity(get("k-sublinear"))
    'wrong'
    """
    return next(name for name, words in GRAVITY.items() if claim.verdict in words)


def counterexample(claim: Claim) -> str:
    """Return the code that tries a printed form, as a function with a name.

    Parameters
    ----------
    claim : Claim
        One that has a printed form.

    Returns
    -------
    str

    Examples
    --------
    >>> from bnlib.claims import get
    >>> counterexample(get("bn-eps-small")).splitlines()[0]
    'def counterexample():'
    """
    return re.sub(r"\A(@.*\n)+def \w+\(", "def counterexample(", claim.code("printed"))


def errata_entry(claim: Claim, printed: Check) -> str:
    """Return a claim's entry of the errata: the form in print beside the right one.

    Parameters
    ----------
    claim : Claim
        One that has a printed form.
    printed : Check
        The printed form on its counterexample.

    Returns
    -------
    str
        MyST Markdown; its anchor is ``errata-`` and the claim's id.

    Examples
    --------
    >>> from bnlib.claims import get
    >>> claim = get("p-typo-eps")
    >>> print(errata_entry(claim, claim.printed_check()).splitlines()[1])
    :name: errata-p-typo-eps
    """
    here, right = (_marked(text) for text in SLIPS[claim.id])
    left = {"ambiguous": "Easily read as", "conditional": "Without the condition"}
    missed = f"error {short(printed.error)}, allowed {short(printed.allowed)}"
    return f"""\
::::::{{div}} erratum
:name: errata-{claim.id}

**{{prf:ref}}`{claim.id}`**, <a href="ledger.html#ledger-{claim.id}">its row</a>

:::::{{div}} sides
::::{{div}} printed
*{left.get(gravity(claim), "In print")}*

{here}
::::

::::{{div}} right
*Right*

{right}
::::
:::::

:::::{{dropdown}} In full
*In print*, {{cite:t}}`{claim.printed_in}`: {claim.printed}

*In this book.* {claim.statement}
:::::

:::::{{dropdown}} Counterexample: {missed}
```python
{counterexample(claim)}```
:::::
::::::
"""


def _marked(text):
    return text.replace("<<", "[").replace(">>", "]{.differs}")
