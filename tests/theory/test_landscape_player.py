"""A film plays on a page alone: no kernel, no other host, and not by itself."""

import base64
import re

import matplotlib.pyplot as plt
import pytest
from browsing import Visit, accessibility_faults
from refusals import refused

from bnlib import landscape
from tools.browser import served

CAPTIONS = ["left", "</script> & <b>", 'right "end"']
ALT = 'A dot moves "right" & stops.'
PAGE = """<!doctype html><html lang="en"><head><title>A film</title>
<link rel="icon" href="data:,"></head><body><main><h1>A film</h1>{}</main></body></html>
"""
# Collects the captions as they appear.
WATCH = """() => {
    const text = document.querySelector("figure.bnlib-player span");
    window.seen = [];
    new MutationObserver(() => seen.push(text.textContent))
        .observe(text, { childList: true });
}"""


def made_film():
    fig, ax = plt.subplots(figsize=(2, 1))
    (dot,) = ax.plot(0, 0, "o")
    ax.set_xlim(-1, 3)
    film = landscape.film(
        fig, lambda n: dot.set_xdata([n]), CAPTIONS, ALT, seconds=0.05
    )
    return fig, film


def test_a_frame_is_drawn_for_each_caption_and_the_figure_is_closed():
    fig, film = made_film()
    html = film._repr_html_()
    assert not plt.fignum_exists(fig.number)
    assert html.count("UklGR") == 4  # a WebP file each, and the last once more
    assert 'width="200" height="100"' in html
    assert repr(film) == f"Player of 3 frames: {ALT}"


def test_the_frames_differ_and_the_page_names_no_address():
    _, film = made_film()
    html = film._repr_html_()
    frames = set(re.findall(r"UklGR[\w+/]*=*", html))
    assert len(frames) == 3
    assert all(base64.b64decode(frame)[8:12] == b"WEBP" for frame in frames)
    assert "http" not in html
    assert " src=" in html


def test_a_figure_is_closed_when_drawing_fails():
    fig, _ = plt.subplots()

    def fail(number):
        raise RuntimeError("no picture")

    with refused(RuntimeError, "picture", "no"):
        landscape.film(fig, fail, CAPTIONS, ALT)
    assert not plt.fignum_exists(fig.number)


@pytest.fixture(scope="module")
def film_address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("film")
    _, film = made_film()
    page = PAGE.format(film._repr_html_())
    (folder / "film.html").write_text(page, encoding="utf-8")
    with served(folder) as address:
        yield address


@pytest.fixture
def visit(browser, film_address):
    with Visit(browser, film_address, "film.html") as visit:
        yield visit


def shown(visit):
    player = visit.page.locator("figure.bnlib-player")
    return (
        player.locator("span").inner_text(),
        player.locator("img").get_attribute("src"),
        player.get_by_role("button").inner_text(),
    )


def test_a_film_waits_on_its_last_frame_then_plays_once_when_asked(visit):
    last = shown(visit)
    assert last[0] == CAPTIONS[-1]
    visit.page.wait_for_timeout(200)
    assert shown(visit) == last
    visit.page.evaluate(WATCH)
    visit.page.get_by_role("button", name="Play").click()
    visit.page.wait_for_function("() => seen.length >= 3")
    visit.page.get_by_role("button", name="Play").wait_for()
    assert visit.page.evaluate("() => seen") == CAPTIONS
    assert shown(visit) == last


def test_the_slider_takes_the_keyboard_and_tells_each_frame(visit):
    slider = visit.page.get_by_role("slider", name="Frame")
    slider.focus()
    visit.page.keyboard.press("Home")
    first = shown(visit)
    assert first[0] == slider.get_attribute("aria-valuetext") == CAPTIONS[0]
    visit.page.keyboard.press("ArrowRight")
    assert shown(visit)[0] == slider.get_attribute("aria-valuetext") == CAPTIONS[1]
    assert shown(visit)[1] != first[1]
    visit.page.keyboard.press("End")


def test_a_film_is_accessible_and_asks_no_other_host(visit):
    picture = visit.page.get_by_role("img")
    assert picture.get_attribute("alt") == ALT
    assert accessibility_faults(visit.page) == []
    assert visit.complaints == []


def test_without_scripts_the_last_frame_stands_alone(browser, film_address):
    options = {"java_script_enabled": False}
    with Visit(browser, film_address, "film.html", **options) as visit:
        assert visit.page.locator("img").is_visible()
        assert not visit.page.locator("button").is_visible()
        assert not visit.page.locator("input").is_visible()
