"""One sentence a line, in paragraphs and nowhere else."""

import pytest

from tools.sentences import one_a_line

CHANGED = {
    "One. Two\nis here! Is it? Yes.": "One.\nTwo is here!\nIs it?\nYes.",
    "- An item. It goes\n  on.\n- Next.": "- An item.\n  It goes on.\n- Next.",
    "12. An item. More.": "12. An item.\n    More.",
    "It is $x$. $y$ is `a. B`. (So. It.) End.": (
        "It is $x$.\n$y$ is `a. B`.\n(So. It.) End."
    ),
    "**Bold.** Next [a. B](c.md). Last.": "**Bold.**\nNext [a. B](c.md).\nLast.",
    ":::{note}\n:class: a. B\nOne. Two.\n:::": (
        ":::{note}\n:class: a. B\nOne.\nTwo.\n:::"
    ),
    "::::{exercise} T. U\n\n```{tip}\nOne. Two.\n```\n::::": (
        "::::{exercise} T. U\n\n```{tip}\nOne.\nTwo.\n```\n::::"
    ),
}
KEPT = [
    "See e.g. Theorem 3, cf. Fig. 2, and J. Smith et al. They",
    "# A title. It stays.",
    "| a. B | c |\n|---|---|\n| One. Two. | d |",
    "```text\nOne. Two.\n```",
    "```{code-block} python\nOne. Two.\n```",
    "$$\nx. Y\n$$",
    "\\begin{align}\nx. Y\n\\end{align}",
    "    One. Two.",
    "> One. Two.",
    "A hard  \nbreak. Two.",
    # The line would begin a list.
    "So it is. 1. Two.",
    "```{note}\n---\nclass: a. B\n---\nOne. Two.\n```",
]


@pytest.mark.parametrize(("text", "lines"), CHANGED.items())
def test_a_sentence_of_a_paragraph_has_a_line(text, lines):
    assert one_a_line(text) == lines
    assert one_a_line(lines) == lines


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_prose_or_would_read_otherwise_stays(text):
    assert one_a_line(text) == text
