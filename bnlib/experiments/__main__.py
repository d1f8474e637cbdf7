"""python -m bnlib.experiments list | run ID --scale live|paper | confirm [ID ...]"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bnlib.experiments._confirm import confirm
from bnlib.experiments._records import RECORDS, load_record
from bnlib.experiments._registry import SCALES, all_experiments
from bnlib.experiments._runner import AlreadyRunning, prepare


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m bnlib.experiments", description="The book's experiments."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="show every experiment and its record")
    run = commands.add_parser("run", help="run one; at paper scale, record it")
    run.add_argument("id", metavar="ID")
    run.add_argument("--scale", choices=SCALES, default="live")
    run.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:0, mps")
    run.add_argument("--force", action="store_true", help="replace the record")
    run.add_argument("--folder", help="write the record there")
    again = commands.add_parser("confirm", help="compute units of a record again")
    again.add_argument(
        "ids", nargs="*", metavar="ID", help="every record of older code, if none"
    )
    again.add_argument("--units", type=int, default=8, help="how many, 8 if not given")
    again.add_argument("--device", default="auto", help="as for run")
    again.add_argument("--folder", default=RECORDS, help="where the record is")
    return parser


def main(arguments=None):
    """Return the exit code: 0, 2 for what cannot be run, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    if options.command == "list":
        print("\n".join(_listing()))
        return 0
    return _confirm(options) if options.command == "confirm" else _run(options)


def _confirm(options):
    code = 0
    for id in options.ids or _of_older_code(options.folder):
        try:
            record = confirm(
                id, options.units, device=options.device, folder=options.folder
            )
            print(f"{id}: {record.standing}", flush=True)
        except (ValueError, TypeError, OSError) as error:
            print(error, file=sys.stderr)
            code = 2
    return code


def _of_older_code(folder):
    """Return the experiments whose records can be confirmed and need it."""
    there = {path.stem for path in Path(folder).glob("*.json")}
    entries = [entry for entry in all_experiments() if entry.id in there]
    return [e.id for e in entries if e.timed is not True and _is_old(e.id, folder)]


def _is_old(id, folder):
    try:
        return load_record(id, folder).standing == "older code"
    except ValueError:
        # Broken: confirm says how.
        return True


def _run(options):
    try:
        prepared = prepare(
            options.id,
            options.scale,
            device=options.device,
            folder=options.folder,
            force=options.force,
        )
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        record = prepared.execute()
    except (AlreadyRunning, ModuleNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        notes = getattr(error, "__notes__", [])
        print("\ninterrupted", *notes, sep="\n", file=sys.stderr)
        return 130
    print("\n".join(_summary(record, list(prepared.experiment.sweep))))
    if prepared.folder is not None:
        print(f"wrote {Path(prepared.folder) / record.id}.json")
    return 0


def _listing():
    rows = [
        (entry.id, entry.chapter, _recorded(entry), entry.title)
        for entry in all_experiments()
    ]
    return _aligned([("id", "chapter", "recorded", "title"), *rows])


def _recorded(entry):
    try:
        record = load_record(entry.id)
    except FileNotFoundError:
        return "no"
    except ValueError:
        return "broken"
    day, standing = record.date.partition(" ")[0], record.standing
    return day if standing == "of the present code" else f"{day}, {standing}"


def _summary(record, swept):
    """Return one line per setting: the mean over the seeds, and the range."""
    keys = [name for name in swept if name != "seed"]
    settings = {}
    for row in record.results:
        setting = tuple(str(row[name]) for name in keys)
        settings.setdefault(setting, []).append(row)
    numbers = [
        name
        for name in record.results[0]
        if name not in swept
        and all(isinstance(row[name], int | float | None) for row in record.results)
    ]
    table = [(*keys, *numbers)]
    for setting, rows in settings.items():
        cells = (_mean_and_range([row[name] for row in rows]) for name in numbers)
        table.append((*setting, *cells))
    head = f"{record.title}: {record.scale} scale, {record.device}, {record.seconds} s"
    spread = f"mean over {len(record.seeds)} seeds [lowest, highest]"
    return [head, spread, "", *_aligned(table)]


def _mean_and_range(values):
    known = np.array([value for value in values if value is not None], dtype=float)
    if known.size == 0:
        return "-"
    return f"{known.mean():.3g} [{known.min():.3g}, {known.max():.3g}]"


def _aligned(rows):
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in rows
    ]


if __name__ == "__main__":
    sys.exit(main())
