"""Notebooks: the rules they keep to, and what breaks each."""

import re

import nbformat
import notebook_rules as rules
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import notebooks, repository

NOTEBOOKS = notebooks.notebook_paths()
CHAPTERS = [path for path in NOTEBOOKS if re.match(r"\d\d-", path.name)]


def rule_name(value):
    return getattr(value, "__name__", getattr(value, "name", None))


# The real notebooks.


@pytest.mark.parametrize("path", NOTEBOOKS, ids=rule_name)
@pytest.mark.parametrize("rule", rules.RULES, ids=rule_name)
def test_every_notebook_keeps_the_rule(path, rule):
    complaints = list(rule(nbformat.read(path, as_version=4)))
    assert not complaints, "\n".join(f"{path.name}: {text}" for text in complaints)


@pytest.mark.parametrize("path", CHAPTERS, ids=rule_name)
@pytest.mark.parametrize("rule", rules.CHAPTER_RULES, ids=rule_name)
def test_every_chapter_keeps_the_rule(path, rule):
    complaints = list(rule(nbformat.read(path, as_version=4)))
    assert not complaints, "\n".join(f"{path.name}: {text}" for text in complaints)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=rule_name)
def test_every_notebook_is_stored_as_the_tool_stores_it(path):
    notebook = notebooks.normalise(nbformat.read(path, as_version=4))
    same = notebooks.serialise(notebook).encode("utf-8") == path.read_bytes()
    name = path.relative_to(notebooks.ROOT)
    assert same, f"{name}: run: python -m tools.notebooks {name}"


def test_the_landing_page_has_a_question_and_a_sketch_for_every_chapter():
    page = nbformat.read(NOTEBOOKS[0], as_version=4)
    code = "\n".join(cell.source for cell in page.cells if cell.cell_type == "code")
    for path in CHAPTERS:
        slug = path.stem.partition("-")[2]
        assert f'    "{slug}": ' in code, f"no question for {path.name}"
        assert f'sketches["{slug}"] = ' in code, f"no sketch for {path.name}"


def test_names_of_figures_are_unique_in_the_book():
    taken = {}
    for path in NOTEBOOKS:
        for cell in rules.code_cells(nbformat.read(path, as_version=4)):
            figure = rules.mystnb(cell, "figure").get("name")
            assert figure not in taken, f"{figure}: {path.name}, {taken.get(figure)}"
            if figure:
                taken[figure] = path.name


@pytest.mark.parametrize("path", CHAPTERS, ids=rule_name)
def test_a_chapter_checks_its_own_claims(path):
    last = rules.code_cells(nbformat.read(path, as_version=4))[-1].source
    assert "check_chapter(" not in last or f'check_chapter("{path.stem}")' in last


# A small chapter that keeps every rule, and what breaks each.

OPENING = """# A title

You will be able to

- do one thing,
- do another,
- and a third.

**Builds on** nothing. 10 minutes to read, 5 seconds to run."""

EXERCISE = """```{exercise} A name: derive, ★★, 15 minutes
:label: ex-N

Show it.
```

```{dropdown} Hint
Look.
```

```{solution-start} ex-N
:label: sol-N
:class: dropdown
```

It is so.

```{solution-end}
```
"""


ANSWER = 'bnlib.exercises.answer("ex-9", 0.5, within=0.01)'


def converted():
    """A small chapter whose last cell checks its claims."""
    notebook = chapter()
    prediction = "```{admonition} Predict\n:class: tip\n\nHow many are there?\n```"
    start = EXERCISE.replace("N", "9").partition("It is so.")
    caption = {"caption": "It rises.", "name": "fig-rise"}
    notebook.cells[2].metadata.mystnb.figure = caption
    cells = [
        new_markdown_cell(start[0]),
        new_code_cell(ANSWER, execution_count=4),
        new_markdown_cell(start[2]),
        new_code_cell('bnlib.claims.check_chapter("a")', execution_count=5),
    ]
    cells[3].outputs = notebook.cells[3].outputs
    cells[3].metadata.tags = ["remove-cell"]
    notebook.cells[3].outputs = []
    notebook.cells.insert(2, new_markdown_cell(prediction))
    last = notebook.cells[-1]
    last.source = f"**Answer.** Three.\n\n{last.source}"
    return new_notebook(cells=notebook.cells + cells, metadata=notebook.metadata)


def chapter():
    exercises = "\n".join(EXERCISE.replace("N", str(n)) for n in range(5))
    text = (
        f"## Body\n\nPredict it. {'word ' * 1500}\n\n## What goes wrong in practice\n"
    )
    cells = [
        new_code_cell(repository.colab_cell(repository.current_address())),
        new_markdown_cell(OPENING),
        new_code_cell("fig, ax = plt.subplots()", execution_count=2),
        new_code_cell("print(claim.check())", execution_count=3),
        new_markdown_cell(
            f"{text}\n## Exercises\n\n{exercises}\n## Summary\n\n## Sources"
        ),
    ]
    cells[0].execution_count = 1
    cells[0].metadata.tags = ["remove-cell"]
    cells[2].metadata.mystnb = {"image": {"alt": "A line that rises."}}
    cells[2].outputs = [
        new_output(
            "display_data", data={"text/plain": "<Figure size 640x340 with 1 Axes>"}
        )
    ]
    verdict = "holds: error 3e-15, allowed 1e-12\n"
    cells[3].outputs = [new_output("stream", name="stdout", text=verdict)]
    return new_notebook(cells=cells, metadata={"kernelspec": notebooks.KERNEL})


LATER = (rules.chapter_has_its_sections, rules.exercises_are_complete)


@pytest.mark.parametrize("rule", [*rules.RULES, *rules.CHAPTER_RULES], ids=rule_name)
def test_a_good_notebook_keeps_the_rule(rule):
    assert not list(rule(chapter()))
    # Its exercise stands after the sources, for short.
    assert rule in LATER or not list(rule(converted()))


def replace(cell, old, new=""):
    """Return a way to break a notebook: other words in one cell's source."""

    def breaks(notebook):
        assert old in notebook.cells[cell].source
        notebook.cells[cell].source = notebook.cells[cell].source.replace(old, new)

    return breaks


def put(cell, **values):
    """Return a way to break a notebook: other fields in one cell."""
    return lambda notebook: notebook.cells[cell].update(nbformat.from_dict(values))


def data(kind, value="x"):
    return {"outputs": [new_output("display_data", data={kind: value})]}


def stream(name, text):
    return {"outputs": [new_output("stream", name=name, text=text)]}


ERROR = new_output("error", ename="E", evalue="", traceback=[])
FIGURE, CHECK = r"Cell 1 \(fig, ax = ", r"Cell 2 \(print\(claim"
BREAKS = [
    (rules.first_cell_installs_on_colab, replace(0, "bnlib", "other"), "first cell"),
    (rules.first_cell_installs_on_colab, put(0, metadata={}), "Cell 0.*remove-cell"),
    (
        rules.kernel_is_python3,
        lambda notebook: notebook.metadata.kernelspec.update(name="mine"),
        "'mine'",
    ),
    (rules.cells_are_short, put(3, source="x\n" * 16), r"Cell 2 \(x\): 16 lines"),
    (rules.no_line_ends_in_a_semicolon, replace(3, "())", "());"), CHECK),
    (rules.tags_are_known, put(2, metadata={"tags": ["hide-inputs"]}), "hide-inputs"),
    (rules.no_image_is_stored, put(2, **data("image/png")), FIGURE + ".*image/png"),
    (rules.no_image_is_stored, put(2, **data("image/svg+xml")), FIGURE),
    (rules.no_error_is_stored, put(2, outputs=[ERROR]), FIGURE),
    (rules.no_error_is_stored, put(2, **stream("stderr", "x")), FIGURE),
    (
        rules.no_address_in_memory_is_stored,
        put(2, **data("text/plain", "<Line2D at 0x7f00aa>")),
        FIGURE,
    ),
    (rules.cells_ran_once_in_order, put(3, execution_count=7), CHECK + ".* 7, not 3"),
    (rules.cells_ran_once_in_order, put(3, execution_count=None), CHECK),
    (
        rules.cells_ran_once_in_order,
        lambda notebook: notebook.metadata.update(bnlib={"generated": True}),
        r"Cell 0.* 1, not None",
    ),
    (
        rules.unchecked_outputs_are_not_stored,
        lambda notebook: notebook.metadata.update(bnlib={"generated": True}),
        FIGURE,
    ),
    (
        rules.unchecked_outputs_are_not_stored,
        put(3, metadata={"tags": ["nbval-ignore-output"]}),
        CHECK,
    ),
    (rules.figures_have_alternative_text, put(2, metadata={}), FIGURE),
    (rules.figures_have_alternative_text, put(2, metadata={}, outputs=[]), FIGURE),
    (
        rules.figures_have_alternative_text,
        put(2, source="draw(points)", metadata={"mystnb": {"image": {"alt": " "}}}),
        r"Cell 1 \(draw",
    ),
    (rules.checks_print_their_verdict, put(3, **stream("stdout", "holds")), CHECK),
    (rules.chapter_opens_as_promised, replace(1, "# A title", "A title"), "title"),
    (rules.chapter_opens_as_promised, replace(1, "- do one thing,"), "found 2"),
    (rules.chapter_opens_as_promised, replace(1, "Builds on", "After"), "builds on"),
    (rules.chapter_opens_as_promised, replace(1, "10 minutes"), "minutes to read"),
    (rules.chapter_opens_as_promised, replace(1, "5 seconds"), "seconds to run"),
    (rules.chapter_asks_for_a_prediction, replace(4, "Predict"), "no prediction"),
    (rules.chapter_has_its_sections, replace(4, "## Summary", "## End"), "'End'"),
    (rules.chapter_has_its_sections, replace(4, "## Sources"), "not"),
    (rules.chapter_has_the_right_length, replace(4, "word "), r"\d+ words"),
    (rules.chapter_has_the_right_length, replace(4, "word ", "a b c "), "4"),
    (rules.exercises_are_complete, replace(4, "exercise} A", "note} A"), "0 exercises"),
    (rules.exercises_are_complete, replace(4, "Hint", "More"), "0 folded hints"),
    (rules.exercises_are_complete, replace(4, ":label: ex-3"), "has no label"),
    (rules.exercises_are_complete, replace(4, "start} ex-3", "start} x"), "'ex-3'"),
    (rules.exercises_are_complete, replace(4, ":class: dropdown"), "'ex-0'"),
    (rules.exercises_are_complete, replace(4, "{solution-end}"), "solution-end"),
    *(
        (rules.exercises_are_complete, replace(4, old, new), "must end in")
        for old, new in [("derive", "think"), ("★★", "4"), ("15 minutes", "long")]
    ),
]


OPENS, ANSWERED, FIELD, LAST = 2, 5, 7, -1
NEW_BREAKS = [
    (rules.figures_have_captions, put(4, source="plt.figure()"), "no caption"),
    (rules.figures_have_captions, put(4, source="plt.figure()"), "no name fig-"),
    (rules.answers_belong_to_exercises, replace(FIELD, "ex-9", "ex-x"), "no exercise"),
    (rules.answers_belong_to_exercises, replace(FIELD, "ex-9", "ex-1"), "not in that"),
    (rules.last_cell_checks_the_chapter, replace(LAST, '")', '")  # so'), "last cell"),
    (rules.last_cell_checks_the_chapter, put(LAST, metadata={}), "remove-cell"),
    (rules.last_cell_checks_the_chapter, put(LAST, outputs=[]), "no verdict"),
    (rules.predictions_are_answered, replace(ANSWERED, "**Answer"), "How many are"),
    (
        rules.predictions_are_answered,
        lambda notebook: notebook.cells.insert(3, new_markdown_cell("**Answer.** 3")),
        "before the cell",
    ),
    (
        rules.predictions_are_answered,
        lambda notebook: notebook.cells.insert(3, notebook.cells[OPENS]),
        "no .*Answer",
    ),
]


@pytest.mark.parametrize(("rule", "breaks", "says"), NEW_BREAKS, ids=rule_name)
def test_a_broken_converted_chapter_is_named_by_the_rule(rule, breaks, says):
    notebook = converted()
    breaks(notebook)
    assert re.search(says, "\n".join(rule(notebook)))


@pytest.mark.parametrize(("rule", "breaks", "says"), BREAKS, ids=rule_name)
def test_a_broken_notebook_is_named_by_the_rule(rule, breaks, says):
    notebook = chapter()
    breaks(notebook)
    assert re.search(says, "\n".join(rule(notebook)))


def test_every_rule_is_seen_to_fail():
    assert {rule for rule, *_ in BREAKS + NEW_BREAKS} == {
        *rules.RULES,
        *rules.CHAPTER_RULES,
    }


def test_words_in_proofs_exercises_and_displays_are_not_counted():
    text = """# Words

```{prf:proof}
:class: dropdown

Not this.
```

```{dropdown} Nor
this.
```

```{math}
not = this
```

:::{prf:theorem} Name
:label: t

Counted $x^2 + y$ once.
:::

$$ not this $$

## Exercises

Nor this."""
    notebook = new_notebook(cells=[new_markdown_cell(text)])
    # "Words", "Counted", "formula", "once" and "Exercises".
    assert rules.count_words(notebook) == 5
