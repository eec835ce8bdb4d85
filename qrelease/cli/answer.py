"""`qrelease answer`."""

import argparse
import sys
from pathlib import Path

from qrelease.errors import InvalidInput


def options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.set_defaults(run=_answer)
    parser.add_argument("release", type=Path, help="the folder of a release")
    parser.add_argument("query", nargs="+", help="a condition, as in: age in 30..39 and income = '>50K'")


def _may_be(path: Path) -> bool:
    """Whether a path may be a release: a folder with a manifest, or a file that starts as JSON does."""
    from qrelease.archive import MANIFEST

    if path.is_file():
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    return not path.is_dir() or (path / MANIFEST).exists()


def _answer(arguments: argparse.Namespace) -> None:
    from qrelease.archive import MANIFEST, load
    from qrelease.predicate import parse

    if not _may_be(arguments.release):
        raise InvalidInput(
            f"{arguments.release} is no release: that is a folder that `qrelease release` wrote, with its {MANIFEST}"
        )
    release = load(arguments.release)
    for query in arguments.query:  # all are understood, or none is answered
        parse(query, release.domain)
    if release.insecure:
        print("qrelease: INSECURE release: its noise came from a seed", file=sys.stderr)
    for query in arguments.query:
        print(f"{release.answer(query)}\t{query}")
