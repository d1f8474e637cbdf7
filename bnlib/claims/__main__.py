"""Print the ledger: python -m bnlib.claims [ID ...] [--seed N] [--instances N]."""

import argparse
import sys
import time

from bnlib.claims import all_claims, get, judge


def main(arguments=None):
    """Judge the named claims, or all; return 1 if one fails, 2 for bad usage."""
    parser = argparse.ArgumentParser(
        prog="python -m bnlib.claims",
        description="Check the book's claims on random instances.",
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="claims (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument(
        "--instances", type=int, default=5, help="random instances of each (5)"
    )
    given = parser.parse_args(arguments)
    if given.instances < 1:
        parser.error(f"--instances is {given.instances}: give at least 1")
    if given.seed < 0:
        parser.error(f"--seed is {given.seed}: give at least 0")
    try:
        claims = [get(id) for id in dict.fromkeys(given.ids)] or all_claims()
    except ValueError as error:
        parser.error(str(error))
    seeds = range(given.seed, given.seed + given.instances)
    start = time.perf_counter()
    failed = sum(not _print_line(claim, seeds) for claim in claims)
    seconds = time.perf_counter() - start
    print(
        f"{len(claims)} claims, {given.instances} instances each, {seconds:.1f} s: "
        + ("all pass, every control is rejected" if not failed else f"{failed} FAIL")
    )
    return 1 if failed else 0


def _print_line(claim, seeds):
    try:
        judgement = judge(claim, seeds)
    except Exception as error:  # one broken check must not hide the others
        judgement, passes = f"RAISED {type(error).__name__}: {error}", False
    else:
        passes = judgement.passes
    print(f"{claim.id:24} {claim.kind:11} {claim.verdict:14} {judgement}", flush=True)
    return passes


if __name__ == "__main__":
    sys.exit(main())
