"""What a cell prints stands on its page as the cell printed it."""

import pytest
from nbformat.v4 import new_output

from tools import build


@pytest.fixture
def shown(monkeypatch):
    """Return the texts that a page shows for the streams that a kernel sent."""
    monkeypatch.syspath_prepend(build.ROOT / "_ext")
    import whole_prints
    from myst_nb.core import render

    monkeypatch.setattr(render, "coalesce_streams", render.coalesce_streams)
    whole_prints.setup(app=None)

    def texts(*sent):
        outputs = [
            new_output("stream", name=name, text=text)
            if name
            else new_output("display_data", {"text/plain": text})
            for name, text in sent
        ]
        return [
            (each.get("name"), each.get("text"))
            for each in render.coalesce_streams(outputs)
        ]

    return texts


def test_a_line_sent_in_pieces_stays_a_line(shown):
    assert shown(("stdout", "torch."), ("stdout", "float16 1\n2")) == [
        ("stdout", "torch.float16 1\n2\n")
    ]


def test_lines_after_a_figure_stand_with_those_before_it(shown):
    assert shown(("stdout", "a\n"), (None, "figure"), ("stdout", "b\n")) == [
        ("stdout", "a\nb\n"),
        (None, None),
    ]


def test_errors_and_prints_are_kept_apart(shown):
    assert shown(("stdout", "a"), ("stderr", "!"), ("stdout", "b")) == [
        ("stdout", "ab\n"),
        ("stderr", "!\n"),
    ]


def test_a_cell_without_outputs_has_none(shown):
    assert shown() == []
