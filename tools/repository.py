"""The repository's address, one value, written wherever it stands.

``python -m tools.repository https://github.com/OWNER/NAME`` replaces the present
address, which is the one in ``_config.yml``, in every text file of the tree.
"""

import argparse
import re
import sys
from pathlib import Path

import yaml

from tools.files import own_files, write_whole

ROOT = Path(__file__).resolve().parent.parent
PATTERN = re.compile(r"https://github\.com/([A-Za-z0-9-]+/[A-Za-z0-9._-]+)")
TEXT = {".bib", ".cff", ".ipynb", ".md", ".py", ".toml", ".yml"}

#: The hidden first cell of every notebook.
COLAB_CELL = """\
# On Colab this installs the package; where it is installed, nothing happens.
import importlib.util

if importlib.util.find_spec("bnlib") is None:
    %pip install -q git+{address}"""


def parse_address(address):
    """Return OWNER/NAME of an address, or raise ValueError."""
    match = PATTERN.fullmatch(address)
    if match is None or address.endswith((".git", "/")):
        raise ValueError(
            f"the address must read https://github.com/OWNER/NAME, got {address!r}"
        )
    return match[1]


def current_address(root=ROOT):
    """Return the address that ``_config.yml`` names."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    address = config["repository"]["url"]
    parse_address(address)
    return address


def colab_cell(address):
    """Return the source of the hidden first cell that installs from an address."""
    return COLAB_CELL.format(address=address)


def text_files(root=ROOT):
    """Yield the tree's own text files, ``_config.yml`` last.

    Last, because it says what the present address is: a run that was
    interrupted can be started again.
    """
    for path in own_files(root):
        if path.suffix in TEXT and path != root / "_config.yml":
            yield path
    yield root / "_config.yml"


def write_address(address, root=ROOT):
    """Replace the present address by another; return the files that changed."""
    new, old = parse_address(address), parse_address(current_address(root))
    whole = re.compile(rf"(?<![\w.-]){re.escape(old)}(?![\w-])")
    changed = []
    for path in text_files(root):
        text = path.read_bytes().decode("utf-8")
        replaced = whole.sub(new, text)
        if replaced != text:
            write_whole(path, replaced)
            changed.append(path)
    return changed


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.repository")
    parser.add_argument("address", help="https://github.com/OWNER/NAME")
    address = parser.parse_args(arguments).address
    try:
        changed = write_address(address)
    except ValueError as error:
        sys.exit(str(error))
    for path in changed:
        print(path.relative_to(ROOT))
    print(f"{len(changed)} files changed; the address is {address}")


if __name__ == "__main__":
    main()
