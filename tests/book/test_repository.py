"""The repository's address is one value, wherever it stands."""

import re
import tomllib

import nbformat
import pytest
import yaml

from tools import files, repository
from tools.cells import code_cells, notebook_paths

OLD = "https://github.com/OWNER/the-book"
NEW = "https://github.com/someone/another.name"


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


@pytest.fixture
def tree(tmp_path):
    """A small tree that names the address in every way the book does."""
    files = {
        "_config.yml": f"repository:\n  url: {OLD}\n  branch: main\n",
        "README.md": f"{OLD}, {OLD}.git, {OLD}/issues, and {OLD}-of-others.\n",
        "CITATION.cff": f'repository-code: "{OLD}"\n',
        "chapters/01.ipynb": f'"%pip install -q git+{OLD}\\n"\r\n',
        ".venv/note.md": OLD,
        "_build/html/intro.md": OLD,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    return tmp_path


def test_a_new_address_is_written_everywhere_and_nothing_else_changes(tree):
    changed = {str(p.relative_to(tree)) for p in repository.write_address(NEW, tree)}
    assert changed == {"_config.yml", "README.md", "CITATION.cff", "chapters/01.ipynb"}
    assert repository.current_address(tree) == NEW
    readme = (tree / "README.md").read_text()
    assert readme == f"{NEW}, {NEW}.git, {NEW}/issues, and {OLD}-of-others.\n"
    cell = (tree / "chapters/01.ipynb").read_bytes().decode()
    assert cell == f'"%pip install -q git+{NEW}\\n"\r\n'
    assert (tree / ".venv/note.md").read_text() == OLD
    assert (tree / "_build/html/intro.md").read_text() == OLD


def test_an_interrupted_run_can_be_done_again(tree, monkeypatch):
    def fails_at_the_config(source, target):
        if target.name == "_config.yml":
            raise KeyboardInterrupt
        source.rename(target)

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "replace", fails_at_the_config)
        with pytest.raises(KeyboardInterrupt):
            repository.write_address(NEW, tree)
    assert repository.current_address(tree) == OLD
    assert OLD not in (tree / "CITATION.cff").read_text()
    repository.write_address(NEW, tree)
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
    with pytest.raises(ValueError, match="the address must read"):
        repository.write_address(address, tree)
    after = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    assert after == before
