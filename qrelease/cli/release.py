"""`qrelease release`: what can be known to be wrong is said before the ledger is charged."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qrelease.cli import STAYS
from qrelease.cli.mechanisms import DEFAULT, MECHANISMS, OPTIONS, mechanism_of, named
from qrelease.cli.shared import (
    check_memory,
    cost_of,
    data_options,
    dataset_of,
    entropy_of,
    seed_option,
    table_of,
    told,
    warn_of_weak,
    workload_of,
    wrote,
)
from qrelease.errors import InvalidInput, LedgerError

if TYPE_CHECKING:
    from qrelease.ledger import Ledger
    from qrelease.privacy import Cost, Neighbours


_RULES = "the impossible rules of the schema are kept by --mechanism records alone"


def options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.set_defaults(run=_release, charges=True)
    data_options(parser)
    parser.add_argument(
        "--mechanism",
        type=named,
        choices=list(MECHANISMS),
        default=DEFAULT,
        help="default: %(default)s; auto takes the one with the least predicted error, and says why; laplace and"
        " gaussian fit a table to their noisy answers, if the universe allows",
    )
    parser.add_argument("--epsilon", type=float, required=True, help="what this release may cost")
    parser.add_argument("--delta", type=float, help="default: none, pure epsilon")
    parser.add_argument("--rounds", type=int, help="of mwem; default: a public rule")
    parser.add_argument("--size", type=int, help="of smalldb: records of the small database; default: a public rule")
    parser.add_argument("--alpha", type=float, help="of smalldb, instead of a size: how well some database should fit")
    parser.add_argument(
        "--records",
        type=int,
        metavar="N",
        help="of auto, maxent and mwem: about how many there are, if public; default: a little of the budget finds out",
    )
    parser.add_argument(
        "--weighted-records",
        type=int,
        metavar="N",
        help="of records: weighted records that are drawn; the more, the less their scatter; default: 524,288",
    )
    parser.add_argument(
        "--order",
        type=int,
        metavar="K",
        help="of records: columns of the largest marginals that may be measured; default: 3",
    )
    parser.add_argument("--rows", type=int, help="synthetic records; default: about as many as the input has")
    parser.add_argument(
        "--weighted", action="store_true", help="a synthetic table with a weight for each row, which is the more exact"
    )
    parser.add_argument(
        "--answers",
        action=argparse.BooleanOptionalAction,
        help="whether answers.csv is written; default: unless it would have more than 16,777,216 lines",
    )
    parser.add_argument("--out", type=Path, help="a new folder; default: DATASET-release, here")
    parser.add_argument("--ledger", type=Path, help="default: DATASET.ledger beside the data")
    parser.add_argument("--total-epsilon", type=float, help="of a new ledger; default: the cost of this release")
    parser.add_argument("--total-delta", type=float, help="likewise; default: that of this release")
    seed_option(parser)


def _release(arguments: argparse.Namespace) -> None:
    check_memory()
    from qrelease import archive
    from qrelease.contracts import check_table
    from qrelease.curator import Curator
    from qrelease.planning import Forecasting, forecast
    from qrelease.privacy import Neighbours
    from qrelease.release import check_rows

    cost = cost_of(arguments.epsilon, arguments.delta)
    neighbours = Neighbours.parse(arguments.neighbours)
    mechanism = mechanism_of(arguments.mechanism, **{option: getattr(arguments, option) for option in OPTIONS})
    if arguments.rows is not None:
        check_rows(arguments.rows)
    tabled = arguments.weighted or arguments.rows is not None
    if arguments.mechanism == "auto":
        from qrelease.auto import Auto

        mechanism = Auto(arguments.records, table=tabled)
    out = arguments.out or Path(f"{dataset_of(arguments)}-release")
    with archive.new_folder(out) as folder:
        table = table_of(arguments)
        if table.domain.impossible and arguments.mechanism != "records":
            print(f"warning: {_RULES}{', if it is chosen' * (arguments.mechanism == 'auto')}", file=sys.stderr)
        workload = workload_of(arguments, table.domain)
        if arguments.weighted:
            archive.check_weighted(table.domain)
        mechanism.check(workload, cost, neighbours)
        if tabled:
            check_table(mechanism, workload)
        table.check_counts(workload.sets)
        if isinstance(mechanism, Forecasting):
            public = len(table) if neighbours is Neighbours.REPLACE_ONE else None
            print(f"qrelease: {forecast(mechanism, workload, cost, public)}", file=sys.stderr)
        with _ledger(arguments, cost, neighbours) as ledger:
            release = Curator(table, ledger, entropy_of(arguments)).release(mechanism, workload, cost)
            try:
                left_out = archive.save(
                    release, folder, arguments.rows, weighted=arguments.weighted, answers=arguments.answers
                )
            except OSError as error:
                raise InvalidInput(f"{out} cannot be written: {error.strerror}; {STAYS}") from None
            spent, total = ledger.spent, ledger.total
    print(release)
    if arguments.mechanism == "auto":
        from qrelease.auto import explained

        print(explained(release.parameters))
    print(wrote(out))
    for name, why in left_out.items():
        print(f"no {name}: {why}")
    if arguments.insecure_seed is None or arguments.ledger:
        print(f"spent in all: {told(spent)} of {told(total)} (ledger {_ledger_path(arguments)})")
    warn_of_weak(cost)


def _ledger(arguments: argparse.Namespace, cost: Cost, neighbours: Neighbours) -> Ledger:
    """The ledger of this dataset, made with the asked total (or just this cost) if there is none yet.

    A run with an insecure seed and no ledger named is a test: it has a budget of its own, in memory.
    """
    from qrelease.ledger import Ledger
    from qrelease.privacy import Filter

    total = cost
    if arguments.total_epsilon is not None:
        delta = arguments.delta if arguments.total_delta is None else arguments.total_delta
        total = cost_of(arguments.total_epsilon, delta)
    elif arguments.total_delta is not None:
        raise InvalidInput("--total-delta needs --total-epsilon")
    if arguments.insecure_seed is not None and arguments.ledger is None:
        return Ledger.open(None, total, dataset=dataset_of(arguments), neighbours=neighbours)
    path = _ledger_path(arguments)
    if path.exists():
        if arguments.total_epsilon is not None:
            raise InvalidInput(f"ledger {path} has a total already; `qrelease ledger raise` changes it")
        return Ledger.open(path, dataset=dataset_of(arguments), neighbours=neighbours)
    Filter(total).spend(cost)  # what would be refused leaves no new ledger behind
    return Ledger.open(path, total, dataset=dataset_of(arguments), neighbours=neighbours)


def _ledger_path(arguments: argparse.Namespace) -> Path:
    """Beside the data, so that whoever releases from them finds it; in the user's own folder if that is read-only.

    A ledger that exists in either place is the ledger, whatever the permissions are by now.
    """
    if arguments.ledger is not None:
        return Path(arguments.ledger)
    from hashlib import sha256

    folder: Path = arguments.data.resolve().parent
    dataset = dataset_of(arguments)
    if not dataset or Path(dataset).name != dataset:
        raise InvalidInput(f"dataset {dataset!r} cannot be the name of a ledger: say which with --ledger")
    beside = folder / f"{dataset}.ledger"
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "qrelease"
    own = state / f"{dataset}-{sha256(str(folder).encode()).hexdigest()[:12]}.ledger"
    if beside.exists() and own.exists():
        raise LedgerError(f"two ledgers, {beside} and {own}, for one table: say which counts with --ledger")
    if own.exists() or not (beside.exists() or os.access(folder, os.W_OK)):
        state.mkdir(parents=True, exist_ok=True)
        return own
    return beside
