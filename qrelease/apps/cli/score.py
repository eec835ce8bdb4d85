"""`qrelease score`: noisy quality scores of a synthetic table, which may be published, for a charge."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from qrelease.apps.cli import shared
from qrelease.apps.cli.ledgers import ledger_path, told_of_rows


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_score, uncharged="nothing was charged")
    shared.data_options(parser)
    parser.add_argument("synthetic", type=Path, help="a public table of the same columns, such as synthetic.csv")
    shared.cost_options(parser, "what the scores may cost, all together")
    parser.add_argument(
        "--ledger", type=shared.ledger_place, help="the ledger of the data (default: DATASET.ledger beside them)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    shared.protection_options(parser)


def _score(arguments: argparse.Namespace) -> None:
    shared.check_memory()
    shared.tell_of_compiling()
    from qrelease.data.table import Table
    from qrelease.evaluation.quality.private_score import MarginalScores
    from qrelease.release.curator import Curator

    cost = shared.cost_meant(arguments)
    with shared.opened(ledger_path(arguments)) as ledger:
        ledger.check_dataset(shared.dataset_of(arguments))  # before the data are read
        table = shared.table_of(arguments)
        curator = Curator(table, ledger, shared.entropy_of(arguments))
        told_of_rows(curator)
        scores = MarginalScores(Table.read(arguments.synthetic, table.domain.of_rows))
        with shared.charging(arguments):
            found = curator.estimate(scores, cost, changed_rows=True)
        arguments.charged = f"{shared.told(cost)} was charged, and the scores are lost"
    print(json.dumps(found.to_json(), allow_nan=False) if arguments.json else found, flush=True)
    del arguments.charged
