"""`qrelease attack`."""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from qrelease._util.compiling import tell_of_compiling
from qrelease._util.owner_only import write_for_owner
from qrelease.apps.cli import shared
from qrelease.errors import InvalidInput

_MAX_DIGITS = 9  # of a number of people


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_attack)
    parser.add_argument("data", type=shared.data_place, help=f"what the release was made from. {shared.DATA}")
    shared.query_option(parser)
    shared.parent_option(parser)
    shared.dialect_options(parser)
    parser.add_argument(
        "--release", type=Path, required=True, metavar="FOLDER", help="the folder of the release to attack"
    )
    parser.add_argument("--secret", required=True, metavar="COLUMN", help="the column that the attacker wants to know")
    parser.add_argument(
        "--value",
        help="the value of that column which the attacker looks for (default: the one nearest to half of the people"
        " have)",
    )
    parser.add_argument(
        "--people",
        type=shared.names,
        default=["2000"],
        metavar="N,…",
        help="how many people are attacked; several numbers, as 200,600,2000, are tried one by one (default: 2000)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="the seed by which people and questions are drawn (default: %(default)s)"
    )
    parser.add_argument(
        "--picture",
        type=Path,
        metavar="FILE.svg",
        help="draw what was recovered, at the last number of people, into this file",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise InvalidInput(f"--people takes whole numbers, as 200,600,2000, got {text!r}")
    return int(text)


def _attack(arguments: argparse.Namespace) -> None:
    shared.check_memory()
    tell_of_compiling()
    from qrelease.data.table import Table
    from qrelease.evaluation.attacks.picture import check_svg
    from qrelease.evaluation.attacks.study import study
    from qrelease.release.reader import load

    if arguments.picture is not None:
        check_svg(arguments.picture)
    release = load(arguments.release)
    dialect = shared.dialect_of(arguments)
    table = Table.read(arguments.data, release.domain, None, arguments.parent, arguments.query, dialect)
    for people in map(_number, arguments.people):
        found = study(table, release, arguments.secret, arguments.value, people=people, seed=arguments.seed)
        print(found.to_json_lines() if arguments.json else found, flush=True)
    if find_spec("cvxpy") is None:
        print("qrelease: no linear programme without cvxpy: pip install 'qrelease[attack]'", file=sys.stderr)
    if arguments.picture is not None:
        write_for_owner(arguments.picture, found.picture().encode())
        print(f"drew {arguments.picture}", file=sys.stderr)
