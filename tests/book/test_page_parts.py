"""The parts of a chapter's page: captions, signs, folds and fields, on a small book."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from small_book import CONTENTS, Book

from bnlib.claims import get, judge, pages
from tools import outputs

SIGNED = "bn-eps-small"
TEXT = """See {numref}`fig-rise` and {prf:ref}`bn-eps-small`.

```{prf:theorem} A name
:label: bn-eps-small

It holds.
```

```{prf:proof}
In the open.
```

```{prf:proof}
:class: dropdown

Folded.
```

```{prf:theorem} Not of the ledger
:label: no-claim

It is said.
```

```{admonition} One way
:class: dropdown

Like this.
```

```{exercise} A number: derive, ★, 5 minutes
:label: ex-number

Which number?
```

```{solution-start} ex-number
:label: sol-number
:class: dropdown
```

It is a half.
"""
DRAW = """import bnlib
import matplotlib.pyplot as plt
bnlib.plotting.use_style()
fig, ax = plt.subplots()
_ = ax.plot([1, 2], **bnlib.plotting.look("with BN"))
_ = ax.set_xlabel("steps")"""
ANSWER = """import bnlib
bnlib.exercises.answer("ex-number", 0.5, within=0.01)"""
HAND_OVER = """from IPython.display import display
display({{"application/json": {found}}}, raw=True)"""
TARGETS = '<span id="errata-bn-eps-small"></span><span id="ledger-bn-eps-small"></span>'


def write_chapter(book):
    caption = {"caption": "It rises.", "name": "fig-rise"}
    image = {"alt": "Empty axes."}
    figure = {"mystnb": {"image": image, "figure": caption}}
    cells = [
        new_markdown_cell(TEXT),
        new_code_cell(ANSWER),
        new_markdown_cell("```{solution-end}\n```\n\nThe end."),
        new_code_cell(DRAW, metadata=figure | {"tags": ["hide-input"]}),
    ]
    page = book.read("02-page")
    page.cells += cells
    book.write("chapters/02-page.ipynb", nbformat.writes(page))


def book_with(root, found):
    """A book with a chapter, errata and a ledger whose run found this."""
    book = Book(root.resolve())
    pages = ["      - file: chapters/ledger\n", "      - file: chapters/errata\n"]
    book.write("_toc.yml", CONTENTS + "".join(pages))
    write_chapter(book)
    about = "This page has the rows of the small ledger, as many as there are."
    book.write_notebook("chapters/ledger.ipynb", f"# Ledger\n\n{about}\n\n{TARGETS}")
    if found is not None:
        ledger = book.read("ledger")
        code = HAND_OVER.format(found=found)
        hidden = {"tags": ["remove-cell"]}
        ledger.cells.append(new_code_cell(code, metadata=hidden))
        book.write("chapters/ledger.ipynb", nbformat.writes(ledger))
    about = "This page has the slips of other texts, as many as the book knows of."
    book.write_notebook("chapters/errata.ipynb", f"# Errata\n\n{about}\n\n{TARGETS}")
    return book


@pytest.fixture(scope="module")
def found():
    return {SIGNED: pages.record(judge(get(SIGNED), seeds=[0]))}


@pytest.fixture(scope="module")
def built(tmp_path_factory, found):
    book = book_with(tmp_path_factory.mktemp("parts"), found)
    # The notebooks store no outputs here, and the ledger has few rows.
    return book, [
        each
        for each in book.build()
        if "make notebooks" not in each and not each.startswith("_modules/")
    ]


@pytest.fixture(scope="module")
def page(built):
    return built[0].html("chapters/02-page.html")


def test_the_parts_are_sound_html(built):
    assert built[1] == []


def test_a_figure_has_the_number_of_its_chapter_and_its_caption(page):
    assert re.search(r'caption-number">Figure 2\.1 </span>.*?It rises\.', page)
    assert re.search(
        r'href="#fig-rise"><span class="std std-numref">Figure 2\.1<', page
    )


def test_a_figure_is_text_and_colours_of_the_theme_and_has_its_alternative(page):
    (svg,) = re.findall(r'<svg class="figure" .*?</svg>', page, re.DOTALL)
    assert 'role="img" aria-label="Empty axes."' in svg
    assert ">steps</text>" in svg
    assert "stroke: var(--fig-orange)" in svg
    assert "fill: var(--fig-paper)" in svg
    assert not re.search('#[0-9a-f]{6}|DejaVu|id="(figure|axes)_', svg)
    assert page.index('<figure class="align-default" id="fig-rise">') < page.index(svg)


def test_a_checked_statement_tells_what_the_ledgers_run_found(page, found):
    (sign,) = re.findall(r'<details class="sign-of-check">.*?</details>', page)
    after = page[page.index('id="bn-eps-small"') : page.index("It holds.")]
    assert sign in after
    worst = pages.short(found[SIGNED]["worst"]["error"])
    assert f"Error <b>{worst}</b> at worst, allowed 1e-12." in sign
    assert "is rejected" in sign
    assert found[SIGNED]["sharpness"] in sign
    assert 'href="ledger.html#ledger-bn-eps-small"' in sign
    assert "_modules/bnlib/claims/chapter02_transform.html#bn_eps_small" in sign
    assert "python -m bnlib.claims bn-eps-small" in sign
    assert 'class="in-print" href="errata.html#errata-bn-eps-small"' in after


def test_everything_that_folds_is_a_details_with_a_plain_name(page):
    names = re.findall(r'sd-summary-text">([^<]+)<', page)
    assert names == ["Proof", "One way", "Solution"]
    assert page.count('admonition-title">Show code<') == 2
    assert "toggle hidden" not in page.lower()
    assert not re.search(r'class="[^"]*admonition[^"]*dropdown', page)
    assert '<strong class="proof-word">Proof.</strong> In the open.' in page


def test_the_switch_shows_code_but_not_that_of_figures_and_solutions(page):
    folded = re.findall(r'<div class="cell( \S+)? docutils container">\n<details', page)
    assert folded == [" shown-in-run", " tag_hide-input"]
    solution = page[page.index('id="sol-number"') :]
    assert solution.index("cell_input") < solution.index("<details")


def test_an_answer_becomes_a_field_under_its_exercise(page):
    exercise = page[page.index('id="ex-number"') : page.index('id="sol-number"')]
    assert 'data-value="0.5" data-within="0.01" hidden' in exercise
    assert "answer-mark" not in page
    assert page.count('<form class="answer"') == 1


def test_without_what_the_run_found_there_is_no_sign_and_no_good_build(tmp_path, found):
    book = book_with(tmp_path, None)
    assert "no run of the ledger: no statement carries a sign" in book.build()
    assert "sign-of-check" not in book.html("chapters/02-page.html")
    assert not (book.root / outputs.JUDGEMENTS).exists()


def test_a_statement_that_the_run_lacks_is_named(tmp_path, found):
    book = book_with(tmp_path, {"bn-range": found[SIGNED]})
    problems = "\n".join(book.build())
    assert "the ledger has no run of bn-eps-small" in problems


def test_what_failed_or_is_only_shown_has_no_sign(tmp_path, found):
    book = book_with(tmp_path, {SIGNED: found[SIGNED] | {"passes": False}})
    book.build()
    assert "sign-of-check" not in book.html("chapters/02-page.html")
