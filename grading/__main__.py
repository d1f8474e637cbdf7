"""The command line: ``python -m grading make`` and ``check``."""

import argparse
import os
import sys
from pathlib import Path

from grading import check, make, sets

BUILT = "_build/assignments"
COURSE = "batch-normalization"
KEY_VARIABLE = "BNLIB_COURSE_KEY"


def main(arguments=None):
    """Run the command line; return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser():
    parser = argparse.ArgumentParser(prog="python -m grading")
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser(
        "make", help="write student versions, solutions, zips and a course folder"
    )
    making.add_argument("sets", nargs="*", metavar="SET")
    making.add_argument(
        "--key", help=f"the course key, to be kept private; or set {KEY_VARIABLE}"
    )
    making.add_argument("--out", help="the folder; needed with a key", metavar="FOLDER")
    making.add_argument("--course", metavar="NAME")
    making.set_defaults(run=run_make)
    checking = commands.add_parser("check", help="prove sets under several keys")
    checking.add_argument("sets", nargs="*", metavar="SET")
    checking.add_argument("--key", action="append", dest="keys")
    checking.add_argument(
        "--messages", action="store_true", help="say why each test failed"
    )
    checking.set_defaults(run=run_check)
    return parser


def run_make(options):
    """Write the sets, and a course folder if a key is to be kept."""
    key = os.environ.get(KEY_VARIABLE) if options.key is None else options.key
    if key == "":
        where = "--key" if options.key is not None else KEY_VARIABLE
        raise ValueError(f"{where} is empty: a course key is a line of text, got ''")
    if key is None and options.course is not None:
        raise ValueError(
            f"the course {options.course!r} needs a key of its own: --key, or "
            f"{KEY_VARIABLE}"
        )
    if key is not None and not options.out:
        raise ValueError(
            "a course of your own needs --out FOLDER (make: OUT=FOLDER): grades will "
            "be kept there"
        )
    out = Path(options.out or BUILT).expanduser()
    course = None if key is None else options.course or make.course_in(out) or COURSE
    for path in make.make(options.sets, key or sets.DEFAULT_KEY, out, course):
        print(f"wrote {path}")
    print(f"student versions in {out / 'student'}, solutions in {out / 'solution'}")
    if course is None:
        print("made with the public key: its solutions are on the web")
    else:
        print(f"course folder for nbgrader: {out / 'course'}; it holds the key")
    return 0


def run_check(options):
    """Print the score of every version of the sets; return 1 if one is wrong."""
    keys = options.keys or check.KEYS
    bad = 0
    for name in options.sets or sets.set_names():
        for key, title, lost, wanted, grading in check.check(name, keys):
            good = lost == wanted
            bad += not good
            mark, points = "ok  " if good else "BAD ", sum(lost.values())
            print(f"{mark}{name}  {key:<17} {title:<36} loses {points:g}")
            if not good:
                print(f"     lost   {lost}\n     wanted {wanted}")
            for remark in grading.remarks:
                print(f"     {remark}")
            for test, message in grading.messages.items():
                if message and (options.messages or not good):
                    print(f"       {test}: {message}")
        bad += _print_cheats(name)
    print(f"{bad} versions do not score what they should" if bad else "all hold")
    return 1 if bad else 0


def _print_cheats(name):
    """Print the points of answers that know nothing; return how many earn any."""
    bad = 0
    for title, earned in check.earned_by_cheating(name).items():
        bad += bool(earned)
        mark, points = "BAD " if earned else "ok  ", sum(earned.values())
        print(f"{mark}{name}  {title:<54} earns {points:g} {earned or ''}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
