"""constraints.txt: the exact versions that the book is built and tested with.

``python -m tools.pins [OPTION ...]`` installs the newest versions that
pyproject.toml allows, in an environment of its own in ``_build``, and writes down
which they are. Options go to pip. It runs on Python alone, with nothing installed.
"""

import subprocess
import sys
import venv
from pathlib import Path

from tools.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "book,test,course"
HEADER = (
    "# Exact versions that the book is built and tested with: "
    "pip install -c constraints.txt\n"
)


def pins(frozen):
    """Return the lines of constraints.txt for what pip has frozen.

    A local version names one build of many, and where it is from: 2.13.0+cpu.

    Examples
    --------
    >>> pins("torch==2.13.0+cpu\\nnumpy==2.4.6\\n")
    'torch==2.13.0\\nnumpy==2.4.6\\n'
    """
    return "".join(f"{line.partition('+')[0]}\n" for line in frozen.splitlines())


def main(options=None):
    """Run the command line."""
    options = sys.argv[1:] if options is None else options
    folder = ROOT / "_build/pins"
    venv.create(folder, clear=True, with_pip=True)
    pip = [folder / "bin/python", "-m", "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "-q", *options, "-e", f"{ROOT}[{EXTRAS}]"], check=True
    )
    frozen = subprocess.run(
        [*pip, "freeze", "--exclude-editable"],
        check=True,
        capture_output=True,
        text=True,
    )
    write_whole(ROOT / "constraints.txt", HEADER + pins(frozen.stdout))
    print("wrote constraints.txt")


if __name__ == "__main__":
    main()
