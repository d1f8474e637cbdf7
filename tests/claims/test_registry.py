"""The registry of claims, what a check means, and the command line."""

import re

import numpy as np
import pytest
import torch
from refusals import refused

from bnlib.claims import (
    Check,
    __main__,
    all_claims,
    check,
    claim,
    get,
    judge,
    judge_all,
    registry,
)

CLAIMS = all_claims()


# Registering and finding claims, in a registry of the test's own.


FIELDS = dict(kind="theorem", verdict="holds", statement="$1=1$", source="book")


@pytest.fixture
def own_registry(monkeypatch):
    """An empty registry, and a function that puts a claim of two numbers in it."""
    monkeypatch.setattr(registry, "_CLAIMS", {})
    monkeypatch.setattr(registry, "_load", lambda: None)

    def add(id, right=1.0, control=2.0, printed=None, chapter="01-first", **fields):
        texts = {"printed": "printed otherwise", "printed_in": "wikipedia-bn"}
        texts = {} if printed is None else texts

        @claim(id=id, chapter=chapter, **texts, **{**FIELDS, **fields})
        def defined(rng):
            return Check(1.0, right, "==", allowed=1e-9)

        if control is not None:
            defined.control(lambda rng: Check(1.0, control, "==", allowed=1e-9))
        if printed is not None:
            defined.printed(lambda: Check(1.0, printed, "==", allowed=1e-9))
        return get(id)

    return add


def test_an_id_is_taken_once(own_registry):
    own_registry("one")
    with refused(ValueError, "claim 'one'", "defined twice"):
        own_registry("one", chapter="02-second")


@pytest.mark.parametrize("field", ["kind", "verdict"])
def test_an_unknown_kind_or_verdict_is_named(own_registry, field):
    with refused(ValueError, f"claim 'x' {field}", "'true'", "one of"):
        own_registry("x", **{field: "true"})
    assert all_claims() == []


def test_claims_come_in_the_order_of_the_chapters_then_of_their_definition(
    own_registry,
):
    for id, chapter in (("c", "02-b"), ("b", "01-a"), ("a", "02-b")):
        own_registry(id, chapter=chapter)
    assert [entry.id for entry in all_claims()] == ["b", "c", "a"]


def test_claims_are_found_by_chapter_and_verdict(own_registry):
    own_registry("one")
    own_registry("two", verdict="wrong", printed=2.0)
    own_registry("three", chapter="02-second")
    assert [entry.id for entry in all_claims(chapter="01-first")] == ["one", "two"]
    assert [entry.id for entry in all_claims(verdict="wrong")] == ["two"]
    assert all_claims(chapter="02-second", verdict="wrong") == []
    assert get("two").printed == "printed otherwise"
    assert get("two").printed_in == "wikipedia-bn"


@pytest.mark.parametrize("alone", ["printed", "printed_in"])
def test_what_is_printed_and_where_go_together(alone):
    with refused(ValueError, "'x'", "", "both printed, printed_in"):
        claim(id="x", chapter="01-first", **FIELDS, **{alone: "one of two"})


def test_a_file_that_is_no_chapters_is_named(monkeypatch, tmp_path):
    (tmp_path / "sundry.py").write_text("")
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "registry.py"))
    with refused(
        ImportError,
        "sundry.py",
        "no claims",
        "chapterNN_topic.py, _instances_topic.py",
    ):
        all_claims()


def test_a_file_that_starts_with_an_underscore_is_what_claims_share(
    monkeypatch, tmp_path
):
    (tmp_path / "_instances_of_two.py").write_text("raise AssertionError('imported')")
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "registry.py"))
    assert all_claims() == CLAIMS


def test_a_negative_seed_is_named():
    with refused(ValueError, "seed", -1, "integer of at least 0"):
        get("bn-range").check(seed=-1)


def test_both_sides_may_be_tensors_in_a_graph():
    side = torch.ones(2, requires_grad=True)
    assert Check(side, side.detach(), "==", allowed=0.0).holds


def test_a_side_that_changes_later_leaves_the_verdict_as_it_was():
    buffer = np.ones(3)
    check = Check(buffer, 1.0, "==", allowed=0.0)
    buffer += 1
    assert check.holds


@pytest.mark.parametrize("side", ["one", None, [[1.0], [1.0, 2.0]]])
def test_a_side_that_is_no_number_is_named(side):
    with refused(TypeError, "right", repr(side), "number or an array"):
        Check(1.0, side, "==", allowed=0.0)


def test_what_is_not_there_is_named():
    with refused(ValueError, "claim", "'bn-rnge'", "bn-range"):
        get("bn-rnge")
    with refused(ValueError, "claim", "'zzz'", "approx-trained, bn-range"):
        get("zzz")
    with refused(
        ValueError, "chapter", "'99-none'", "01-covariate-shift, 02-transform"
    ):
        all_claims(chapter="99-none")
    with refused(
        ValueError,
        "verdict",
        "'true'",
        "one of holds, conditional, misprint, wrong",
    ):
        all_claims(verdict="true")


def test_each_claim_has_its_own_stream_of_numbers(own_registry):
    drawing = {}

    def drawn(id, seed):
        entry = drawing.get(id) or drawing.setdefault(id, own_registry(id))
        entry.functions["check"] = lambda rng: rng.standard_normal()
        return entry.check(seed)

    numbers = [drawn(id, seed) for id in ("one", "two") for seed in (0, 1)]
    assert len(set(numbers)) == 4
    assert drawn("one", 0) == numbers[0]


def test_a_remark_is_shown_and_not_checked(own_registry):
    remark = own_registry("word", kind="remark", control=None)
    assert not remark.is_checked
    judgement = judge(remark)
    assert (judgement.worst, judgement.passes) == (None, True)
    assert str(judgement) == "shown, not checked"
    with refused(ValueError, "claim 'word'", "remark"):
        remark.check(seed=0)
    with refused(ValueError, "claim 'word'", "remark"):
        remark.control(seed=0)


def test_what_a_claim_lacks_is_named(own_registry):
    entry = own_registry("bare", control=None)
    with refused(ValueError, "claim 'bare'", "no function 'control'"):
        entry.control()
    with refused(ValueError, "claim 'bare'", "no function 'printed'"):
        entry.printed_check()
    with refused(ValueError, "claim 'bare'", "no function 'control'"):
        judge(entry)


def test_judging_keeps_the_worst_instance_and_every_control(own_registry):
    entry = own_registry("now and then")
    errors = iter([1e-15, 3e-10, 2e-12, 1e-15])
    entry.functions["check"] = lambda rng: Check(1, 1 + next(errors), "==", 1e-9)
    rights = iter([2.0, 2.0, 1.0, 2.0])
    entry.functions["control"] = lambda rng: Check(1, next(rights), "==", 1e-9)
    judgement = judge(entry, seeds=range(4))
    assert judgement.worst.error == pytest.approx(3e-10, rel=1e-3)
    assert not judgement.controls_rejected
    assert not judgement.passes


def test_judging_keeps_the_control_that_came_closest_and_the_printed_form(own_registry):
    entry = own_registry("close", printed=3.0, verdict="wrong")
    rights = iter([9.0, 1.5, 4.0])
    entry.functions["control"] = lambda rng: Check(1, next(rights), "==", 1e-9)
    judgement = judge(entry, seeds=range(3))
    assert judgement.control.error == pytest.approx(1 / 3)
    assert judgement.printed.error == pytest.approx(2 / 3)
    remark = own_registry("word", kind="remark", control=None)
    assert (judge(remark).control, judge(remark).printed) == (None, None)


def test_judging_all_gives_each_claim_of_the_book_or_of_a_chapter_in_order(
    own_registry,
):
    own_registry("b", chapter="02-second")
    own_registry("a")
    assert list(judge_all(seeds=iter([0, 1]))) == ["a", "b"]
    assert list(judge_all("02-second", [0])) == ["b"]
    assert judge_all()["a"].passes


def test_judging_takes_at_least_one_seed_and_any_iterable():
    with refused(ValueError, "seeds", "empty", "at least one"):
        judge(get("bn-range"), seeds=[])
    assert judge(get("bn-range"), seeds=iter([7, 8])).passes


# What a check means.


@pytest.mark.parametrize(
    ("left", "relation", "right", "error"),
    [
        (2.0, "==", 2.0, 0),
        (2.0, "==", 1.0, 0.5),
        (1.0, "==", 2.0, 0.5),
        (-1.0, "==", 1.0, 2),
        (1.0, "<=", 2.0, 0),
        (2.0, "<=", 1.0, 0.5),
        (2.0, ">=", 1.0, 0),
        (1.0, ">=", 2.0, 0.5),
        ([1.0, 4.0], "<=", 2.0, 0.5),
        ([1.0, 4.0], ">=", [1.0, 5.0], 0.2),
        (0.0, "==", 0.0, 0),
        (0, "==", 5, 1),
        (1.0, "<=", np.inf, 0),
    ],
)
def test_the_error_is_the_largest_miss_over_the_largest_magnitude(
    left, relation, right, error
):
    check = Check(left, right, relation, allowed=0.1)
    assert check.error == pytest.approx(error)
    assert check.holds is (error <= 0.1)


def test_a_scale_takes_the_place_of_the_magnitude():
    assert Check(1e-12, 0.0, "==", 1e-9).error == 1
    assert Check(1e-12, 0.0, "==", 1e-9, scale=1.0).holds
    assert Check(3.0, 1.0, "==", 0.5, scale=10.0).error == pytest.approx(0.2)


@pytest.mark.parametrize("relation", check.RELATIONS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.nan, 1.0),
        (1.0, np.nan),
        (np.nan, np.nan),
        ([1.0, np.nan], [1.0, 1.0]),
        ([], []),
        ([], 1.0),
    ],
)
def test_nothing_and_nan_never_hold(left, right, relation):
    for scale in (None, 1.0):
        check = Check(left, right, relation, allowed=1e300, scale=scale)
        assert not check.holds
        assert str(check) == "fails: error nan, allowed 1e+300"


@pytest.mark.parametrize(
    ("left", "right", "relation"),
    [
        (np.inf, np.inf, "=="),
        (np.inf, 1.0, "=="),
        ([5.0, 5.0], [np.inf, 5.0], "=="),
        (np.inf, 1.0, "<="),
        (1.0, np.inf, ">="),
        (1.7e308, -1.7e308, "=="),
    ],
)
def test_an_infinite_miss_fails_without_a_complaint(left, right, relation):
    assert not Check(left, right, relation, allowed=1.0).holds


@pytest.mark.parametrize("allowed", [np.nan, np.inf, -1e-9])
def test_what_is_allowed_is_a_finite_number(allowed):
    with refused(ValueError, "allowed", allowed, "finite, at least 0"):
        Check(1.0, 1.0, "==", allowed)


def test_sides_may_be_arrays_of_either_library_or_lists():
    for left in ([1.0, 2.0], np.array([1, 2]), torch.tensor([1.0, 2.0])):
        assert Check(left, (1.0, 2.0), "==", allowed=0.0).holds


@pytest.mark.parametrize("shape", [(2,), (1, 3), (3, 1), (1,)], ids=str)
def test_sides_of_unlike_shapes_are_named(shape):
    with refused(ValueError, "left right", f"{shape} (3,)", "equal shapes"):
        Check(np.ones(shape), np.ones(3), "==", allowed=0.0)


def test_an_unknown_relation_is_named():
    with refused(ValueError, "relation", "'<'", "one of ==, <=, >="):
        Check(1.0, 2.0, "<", allowed=0.0)


@pytest.mark.parametrize("scale", [-1.0, 0.0, np.nan, np.inf])
def test_a_scale_that_measures_nothing_is_named(scale):
    with refused(ValueError, "scale", scale, "finite, above 0"):
        Check(1.0, 2.0, "==", allowed=1e-9, scale=scale)


@pytest.mark.parametrize(
    ("check", "line"),
    [
        (Check(1.0, 1.0, "==", 1e-12), "holds: error 0, allowed 1e-12"),
        (Check(1.0, 1.25, "==", 0.5), "holds: error 2e-01, allowed 5e-01"),
        (Check(1.0, 2.0, "==", 0.0), "fails: error 5e-01, allowed 0"),
    ],
)
def test_the_verdict_line_says_the_miss_and_what_is_allowed(check, line):
    assert str(check) == line


def test_the_worst_is_the_one_closest_to_failing_whatever_its_tolerance():
    loose, tight = Check(1.0, 1.1, "==", 0.5), Check(1.0, 1 + 8e-13, "==", 1e-12)
    assert Check.worst(loose, tight) is tight
    assert Check.worst(tight, loose) is tight
    exact = Check(1.0, 1.0, "==", 0.0)
    assert Check.worst(exact, loose) is loose


def test_a_failure_is_worse_than_anything_that_holds():
    fails, holds = Check(1.0, 1.1, "==", 0.09), Check(1.0, 1 + 9.9e-13, "==", 1e-12)
    spoilt, exact = Check(np.nan, 1.0, "==", 1.0), Check(1.0, 2.0, "==", 0.0)
    for worse, better in ((fails, holds), (spoilt, fails), (exact, holds)):
        assert Check.worst(worse, better) is worse
        assert Check.worst(better, worse) is worse
    assert not Check.worst(exact, spoilt).holds


# The command line.


def run(capsys, *arguments):
    code = __main__.main(arguments)
    return code, capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_the_ledger_lists_every_claim_and_exits_0(capsys):
    code, lines = run(capsys, "--instances", "2")
    assert code == 0
    assert [line.split()[0] for line in lines[:-1]] == [entry.id for entry in CLAIMS]
    for line, entry in zip(lines, CLAIMS):
        assert line.split()[1:3] == [entry.kind, entry.verdict]
        assert "holds: error " in line or not entry.is_checked
    assert re.fullmatch(
        rf"{len(CLAIMS)} claims, 2 instances each, [\d.]+ s: "
        r"all pass, every control is rejected",
        lines[-1],
    )


def test_the_ledger_of_named_claims(capsys):
    code, lines = run(capsys, "bn-range", "bn-identity", "--instances", "1")
    assert code == 0
    assert [line.split()[0] for line in lines] == ["bn-range", "bn-identity", "2"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"right": 2.0}, "fails: error 5e-01, allowed 1e-09"),
        ({"right": float("nan")}, "fails: error nan, allowed 1e-09"),
        ({"control": 1.0}, "A CONTROL WAS ACCEPTED"),
        ({"printed": 1.0, "verdict": "wrong"}, "THE PRINTED FORM WAS ACCEPTED"),
    ],
)
def test_a_failing_claim_is_named_and_exits_1(own_registry, capsys, fields, says):
    own_registry("good")
    own_registry("bad", **fields)
    code, (good, bad, summary) = run(capsys)
    assert code == 1
    assert good.startswith("good ")
    assert good.endswith("holds: error 0, allowed 1e-09")
    assert bad.startswith("bad ")
    assert bad.endswith(says)
    assert summary.endswith("1 FAIL")


def test_a_claim_that_raises_is_named_and_the_rest_are_judged(own_registry, capsys):
    bad = own_registry("bad")
    bad.functions["check"] = lambda rng: 1 / 0
    own_registry("good")
    code, lines = run(capsys)
    assert code == 1
    assert re.match(r"bad .*ZeroDivisionError", lines[0])
    assert [line.split()[0] for line in lines[1:]] == ["good", "2"]


def test_seed_and_instances_choose_the_instances(own_registry, capsys):
    drawn = []
    entry = own_registry("one")
    right = entry.functions["check"]

    def watched(rng):
        drawn.append(rng.random())
        return right(rng)

    entry.functions["check"] = watched
    assert run(capsys, "--seed", "7", "--instances", "3")[0] == 0
    in_the_run = set(drawn)
    drawn.clear()
    for seed in (7, 8, 9):
        entry.check(seed)
    assert in_the_run == set(drawn)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--instances", "0"], "--instances is 0: give at least 1"),
        (["--instances", "many"], "invalid int value: 'many'"),
        (["--seed", "-1"], "--seed is -1: give at least 0"),
        (["bn-rnge"], "no claim 'bn-rnge': did you mean bn-range"),
        (["bn-range", "zzz"], "no claim 'zzz'"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_bad_usage_is_named_and_exits_2(arguments, says, capsys):
    with pytest.raises(SystemExit) as stopped:
        __main__.main(arguments)
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert not printed.out
