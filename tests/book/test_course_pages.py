"""The course pages: what the syllabus computes is true of the chapters."""

import re
import shutil
from graphlib import TopologicalSorter

import IPython.display
import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import notebook_rules as rules
import pytest
import yaml
from nbformat.v4 import new_markdown_cell, new_notebook

from tools.cells import ROOT, code_cells, output_text

CHAPTERS = ROOT / "chapters"
BACKGROUND = nbformat.read(CHAPTERS / "background.ipynb", as_version=4)
WRITTEN = sorted(CHAPTERS.glob("[0-9][0-9]-*.ipynb"))
STATEMENTS = ("prf:proposition", "prf:lemma", "prf:theorem")


def prose(path):
    return rules.markdown(nbformat.read(path, as_version=4))


@pytest.fixture
def open_syllabus(monkeypatch):
    """Run the syllabus in a folder; give its names and the texts it shows."""
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
    """Return a Markdown table's rows as lists of cells, its head left out."""
    lines = [line.strip("|").split("|") for line in text.splitlines()]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def number_of(cell):
    return float(cell.strip("≈* "))


# The data, against the chapters and the other pages.


def test_the_graph_has_no_cycle(page):
    graph = {number: each.builds_on for number, each in page["chapters"].items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)


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
    known = [f"chapters/{file}" for file in page["course"]]
    assert listed == [file for file in known if file in listed]


def test_the_landing_page_has_the_same_titles(page):
    text = prose(ROOT / "intro.ipynb")
    line = r"^\| (\d\d) \| (?:\[([^]]+)\]\(.*?\)|([^|]+?)) \|"
    titles = {int(n): a or b for n, a, b in re.findall(line, text, re.MULTILINE)}
    chapters = page["chapters"].items()
    assert titles == {number: each.title for number, each in chapters if number}


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_a_chapter_has_the_title_of_the_syllabus(page, path):
    title = re.search(r"^# (.+)$", prose(path), re.MULTILINE)[1]
    assert page["course"][path.stem][0] == title


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_what_a_chapter_says_it_builds_on_comes_before_it_in_the_graph(page, path):
    said = re.search(r"\*\*Builds on\*\*(.*?)\.\s", prose(path), re.DOTALL)[1]
    named = set(map(int, re.findall(r"\b(\d\d)\b", said)))
    assert named <= ancestors(page["chapters"], int(path.stem[:2]))


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


def test_the_description_of_the_figure_names_every_chapter(page):
    cells = code_cells(nbformat.read(CHAPTERS / "syllabus.ipynb", as_version=4))
    [alt] = [c.metadata.mystnb.image.alt for c in cells if "mystnb" in c.metadata]
    for number, chapter in page["chapters"].items():
        assert not number or f"{number:02} {chapter.title}" in alt


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


def test_the_plan_has_every_chapter_once(page):
    planned = [number for _, numbers in page["weeks"] for number in numbers]
    assert sorted(planned) == sorted(page["chapters"])
    assert len(page["weeks"]) == 6


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
    with pytest.raises(AssertionError, match=r"chapter 08 comes before \{3\}"):
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
    assert used == page["background"].keys()


# A page that becomes right by itself.


@pytest.fixture
def young_book(tmp_path):
    """A folder with two chapters only, of 20 and 30 minutes."""
    shutil.copy(CHAPTERS / "background.ipynb", tmp_path)
    for file, reading in (("02-transform", 20), ("09-gdnp-halfspaces", 30)):
        exercise = "```{exercise} A: code, %s, 10 minutes\n```"
        stars = (exercise % "★", exercise % "★★", exercise % "★★★")
        text = "\n\n".join([f"# A\n\nAbout {reading} minutes to read.", *stars])
        cells = [new_markdown_cell(text)]
        nbformat.write(new_notebook(cells=cells), tmp_path / f"{file}.ipynb")
    return tmp_path


def test_only_a_chapter_that_is_there_is_linked_and_counted(open_syllabus, young_book):
    page, shown = open_syllabus(young_book)
    table = {row[0]: row[3:] for row in rows(shown[0])}
    assert table["[09 GDNP on halfspaces](09-gdnp-halfspaces.ipynb)"] == ["30", "20"]
    assert table["08 Length and direction, *in preparation*"] == ["≈ 25", "≈ 20"]
    marks = {
        (line.get_xdata()[0], line.get_ydata()[0]): line.get_markerfacecolor()
        for line in page["ax"].lines
        if line.get_marker() not in ("None", None, "") and len(line.get_xdata())
    }
    at = {n: (page["place"][n], page["row"][n]) for n in page["place"]}
    assert {n for n, spot in at.items() if marks[spot] != "white"} == {2, 9}


def test_a_week_whose_chapters_are_there_is_not_marked_as_estimated(
    open_syllabus, young_book
):
    weeks = rows(open_syllabus(young_book)[1][3])
    text = rules.markdown(BACKGROUND)
    own = int(re.search(r"(\d+) minutes to read", text)[1])
    assert weeks[0][3] == str(20 + own)
    assert "≈" in weeks[1][3]


def write_set(folder, name, opening):
    """Write a problem set beside the folder of the chapters."""
    path = folder / f"assignments/source/{name}/{name}.ipynb"
    path.parent.mkdir(parents=True)
    notebook = new_notebook(cells=[new_markdown_cell(opening)])
    nbformat.write(notebook, path)


@pytest.fixture
def young_course(young_book):
    """A folder with the young book's chapters in a folder of their own."""
    (young_book / "chapters").mkdir()
    for file in young_book.glob("*.ipynb"):
        file.rename(young_book / "chapters" / file.name)
    return young_book


def test_a_week_has_the_minutes_that_its_problem_set_states(
    open_syllabus, young_course
):
    write_set(young_course, "2-moving", "# A set\n\nAbout 75 minutes.")
    weeks = rows(open_syllabus(young_course / "chapters")[1][3])
    assert [row[-1] for row in weeks[:3]] == ["≈ 120", "≈ 75", "≈ 120"]


def test_a_problem_set_that_states_no_minutes_is_named(open_syllabus, young_course):
    write_set(young_course, "2-moving", "# A set")
    with pytest.raises(AssertionError, match=r"2-moving\.ipynb does not say"):
        open_syllabus(young_course / "chapters")


def test_there_is_a_problem_set_for_every_week(page):
    assert page["problem_sets"].keys() == set(range(1, len(page["weeks"]) + 1))
    assert page["absent"] == set()


def test_without_the_chapters_the_page_says_what_it_needs(open_syllabus, tmp_path):
    with pytest.raises(AssertionError, match="open this page in a copy of the book"):
        open_syllabus(tmp_path)


def test_a_chapter_that_states_no_minutes_is_named(open_syllabus, young_book):
    notebook = new_notebook(cells=[new_markdown_cell("# A")])
    nbformat.write(notebook, young_book / "03-backprop.ipynb")
    with pytest.raises(AssertionError, match=r"03-backprop\.ipynb does not say"):
        open_syllabus(young_book)


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
