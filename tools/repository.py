"""Write the addresses of the repository and of the site wherever they stand.

``python -m tools.repository https://github.com/OWNER/NAME [SITE]`` replaces the
present address, which is the one in ``_config.yml``, in every text file of the tree.
``SITE`` is where the site is served; the default is its address at GitHub Pages.
While the owner reads OWNER, the book belongs to nobody, and each place that needs an
address says what to put in.
"""

import argparse
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import yaml

from tools.cells import code_cells
from tools.files import own_files, write_whole
from tools.notebooks import serialise

ROOT = Path(__file__).resolve().parent.parent
PATTERN = re.compile(r"https://github\.com/([A-Za-z0-9-]+/[A-Za-z0-9._-]+)")
TEXT = {".bib", ".cff", ".ipynb", ".md", ".py", ".toml", ".yml"}
UNSET_OWNER = "OWNER"
UNSET = f"https://github.com/{UNSET_OWNER}/batch-normalization-proved-and-run"

#: The hidden first cell of every notebook: with an address, and without.
COLAB_CELL = """\
# On Colab this installs the package; where it is installed, nothing happens.
import importlib.util

if importlib.util.find_spec("bnlib") is None:
    %pip install -q "batch-normalization-proved-and-run[data,plot] @ git+{address}\""""
UNSET_COLAB_CELL = """\
# Where the package is installed, nothing happens.
import importlib.util

if importlib.util.find_spec("bnlib") is None:
    name = "batch-normalization-proved-and-run[data,plot]"
    address = "{address}"
    print("bnlib is missing. Put your copy's owner for OWNER, and run:")
    print(f'%pip install -q "{{name}} @ git+{{address}}"')"""
CONFIGURED = {
    "url": re.compile(r"(?<=^  url: ).*$", re.MULTILINE),
    "baseurl": re.compile(r"(?<=^  baseurl: ).*$", re.MULTILINE),
}
BADGES = re.compile(
    r"(?<=<!-- badges: python -m tools.repository writes them -->\n)"
    r".*?(?=<!-- end of badges -->)",
    re.DOTALL,
)


def parse_address(address):
    """Return OWNER/NAME of an address, or raise ValueError."""
    match = PATTERN.fullmatch(address)
    if match is None or address.endswith((".git", "/")):
        raise ValueError(
            f"the address must read https://github.com/OWNER/NAME, got {address!r}"
        )
    return match[1]


def is_set(address):
    """Return True if an address names somebody's repository."""
    return parse_address(address).partition("/")[0] != UNSET_OWNER


def current_address(root=ROOT):
    """Return the address that ``_config.yml`` names."""
    address = read_config(root)["repository"]["url"]
    parse_address(address)
    return address


def current_site(root=ROOT):
    """Return the site's address that ``_config.yml`` names; empty while unset."""
    return read_config(root)["html"]["baseurl"]


def read_config(root):
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))


def site_of(address):
    """Return where GitHub Pages serves a repository's site; empty while unset."""
    if not is_set(address):
        return ""
    owner, _, name = parse_address(address).partition("/")
    top = f"{owner}.github.io".lower()
    return f"https://{top}/" if name.lower() == top else f"https://{top}/{name}/"


def parse_site(site):
    """Return a site's address as it is stored, or raise ValueError."""
    parts = urlsplit(site)
    if parts.scheme not in ("http", "https") or not parts.netloc or "\n" in site:
        raise ValueError(
            f"the site's address must read https://HOST/ or https://HOST/PATH/, "
            f"got {site!r}"
        )
    return site if site.endswith("/") else f"{site}/"


def colab_cell(address):
    """Return the source of the hidden first cell that installs from an address."""
    cell = COLAB_CELL if is_set(address) else UNSET_COLAB_CELL
    return cell.format(address=address)


def badges(address, site):
    """Return the lines of README's badges: none while the address is unset."""
    if not is_set(address):
        return ""
    tests = f"{address}/actions/workflows/test.yml"
    binder = f"https://mybinder.org/v2/gh/{parse_address(address)}/notebooks"
    return (
        f"[![tests]({tests}/badge.svg)]({tests})\n"
        "[![Binder](https://mybinder.org/badge_logo.svg)]"
        f"({binder}?urlpath=lab/tree/intro.ipynb)\n"
        f"[Read it online]({site})\n"
    )


def configured(config, address, site):
    """Return the text of ``_config.yml`` with the two addresses put in."""
    for key, value in (("url", address), ("baseurl", site or '""')):
        config, found = CONFIGURED[key].subn(lambda _, value=value: value, config)
        if found != 1:
            raise ValueError(f"_config.yml must have one line of {key}, has {found}")
    return config


def text_files(root=ROOT):
    """Yield the tree's own text files, ``_config.yml`` last.

    ``_config.yml`` names the present address, so a run that was interrupted
    before it was written can be started again.
    """
    for path in own_files(root):
        if path.suffix in TEXT and path != root / "_config.yml":
            yield path
    yield root / "_config.yml"


def write_address(address, site=None, root=ROOT):
    """Replace the present addresses by others; return the files that changed."""
    new, old = parse_address(address), current_address(root)
    site = parse_site(site) if site else site_of(address)
    configured((root / "_config.yml").read_text(encoding="utf-8"), address, site)
    whole = re.compile(rf"(?<![\w.-]){re.escape(parse_address(old))}(?![\w-])")
    changed = []
    for path in text_files(root):
        text = path.read_bytes().decode("utf-8")
        replaced = text
        if path.suffix == ".ipynb":
            replaced = with_colab_cell(text, old, address)
        if path == root / "README.md":
            replaced = BADGES.sub(lambda _: badges(address, site), replaced)
        replaced = whole.sub(new, replaced)
        if path == root / "_config.yml":
            replaced = configured(replaced, address, site)
        if replaced != text:
            write_whole(path, replaced)
            changed.append(path)
    return changed


def with_colab_cell(text, old, address):
    """Return a notebook's text with the first cell that fits another address."""
    notebook = nbformat.reads(text, as_version=4)
    first = next(iter(code_cells(notebook)), None)
    cells = (colab_cell(old), COLAB_CELL.format(address=old))
    if first is None or first.source not in (*cells, colab_cell(address)):
        return text
    first.source = colab_cell(address)
    return serialise(notebook)


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.repository")
    parser.add_argument("address", help="https://github.com/OWNER/NAME")
    parser.add_argument("site", nargs="?", help="where the site is served")
    options = parser.parse_args(arguments)
    try:
        changed = write_address(options.address, options.site)
    except ValueError as error:
        sys.exit(str(error))
    for path in changed:
        print(path.relative_to(ROOT))
    print(f"{len(changed)} files changed; the address is {options.address}")
    print(f"the site's address is {current_site() or 'unset'}")


if __name__ == "__main__":
    main()
