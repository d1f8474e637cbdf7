"""The course pages: what the syllabus computes is true of the chapters."""

import re
import shutil

import IPython.display
import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import notebook_rules as rules
import pytest
import yaml
from nbformat.v4 import new_markdown_cell, new_notebook
from refusals import refused

from tools.cells import ROOT, code_cells, output_text

CHAPTERS = ROOT / "chapters"
BACKGROUND = nbformat.read(CHAPTERS / "background.ipynb", as_version=4)
WRITTEN = sorted(CHAPTERS.glob("[0-9][0-9]-*.ipynb"))
PHONE = 328  # the width of a figure on a screen of 360 pixels
STATEMENTS = ("prf:proposition", "prf:lemma", "prf:theorem")


def prose(path):
    return rules.markdown(nbformat.read(path, as_version=4))


@pytest.fixture
def open_syllabus(monkeypatch):
    """Run the syllabus in a folder; return its names and the texts that it shows."""
    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda m: shown.append(m.data))

    def run(folder):
        monkeypatch.chdir(folder)
        page = {}
        # The first cell is for Colab alone.
        for cell in code_cells(nbformat.read(CHAPTERS / "syllabus.ipynb", 4))[1:]:
            exec(cell.source, page)
        return page, shown

    with mpl.rc_context(), plt.style.context("default"):
        yield run
        plt.close("all")


@pytest.fixture
def syllabus(open_syllabus):
    return open_syllabus(CHAPTERS)


@pytest.fixture
def page(syllabus):
    return syllabus[0]


def ancestors(chapters, number):
    """Return all that a chapter builds on, directly or not."""
    parents = set(chapters[number].builds_on)
    return parents.union(*(ancestors(chapters, parent) for parent in parents))


def rows(text):
    """Return a Markdown table's rows, without its head, as lists of cells."""
    lines = [line.strip("|").split("|") for line in text.splitlines()]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def number_of(cell):
    return float(cell.strip("≈* "))


# The data, against the chapters and the other pages.


def test_no_line_of_the_graph_is_implied_by_others(page):
    chapters = page["chapters"]
    for number, chapter in chapters.items():
        for parent in chapter.builds_on:
            others = set(chapter.builds_on) - {parent}
            further = set().union(*(ancestors(chapters, other) for other in others))
            assert parent not in further, (number, parent)


def test_the_contents_list_the_chapters_by_their_files(page):
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    files = [each["file"] for part in toc["parts"] for each in part["chapters"]]
    listed = [file for file in files if re.match(r"chapters/\d\d-", file)]
    chapters = [each for number, each in sorted(page["chapters"].items()) if number]
    assert listed == [f"chapters/{each.file}" for each in chapters]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_a_chapter_comes_after_all_that_it_says_it_builds_on(page, path):
    said = re.search(r"\*\*Builds on\*\*(.*?)\bAbout \d", prose(path), re.DOTALL)[1]
    named = set(map(int, re.findall(r"\b(\d\d)\b", said)))
    number, order = int(path.stem[:2]), page["order"]
    assert named == ancestors(page["chapters"], number) & named
    assert all(order.index(each) < order.index(number) for each in named)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_the_minutes_are_those_that_the_chapter_states(page, path):
    text = prose(path)
    titles = [a for kind, a, *_ in rules.directives(text) if kind == "exercise"]
    easy = [title for title in titles if "★★★" not in title]
    exercises = sum(int(title.split()[-2]) for title in easy)
    opening = text.partition("\n## ")[0]
    reading = int(re.search(r"(\d+) minutes to read", opening)[1])
    assert page["minutes"][int(path.stem[:2])] == (reading, exercises)


# The figure.


def test_an_arc_leads_to_each_chapter_from_each_that_it_builds_on(page):
    chapters, rows = page["chapters"], page["row"]
    expected = {
        frozenset((rows[number], rows[parent]))
        for number in rows
        for parent in chapters[number].builds_on
    }
    arcs = [line.get_ydata() for line in page["ax"].lines if len(line.get_xdata()) > 1]
    assert {frozenset((round(y[0]), round(y[-1]))) for y in arcs} == expected


def test_the_paths_differ_in_dashes_and_marks_as_well_as_in_colour(page):
    styles = page["styles"].values()
    for key in ("color", "linestyle", "marker"):
        assert len({str(style[key]) for style in styles}) == len(page["styles"])


def test_the_names_are_legible_on_a_phone_and_lie_apart(page):
    figure, axes = page["fig"], page["ax"]
    figure.canvas.draw()
    names = [text for text in axes.texts if text.get_text()[:2].isdigit()]
    boxes = [text.get_window_extent() for text in names]
    assert len(boxes) == len(page["order"])
    assert all(figure.bbox.containsx(x) for box in boxes for x in (box.x0, box.x1))
    scale = PHONE / figure.bbox.width
    sizes = [text.get_fontsize() * figure.dpi / 72 * scale for text in names]
    assert min(sizes) >= 12
    assert not any(a.overlaps(b) for a in boxes for b in boxes if a is not b)


# The tables.


def test_the_table_lists_every_chapter_with_what_it_builds_on(syllabus):
    page, shown = syllabus
    table = {int(re.search(r"\d\d", row[0])[0]): row for row in rows(shown[0])}
    assert table.keys() == page["chapters"].keys() - {0}
    for number, row in table.items():
        numbers = list(map(int, re.findall(r"\d+", row[1])))
        assert numbers == page["chapters"][number].builds_on
        sections = row[2].split(", ") if row[2] != "–" else []
        assert len(sections) == len(page["chapters"][number].background)


def test_every_link_of_the_tables_leads_to_a_page_and_a_heading(syllabus):
    headings = re.findall(r"^##+ (.+)$", rules.markdown(BACKGROUND), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(([^)]+)\)", "\n".join(syllabus[1]))
    assert len(links) > len(WRITTEN)
    for link in links:
        file, _, anchor = link.partition("#")
        assert (CHAPTERS / file).is_file()
        assert not anchor or anchor in anchors


def test_the_plan_has_a_chapter_once_or_says_that_it_stands_beside_it(page):
    planned = [number for _, numbers in page["weeks"] for number in numbers]
    assert sorted([*planned, *page["beside"]]) == sorted(page["chapters"])


def test_every_week_and_the_whole_plan_sum(syllabus):
    *weeks, whole = [list(map(number_of, row[2:])) for row in rows(syllabus[1][3])]
    for hours, *minutes in weeks:
        assert hours == pytest.approx(sum(minutes) / 60, abs=0.051)
    for column, total in zip(zip(*(week[1:] for week in weeks)), whole[1:]):
        assert sum(column) == total
    assert whole[0] == pytest.approx(sum(whole[1:]) / 60, abs=0.51)


def test_the_hours_of_a_path_are_those_of_its_chapters(syllabus):
    page, shown = syllabus
    for text, numbers in zip(shown[1:3], page["paths"].values()):
        said = float(re.search(r"chapters, (?:≈ )?([\d.]+) hours", text)[1])
        minutes = sum(sum(page["minutes"][n]) + page["TRYING"] for n in numbers)
        assert said == pytest.approx(minutes / 60, abs=0.051)
        assert text.count("\n1. ") == len(numbers)


def test_a_path_in_the_wrong_order_is_refused(page):
    page["in_order"]([2, 3, 8])
    with refused(AssertionError, "chapter 08", "before 3"):
        page["in_order"]([2, 8, 3])


def test_what_the_text_says_of_the_weeks_is_so(page):
    one, two, three, *others = [set(numbers) for _, numbers in page["weeks"]]
    practice, theory = (set(path) for path in page["paths"].values())
    assert one | two | three == practice | {0, 1}
    assert one.union(two, *others) == theory | {0}
    dropped = {5} | others[-1]
    for number in page["chapters"].keys() - dropped:
        assert not dropped & set(page["chapters"][number].builds_on)


def test_the_theory_path_needs_the_whole_background_page(page):
    theory = page["paths"]["theory"]
    used = set().union(*(page["chapters"][number].background for number in theory))
    assert used == set(page["sections"].values()) - {"Self-test", "Where to read more"}


def test_a_page_is_followed_by_none_that_comes_before_what_it_builds_on(page):
    # The button Next goes in the order of the contents.
    for number, chapter in page["chapters"].items():
        later = [each for each in chapter.builds_on if each > number]
        assert not later, f"chapter {number:02} builds on {later}, which come after it"


# The page follows the chapters and the problem sets by itself.


def write_chapter(folder, file, builds_on, minutes=20):
    """Write a chapter with exercises of 10 minutes, one of each kind of stars."""
    exercise = "```{exercise} A: code, %s, 10 minutes\n```"
    stars = (exercise % "★", exercise % "★★", exercise % "★★★")
    opening = f"**Builds on** {builds_on}. About {minutes} minutes to read."
    text = "\n\n".join([f"# The title of {file[3:]}", opening, *stars])
    notebook = new_notebook(cells=[new_markdown_cell(text)])
    nbformat.write(notebook, folder / f"{file}.ipynb")


@pytest.fixture
def book(tmp_path):
    """A copy of the chapters in a folder of their own."""
    (tmp_path / "chapters").mkdir()
    for path in [*WRITTEN, CHAPTERS / "background.ipynb"]:
        shutil.copy(path, tmp_path / "chapters")
    return tmp_path


def test_a_new_chapter_appears_by_itself(open_syllabus, book):
    builds_on = "chapters 02, 05 and 14, and on [Stein's lemma](background-stein)"
    write_chapter(book / "chapters", "90-new", builds_on, minutes=35)
    page, shown = open_syllabus(book / "chapters")
    table = {row[0]: row[1:] for row in rows(shown[0])}
    assert table["[90 The title of new](90-new.ipynb)"] == [
        *("05, 14", "[Gaussian expectations](background.ipynb#gaussian-expectations)"),
        *("35", "20"),
    ]
    assert "90 The title of new" in [text.get_text() for text in page["ax"].texts]
    assert "[90 The title of new](90-new.ipynb)" in shown[-1]


def test_chapters_that_build_on_each_other_are_named(open_syllabus, book):
    write_chapter(book / "chapters", "90-new", "chapter 91")
    write_chapter(book / "chapters", "91-next", "chapter 90")
    with refused(AssertionError, "[90, 91]", "build on each other"):
        open_syllabus(book / "chapters")


def test_a_chapter_that_builds_on_none_there_is_is_named(open_syllabus, book):
    write_chapter(book / "chapters", "90-new", "chapter 77")
    with refused(AssertionError, "[90]", "none there is"):
        open_syllabus(book / "chapters")


def write_set(folder, name, opening):
    """Write a problem set beside the folder of the chapters."""
    path = folder / f"assignments/source/{name}/{name}.ipynb"
    path.parent.mkdir(parents=True)
    notebook = new_notebook(cells=[new_markdown_cell(opening)])
    nbformat.write(notebook, path)


def test_a_week_has_the_minutes_that_its_problem_set_states(open_syllabus, book):
    write_set(book, "2-moving", "# A set\n\nAbout 75 minutes.")
    weeks = rows(open_syllabus(book / "chapters")[1][3])
    assert [row[-1] for row in weeks[:3]] == ["≈ 120", "≈ 75", "≈ 120"]


def test_a_set_that_belongs_to_no_week_is_listed_apart(open_syllabus, book):
    write_set(book, "7-more", "# A set\n\nAbout 75 minutes.")
    assert "set 7, ≈ 75 minutes" in open_syllabus(book / "chapters")[1][-1]


def test_a_problem_set_that_states_no_minutes_is_named(open_syllabus, book):
    write_set(book, "2-moving", "# A set")
    path = "../assignments/source/2-moving/2-moving.ipynb"
    with refused(AssertionError, path, "does not say its minutes"):
        open_syllabus(book / "chapters")


def test_there_is_a_problem_set_for_every_week(page):
    assert page["absent"] == set()


def test_without_the_chapters_the_page_says_what_it_needs(open_syllabus, tmp_path):
    with refused(AssertionError, "page", "", "copy of the book"):
        open_syllabus(tmp_path)


@pytest.mark.parametrize(
    ("opening", "says"),
    [
        ("# A\n\n**Builds on** 02. About 5 minutes.", "how many minutes it takes"),
        ("# A\n\nAbout 5 minutes to read.", "what it builds on"),
        ("**Builds on** 02. About 5 minutes to read.", "its title"),
    ],
)
def test_a_chapter_that_says_too_little_of_itself_is_named(
    open_syllabus, book, opening, says
):
    notebook = new_notebook(cells=[new_markdown_cell(opening)])
    nbformat.write(notebook, book / "chapters/03-backprop.ipynb")
    with refused(AssertionError, "03-backprop.ipynb", f"does not say {says}"):
        open_syllabus(book / "chapters")


# The background page.


def test_every_fact_is_followed_by_a_proof_and_a_check_that_holds():
    facts, held = [], {}
    for cell in BACKGROUND.cells:
        if cell.cell_type == "code" and facts:
            held[facts[-1]] |= "holds: error" in output_text(cell)
        elif cell.cell_type == "markdown":
            for kind, name, _, _ in rules.directives(cell.source):
                if kind in STATEMENTS:
                    facts.append(name)
                    held[name] = False
                elif kind == "prf:proof":
                    held[f"proof of {facts[-1]}"] = True
    assert len(facts) >= 12
    assert [fact for fact in facts if not held[fact]] == []
    assert [fact for fact in facts if f"proof of {fact}" not in held] == []


def test_no_check_of_the_background_page_fails():
    assert not [
        cell.source for cell in code_cells(BACKGROUND) if "fails" in output_text(cell)
    ]


def test_every_section_of_the_background_page_has_a_label_for_the_chapters():
    text = rules.markdown(BACKGROUND)
    headings = re.findall(r"^(\(background[\w-]*\)=\n)?#+ (.+)$", text, re.MULTILINE)
    assert [title for label, title in headings if not label] == []


def test_the_self_test_has_five_questions_with_hints_and_folded_answers():
    text = rules.section(rules.markdown(BACKGROUND), "Self-test")
    assert len(re.findall(r"^```\{exercise\}", text, re.MULTILINE)) == 5
    cell = new_markdown_cell(f"## Exercises\n\n{text}")
    assert list(rules.exercises_are_complete(new_notebook(cells=[cell]))) == []
