"""`qrelease answer`."""

import argparse
import sys
from pathlib import Path


def options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.set_defaults(run=_answer)
    parser.add_argument("release", type=Path, help="the folder of a release")
    parser.add_argument("query", nargs="+", help="a condition, as in: age in 30..39 and income = '>50K'")


def _answer(arguments: argparse.Namespace) -> None:
    from qrelease.archive import load

    release = load(arguments.release)
    if release.insecure:
        print("qrelease: INSECURE release: its noise came from a seed", file=sys.stderr)
    for query in arguments.query:
        print(f"{release.answer(query)}\t{query}")
