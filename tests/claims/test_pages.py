"""The rows of the ledger and the entries of the errata."""

import re

import pytest

from bnlib.claims import Check, Judgement, all_claims, get, judge, pages
from bnlib.claims._slips import SLIPS

PRINTED = {entry.id for entry in all_claims() if entry.printed}


def judged(error, allowed, control):
    def check(size, allowed):
        return Check(size, 0.0, "==", allowed, scale=1.0)

    worst, false = check(error, allowed), check(control, allowed)
    return Judgement(worst, false)


def places(row):
    return [float(n) for n in re.findall(r"(?:width|left):([\d.]+)%", row)]


def test_a_bar_shows_error_allowed_and_control_on_powers_of_ten():
    row = pages.ledger_row(get("bn-range"), judged(1e-8, 1e-5, 1e-2))
    # From 1e-17 to 10 there are eighteen powers of ten.
    assert places(row) == pytest.approx([50, 100 * 12 / 18, 100 * 15 / 18], abs=0.1)


def test_what_lies_beyond_the_bar_stays_on_it():
    assert places(pages.ledger_row(get("bn-range"), judged(1e-20, 0, 1e5))) == [
        *(1, 0, 100)
    ]


def test_a_row_says_in_words_what_its_bar_shows():
    row = pages.ledger_row(get("bn-range"), judged(1e-8, 1e-5, 0.25))
    words = "error 1e-08, allowed 1e-05; control 0.25, rejected"
    assert f'role="img" aria-label="{words}"' in row


def test_a_row_keeps_our_verdict_apart_from_what_is_in_print():
    claim = get("k-sublinear")
    row = pages.ledger_row(claim, judge(claim, [0]))
    assert "✓" in row
    assert 'in print: <a href="errata.html#errata-k-sublinear">contradiction' in row
    assert "in print" not in pages.ledger_row(get("bn-range"), judged(0, 0, 1))


def test_a_remark_has_no_sign_that_says_checked():
    claim = get("k-gamma-clash")
    assert "✓" not in pages.ledger_row(claim, judge(claim))


@pytest.mark.parametrize(("error", "control"), [(2, 5), (0, 0.5)])
def test_what_fails_or_could_not_fail_has_no_sign_that_says_it_holds(error, control):
    row = pages.ledger_row(get("bn-range"), judged(error, 1, control))
    assert "✗" in row
    assert "✓" not in row


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (3.2e-15, "3e-15"), (0.2512, "0.25"), (12.34, "12"), (1e3, "1e+03")],
)
def test_a_number_has_as_few_digits_as_say_its_size(number, text):
    assert pages.short(number) == text


def test_the_filter_offers_what_the_claims_have():
    form = pages.ledger_filter(all_claims("08-length-direction"))
    values = re.findall(r'<option value="(.*?)">', form)
    assert values[:2] == ["", "08"]
    assert {"corrected", "wrong", "misprint", "contradiction"} <= set(values)
    assert "same" not in values


def test_each_printed_form_stands_beside_the_right_one_and_the_difference_is_marked():
    assert set(SLIPS) == PRINTED
    for id, sides in SLIPS.items():
        assert any("<<" in side for side in sides), id
        for side in sides:
            assert side.count("<<") == side.count(">>"), id
            # A mark encloses whole formulas: inside one it would break it.
            for part in re.split("<<|>>", side):
                assert part.count("$") % 2 == 0, id


@pytest.mark.parametrize("id", sorted(PRINTED))
def test_an_entry_has_both_sides_its_texts_and_a_counterexample_that_can_be_read(id):
    claim = get(id)
    entry = pages.errata_entry(claim, claim.printed_check())
    assert f":name: errata-{id}\n" in entry
    assert entry.count("{.differs}") == sum(s.count("<<") for s in SLIPS[id])
    assert claim.printed in entry
    assert claim.statement in entry
    assert re.search(r"^def counterexample\(\):$", entry, re.MULTILINE)
    assert ".printed\n" not in entry


def test_a_record_of_a_judgement_can_be_written_as_json():
    found = pages.record(judge(get("k-ols-rate"), [0]))
    assert found["passes"]
    assert found["worst"]["relation"] == "<="
    assert found["control"]["error"] > found["control"]["allowed"]
    assert pages.record(judge(get("k-gamma-clash")))["worst"] is None
