"""Make environment.yml, which Binder and conda read, from pyproject.toml.

``python -m tools.environment`` writes it.
"""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tools.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
#: Written with one "=", the form in which repo2docker finds it.
PYTHON = "3.11"
CONDA_NAMES = {"torch": "pytorch"}
#: conda-forge builds PyTorch with and without CUDA; this asks for the one without.
CONDA_BUILDS = {"torch": "cpu*"}

HEADER = """\
# Made from pyproject.toml by: python -m tools.environment
name: bnlib
channels:
  - conda-forge
dependencies:
"""
# Binder does not install the package by itself when this file is there.
FOOTER = """\
  - pip
  - pip:
      - -e .
"""


def conda_spec(requirement):
    """Write a requirement of pyproject.toml as conda does.

    Examples
    --------
    >>> conda_spec("jupyterlab>=4.3,<5")
    'jupyterlab >=4.3,<5'
    >>> conda_spec("torch>=2.6")
    'pytorch >=2.6 cpu*'
    """
    parsed = Requirement(requirement)
    if parsed.marker or parsed.url or parsed.extras:
        raise ValueError(f"a name and a range is all conda takes, got {requirement!r}")
    # A set has no order of its own: lower bounds first, then upper.
    bounds = sorted(map(str, parsed.specifier), key=lambda s: (s[0] == "<", s))
    parts = [
        CONDA_NAMES.get(parsed.name, parsed.name),
        ",".join(bounds) or "*",
        CONDA_BUILDS.get(parsed.name, ""),
    ]
    return " ".join(parts).strip()


def requirements(project, *extras):
    """Return the requirements of the project and of some of its extras.

    Parameters
    ----------
    project : dict
        The table ``project`` of pyproject.toml.
    *extras : str

    Returns
    -------
    list of str
        If an extra names other extras of the project, theirs are in its place.

    Examples
    --------
    >>> optional = {"plot": ["matplotlib"], "lab": ["book[plot]", "jupyterlab"]}
    >>> requirements({"name": "book", "optional-dependencies": optional}, "lab")
    ['matplotlib', 'jupyterlab']
    """
    found = dict.fromkeys(project.get("dependencies", []))
    for extra in extras:
        for text in project["optional-dependencies"][extra]:
            named = Requirement(text)
            if named.name == project["name"]:
                found |= dict.fromkeys(requirements(project, *sorted(named.extras)))
            else:
                found[text] = None
    return list(found)


def environment_text(root):
    """Return the text of environment.yml."""
    with open(root / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    specs = [f"python={PYTHON}", *sorted(map(conda_spec, requirements(project, "lab")))]
    return HEADER + "".join(f"  - {spec}\n" for spec in specs) + FOOTER


def main():
    write_whole(ROOT / "environment.yml", environment_text(ROOT))
    print("wrote environment.yml")


if __name__ == "__main__":
    main()
