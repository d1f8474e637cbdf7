"""The repository's address is one value, wherever it stands."""

import re
import tomllib

import nbformat
import pytest
import yaml
from refusals import refused

from tools import files, repository
from tools.cells import code_cells, notebook_paths
from tools.notebooks import serialise

OLD = "https://github.com/OWNER/the-book"
NEW = "https://github.com/someone/another.name"
CONFIG = """repository:
  url: {url}
  branch: main
html:
  baseurl: {baseurl}
"""
OPENING = "<!-- badges: python -m tools.repository writes them -->\n"
CLOSING = "<!-- end of badges -->\n"


def read(name):
    return (repository.ROOT / name).read_text(encoding="utf-8")


def test_the_readme_names_the_address():
    assert repository.current_address() in read("README.md")


def test_the_citation_names_the_address():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["repository-code"] == repository.current_address()


def test_the_package_names_the_address():
    urls = tomllib.loads(read("pyproject.toml"))["project"].get("urls", {})
    assert urls
    assert all(url.startswith(repository.current_address()) for url in urls.values())


@pytest.mark.parametrize("path", notebook_paths(), ids=lambda path: path.name)
def test_every_notebook_installs_from_the_address(path):
    first = code_cells(nbformat.read(path, as_version=4))[0]
    assert first.source == repository.colab_cell(repository.current_address())


def test_no_file_names_this_repository_under_another_owner():
    present = repository.parse_address(repository.current_address())
    name = re.escape(present.partition("/")[2])
    named = re.compile(rf"(?:github\.com|/gh|/github)/([\w.-]+/{name})(?![\w-])")
    found = {
        f"{path.relative_to(repository.ROOT)}: {slug}"
        for path in repository.text_files()
        for slug in named.findall(path.read_text(encoding="utf-8"))
        if slug != present
    }
    assert not found


def test_the_readme_has_badges_once_the_address_is_set():
    site = repository.current_site()
    shown = repository.BADGES.search(read("README.md"))[0]
    assert shown == repository.badges(repository.current_address(), site)


def test_without_an_address_there_is_no_badge_and_the_cell_says_what_to_put_in(capsys):
    assert repository.badges(repository.UNSET, "") == ""
    exec(repository.colab_cell(repository.UNSET).replace("bnlib", "not_installed"))
    said = capsys.readouterr().out
    assert "for OWNER" in said
    assert f'[data,plot] @ git+{repository.UNSET}"' in said


@pytest.fixture
def tree(tmp_path):
    """A small tree that names the address in every way the book does."""
    first = nbformat.v4.new_code_cell(repository.colab_cell(OLD), id="first")
    text = nbformat.v4.new_markdown_cell(f"See {OLD}/issues.", id="text")
    notebook = nbformat.v4.new_notebook(cells=[first, text])
    files = {
        "_config.yml": CONFIG.format(url=OLD, baseurl='""'),
        "README.md": f"{OPENING}{CLOSING}{OLD}, {OLD}.git, and {OLD}-of-others.\n",
        "CITATION.cff": f'repository-code: "{OLD}"\r\n',
        "chapters/01.ipynb": serialise(notebook),
        ".github/workflows/test.yml": f"# {OLD}\n",
        ".venv/note.md": OLD,
        "_build/html/intro.md": OLD,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    return tmp_path


def first_cell(tree):
    return nbformat.read(tree / "chapters/01.ipynb", as_version=4).cells[0].source


def test_a_new_address_is_written_everywhere_and_nothing_else_changes(tree):
    changed = {
        p.relative_to(tree).as_posix() for p in repository.write_address(NEW, root=tree)
    }
    assert changed == {
        *("_config.yml", "README.md", "CITATION.cff", "chapters/01.ipynb"),
        ".github/workflows/test.yml",
    }
    assert repository.current_address(tree) == NEW
    assert repository.current_site(tree) == "https://someone.github.io/another.name/"
    readme = (tree / "README.md").read_text()
    assert readme.endswith(f"{CLOSING}{NEW}, {NEW}.git, and {OLD}-of-others.\n")
    assert f"{NEW}/actions/workflows/test.yml" in readme
    assert first_cell(tree) == repository.colab_cell(NEW)
    assert f'[data,plot] @ git+{NEW}"' in first_cell(tree)
    notebook = nbformat.read(tree / "chapters/01.ipynb", as_version=4)
    assert notebook.cells[1].source == f"See {NEW}/issues."
    citation = (tree / "CITATION.cff").read_bytes().decode()
    assert citation == f'repository-code: "{NEW}"\r\n'
    assert (tree / ".venv/note.md").read_text() == OLD
    assert (tree / "_build/html/intro.md").read_text() == OLD


def test_an_address_can_be_taken_back(tree):
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    repository.write_address(NEW, "https://a.example/book", tree)
    assert repository.current_site(tree) == "https://a.example/book/"
    repository.write_address(OLD, root=tree)
    after = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("https://github.com/OWNER/name", ""),
        ("https://github.com/Someone/Name", "https://someone.github.io/Name/"),
        ("https://github.com/Someone/someone.github.io", "https://someone.github.io/"),
    ],
)
def test_the_site_is_where_the_host_serves_a_repository(address, site):
    assert repository.site_of(address) == site


@pytest.mark.parametrize("site", ["someone.github.io", "ftp://a.b/", "https:///a/"])
def test_what_is_no_site_is_refused_before_anything_changes(tree, site):
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    with refused(ValueError, "site", repr(site), "https://HOST/"):
        repository.write_address(NEW, site, tree)
    after = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    assert after == before


def test_an_interrupted_run_can_be_done_again(tree, monkeypatch):
    def fails_at_the_config(source, target):
        if target.name == "_config.yml":
            raise KeyboardInterrupt
        source.rename(target)

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "replace", fails_at_the_config)
        with pytest.raises(KeyboardInterrupt):
            repository.write_address(NEW, root=tree)
    assert repository.current_address(tree) == OLD
    assert OLD not in (tree / "CITATION.cff").read_text()
    repository.write_address(NEW, root=tree)
    assert repository.current_address(tree) == NEW


@pytest.mark.parametrize(
    "address",
    [
        "",
        "OWNER/NAME",
        "http://github.com/OWNER/NAME",
        "https://github.com/OWNER",
        "https://github.com/OWNER/NAME/",
        "https://github.com/OWNER/NAME.git",
        "https://github.com/OWNER/NAME/tree/main",
        "https://example.org/OWNER/NAME",
        "https://github.com/OWNER/NAME\n",
    ],
)
def test_what_is_no_address_is_refused_before_anything_changes(tree, address):
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    with refused(ValueError, "address", repr(address)):
        repository.write_address(address, root=tree)
    after = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    assert after == before
