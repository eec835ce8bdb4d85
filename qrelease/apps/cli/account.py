"""`qrelease account parts`, `share` and `ledgers`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qrelease.apps.cli.shared import LEDGER, action, ledger_place, told

if TYPE_CHECKING:
    from qrelease.privacy.account import Total

_PART = (
    "a mechanism, and how often it is run: 100*epsilon=0.1, 20*epsilon=0.1,delta=1e-9, rho=0.01,"
    " gaussian=5 (sigma / sensitivity), laplace=10 (scale / sensitivity), selection=0.1 (exponential mechanism)"
)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    parts = action(actions, "parts", _parts, "What mechanisms cost together, by every rule.")
    parts.add_argument("parts", nargs="+", metavar="PART", help=_PART)
    parts.add_argument("--delta", type=float, default=1e-9, help="the delta of all together (default: %(default)s)")
    parts.add_argument(
        "--group", type=int, default=1, help="how many people are protected together (default: %(default)s)"
    )
    parts.add_argument("--json", action="store_true", help="print one JSON object a line")
    share = action(actions, "share", _share, "What each of some mechanisms may cost, under a total.")
    share.add_argument("times", type=int, metavar="K", help="the number of mechanisms")
    share.add_argument("--epsilon", type=float, required=True, help="the epsilon of all together")
    share.add_argument("--delta", type=float, default=1e-9, help="the delta of all together (default: %(default)s)")
    share.add_argument("--json", action="store_true", help="print one JSON object a line")
    ledgers = action(
        actions,
        "ledgers",
        _ledgers,
        "What a person is promised whose records are in several ledgers, by their totals; and how much was used.",
    )
    ledgers.add_argument(
        "ledgers",
        nargs="+",
        type=ledger_place,
        metavar="LEDGER",
        help=f"{LEDGER}; or what `ledger show --json` publishes of one, as a file",
    )
    ledgers.add_argument(
        "--delta",
        type=float,
        help="the delta at which a rho is turned into an epsilon, where some ledgers count in rho and others do not",
    )
    ledgers.add_argument(
        "--group", type=int, default=1, help="how many people are protected together (default: %(default)s)"
    )


def _parts(arguments: argparse.Namespace) -> None:
    from qrelease.privacy.account import Part, account, best

    totals = account([Part.parse(text) for text in arguments.parts], arguments.delta)
    best(totals)  # refuses where no rule applies
    _show([total.of_group(arguments.group) for total in totals], arguments.json)


def _share(arguments: argparse.Namespace) -> None:
    from qrelease.privacy.account import shares
    from qrelease.privacy.costs import ApproxDP

    _show(shares(ApproxDP(arguments.epsilon, arguments.delta), arguments.times), arguments.json)


def _show(totals: Sequence[Total], as_json: bool) -> None:
    for total in totals:
        if as_json:
            cost = total.cost and total.cost.to_json()
            print(json.dumps({"rule": total.rule, "cost": cost, "why": total.why}))
        elif total.cost is None:
            print(f"{total.rule:14}-  ({total.why})")
        else:
            print(f"{total.rule:14}{told(total.cost):32}  {total.why}")


def _ledgers(arguments: argparse.Namespace) -> None:
    from qrelease.privacy.account import lifetime

    found = lifetime(arguments.ledgers, delta=arguments.delta, group=arguments.group)
    for file, dataset, total, spent in found.ledgers:
        print(f"{file}  dataset {dataset}: total {told(total)}, spent {told(spent)}")
    print(f"together, neighbours {found.neighbours.value}")
    print(f"total   {told(found.total)}, which is promised")
    print(f"spent   {told(found.spent)}")
