"""`qrelease estimate`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path

from qrelease._util.compiling import tell_of_compiling
from qrelease.apps.cli.ledgers import check_affordable, known_curator, ledger_path, new_curator
from qrelease.apps.cli.mechanisms import own_failures, statistic_of
from qrelease.apps.cli.shared import (
    charging,
    check_memory,
    cost_meant,
    cost_options,
    data_options,
    ledger_options,
    neighbours_option,
    protection_options,
    table_of,
    told,
    warn_of_delta,
)
from qrelease.errors import InvalidInput


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    from qrelease.statistics.catalogue import STATISTICS

    parser.set_defaults(run=_estimate, uncharged="nothing was charged")
    parser.epilog = "Statistics: " + "; ".join(f"{name} ({text})" for name, (*_, text) in STATISTICS.items()) + "."
    data_options(parser)
    parser.add_argument(
        "statistic",
        help="what to estimate, such as mean:age or mean:age,low=0,high=80 or quantile:age,q=0.25: see the list below;"
        " or one of your own, MODULE:NAME, an object with name, check, estimate and error_bound, or its class, from the"
        " current folder",
    )
    neighbours_option(parser)
    cost_options(parser, "what this estimate may cost")
    ledger_options(parser, "estimate")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="also write FILE.json and FILE.html, which must not be there"
    )
    parser.add_argument("--json", action="store_true", help="print the estimate as one JSON object")
    protection_options(parser)


def _estimate(arguments: argparse.Namespace) -> None:
    check_memory()
    tell_of_compiling()
    from qrelease.data.schema import load
    from qrelease.data.structural_zeros import narrowed
    from qrelease.mechanisms.base import check_parts
    from qrelease.privacy import Neighbours
    from qrelease.privacy.unit import Unit
    from qrelease.release.curator import check_relation
    from qrelease.statistics.base import refuse_empty
    from qrelease.statistics.private_columns import domain_of, domain_read_by

    cost = cost_meant(arguments)
    statistic = statistic_of(arguments.statistic)
    _check_files(arguments.out)
    check_affordable(arguments, cost, resumes=False)
    neighbours, declared = Neighbours.parse(arguments.neighbours), load(arguments.schema, undecided=True)
    if arguments.columns is not None:
        declared = narrowed(declared, arguments.columns)
    check_parts("an estimate", declared)
    unit = Unit.of(neighbours, declared)
    of_a_record = unit.of_a_record(cost)
    with own_failures(arguments, arguments.statistic), unit.explained():
        statistic.check(domain_read_by(declared), of_a_record, unit.relation)  # before there is a ledger, or a record
    table = table_of(arguments, undecided=True)
    check_relation(table, neighbours)  # before their number is looked at
    domain = domain_of(table)
    with own_failures(arguments, arguments.statistic), ExitStack() as closing:
        curator = known_curator(arguments, table, cost, neighbours, closing)
        records = len(table) if unit.public_records else None
        refuse_empty(statistic, domain, records, of_a_record, unit.relation)
        warn_of_delta(cost)
        if curator is None:
            curator = new_curator(arguments, table, cost, neighbours, closing)
        with charging(arguments):
            found, ledger = curator.estimate(statistic, cost, changed_rows=True), curator.ledger
        arguments.charged = f"{told(cost)} was charged, and the estimate is lost"
        print(json.dumps(found.to_json(), allow_nan=False) if arguments.json else found, flush=True)
        if arguments.out is not None:
            found.save(arguments.out)
            print(f"wrote {' and '.join(map(str, _files(arguments.out)))}", file=sys.stderr)
        if not arguments.json and (arguments.insecure_seed is None or arguments.ledger):
            print(f"spent in all: {told(ledger.spent)} of {told(ledger.total)} (ledger {ledger_path(arguments)})")
    del arguments.charged


def _check_files(out: Path | None) -> None:
    """Raise `InvalidInput` where the files cannot be made: after the charge the estimate would be lost with them."""
    if out is None:
        return
    if not out.name:
        raise InvalidInput(f"--out takes a name for two files, got {str(out)!r}")
    for file in _files(out):
        if file.exists():
            raise InvalidInput(f"{file} is there already")
        if not file.parent.is_dir() or not os.access(file.parent, os.W_OK | os.X_OK):
            raise InvalidInput(f"{file} cannot be written: the folder {file.parent} is not there, or not for writing")


def _files(out: Path | None) -> list[Path]:
    return [] if out is None else [out.with_suffix(".json"), out.with_suffix(".html")]
