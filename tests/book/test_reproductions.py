"""The reproductions page: its statuses are true of the records that are there."""

import dataclasses
import json

import IPython.display
import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from bs4 import BeautifulSoup
from refusals import refused

from bnlib import experiments
from bnlib.experiments import _registry
from tools.cells import ROOT, code_cells

CHAPTERS = ROOT / "chapters"
NOTEBOOK = nbformat.read(CHAPTERS / "reproductions.ipynb", as_version=4)


class Page:
    """Runs the page on a folder of records; keeps what it shows."""

    def __init__(self, monkeypatch, folder):
        self.folder = folder
        self.shown, self.names = [], {}
        monkeypatch.chdir(CHAPTERS)
        monkeypatch.setattr(IPython.display, "display", self.show)
        monkeypatch.setattr(experiments, "load_record", self.load)

    def show(self, markdown):
        self.shown.append(markdown.data)

    def load(self, name):
        return LOAD(name, self.folder)

    def run(self, until=None):
        # The first cell is for Colab alone.
        for cell in code_cells(NOTEBOOK)[1:]:
            if until and until in cell.source:
                break
            exec(cell.source, self.names)
        return self

    def row(self, figure):
        (row,) = [row for row in self.names["rows"] if figure in row.figure]
        return row

    def status(self, figure):
        return self.names["status"](self.row(figure))

    def outcome(self, figure):
        return self.names["outcome"](self.row(figure))

    def add(self, name, results=None, **parameters):
        """Put a shipped record there, with other parameters or other results."""
        record = LOAD(name)
        parameters, results = record.parameters | parameters, results or record.results
        changed = dataclasses.replace(record, parameters=parameters, results=results)
        content = dataclasses.asdict(changed) | {"format": 3}
        (self.folder / f"{name}.json").write_text(json.dumps(content))


LOAD = experiments.load_record
THE_TABLE = "def told(word, why)"


@pytest.fixture
def page(monkeypatch, tmp_path):
    with mpl.rc_context(), plt.style.context("default"):
        yield Page(monkeypatch, tmp_path)
        plt.close("all")


def test_without_any_record_the_page_says_so_of_each_and_draws_nothing(page):
    page.run()
    assert plt.get_fignums() == []
    recorded = {n for row in page.names["rows"] for n in row.made_by}
    recorded &= {each.id for each in experiments.all_experiments()}
    for name in recorded:
        (said,) = [text for text in page.shown if f"run {name} " in text]
        assert said.startswith("*Not run yet:*")
    statuses = {page.names["status"](row)[0] for row in page.names["rows"]}
    assert statuses == {"not yet", "size not in print"}


def test_with_the_shipped_records_each_is_drawn_with_its_date_and_command(page):
    page.folder = experiments.RECORDS
    page.run()
    listed = {n for row in page.names["rows"] for n in row.made_by}
    there = {path.stem for path in page.folder.glob("*.json")}
    for record in map(LOAD, listed & there):
        (said,) = [text for text in page.shown if f"`{record.command}`" in text]
        assert record.date in said
        assert record.device in said
    assert len(plt.get_fignums()) >= 6


def test_a_record_that_later_code_confirmed_says_on_how_many_units(page):
    page.add("ioffe-mnist")
    path = page.folder / "ioffe-mnist.json"
    confirmed = dict.fromkeys(("source", "left_out", "device", "versions"))
    confirmed |= {"units": [0, 7], "of": 60, "date": "2026-12-01 03:00"}
    content = json.loads(path.read_text()) | {"confirmed": confirmed}
    path.write_text(json.dumps(content))
    page.run("def median_run").names["recorded"]("ioffe-mnist")
    assert " s, confirmed on 2 of 60 units, 2026-12-01:* " in page.shown[-1]


def test_a_record_of_the_published_size_says_so(page):
    page.add("ioffe-mnist", steps=50_000, width=100, hidden_layers=3)
    assert page.run(THE_TABLE).status("Fig. 1:") == ("published size", "")


def test_without_a_size_in_print_no_record_reaches_it(page):
    page.add("yang-growth", depth=10**9)
    found = page.run(THE_TABLE).status("growth of the squared gradient")
    assert found == ("size not in print", "")


@pytest.mark.parametrize("name", ["depth_typo", "ioffe-typo"])
def test_a_size_that_no_record_has_stops_the_page(page, name):
    page.add("ioffe-mnist")
    row = page.run(THE_TABLE).row("Fig. 1:")
    wrong = {"depth_typo": {"ioffe-mnist": {name: 1}}, "ioffe-typo": {name: {}}}[name]
    with pytest.raises((ValueError, FileNotFoundError, AttributeError)):
        page.names["status"](row._replace(published=wrong))


def test_a_record_of_another_size_says_what_is_smaller(page):
    page.add("ioffe-mnist", steps=2000, width=100, hidden_layers=2)
    word, why = page.run(THE_TABLE).status("Fig. 1:")
    assert word == "smaller or other"
    assert why == "2 hidden layers, not 3; 2,000 steps, not 50,000"


def test_fewer_runs_than_published_are_a_smaller_scale(page):
    page.add("kohler-least-squares", seeds=list(range(10)))
    page.add("kohler-power-plant", seeds=[0, 1])
    word, why = page.run(THE_TABLE).status("least squares")
    assert (word, why) == ("smaller or other", "2 seeds, not 10")


def test_a_row_with_one_record_of_two_names_the_other(page):
    page.add("kohler-least-squares")
    found = page.run(THE_TABLE).status("least squares")
    assert found == ("not yet", "kohler-power-plant missing")


def test_another_network_than_the_published_one_is_said(page):
    page.add("ioffe-starts")
    word, why = page.run(THE_TABLE).status("easier starts")
    assert word == "smaller or other"
    assert "digits" in why


def test_images_of_a_subset_are_said_beside_what_is_shorter(page):
    page.add("kohler-cifar10", steps=1000)
    word, why = page.run(THE_TABLE).status("Fig. 3: CIFAR-10")
    assert word == "smaller or other"
    assert why == "a subset of CIFAR-10 (10,000 + 2,000); 1,000 steps, not 5,000"


SHIPPED = {
    "Fig. 1:": "in part",
    "larger learning rates": "agrees",
    "easier starts": "agrees",
    "regularisation": "agrees",
    "Fig. 2:": "in part",
    "Fig. 4:": "in part",
    "Figs 9, 10, 13": "in part",
    "growth of the squared": "agrees",
    "residual": "agrees",
    "trainable depth": "agrees",
    "least squares": "agrees",
    "Figs 1, 2, 4, 5, 6": "no number in print",
    "Fig. 3: CIFAR-10": "does not",
    "flows of": "in part",
    "minima under noise": "no number in print",
}


def test_the_shipped_records_have_these_outcomes(page):
    page.folder = experiments.RECORDS
    page.run(THE_TABLE)
    assert {figure: page.outcome(figure)[0] for figure in SHIPPED} == SHIPPED


@pytest.mark.parametrize(
    ("figure", "names", "mutated"),
    [
        ("larger learning rates", ["digits-learning-rate"], "does not"),
        ("easier starts", ["ioffe-starts"], "does not"),
        ("regularisation", ["ioffe-dropout"], "does not"),
        ("Fig. 3: CIFAR-10", ["kohler-cifar10"], "agrees"),
    ],
)
def test_where_the_two_arms_change_places_the_outcome_does(
    page, figure, names, mutated
):
    for name in names:
        record = LOAD(name)
        other = dict(zip(record.parameters["arms"], record.parameters["arms"][::-1]))
        rows = [row | {"arm": other[row["arm"]]} for row in record.results]
        half = len(rows) // 2
        page.add(name, results=rows[half:] + rows[:half])
    assert page.run(THE_TABLE).outcome(figure)[0] == mutated


@pytest.mark.parametrize(
    ("figure", "name", "key", "change", "mutated"),
    [
        (
            "growth of the squared",
            "yang-growth",
            "factor",
            lambda x: 1.05 * x,
            "does not",
        ),
        ("residual", "yang-residual", "log_growth", lambda x: 2**x, "does not"),
        (
            "trainable depth",
            "yang-trainability",
            "accuracies",
            lambda x: 1 - x,
            "does not",
        ),
        ("locality", "poggio-digits", "accuracy", lambda x: 0 * x, "does not"),
    ],
)
def test_other_numbers_in_a_record_change_its_outcome(
    page, figure, name, key, change, mutated
):
    results = [
        row | {key: change(np.array(row[key])).tolist()} for row in LOAD(name).results
    ]
    page.add(name, results=results)
    page.add("poggio-approximation")
    assert page.run(THE_TABLE).outcome(figure)[0] == mutated


def test_a_row_without_its_record_has_no_outcome(page):
    assert page.run(THE_TABLE).outcome("easier starts") == ("", "")


def test_a_live_figure_has_no_size_in_print_where_its_chapter_is(page, monkeypatch):
    assert page.run(THE_TABLE).status("Fig. 7")[0] == "size not in print"
    monkeypatch.chdir(page.folder)
    assert page.run(THE_TABLE).status("Fig. 7")[0] == "not yet"


def test_an_experiment_of_a_paper_without_a_row_stops_the_page(page, monkeypatch):
    known = dict(_registry._EXPERIMENTS)
    extra = dataclasses.replace(experiments.get("yang-growth"), id="yang-more")
    monkeypatch.setattr(_registry, "_EXPERIMENTS", known | {"yang-more": extra})
    with refused(AssertionError, "yang-more", "", "row"):
        page.run()


def test_every_paper_of_the_list_is_there(page):
    page.run(THE_TABLE)
    text = "\n".join(f"{row.paper} {row.figure}" for row in page.names["rows"])
    for part in (
        *("ioffe2015 Fig. 1", "yang2019 growth", "yang2019 residual"),
        *(f"santurkar2018 Fig. {n}" for n in (2, 3, 4)),
        *("Figs 5, 6", "Figs 9, 10, 13", "Figs 1, 2, 4, 5, 6"),
        *("Fig. 3: CIFAR-10", "Fig. 3, on digits", "Fig. 7", "D.2", "poggio2019"),
    ):
        assert part in text


# The built page.


@pytest.fixture(scope="module")
def built(site):
    return BeautifulSoup(
        (site / "chapters/reproductions.html").read_text(), "html.parser"
    )


def test_each_row_as_built_has_its_size_and_its_outcome_apart(page, built):
    page.folder = experiments.RECORDS
    page.run(THE_TABLE)
    shown = built.select(".repeated")
    assert len(shown) == len(page.names["rows"])
    for row, place in zip(page.names["rows"], shown):
        size, outcome = (
            " ".join(place.select_one(f".repeated-{name}").text.split())
            for name in ("size", "outcome")
        )
        assert size.startswith(f"Size {page.status(row.figure)[0]}")
        assert (page.outcome(row.figure)[0] or "–") in outcome


def test_the_built_page_has_no_plotting_code_and_images_that_wait(built):
    assert built.select(".cell_input") == []
    first, *others = built.select("article img")
    figures = built.select("article svg.figure")
    assert len(others) + len(figures) > 10
    assert all(image["loading"] == "lazy" for image in others)
    assert not first.get("loading")


def test_every_figure_as_built_says_in_words_what_it_shows(built):
    images = built.select("article .cell_output :is(img, svg.figure)")
    captions = [image.find_parent("figure").figcaption.text for image in images]
    assert all(len(caption.split()) > 5 for caption in captions)
