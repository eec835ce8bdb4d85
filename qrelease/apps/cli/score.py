"""`qrelease score`: figures of quality that may be published, for a charge."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from qrelease.apps.cli.ledgers import ledger_path, told_of_rows
from qrelease.apps.cli.shared import (
    DATA,
    check_memory,
    check_weak,
    cost_given,
    cost_options,
    entropy_of,
    opened,
    schema_options,
    seed_option,
    table_of,
    weak_option,
)


def options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.set_defaults(run=_score, uncharged="nothing was charged")
    parser.add_argument("data", type=Path, help=DATA)
    parser.add_argument("synthetic", type=Path, help="a public table of the same columns, such as synthetic.csv")
    schema_options(parser)
    cost_options(parser, "what the scores may cost, all together")
    parser.add_argument("--dataset", metavar="NAME", help="whose people these are; default: as of `qrelease release`")
    parser.add_argument("--ledger", type=Path, help="that of the data; default: DATASET.ledger beside them")
    parser.add_argument("--json", action="store_true", help="one object")
    weak_option(parser)
    seed_option(parser)


def _score(arguments: argparse.Namespace) -> None:
    check_memory()
    from qrelease.data.table import Table
    from qrelease.evaluation.quality.private_score import private_scores
    from qrelease.release.curator import Curator

    cost = cost_given(arguments)
    check_weak(cost, arguments.weak)
    with opened(ledger_path(arguments)) as ledger:
        table = table_of(arguments)
        told_of_rows(Curator(table, ledger))
        public = Table.read(arguments.synthetic, table.domain.of_rows)
        found = private_scores(table, public, ledger, cost, entropy=entropy_of(arguments), changed_rows=True)
    print(json.dumps(found.to_json()) if arguments.json else found)
