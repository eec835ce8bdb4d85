"""`qrelease ledger show` and `raise`."""

import argparse
from pathlib import Path

from qrelease.cli.shared import action, cost_of, opened


def options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    show = action(actions, "show", _show, "What was spent, what is left, and the history.")
    show.add_argument("ledger", type=Path)
    more = action(actions, "raise", _raise, "Set a larger total: a decision about the people in the data.")
    more.add_argument("ledger", type=Path)
    more.add_argument("--epsilon", type=float, required=True)
    more.add_argument("--delta", type=float, help="default: as it is")


def _show(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        print(f"dataset {ledger.dataset}, neighbours {ledger.neighbours.value}")
        print(f"total   {ledger.total}")
        print(f"spent   {ledger.spent or 'nothing'}")
        print(f"left    {ledger.remaining or 'nothing'}")
        for entry in ledger.history():
            print(f"{entry.time}  {entry.kind:7} {entry.cost}  {entry.label}")


def _raise(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        delta = ledger.total.to_json().get("delta") if arguments.delta is None else arguments.delta
        ledger.raise_total(cost_of(arguments.epsilon, delta))
        print(f"total now {ledger.total}, spent {ledger.spent or 'nothing'}")
