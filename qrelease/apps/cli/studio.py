"""`qrelease studio`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qrelease.apps.cli import STAYS
from qrelease.apps.cli.shared import check_memory, check_processes

if TYPE_CHECKING:
    from qrelease.data.domain import Domain
    from qrelease.data.source import Source


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_studio, uncharged=STAYS)
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path(),
        help="the folder whose data files are offered, and where schemas and releases are written (default: this one)",
    )
    parser.add_argument("--port", type=int, default=0, help="the port of 127.0.0.1 (default: any that is free)")
    parser.add_argument(
        "--no-browser",
        action="store_true",
        help="open no browser; the address, which holds a secret, is printed in any case",
    )


def _studio(arguments: argparse.Namespace) -> None:
    check_memory()
    check_processes()
    from qrelease.apps.studio.running import run

    run(arguments.folder, CommandLine(), arguments.port, browser=not arguments.no_browser)


class CommandLine:
    """What `qrelease release` and `qrelease plan` do, for the page: see `apps.studio.terms.Program`."""

    def parsed(self, words: Sequence[str]) -> argparse.Namespace:
        """The arguments of a release."""
        from qrelease.apps.cli.release import parsed

        return parsed(words)

    def price(self, arguments: argparse.Namespace, records: int) -> dict[str, Any]:
        """The cost, what theorems promise of it, what is predicted of `auto`, and the ledger."""
        from qrelease.apps.cli.shared import cost_meant
        from qrelease.apps.studio.accounts import ledger_standing
        from qrelease.apps.studio.forecast import asked, left_for_workload, predicted
        from qrelease.evaluation.planning import plan
        from qrelease.privacy.conversions import guessing_chance

        cost = cost_meant(arguments)
        workload, unit = asked(arguments)
        terms = {"epsilon": arguments.epsilon, "delta": arguments.delta, "neighbours": arguments.neighbours}
        planned = plan(workload, records, **terms, trials=0, mechanisms=["laplace", "gaussian"])
        return {
            "cost": str(cost),
            "chance": guessing_chance(cost),
            "subject": planned.subject,
            # Theorems are about the whole cost, of which numbers take a part.
            "promised": {} if arguments.numbers else {p.mechanism: p.promised for p in planned.forecasts},
            "predicted": predicted(workload, records, left_for_workload(arguments, workload, cost, unit), unit),
            "ledger": ledger_standing(arguments),
        }

    def curve(self, arguments: argparse.Namespace, records: int) -> list[dict[str, Any]]:
        """What is predicted at several ε."""
        from qrelease.apps.studio.forecast import curve

        return curve(arguments, records)

    def account(self, arguments: argparse.Namespace) -> dict[str, Any]:
        """Where the ledger stands."""
        from qrelease.apps.studio.accounts import ledger_standing

        return ledger_standing(arguments)

    def make(self, arguments: argparse.Namespace, check: Callable[[Domain], None]) -> None:
        """Charge, release and write."""
        from qrelease.apps.cli.release import make, private_data_of
        from qrelease.apps.studio.reading import without_values
        from qrelease.data.schema import load

        def read(given: argparse.Namespace) -> Source:
            with without_values(given.data, load(given.schema).names):
                found = private_data_of(given)
            check(found.domain)  # of what was read, not of the file once more, which may be edited meanwhile
            return found

        make(arguments, read)
