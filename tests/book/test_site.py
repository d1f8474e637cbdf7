"""The built site holds together; and each check of it finds the fault it is for."""

import ast
import pkgutil
import re

import matplotlib.pyplot as plt
import pytest
from refusals import refused
from sound_page import CARD, DESCRIPTION, SOUND
from sphinx_external_toc.parsing import parse_toc_yaml

import bnlib
from tools import build
from tools.site import Site, check


def test_the_built_site_is_sound(site):
    assert check(site) == []


def contents():
    return [*parse_toc_yaml(build.ROOT / "_toc.yml")]


def test_every_file_of_the_chapters_is_in_the_contents():
    files = {
        path.relative_to(build.ROOT).with_suffix("").as_posix()
        for path in (build.ROOT / "chapters").rglob("*")
        if path.suffix in (".ipynb", ".md")
    }
    assert files <= set(contents())


def test_every_page_of_the_contents_is_built_and_no_other(site):
    listed = set(contents())
    built = {name.removesuffix(".html") for name in Site.read(site).pages}
    modules = {name for name in built if name.startswith("_modules/")}
    assert built - modules == listed | {"index", "search", "404"}


def test_every_page_can_be_downloaded(site):
    pages = Site.read(site).pages
    for name in contents():
        is_notebook = (build.ROOT / f"{name}.ipynb").is_file()
        source = f"_sources/{name}.{'ipynb' if is_notebook else 'md'}"
        assert source in " ".join(pages[f"{name}.html"].links), (name, source)


def test_a_chapter_is_numbered_as_its_file(site):
    for page in sorted((site / "chapters").glob("[0-9]*.html")):
        html = page.read_text(encoding="utf-8")
        title = re.search(r'<h1><span class="section-number">(\d+)\. ', html)
        assert title, f"{page.name} has no number"
        chapter = title[1]
        assert int(chapter) == int(page.name.partition("-")[0])
        numbers = re.findall(r'class="(?:eqno|caption-number)">\D*(\d+)\.', html)
        assert set(numbers) <= {chapter}


def public_names(module):
    """Return the public names that a module itself defines, read from its source."""
    path = build.ROOT / "bnlib" / module
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    names, elsewhere = set(), set()
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and re.fullmatch(
            r"bnlib\.[a-z]\w*", node.module
        ):
            elsewhere |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if hasattr(target, "id")}
            if "__all__" in names:
                return set(ast.literal_eval(node.value)) - elsewhere
    return {name for name in names if not name.startswith("_")}


MODULES = [
    module.name
    for module in pkgutil.iter_modules(bnlib.__path__)
    if not module.name.startswith("_")
]


def test_the_api_pages_have_every_public_name(site):
    pages = Site.read(site / "chapters/api").pages
    ids = {id_ for page in pages.values() for id_ in page.ids}
    expected = {
        f"bnlib.{module}.{name}" for module in MODULES for name in public_names(module)
    }
    assert expected - ids == set()


def test_each_module_has_a_page_and_the_list_of_them_leads_there(site):
    listed = Site.read(site / "chapters").pages["api.html"].links
    # Three modules have what another one offers, under the names of the chapters.
    aliases = {"decoupling", "halfspaces", "losses"}
    for module in set(MODULES) - aliases:
        assert f"api/{module}.html" in listed, module


def test_no_page_of_the_api_is_as_long_as_all_of_them_were(site):
    for path in (site / "chapters/api").glob("*.html"):
        assert path.stat().st_size < 250_000, path.name


@pytest.fixture
def page(tmp_path):
    """Return a function that writes a page with a given body and checks it."""

    def check_page(body, html=SOUND):
        (tmp_path / "page.html").write_text(html.format(body))
        return check(tmp_path)

    return check_page


@pytest.mark.parametrize(
    "body",
    [
        '<p id="a"><a href="#a">here</a></p>',
        '<a href="https://example.org/">a reader may click</a>',
        '<a href="mailto:someone@example.org">write</a>',
        '<img src="data:image/gif;base64,R0lGOD" alt="A dot">',
        "<p>It costs $5, or $6 elsewhere.</p>",
        "<code>{ref}`x` and $x$</code><pre>:::{note}</pre>",
        r'<span class="math">\(x^2\)</span>',
    ],
)
def test_a_sound_page_passes(page, body):
    assert page(body) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="no.html">x</a>', "broken link: 'no.html' leads to no file"),
        ('<a href="/no.html">x</a>', "broken link: '/no.html' leads to no file"),
        ('<a href="../x.html">x</a>', "broken link: '../x.html' leads to no file"),
        ('<a href="#no">x</a>', "broken link: '#no': page.html has no such anchor"),
        ('<a href="page.html#no">x</a>', "page.html has no such anchor"),
        ('<script src="no.js"></script>', "'no.js' leads to no file"),
        ('<link rel="stylesheet" href="no.css">', "'no.css' leads to no file"),
        ('<img src="no.png" alt="A line">', "'no.png' leads to no file"),
        ('<p id="a"></p><p id="a"></p>', "the id 'a' is there 2 times"),
        (
            '<script src="https://example.org/x.js"></script>',
            "loads from another host: https://example.org/x.js",
        ),
        ('<iframe src="//example.org/x"></iframe>', "from another host"),
        ('<link rel="preconnect" href="https://example.org">', "another host"),
        (
            '<img srcset="https://example.org/x.png 2x" alt="A line">',
            "from another host: https://example.org/x.png",
        ),
        ("<style>@import 'https://example.org/x.css';</style>", "another host"),
        ('<p style="background: url(https://example.org/x)">', "another host"),
        ('<img src="data:,x">', "no alt text: data:,x"),
        ('<img src="data:,x.png" alt="x.png">', "no alt text: data:,x.png"),
        ("<p>See {prf:ref}<code>x</code>.</p>", "a role or directive"),
        ("<p>:::{note}</p>", "a directive's fence"),
        ("<p>Let $x_1 > 0$ be.</p>", "maths in dollar signs"),
        (r"<p>Let \(x\) be.</p>", "maths in TeX"),
        ("<p>See [the page](page.md).</p>", "a Markdown link"),
    ],
)
def test_a_fault_is_found_and_named_with_its_page(page, body, problem):
    found = page(body)
    assert any(problem in line for line in found), found
    assert all(line.startswith("page.html: ") for line in found)


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        (f"<html><title>T</title>{CARD}{{}}</html>", "page.html: no lang"),
        (f'<html lang="en"><title></title>{CARD}{{}}</html>', "page.html: no title"),
    ],
)
def test_a_page_without_language_or_title_is_found(page, html, problem):
    assert page("", html) == [problem]


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (DESCRIPTION, "", "its description has 0 characters, not 50 to 160: ''"),
        (DESCRIPTION, "short", "its description has 5 characters"),
        (DESCRIPTION, "long" * 41, "its description has 164 characters"),
        ('name="description"', 'name="other"', "its description has 0 characters"),
        ("og:title", "og:other", "its card lacks og:title"),
        ('og:image" content="page.html', 'og:image" content="', "card lacks og:image"),
        ("page.html", "no.png", "its card's image is no file: 'no.png'"),
        (
            "page.html",
            "https://example.org/book/no.png",
            "its card's image is no file: 'https://example.org/book/no.png'",
        ),
    ],
)
def test_a_page_without_a_description_or_a_card_is_found(page, before, after, problem):
    found = page("", SOUND.replace(before, after))
    assert any(problem in line for line in found), found


@pytest.mark.parametrize("name", ["404.html", "search.html", "_modules/a.html"])
def test_a_page_that_nobody_shares_needs_no_card(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(SOUND.replace("og:", "other:").format(""))
    assert check(tmp_path) == []


def test_a_site_that_knows_no_address_needs_no_card(page):
    html = SOUND.replace("og:", "other:")
    assert page("", html.replace("canonical", "other")) == []
    assert page("", html) != []


def test_the_page_for_missing_addresses_is_read_from_the_sites_top(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/page.html").write_text(SOUND.format(""))
    other = SOUND.replace("sentence", "phrase").format
    link = '<a href="/book/a/page.html"></a><a href="/book/no.html"></a>'
    (tmp_path / "404.html").write_text(other(link))
    problem = "404.html: broken link: '/book/no.html' leads to no file"
    assert check(tmp_path) == [problem]


def test_a_cards_image_is_found_under_the_sites_address(page):
    assert page("", SOUND.replace("page.html", "https://example.org/b/page.html")) == []


def test_a_description_belongs_to_one_page(page, tmp_path):
    (tmp_path / "index.html").write_text(SOUND.format(""))
    # The first page is there twice; another page has words of its own.
    assert page("") == []
    assert page("<p>Another</p>") == [
        f"page.html: it has the description of index.html: {DESCRIPTION!r}"
    ]


def test_the_preview_image_is_one_that_services_take(site):
    image = site / "_static/preview.png"
    assert image.stat().st_size < 300_000
    assert plt.imread(image).shape[:2] == (630, 1200)


def test_a_folder_of_the_machine_is_found(page, tmp_path):
    book = tmp_path.parent.parent
    assert page(f"<pre>File {book}/bnlib/nn.py</pre>") == [
        f"page.html: names the folder where the book was built: {book}"
    ]


def test_a_style_sheet_is_checked_too(page, tmp_path):
    (tmp_path / "a.css").write_text(
        "/* url(https://example.org/a) */ p { background: url('no.png') }"
        "@font-face { src: url(https://example.org/f.woff2) }"
    )
    assert page("") == [
        "a.css: broken link in the style sheet: 'no.png' leads to no file",
        "a.css: loads from another host: https://example.org/f.woff2",
    ]


def test_a_folder_without_pages_is_no_site(tmp_path):
    with refused(FileNotFoundError, str(tmp_path), taken="make book"):
        check(tmp_path)
