"""`qrelease analyst add`, `revoke`, `reissue`, `raise` and `list`."""

import argparse

from qrelease.apps.cli.shared import LEDGER, action, ledger_place, opened, told
from qrelease.errors import InvalidInput
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.costs import ApproxDP, PureDP, cost_of


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    add = action(actions, "add", _add, "Print a new analyst's token, which is shown this once.")
    add.add_argument("name", help="the analyst's name")
    add.add_argument("--epsilon", type=float, required=True, help="what this analyst may spend in a session")
    add.add_argument("--delta", type=float, help="the delta that goes with it (default: 0, pure epsilon)")
    revoke = action(actions, "revoke", _revoke, "End the validity of an analyst's token.")
    revoke.add_argument("name", help="the analyst's name")
    reissue = action(actions, "reissue", _reissue, "Print a new token for an analyst who lost it; the old one ends.")
    reissue.add_argument("name", help="the analyst's name")
    more = action(actions, "raise", _raise, "Let an analyst spend more in all.")
    more.add_argument("name", help="the analyst's name")
    more.add_argument("--epsilon", type=float, required=True, help="what this analyst may spend in all")
    more.add_argument("--delta", type=float, help="the delta that goes with it (default: as it is)")
    listing = action(actions, "list", _list, "Show names, budgets and how much was asked.")
    for each in (add, revoke, reissue, more, listing):
        each.add_argument("--ledger", type=ledger_place, required=True, help=LEDGER)


def _add(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        total = ledger.total
        if isinstance(total, ApproxDP) and not arguments.delta:
            raise InvalidInput(
                f"the total of this ledger has a delta, {total}, and so has an analyst's budget: type --delta"
                f" {total.delta:g} as well, or less, as in `qrelease analyst add {arguments.name} --ledger"
                f" {arguments.ledger} --epsilon {arguments.epsilon:g} --delta {total.delta:g}`"
            )
        if isinstance(total, PureDP) and arguments.delta:
            raise InvalidInput(f"the total of this ledger, {total}, has no delta: leave out --delta")
        print(Analysts(ledger).add(arguments.name, cost_of(arguments.epsilon, arguments.delta)))


def _revoke(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        Analysts(ledger).revoke(arguments.name)


def _reissue(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        print(Analysts(ledger).reissue(arguments.name))


def _raise(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        analysts = Analysts(ledger)
        known = analysts.named(arguments.name).budget.to_json().get("delta")
        delta = known if arguments.delta is None else arguments.delta
        analysts.raise_budget(arguments.name, cost_of(arguments.epsilon, delta))
        found = analysts.named(arguments.name)
        print(f"{found.name}  budget {told(found.budget)}, spent {told(found.spent)}")


def _list(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        for analyst in Analysts(ledger).list():
            state = "" if analyst.active else ", revoked"
            asked = f"{analyst.requests:,} request{'' if analyst.requests == 1 else 's'}"
            spent = told(analyst.spent) if analyst.spent else "nothing"
            print(f"{analyst.name}  budget {told(analyst.budget)}, spent {spent}, {asked}{state}")
