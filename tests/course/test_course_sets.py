"""Each problem set proves itself: what its versions score, under several keys."""

import ast
import itertools
import re

import nbformat
import numpy as np
import pytest

from grading import check, sets, variant_of
from grading.sets import mark

SETS = sets.set_names()
KEYS = check.KEYS
EACH_SET = pytest.mark.parametrize("name", SETS)


def wrong_key(name):
    """Return the key of a set's wrong answers: `grading check` takes all keys."""
    return KEYS[SETS.index(name) % len(KEYS)]


def by_kind(name, kind):
    """Return a set's cells of a kind, as its source is for the default key."""
    cells = sets.load_source(name, "book").cells
    return [cell for cell in cells if mark(cell).get(kind)]


@pytest.fixture(scope="module")
def graded():
    """Return a function that checks a set once, and then repeats what it found."""
    found = {}

    def of(name):
        if name not in found:
            found[name] = list(check.check(name, KEYS, [wrong_key(name)]))
        return found[name]

    return of


@EACH_SET
def test_the_solution_loses_nothing(graded, name):
    lost = {key: lost for key, title, lost, *_ in graded(name) if title == "solution"}
    assert lost == {key: {} for key in KEYS}


@EACH_SET
def test_the_untouched_version_loses_everything_and_says_what_to_write(graded, name):
    for _, title, lost, wanted, grading in graded(name):
        if title == "untouched":
            assert lost == wanted
            assert all(
                m.endswith("is not written yet.") for m in grading.messages.values()
            )


@EACH_SET
def test_every_typical_wrong_answer_loses_exactly_what_it_should(graded, name):
    wrong = sets.load_wrong(name)
    assert len(wrong) >= 4
    found = {(key, title): lost for key, title, lost, *_ in graded(name)}
    for title, answer in wrong.items():
        assert answer["lost"], title
        assert found[wrong_key(name), title].keys() == set(answer["lost"]), title


@EACH_SET
def test_a_wrong_answer_fails_with_a_message_for_its_author(graded, name):
    for _, title, lost, _, grading in graded(name):
        for test in lost:
            message = grading.messages[test]
            assert len(message) > 4, (title, test, message)
            assert not message.startswith("Not graded"), (title, test, message)


@EACH_SET
def test_no_cell_fails_to_load(graded, name):
    for _, title, _, _, grading in graded(name):
        assert not [r for r in grading.remarks if r.startswith("cell ")], title


@EACH_SET
def test_answers_without_knowledge_earn_nothing(name):
    earned = check.earned_by_cheating(name)
    assert {title: won for title, won in earned.items() if won} == {}


HEADING = re.compile(
    r"^## Task (\d): (.*) \((?:(\d+) points|(optional)), (\d+) minutes\)$", re.MULTILINE
)


def tasks_of(cells):
    """Return each task's cells, points and minutes by its number."""
    found, task = {}, None
    for cell in cells:
        if told := HEADING.search(cell.source):
            task = {"optional": bool(told[4]), "all": int(told[3] or 0)}
            task |= {"minutes": int(told[5]), "by tests": 0, "by hand": 0, "cells": []}
            found[int(told[1])] = task
        elif re.search("^## ", cell.source, re.MULTILINE):
            task = None
        if task is None:
            continue
        task["cells"].append(cell)
        if points := mark(cell).get("points"):
            task["by tests" if sets.is_test(cell) else "by hand"] += points
    return found


@EACH_SET
def test_the_optional_tasks_give_no_points_and_are_missed_by_no_other(name):
    source = sets.load_source(name, "book")
    optional = [task for task in tasks_of(source.cells).values() if task["optional"]]
    assert optional
    assert sum(task["by tests"] + task["by hand"] for task in optional) == 0
    out = [cell.id for task in optional for cell in task["cells"]]
    source.cells = [cell for cell in source.cells if cell.id not in out]
    [(lost, grading)] = check._graded(source, [source], "book", name)
    assert lost == {}
    assert len(grading.messages) == len(check.points_of(source)) > 0


@EACH_SET
def test_the_table_at_its_head_says_what_each_task_is_worth_and_takes(name):
    cells = sets.load_source(name, "book").cells
    [table] = [c.source for c in cells if "| Task | What you do | Graded |" in c.source]
    row = r"^\| (\d) \| .* \| ([^|]*) \| (\d+|optional) \| (\d+) \|$"
    rows = re.findall(row, table, re.MULTILINE)
    tasks = tasks_of(cells)
    assert [int(number) for number, *_ in rows] == sorted(tasks)
    for number, graded, points, minutes in rows:
        task = tasks[int(number)]
        assert task["minutes"] == int(minutes)
        assert task["optional"] == (points == "optional")
        if task["optional"]:
            has_tests = any(map(sets.is_test, task["cells"]))
            assert graded == ("tests, no points" if has_tests else "not graded")
            continue
        assert task["by tests"] + task["by hand"] == task["all"] == int(points)
        for kind in ("by tests", "by hand"):
            told = re.search(rf"{kind}(?: (\d+))?", graded)
            told = int(told[1] or points) if told else 0
            assert told == task[kind], (number, kind)


@EACH_SET
def test_what_counts_takes_two_hours_at_most_as_the_set_says(name):
    cells = sets.load_source(name, "book").cells
    tasks = tasks_of(cells).values()
    minutes = sum(task["minutes"] for task in tasks if not task["optional"])
    assert f"About {minutes} minutes, without the optional tasks." in cells[0].source
    assert minutes <= 120


@EACH_SET
def test_the_minutes_are_estimated_as_the_page_says(name):
    """1.25 minutes a point by hand, 10 a test cell, 5 for a reading."""
    for task in tasks_of(sets.load_source(name, "book").cells).values():
        if task["optional"]:
            continue
        estimate, place = 1.25 * task["by hand"], ""
        for cell in task["cells"]:
            if sets.is_test(cell):
                estimate += 5 if place.startswith("read") else 10
            elif mark(cell).get("solution"):
                place = mark(cell)["grade_id"]
        assert abs(task["minutes"] - estimate) <= 10, (task["minutes"], estimate)


@EACH_SET
def test_each_derivation_that_counts_has_a_rubric_that_adds_up(name):
    """It also has three answers to compare with: for full, half and no points."""
    text = (sets.SOURCE / name / "marking.md").read_text(encoding="utf-8")
    rubrics = text.split("\n## ")[1:]
    counted = [
        mark(cell)["points"]
        for cell in by_kind(name, "grade")
        if cell.cell_type == "markdown" and mark(cell)["points"]
    ]
    found = []
    for rubric in rubrics:
        rows = re.findall(r"\| ([\d +]+) \|$", rubric, re.MULTILINE)
        found.append(sum(int(n) for row in rows for n in row.split("+")))
        assert f"({found[-1]} points)" in rubric.splitlines()[0]
    assert found == counted
    for answer in ("**Half, ", "**None, "):
        assert answer in rubrics[0]


@EACH_SET
def test_each_question_says_the_points_of_its_parts(name):
    """The numbers in brackets of a question by hand add up to its points."""
    cells = sets.load_source(name, "book").cells
    for question, answer in itertools.pairwise(cells):
        points = mark(answer).get("points", 0)
        if answer.cell_type != "markdown" or not points:
            continue
        text = HEADING.sub("", question.source)
        items = re.findall(r"^- \(([\d +]+)\)", text, re.MULTILINE)
        told = [sum(map(int, item.split("+"))) for item in items]
        said = r"\((\d+) points?\b"
        told = told or [int(n) for n in re.findall(rf"{said}(?!,? by hand)", text)]
        told = told or [int(n) for n in re.findall(said, text)]
        assert sum(told) == points, (answer.id, told)


@EACH_SET
def test_a_hundred_points_most_of_them_by_tests(name):
    points = [mark(cell)["points"] for cell in by_kind(name, "grade")]
    assert sum(points) == 100
    tests = sum(check.points_of(sets.load_source(name, "book")).values())
    assert 60 <= tests <= 70


@EACH_SET
def test_there_are_derivations_to_grade_by_hand(name):
    answers = [c for c in by_kind(name, "grade") if c.cell_type == "markdown"]
    assert answers
    assert all(mark(cell)["solution"] for cell in answers)


@EACH_SET
def test_credit_is_partial(name):
    tests = [c for c in by_kind(name, "grade") if c.cell_type == "code"]
    assert len(tests) >= 8
    assert max(mark(cell)["points"] for cell in tests) <= 10


@EACH_SET
def test_some_tests_teach_and_some_are_hidden(name):
    tests = [c.source for c in by_kind(name, "grade") if c.cell_type == "code"]
    hidden = [source for source in tests if "BEGIN HIDDEN TESTS" in source]
    assert len(hidden) >= 4
    shown = [source.split("### BEGIN HIDDEN TESTS")[0] for source in tests]
    assert sum("expect(" in source or "assert" in source for source in shown) >= 8


@EACH_SET
def test_a_key_changes_the_task_and_not_its_names(name):
    variants = [variant_of(name, f"key {number}") for number in range(8)]
    assert len({tuple(variant) for variant in variants}) == 1
    capitals = [k for k in variants[0] if k.isupper()]
    assert len({str([v[k] for k in capitals]) for v in variants}) > 4
    for variant in variants:
        for key in capitals:
            assert ast.literal_eval(repr(variant[key])) == variant[key]


@EACH_SET
@pytest.mark.parametrize("key", KEYS)
def test_no_token_is_left_in_the_text(name, key):
    texts = [cell.source for cell in sets.load_source(name, key).cells]
    assert not any(re.search(r"\{\{\w*\}\}", text) for text in texts)


@EACH_SET
def test_solution_cells_hold_functions_alone(name):
    for cell in by_kind(name, "solution"):
        if cell.cell_type == "code":
            body = ast.parse(cell.source).body
            assert all(isinstance(node, ast.FunctionDef) for node in body)
            assert "### BEGIN SOLUTION" in cell.source
            assert all(ast.get_docstring(node) for node in body[:1])


@EACH_SET
def test_every_test_draws_instances_of_its_own(name):
    names = [
        found
        for cell in by_kind(name, "grade")
        if cell.cell_type == "code"
        for found in re.findall(r'instances\(\s*"([^"]+)"', cell.source)
    ]
    assert names
    assert len(names) == len(set(names))


@EACH_SET
def test_the_stored_source_is_that_of_the_default_key(name):
    stored = nbformat.read(sets.SOURCE / name / f"{name}.ipynb", as_version=4)
    task = next(c for c in stored.cells if "task" in c.metadata.get("tags", []))
    given = {}
    exec(task.source, given)
    for key, value in variant_of(name, "book").items():
        if key.isupper():
            np.testing.assert_equal(given[key], value)
    assert not any(cell.get("outputs") for cell in stored.cells)
