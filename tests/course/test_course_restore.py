"""Whatever is submitted, the set's own notebook is graded, with the answers in it."""

import base64
import copy
import json
import os

import course_toy
import nbformat
import pytest

from grading import sets, submission
from grading.restore import restore
from grading.submission import harmless

SOURCE = sets.render(course_toy.notebook(), {"SHIFT": 3.0, "words": ""})
STUDENT = sets.student_version(SOURCE)[0]
MOVED = "def moved(x):\n    return x + SHIFT"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and the rest").decode()


@pytest.fixture
def submit(tmp_path):
    """Return a function that restores a submission: a notebook or a file's bytes."""

    def restored(content):
        path = tmp_path / "toy.ipynb"
        if not isinstance(content, bytes):
            content = json.dumps(content).encode("utf-8", "surrogatepass")
        path.write_bytes(content)
        return restore(SOURCE, path)

    return restored


def answered(**sources):
    return course_toy.with_sources(STUDENT, **sources)


def named(notebook):
    """Return a notebook's cells by name; the student's own by their source."""
    return {
        c.metadata.get("nbgrader", {}).get("grade_id") or c.source: c
        for c in notebook.cells
    }


def place(notebook, name):
    marks = [c["metadata"].get("nbgrader", {}) for c in notebook["cells"]]
    return next(i for i, m in enumerate(marks) if m.get("grade_id") == name)


def sources(notebook):
    return [(c.cell_type, c.source) for c in notebook.cells]


def with_answers(**answers):
    """Return the sources of the set's own notebook with some answers in it."""
    wanted = copy.deepcopy(SOURCE)
    own = {**dict.fromkeys(("moved", "total", "why")), **answers}
    stubs = {c.metadata.nbgrader.grade_id: c.source for c in STUDENT.cells[1:]}
    for cell in wanted.cells[1:]:
        name = cell.metadata.nbgrader.grade_id
        if name in own:
            cell.source = stubs[name] if own[name] is None else own[name]
    return sources(wanted)


def test_answers_come_into_the_set_s_own_notebook(submit):
    notebook, remarks = submit(answered(moved=MOVED, why="Because."))
    assert sources(notebook) == with_answers(moved=MOVED, why="Because.")
    assert remarks == []
    nbformat.validate(notebook)


def test_hidden_tests_and_points_are_the_source_s(submit):
    given = answered(moved=MOVED, moved_hidden="pass")
    test = given["cells"][place(given, "moved-hidden")]
    test["metadata"]["nbgrader"]["points"] = 100
    cell = named(submit(given)[0])["moved-hidden"]
    assert "BEGIN HIDDEN TESTS" in cell.source
    assert cell.metadata.nbgrader.points == 1
    assert submit(given)[1] == [
        "cell moved-hidden is read-only and was changed: the original counts",
        "cell moved-hidden had its points or its kind changed: put right",
    ]


@pytest.mark.parametrize("name", ["task", "setup", "drawing", "moved-values"])
def test_an_edited_read_only_cell_has_no_effect(submit, name):
    notebook, remarks = submit(answered(**{name.replace("-", "_"): "expect = print"}))
    assert sources(notebook) == with_answers()
    line = f"cell {name} is read-only and was changed: the original counts"
    assert remarks == [line]


@pytest.mark.parametrize("name", ["task", "setup", "moved-values", "why", "moved"])
def test_a_deleted_cell_is_put_back(submit, name):
    given = answered(moved=MOVED)
    del given["cells"][place(given, name)]
    notebook, remarks = submit(given)
    assert [k for k, _ in sources(notebook)] == [k for k, _ in with_answers()]
    solution = name in ("why", "moved")
    fate = "is missing" if solution else "was deleted: put back"
    assert remarks == [f"cell {name} {fate}"]
    if name == "moved":
        wanted = "# This cell was missing from the submission."
        assert named(notebook)["moved"].source == wanted


def test_a_function_in_a_cell_of_one_s_own_counts_where_its_cell_was_deleted(submit):
    given = answered()
    at = place(given, "moved")
    given["cells"][at] = json.loads(json.dumps(nbformat.v4.new_code_cell(MOVED)))
    runs = [source for _, source in sets.runnable(submit(given)[0])]
    assert MOVED in runs
    assert not any("NotImplementedError" in s and "def moved" in s for s in runs)


def test_moved_cells_are_put_back_in_order(submit):
    given = answered(moved=MOVED)
    given["cells"].reverse()
    notebook, remarks = submit(given)
    assert sources(notebook) == with_answers(moved=MOVED)
    assert remarks == ["cells were moved: put back in order"]


def test_of_a_cell_that_is_there_twice_the_last_counts(submit):
    given = answered(moved="first")
    again = copy.deepcopy(given["cells"][place(given, "moved")])
    again["source"] = ["def moved(x):\n", "    return x"]
    given["cells"].append(again)
    notebook, remarks = submit(given)
    assert sources(notebook) == with_answers(moved="def moved(x):\n    return x")
    assert "cell moved is there 2 times: the last counts" in remarks


def test_a_cell_whose_kind_was_changed_is_put_right(submit):
    given = answered(moved=MOVED)
    given["cells"][place(given, "moved")]["cell_type"] = "markdown"
    notebook, remarks = submit(given)
    assert sources(notebook) == with_answers(moved=MOVED)
    assert remarks == ["cell moved was made a markdown cell: put right"]


def test_one_s_own_cells_stay_after_the_cell_that_they_followed(submit):
    given = answered(moved=MOVED)
    for name, source in (
        ("setup", "import math"),
        ("moved", "two = 2"),
        ("why", "end"),
    ):
        own = json.loads(json.dumps(nbformat.v4.new_code_cell(source)))
        given["cells"].insert(place(given, name) + 1, own)
    given["cells"].insert(
        0, {"cell_type": "markdown", "source": "first", "metadata": {}}
    )
    notebook, remarks = submit(given)
    names = list(named(notebook))
    assert names[0] == "first"
    assert names[names.index("setup") + 1] == "import math"
    assert names[names.index("moved") + 1] == "two = 2"
    assert names[-1] == "end"
    assert remarks == []
    runs = [source for _, source in sets.runnable(notebook)]
    assert runs.index("import math") < runs.index(MOVED) < runs.index("two = 2")


def test_a_cell_with_marks_of_another_set_is_a_cell_of_one_s_own(submit):
    given = answered()
    cell = copy.deepcopy(given["cells"][place(given, "moved-values")])
    cell["metadata"]["nbgrader"] |= {"grade_id": "bonus", "points": 100}
    given["cells"].append(cell)
    notebook, remarks = submit(given)
    assert notebook.cells[-1].metadata == {}
    assert remarks == ["cell 'bonus' is not of this set: kept as a cell"]


def test_an_answer_whose_marks_an_editor_dropped_is_known_by_its_cell_s_id(submit):
    given = answered(moved=MOVED, why="Because.")
    for cell in given["cells"]:
        cell["metadata"] = {}
    notebook, remarks = submit(given)
    assert sources(notebook) == with_answers(moved=MOVED, why="Because.")
    assert all(
        line.endswith("points or its kind changed: put right") for line in remarks
    )


def test_forged_outputs_and_metadata_of_tests_are_gone(submit):
    given = answered()
    test = given["cells"][place(given, "moved-values")]
    test["outputs"] = [{"output_type": "execute_result", "data": {"text/plain": "2.0"}}]
    test["outputs"] += [{"output_type": "stream", "text": "all tests passed"}]
    test["metadata"]["tags"] = ["figure"]
    given["metadata"]["bnlib"] = {"remarks": []}
    notebook, _ = submit(given)
    assert named(notebook)["moved-values"].outputs == []
    assert "tags" not in named(notebook)["moved-values"].metadata
    assert notebook.metadata == SOURCE.metadata


def outputs_of(submit, *outputs):
    given = answered()
    given["cells"][place(given, "drawing")]["outputs"] = list(outputs)
    notebook = submit(given)[0]
    nbformat.validate(notebook)
    return named(notebook)["drawing"].outputs


def test_pictures_and_text_that_a_grader_looks_at_stay(submit):
    image = {"output_type": "display_data", "data": {"image/png": PNG}, "metadata": {}}
    text = {"output_type": "stream", "name": "stderr", "text": ["a\n", "b"]}
    kept = outputs_of(submit, image, text)
    assert kept[0].data == {"image/png": PNG}
    assert (kept[1].name, kept[1].text) == ("stdout", "a\nb")


@pytest.mark.parametrize(
    "output",
    [
        {"output_type": "display_data", "data": {"text/html": "<script>x</script>"}},
        {"output_type": "display_data", "data": {"image/svg+xml": "<svg/>"}},
        {"output_type": "display_data", "data": {"application/javascript": "x"}},
        {"output_type": "display_data", "data": {"image/png": "no picture"}},
        {"output_type": "display_data", "data": {"image/png": {"a": 1}}},
        {"output_type": "display_data", "data": {"image/png": PNG * 100_000}},
        {"output_type": "error", "ename": "", "evalue": "", "traceback": "x"},
        {"output_type": "display_data"},
        "text",
        None,
    ],
    ids=lambda output: str(output)[:70],
)
def test_outputs_that_could_run_or_mislead_do_not(submit, output):
    assert outputs_of(submit, output) == []


def test_a_photograph_in_an_answer_stays(submit):
    given = answered(why="![](attachment:my.png)")
    answer = given["cells"][place(given, "why")]
    answer["attachments"] = {
        "my.png": {"image/png": PNG, "text/html": "<b>"},
        "../x": {"image/png": PNG},
        "y.svg": {"image/svg+xml": "<svg/>"},
        "large.png": {"image/png": PNG * 100_000},
    }
    notebook, remarks = submit(given)
    assert remarks == [
        "pasted pictures left out of cell why: 3; PNG or JPEG of at most 1.5 MB are "
        "taken"
    ]
    assert named(notebook)["why"].attachments == {"my.png": {"image/png": PNG}}
    assert named(notebook)["why"].source == "![](attachment:my.png)"
    nbformat.validate(notebook)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>x</script>", "< script>x< /script>"),
        ("<!-- x -->", "< !-- x -->"),
        ("[a](javascript:x)", "[a] (javascript:x)"),
        ("[a]( javascript:x)", "[a] ( javascript:x)"),
        ("[a]\n: javascript:x", "[a] \n: javascript:x"),
        (r"$\href{javascript:x}{y}$", r"$\ href{javascript:x}{y}$"),
        ("[a](https://example.org)", "[a](https://example.org)"),
        ("![a](attachment:a.png)", "![a](attachment:a.png)"),
        (r"$a < b$, $\frac{a}{b}$ and a &= b", r"$a < b$, $\frac{a}{b}$ and a &= b"),
        ("$a<b$", "$a< b$"),
        (r"$\hreflike$", r"$\hreflike$"),
        (
            r"$\mmlToken{mtext}[href=javascript:x]{y}$",
            r"$\ mmlToken{mtext}[href=javascript:x]{y}$",
        ),
        ("![a](https://example.org/a.png)", "! [a](https://example.org/a.png)"),
        ("![a][b] ![c](attachment:c.png)", "! [a][b] ![c](attachment:c.png)"),
        ("![![a](attachment:b)](https://x)", "! [![a](attachment:b)](https://x)"),
    ],
)
def test_markdown_is_shown_without_what_could_run(text, shown):
    assert harmless(text) == shown


def test_an_answer_is_made_harmless_and_an_untouched_one_stays_untouched(submit):
    assert named(submit(answered(why="<b>x</b>"))[0])["why"].source == "< b>x< /b>"
    given = answered()
    own = {"cell_type": "markdown", "source": "<b>y</b>", "metadata": {}}
    given["cells"].append(own)
    assert submit(given)[0].cells[-1].source == "< b>y< /b>"
    untouched = named(submit(answered())[0])["why"]
    assert (
        untouched.metadata.nbgrader.checksum
        == named(STUDENT)["why"].metadata.nbgrader.checksum
    )
    assert untouched.source == "YOUR ANSWER HERE"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"{", "the file is not JSON (Expecting property name"),
        (b"PK\x03\x04\xff\xfe", "the file is not text in UTF-8"),
        (b"[" * 10**6, "the file's JSON is nested too deeply"),
        (b"9" * 10**5, "the file is not JSON (Exceeds the limit"),
        (b"null", "the file is not a notebook: it has no list of cells"),
        (b"[]", "the file is not a notebook"),
        (b"{}", "the file is not a notebook"),
        (b'{"cells": {}, "nbformat": 4}', "the file is not a notebook"),
        (b'{"cells": [], "nbformat": 3}', "the notebook's format is 3; 4 is taken"),
        (b'{"cells": [], "nbformat": "4"}', "the notebook's format is 4; 4 is taken"),
        (b'{"cells": [' + b"1," * 300 + b"1]}", "the notebook has 301 cells; 300"),
        (
            b'{"cells": [{"source": "' + b"x" * 20_001 + b'"}]}',
            "a cell has 20001 characters; 20000 are taken",
        ),
    ],
    ids=lambda value: repr(value[:40]),
)
def test_what_is_no_notebook_is_refused_with_a_reason(submit, content, reason):
    notebook, remarks = submit(content)
    assert remarks[0].startswith(f"refused: {reason}")
    assert len(remarks) == 1
    assert sources(notebook) == with_answers()


@pytest.mark.parametrize(
    "cells",
    [
        [1, None, "x", []],
        [{}],
        [{"cell_type": 3, "source": 4, "metadata": 5, "outputs": 6, "attachments": 7}],
        [{"cell_type": "code", "metadata": {"nbgrader": []}, "source": [1, None, "x"]}],
        [{"cell_type": "code", "metadata": {"nbgrader": {"grade_id": ["moved"]}}}],
        [{"cell_type": "markdown", "source": "\ud800", "attachments": {"a": 1}}],
        [
            {
                "cell_type": "code",
                "outputs": [[], 1, {"data": 1}, {"data": {"image/png": 1}}],
            }
        ],
        [{"cell_type": "code", "metadata": {"nbgrader": {"grade_id": "moved"}}}],
        [{"cell_type": "code", "metadata": {"nbgrader": {"grade_id": "text-00"}}}],
    ],
    ids=lambda cells: json.dumps(cells)[:60],
)
def test_cells_of_any_json_give_a_valid_notebook(submit, cells):
    notebook, remarks = submit({"cells": cells, "nbformat": 4})
    nbformat.validate(notebook)
    assert nbformat.writes(notebook).encode("utf-8")
    assert "cell total is missing" in remarks


def test_remarks_are_limited_in_number_and_length(submit):
    marks = [{"nbgrader": {"grade_id": f"{n}" * 1000}} for n in range(200)]
    cells = [{"cell_type": "code", "source": "", "metadata": m} for m in marks]
    _, remarks = submit({"cells": cells})
    assert len(remarks) == 41
    assert remarks[-1] == "and 169 more"
    assert max(map(len, remarks)) < 200


def test_a_file_too_large_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "toy.ipynb"
    with path.open("wb") as file:
        file.truncate(200 * 2**20)
    monkeypatch.setattr(submission, "json", None)
    assert restore(SOURCE, path)[1] == ["refused: the file has 200 MiB; 20 are taken"]


@pytest.mark.parametrize("kind", ["folder", "link", "broken link", "pipe", "nothing"])
def test_what_is_no_plain_file_is_refused(tmp_path, kind):
    path = tmp_path / "toy.ipynb"
    target = tmp_path / "other.ipynb"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "nothing":
        path.symlink_to(target)
        if kind == "link":
            target.write_text(json.dumps(answered(moved=MOVED)))
    notebook, remarks = restore(SOURCE, path)
    assert remarks[0].startswith("refused: there is no plain file to read (")
    assert sources(notebook) == with_answers()
