"""python -m bnlib.data list | fetch NAME [NAME ...]"""

import argparse
import sys

from bnlib._files import cache_folder
from bnlib.data import NAMES, load
from bnlib.data._files import find, is_here
from bnlib.data._sets import SOURCES


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m bnlib.data", description="The book's data sets."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="show every data set and where it is")
    fetch = commands.add_parser("fetch", help="download what is not here, check all")
    fetch.add_argument("names", nargs="+", metavar="NAME")
    return parser


def main(arguments=None):
    """Return the exit code: 0, 1 for a failure, 2 for a bad name, 130 interrupted."""
    options = _parser().parse_args(arguments)
    if options.command == "list":
        print("\n".join(f"{name:16}{_place(name)}" for name in NAMES))
        return 0
    for name in options.names:
        if name not in NAMES:
            print(
                f"no data set {name!r}; there are {', '.join(NAMES)}", file=sys.stderr
            )
            return 2
    try:
        for name in options.names:
            dataset = load(name)
            parts = f"{len(dataset.y_train)} + {len(dataset.y_test)} examples"
            print(f"{name}: {parts}, {_place(name)}")
    except (ImportError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; the same command starts the file anew", file=sys.stderr)
        return 130
    return 0


def _place(name):
    """Return where a data set's files are, in words."""
    routes = SOURCES[name].routes
    if not routes:
        return "ships with scikit-learn"
    for route in filter(is_here, routes):
        folders = {str(find(file).parent): None for file in route.files}
        return f"in {', '.join(folders)}"
    return f"not here; fetch puts it below {cache_folder('data')}"


if __name__ == "__main__":
    sys.exit(main())
