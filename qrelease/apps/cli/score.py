"""`qrelease score`: the figures of a quality report with noise, which may be published, for a charge."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from qrelease._util.compiling import tell_of_compiling
from qrelease._util.elapsed import elapsed
from qrelease.apps.cli import shared
from qrelease.apps.cli.ledgers import ledger_path, told_of_rows

if TYPE_CHECKING:
    from qrelease.data.table import Table
    from qrelease.evaluation.quality.private_score import QualityScores
    from qrelease.privacy import Cost
    from qrelease.privacy.unit import Unit
    from qrelease.statistics.estimate import Estimate


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_score, uncharged="nothing was charged")
    shared.data_options(parser, released=True)
    parser.add_argument(
        "synthetic", type=Path, help="the folder of a release, or a public table of the same columns: synthetic.csv"
    )
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="the column that a model of the synthetic table foretells (default: the last of those with fewest cells)",
    )
    shared.cost_options(parser, "what the figures may cost, all together")
    parser.add_argument(
        "--ledger", type=shared.ledger_place, help="the ledger of the data (default: DATASET.ledger beside them)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    shared.protection_options(parser)


def _score(arguments: argparse.Namespace) -> None:
    shared.check_memory()
    tell_of_compiling()
    from qrelease.data.table import Table
    from qrelease.evaluation.quality.private_score import QualityScores
    from qrelease.evaluation.quality.published import as_released, synthetic_table
    from qrelease.privacy.unit import Unit
    from qrelease.release.curator import Curator
    from qrelease.release.reader import load

    cost = shared.cost_meant(arguments)
    with shared.opened(ledger_path(arguments)) as ledger:
        ledger.check_dataset(shared.dataset_of(arguments))  # before the data are read
        if arguments.synthetic.is_dir():
            with elapsed("reading the release"):
                release = load(arguments.synthetic)
            table = as_released(
                shared.table_of(arguments, undecided=True, released=release.domain), release, arguments.synthetic
            )
            synthetic = synthetic_table(release, arguments.synthetic)
        else:
            table = shared.table_of(arguments)
            synthetic = Table.read(arguments.synthetic, table.domain.of_rows)
        curator = Curator(table, ledger, shared.entropy_of(arguments))
        told_of_rows(curator)
        scores = QualityScores(synthetic, arguments.target)
        ledger.check(cost)
        _foretell(scores, table, Unit.of(ledger.neighbours, table.domain), cost)
        with shared.charging(arguments), elapsed("scoring"):
            found = curator.estimate(scores, cost, changed_rows=True)
        arguments.charged = f"{shared.told(cost)} was charged, and the scores are lost"
    print(json.dumps(found.to_json(), allow_nan=False) if arguments.json else _page(found), flush=True)
    del arguments.charged


def _foretell(scores: QualityScores, table: Table, unit: Unit, cost: Cost) -> None:
    """About how wide the intervals will be, and which will say nothing, while it costs nothing to call it off."""
    from qrelease.statistics.private_columns import domain_of

    domain, of_a_record = domain_of(table), unit.of_a_record(cost)
    with elapsed("looking at the synthetic records"), unit.explained():
        scores.check(domain, of_a_record, unit.relation)
        public = len(table) if unit.public_records else None
        widths = scores.half_widths(domain, public, of_a_record, unit.relation)
    told = ", ".join(f"{name} ± {half:.2g}" for name, (half, most) in widths.items() if half < most / 2)
    nothing = ", ".join(name for name, (half, most) in widths.items() if half >= most / 2)
    as_many = "" if public is not None else ", if there are about as many private records as synthetic ones"
    if told:
        print(f"qrelease: intervals of about {told}{as_many}", file=sys.stderr)
    if nothing:
        print(
            f"qrelease: {nothing} would say nothing{as_many}: the interval is about all that is possible; a larger cost"
            " narrows it",
            file=sys.stderr,
        )


_WIDTH: Final = 10
"""Characters of a number: the same for all, so that only the numbers depend on the noise."""

_MEANT: Final = (
    "each is within its interval with 95 %, all at once",
    "k-marginal: the score of 1000; worst: the largest L1 distance of densities, from 0 to 2",
    "gaps: means over pairs of columns; covariances are in standard deviations of the synthetic records",
    "accuracy and AUC: of a model that is trained on the synthetic records alone, on the private ones",
    "equivalent subsample: the share of the private records of which a sample is as far off by three columns, if their"
    " cells are spread as the synthetic ones",
)

_LEFT_OUT: Final = (
    "left out: {}; single records move these too far, or they are about single records, or `qrelease estimate` has them"
    " (--json says which)"
)


def _page(found: Estimate) -> str:
    """The figures, one a line with its interval; what they mean and cost, and what is left out."""
    from qrelease.evaluation.quality.private_score import LEFT_OUT
    from qrelease.privacy.unit import Unit

    held, chosen = found.to_json(), found.choices
    width = max(map(len, held["value"]))
    lines = [" " * width + "".join(text.rjust(_WIDTH) for text in ("noisy", "from", "to"))]
    for (name, value), (low, high) in zip(held["value"].items(), held["interval"], strict=True):
        digits = 1 if name.endswith("-marginal") else 4
        numbers = "".join(f"{number:{_WIDTH}.{digits}f}" for number in (value, low, high))
        lines.append(f"{name:{width}}{numbers}  {' × '.join(chosen.get(name, ()))}".rstrip())
    alarm = [held["insecure"]] if found.insecure else []
    others = (f"left out: {name}: {why}" for name, why in chosen["left out"].items() if name not in LEFT_OUT)
    left_out = [_LEFT_OUT.format(", ".join(name for name in LEFT_OUT if name in chosen["left out"])), *others]
    cost = f"cost      {found.cost:.6g}, {Unit(found.neighbours, found.at_most)}"
    return "\n".join([*alarm, *lines, *_MEANT, *left_out, cost])
