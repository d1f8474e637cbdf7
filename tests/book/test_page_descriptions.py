"""What a page says of itself: its description, and the image of its card."""

import pytest

from tools import build


@pytest.fixture(autouse=True)
def extensions(monkeypatch):
    monkeypatch.syspath_prepend(build.ROOT / "_ext")


def summary(*paragraphs):
    from page_descriptions import summary

    return summary(paragraphs)


def test_a_description_has_as_many_whole_sentences_as_fit():
    fits, more = f"A {'b' * 70} c.", f"D {'e' * 90} f."
    assert summary(f"{fits} {more}") == fits
    assert summary(fits, "Short. Shorter.") == f"{fits} Short. Shorter."


def test_a_short_paragraph_is_followed_by_the_next():
    after = "The next one says the rest of what there is to say."
    assert summary("It is short.", after) == f"It is short. {after}"


def test_a_sentence_that_is_too_long_is_cut_at_a_word():
    said = summary("word " * 40)
    assert said.endswith("word…")
    assert 150 < len(said) <= 160


def test_greek_letters_are_written_and_other_formulas_left_out():
    assert summary(r"The scale \gamma counts.") == "The scale γ counts."
    assert summary(r"Take \frac{1}{m} of it. Then go on.") == "Then go on."


def test_the_image_is_the_same_each_time_and_follows_the_title(tmp_path):
    from preview_image import draw

    images = [tmp_path / name for name in ("one.png", "two.png", "other.png")]
    for image, title in zip(images, ("A Book, Once", "A Book, Once", "Another, Book")):
        draw(image, title)
    one, two, other = (image.read_bytes() for image in images)
    assert one == two != other


def test_the_alt_text_has_the_numbers_of_the_record():
    from preview_image import alt_text, largest_rates

    import bnlib

    record = bnlib.experiments.load_record("digits-learning-rate")
    for arm, rate in largest_rates(record).items():
        row = record.parameters["arms"].index(arm)
        rates = record.parameters["learning_rates"]
        means = record.array("accuracy")[row].mean(axis=1)
        assert f"{rate:g}" in alt_text()
        assert means[rates.index(rate)] > 0.9
        assert (means[rates.index(rate) + 1 :] <= 0.9).all()
