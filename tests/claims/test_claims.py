"""Claims: each holds, its false neighbours fail, and the registry keeps its rules."""

import functools
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch

import bnlib
from bnlib.claims import (
    Check,
    _instances_transform,
    all_claims,
    chapter02_transform,
    chapter02_whole_batch,
    get,
    judge,
)

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = all_claims()
CHECKED = [entry for entry in CLAIMS if entry.is_checked]
PRINTED = [entry for entry in CLAIMS if entry.printed]


def each(claims):
    return pytest.mark.parametrize("entry", claims, ids=lambda entry: entry.id)


# Every claim, its control and its printed form.


@each(CHECKED)
def test_the_claim_holds(entry, seeds):
    for seed in seeds:
        check = entry.check(seed)
        assert check.holds, f"seed {seed}: {check}"


@each(CHECKED)
def test_its_control_is_rejected(entry, seeds):
    for seed in seeds:
        check = entry.control(seed)
        assert check.error > check.allowed, f"seed {seed}: {check}"


@each(PRINTED)
def test_its_printed_form_fails(entry):
    check = entry.printed_check()
    assert check.error > check.allowed, str(check)


@each(CHECKED)
def test_an_instance_depends_on_its_seed_alone(entry):
    first = entry.check(3)
    np.random.seed(99)  # noqa: NPY002
    torch.manual_seed(99)
    again = entry.check(3)
    np.testing.assert_array_equal(np.asarray(first.left), np.asarray(again.left))
    np.testing.assert_array_equal(np.asarray(first.right), np.asarray(again.right))


def test_a_check_that_makes_its_controls_comparison_is_caught(monkeypatch):
    entry = get("bn-range")
    monkeypatch.setitem(entry.functions, "check", entry.functions["control"])
    judgement = judge(entry, seeds=range(3))
    assert not judgement.passes
    assert str(judgement).startswith("fails: error ")


def test_a_control_that_makes_the_claims_comparison_is_caught(monkeypatch):
    entry = get("bn-range")
    monkeypatch.setitem(entry.functions, "control", entry.functions["check"])
    judgement = judge(entry, seeds=range(3))
    assert not judgement.passes
    assert str(judgement).endswith("A CONTROL WAS ACCEPTED")


@pytest.mark.parametrize("nothing", [np.nan, []], ids=str)
@pytest.mark.parametrize("role", ["control", "printed"])
def test_a_false_form_that_compares_nothing_is_caught(role, nothing, monkeypatch):
    entry = PRINTED[0]
    function = lambda *rng: Check(nothing, 1.0, "==", allowed=0.1)  # noqa: E731
    monkeypatch.setitem(entry.functions, role, function)
    assert not judge(entry, seeds=range(1)).passes


@each(PRINTED)
def test_a_printed_form_that_is_right_is_caught(entry, monkeypatch):
    right = Check(1.0, 1.0, "==", allowed=0.0)
    monkeypatch.setitem(entry.functions, "printed", lambda: right)
    judgement = judge(entry, seeds=range(1))
    assert not judgement.passes
    assert str(judgement).endswith("THE PRINTED FORM WAS ACCEPTED")


def broken_forward(x, *arguments, axes=None, **options):
    """The transform with its output 0.1 % too small."""
    y, cache = bnlib.batch_norm_forward(x, *arguments, axes=axes, **options)
    return 0.999 * y, cache


ABOUT_VALUES = [
    "bn-forward",
    "bn-identity",
    "bn-invariance",
    "bn-eps-small",
    "bn-range",
]


@pytest.mark.parametrize("id", [*ABOUT_VALUES, "bn-pair-correlation"])
def test_a_wrong_transform_makes_the_claims_about_it_fail(id, monkeypatch):
    for module in (_instances_transform, chapter02_transform, chapter02_whole_batch):
        monkeypatch.setattr(module, "batch_norm_forward", broken_forward)
    assert not judge(get(id), seeds=range(3)).passes


# Rules of the registry.


def test_ids_are_unique_and_plain():
    ids = [entry.id for entry in CLAIMS]
    assert len(set(ids)) == len(ids) >= 11
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id) for id in ids)


@functools.cache
def notebook(name):
    return nbformat.read(ROOT / "chapters" / f"{name}.ipynb", as_version=4)


def sources(name, kind):
    return [cell.source for cell in notebook(name).cells if cell.cell_type == kind]


ENVIRONMENT = re.compile(
    r"^(`{3,}|:{3,})\{prf:(?P<kind>\w+)\}[^\n]*\n(?P<options>(?::[^\n]*\n)+)",
    re.MULTILINE,
)


def boxes(entry, name):
    """Return the kinds of the numbered boxes with a claim's label on a page."""
    return [
        environment["kind"]
        for source in sources(name, "markdown")
        for environment in ENVIRONMENT.finditer(source)
        if re.search(rf"^:label: {entry.id}$", environment["options"], re.MULTILINE)
        and ":nonumber:" not in environment["options"]
    ]


@each(CLAIMS)
def test_its_chapter_or_the_errata_state_it_once_in_a_numbered_environment(entry):
    path = ROOT / "chapters" / f"{entry.chapter}.ipynb"
    assert path.is_file(), f"{entry.id} names a chapter that is not there: {path.name}"
    found = boxes(entry, entry.chapter) + boxes(entry, "errata")
    where = f"{path.name} or errata.ipynb"
    needed = f"{where} needs one numbered box with :label: {entry.id}"
    assert len(found) == 1, f"{needed}, found {len(found)}"
    assert found[0] != "proof", needed


@each(CLAIMS)
def test_the_errata_state_it_only_under_its_chapter(entry):
    if boxes(entry, "errata"):
        (cell,) = [
            cell.source
            for cell in notebook("errata").cells
            if re.search(rf"^:label: {entry.id}$", cell.source, re.MULTILINE)
        ]
        assert cell.startswith(f"### From chapter {entry.chapter[:2]}\n"), entry.id


LOOP = re.compile(r"^for name in \(([^)]*)\):\n((?:    .*\n?)+)", re.MULTILINE)


def calls(entry, method):
    """Return True if a cell of the chapter checks the claim.

    By its id, in a loop over ids (``for name in ("this", "that"):``), or with all
    claims of the chapter, whose controls and printed forms are run too.
    """
    uses = []
    for source in sources(entry.chapter, "code"):
        if f'claims.check_chapter("{entry.chapter}")' in source:
            return True
        uses += source.split(f'claims.get("{entry.id}")')[1:]
        for ids, body in LOOP.findall(source):
            if f'"{entry.id}"' in ids:
                uses += body.split("claims.get(name)")[1:]
    return any(f".{method}(" in use.partition("claims.get(")[0] for use in uses)


@each(CHECKED)
def test_a_cell_of_its_chapter_checks_it(entry):
    call = f'claims.get("{entry.id}").check(...)'
    assert calls(entry, "check"), f"no cell of chapter {entry.chapter} has {call}"


@each(PRINTED)
def test_a_cell_of_its_chapter_shows_its_printed_form_failing(entry):
    call = f'claims.get("{entry.id}").printed_check()'
    assert calls(entry, "printed_check"), f"chapter {entry.chapter} needs {call}"


@each(CLAIMS)
def test_its_source_is_in_the_bibliography(entry):
    text = (ROOT / "references.bib").read_text(encoding="utf-8")
    keys = set(re.findall(r"^@\w+\{\s*([^,\s]+)\s*,", text, re.MULTILINE))
    assert entry.source in keys | {"book"}
    assert set((entry.printed_in or "book").split(",")) <= keys | {"book"}


@each(CLAIMS)
def test_it_has_the_functions_that_its_kind_and_verdict_ask_for(entry):
    assert ("control" in entry.functions) is entry.is_checked
    assert ("printed" in entry.functions) is (entry.printed is not None)
    if entry.verdict not in ("holds", "empirical", "conjecture"):
        assert entry.printed
    if entry.verdict == "empirical":
        assert entry.kind == "empirical"


@each(CLAIMS)
def test_its_statement_fits_in_a_table(entry):
    for text in (entry.statement, entry.printed or ""):
        assert "|" not in text
        assert "\n" not in text
        assert text.count("$") % 2 == 0
        assert text == text.strip()
    assert entry.statement


@each(CHECKED)
def test_its_code_can_be_shown(entry):
    assert f'id="{entry.id}"' in entry.code()
    for role in entry.functions:
        assert "def " in entry.code(role)
