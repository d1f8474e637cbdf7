"""The parts of a chapter in a browser: signs, the switch, fields for answers."""

import pytest
from browsing import CHAPTER, DESKTOP, PHONE, Visit

CODE = ".shown-in-run > details.hide"
FORM = """
<form class="answer" data-value="0.5727" data-within="0.005" hidden>
<label for="n">Your number</label> <input id="n" required>
<button type="submit">Check</button> <output aria-live="polite"></output></form>
"""


def open_folds(page):
    return page.eval_on_selector_all(CODE, "all => all.map(each => each.open)")


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_sign_opens_by_keyboard_and_lies_on_nothing(browser, address, viewport):
    with Visit(browser, address, CHAPTER, viewport) as visit:
        box = visit.page.locator(".admonition.signed").first
        sign, title = box.locator("summary").first, box.locator(".admonition-title")
        title_end = title.evaluate(
            "p => { const r = document.createRange(); r.selectNodeContents(p);"
            "return r.getBoundingClientRect().right }"
        )
        assert sign.bounding_box()["x"] >= title_end
        assert "checked" in sign.text_content()
        panel = box.locator(".sign-of-check > div")
        assert not panel.is_visible()
        sign.focus()
        visit.page.keyboard.press("Enter")
        assert panel.is_visible()
        assert panel.bounding_box()["width"] > 0.8 * box.bounding_box()["width"]
        assert visit.complaints == []


def test_reading_folds_the_code_running_shows_it_and_is_remembered(browser, address):
    with Visit(browser, address, CHAPTER) as visit:
        page = visit.page
        folds = open_folds(page)
        assert folds
        assert not any(folds)
        page.get_by_role("button", name="Run", exact=True).click()
        assert all(open_folds(page))
        page.goto(f"{address}/chapters/03-backprop.html")
        assert all(open_folds(page))
        page.get_by_role("button", name="Read", exact=True).click()
        assert not any(open_folds(page))
        assert visit.complaints == []


def test_where_nothing_can_be_remembered_the_switch_works(browser, address):
    refuse = "Object.defineProperty(window, 'localStorage', {get() { throw Error() }})"
    with Visit(browser, address, "search.html") as visit:
        visit.page.add_init_script(refuse)
        visit.page.goto(f"{address}/{CHAPTER}")
        visit.page.get_by_role("button", name="Run", exact=True).click()
        assert all(open_folds(visit.page))


def test_without_scripts_folds_open_and_no_field_is_shown(browser, address):
    with Visit(browser, address, CHAPTER, java_script_enabled=False) as visit:
        fold = visit.page.locator(CODE).first
        fold.locator("summary").click()
        assert fold.locator("pre").first.is_visible()
        assert visit.page.locator(".read-or-run").count() == 0


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ("0.573", "Right."),
        ("0,57", "Right."),
        ("4/7", "Right."),
        ("0.6", "Not yet: you are off by 0.027."),
        ("\u22121", "Not yet: you are off by 1.6."),
        ("half", "That is no number: try 0.25, 1/4 or 2e-3."),
        ("1/0", "That is no number: try 0.25, 1/4 or 2e-3."),
    ],
)
def test_a_number_is_compared_with_the_answer(browser, address, number, told):
    with Visit(browser, address, "search.html") as visit:
        page = visit.page
        script = page.request.get(f"{address}/_static/chapter.js").text()
        page.set_content(FORM)
        page.evaluate(f"() => {{ {script}\n openFields() }}")
        page.fill("#n", number)
        page.press("#n", "Enter")
        assert page.locator("output").inner_text() == told
