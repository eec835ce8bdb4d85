"""`qrelease ledger show` and `raise`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from decimal import ROUND_FLOOR, Context
from itertools import groupby
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING

from qrelease.cli.shared import action, cost_of, opened, told

if TYPE_CHECKING:
    from qrelease.ledger import Entry
    from qrelease.privacy import Cost


_LESS = "(charges in rho add up at an order fixed at the first of them: spent and left come to less than the total)"


def options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    show = action(actions, "show", _show, "What was spent, what is left, and the history.")
    show.add_argument("ledger", type=Path)
    show.add_argument("--all", action="store_true", help="a line for each charge, also where a session makes many")
    more = action(actions, "raise", _raise, "Set a larger total: a decision about the people in the data.")
    more.add_argument("ledger", type=Path)
    more.add_argument("--epsilon", type=float, required=True)
    more.add_argument("--delta", type=float, help="default: as it is")


def _show(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        print(f"dataset {ledger.dataset}, neighbours {ledger.neighbours.value}")
        print(f"total   {told(ledger.total)}")
        print(f"spent   {told(ledger.spent)}")
        print(f"left    {_at_most(ledger.remaining)}")
        history = ledger.history()
        if "delta" in ledger.total.to_json() and any("rho" in entry.cost.to_json() for entry in history):
            print(f"        {_LESS}")
        for run in [[entry] for entry in history] if arguments.all else _runs(history):
            print(_line(run))


def _at_most(left: Cost | None) -> str:
    """What may be asked for next, to six digits as `told`, but rounded down: so what is read here fits."""
    if left is None:
        return "nothing"
    down = Context(prec=6, rounding=ROUND_FLOOR)
    return ", ".join(f"{n}={float(down.create_decimal(repr(v))):.6g}" for n, v in left.to_json().items())


def _runs(history: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries in order; charges of a session that follow each other and are alike are together.

    They are those with the name of a session's mechanism in their label: `online: answers` after `online: a session`.
    """
    sessions = {entry.label.partition(":")[0] for entry in history if entry.kind == "session"}

    def alike(entry: Entry) -> object:
        bought = entry.kind == "charge" and entry.label.partition(":")[0] in sessions
        return (entry.label, type(entry.cost)) if bought else entry.id

    for _, run in groupby(history, alike):
        yield list(run)


def _line(run: Sequence[Entry]) -> str:
    """One entry; or some alike, by the time of the first, their sum and their number."""
    first = run[0]
    if len(run) == 1:
        return f"{first.time}  {first.kind:7} {told(first.cost)}  {first.label}"
    sums = {name: fsum(entry.cost.to_json()[name] for entry in run) for name in first.cost.to_json()}
    cost = ", ".join(f"{name}={value:.6g}" for name, value in sums.items())
    return f"{first.time}  {first.kind:7} {cost}  {first.label} ({len(run):,} charges)"


def _raise(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        delta = ledger.total.to_json().get("delta") if arguments.delta is None else arguments.delta
        ledger.raise_total(cost_of(arguments.epsilon, delta))
        print(f"total now {told(ledger.total)}, spent {told(ledger.spent)}")
