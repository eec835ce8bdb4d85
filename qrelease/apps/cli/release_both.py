"""`qrelease release --both`: a parent table and its children, in one release."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from qrelease._util.elapsed import elapsed
from qrelease.apps.cli.ledgers import check_affordable, ledger_of, ledger_path, told_of_rows
from qrelease.apps.cli.shared import (
    charging,
    cost_meant,
    dataset_of,
    dialect_of,
    entropy_of,
    told,
    warn_of_delta,
    workload_of,
    wrote,
)
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.mechanisms.base import Mechanism

_WITHOUT = ("counts", "columns", "numbers", "clip", "numbers_share", "weighted", "answers", "sign")


def make_both(arguments: argparse.Namespace, mechanism: Mechanism) -> None:
    """One release of two tables, from the arguments of `release.options`."""
    if arguments.parent is None:
        raise InvalidInput("--both releases two tables: give the other one by --parent FILE")
    for option in _WITHOUT:
        if getattr(arguments, option) not in (None, False):
            raise InvalidInput(f"--both cannot be used with --{option.replace('_', '-')}")
    if arguments.out_format != "csv":
        raise InvalidInput("--both writes CSV only: leave out --out-format")
    from qrelease.apps.two_tables import check_linked, release_linked
    from qrelease.data.two_tables import TwoTables
    from qrelease.privacy import Neighbours
    from qrelease.release import writer
    from qrelease.release.curator import Curator
    from qrelease.release.linked import LinkedRelease

    cost = cost_meant(arguments)
    check_affordable(arguments, cost, resumes=not arguments.again, in_parts=True)
    out = arguments.out or Path(f"{dataset_of(arguments)}-release")
    with ExitStack() as complete:
        folder = complete.enter_context(writer.new_folder(out))
        tables = TwoTables.read(
            arguments.data, arguments.parent, arguments.schema, arguments.query, dialect_of(arguments)
        )
        domain = tables.children.domain
        workload = workload_of(arguments, domain) if arguments.workload else None
        neighbours = Neighbours.parse(arguments.neighbours)
        check_linked(tables, mechanism, cost, neighbours, workload=workload)

        def store(found: LinkedRelease) -> None:
            kept = ", and the same command goes on from what was drawn, for free" * (arguments.insecure_seed is None)
            arguments.charged = f"{told(cost)} was charged{kept}"
            found.write(folder, arguments.rows)
            complete.close()  # it has its name before the ledger says that it is made

        with ledger_of(arguments, cost, neighbours, tables.parents, tables.children) as ledger:
            for table in (tables.parents, tables.children):
                told_of_rows(Curator(table, ledger, entropy_of(arguments)))
            with charging(arguments), elapsed("releasing"):
                found = release_linked(
                    tables,
                    ledger,
                    mechanism,
                    cost,
                    workload=workload,
                    entropy=entropy_of(arguments),
                    again=arguments.again,
                    changed_rows=True,
                    store=store,
                )
            del arguments.charged
            spent, total = ledger.spent, ledger.total
    print(found)
    print(wrote(out))
    for note in found.notes:
        print(note)
    if arguments.insecure_seed is None or arguments.ledger:
        print(f"spent in all: {told(spent)} of {told(total)} (ledger {ledger_path(arguments)})")
    warn_of_delta(cost)
