"""The page of the problem sets: what it says is read from the sets, and true."""

import json
import re

import course_toy
import pytest
from refusals import refused

from bnlib.course import expect
from grading.submission import MAX_IMAGE
from grading.worker import Limits
from tools import build

PAGE = (build.ROOT / "chapters/assignments.md").read_text(encoding="utf-8")
SOURCES = sorted((build.ROOT / build.SETS).glob("*/[0-9]-*.ipynb"))
OPENING = """# Problem set 3: moving things

Why would you move them?

**Builds on** chapter 02, and chapters 11 and 15. About 90 minutes.

**How it is graded.** By tests."""


@pytest.fixture(autouse=True)
def extensions(monkeypatch):
    monkeypatch.syspath_prepend(build.ROOT / "_ext")


@pytest.fixture
def read(tmp_path):
    """Return what the page reads from a set with the given first cell."""

    def read(opening):
        from problem_sets import read_set

        notebook = course_toy.notebook()
        notebook.cells[0].source = opening
        path = tmp_path / "3-moving.ipynb"
        path.write_text(json.dumps(notebook))
        return read_set(path)

    return read


def test_a_set_is_known_by_its_opening_and_its_marks(read):
    found = read(OPENING)
    assert found.name == "3-moving"
    assert (found.number, found.title) == (3, "Moving things")
    assert found.chapters == ["02", "11", "15"]
    assert found.minutes == 90
    # Three tests of 2, 1 and 4 points; one answer of 3.
    assert (found.tested, found.by_hand) == (7, 3)


def test_the_opening_is_shown_without_what_the_page_says_itself(read):
    assert read(OPENING).opening == (
        "Why would you move them?\n\n"
        "**Builds on** chapter 02, and chapters 11 and 15. About 90 minutes."
    )


@pytest.mark.parametrize(
    ("part", "other", "wanted"),
    [
        ("# Problem set 3: moving things", "# Moving things", "# Problem set N: TITLE"),
        ("**Builds on**", "Builds on", "**Builds on** chapter NN"),
        ("About 90 minutes", "About two hours", "About N minutes"),
    ],
)
def test_an_opening_that_lacks_a_part_is_refused(read, part, other, wanted):
    with refused(ValueError, "3-moving", "first cell") as no:
        read(OPENING.replace(part, other))
    assert wanted in str(no.value)


def test_sets_are_numbered_from_one_on():
    numbers = [int(path.name.partition("-")[0]) for path in SOURCES]
    assert numbers == [*range(1, len(numbers) + 1)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_every_set_says_what_the_page_needs(path):
    from problem_sets import read_set

    found = read_set(path)
    assert f"{found.number}-" == path.stem[:2]
    assert found.tested + found.by_hand == 100
    assert 60 <= found.minutes <= 120
    chapters = [p.name[:2] for p in (build.ROOT / "chapters").glob("[0-9]*.ipynb")]
    assert found.chapters
    assert set(found.chapters) <= set(chapters)


def test_the_limits_on_the_page_are_those_of_grading():
    limits = Limits()
    said = (
        f"A call gets {limits.call:g} seconds, a cell {limits.cell:g}, the whole "
        f"notebook {limits.total:g}, and {limits.memory // 2**30} GiB of memory"
    )
    assert said in " ".join(PAGE.split())
    assert f"at most {MAX_IMAGE * 3 / 4 / 2**20:g} MB" in " ".join(PAGE.split())


def test_the_message_on_the_page_is_what_a_test_says():
    [shown] = re.findall(r"AssertionError: (.+)", PAGE)
    with pytest.raises(AssertionError) as said:
        expect("mean", 2.5, 2.0, 1e-15, "Sum, then divide.")
    assert str(said.value) == shown
