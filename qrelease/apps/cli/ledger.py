"""`qrelease ledger show` and `raise`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import fsum
from typing import TYPE_CHECKING, Any

from qrelease.apps.cli.shared import LEDGER, action, ledger_place, opened, told
from qrelease.privacy.costs import cost_of

if TYPE_CHECKING:
    from qrelease.privacy import Cost
    from qrelease.privacy.ledger_entries import Entry


_OLD_RAISE = (
    "(an earlier version let more be spent after a raise than it should have: what holds is {}, and nothing more can be"
    " charged before the total is raised beyond it)"
)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    show = action(actions, "show", _show, "What was spent, what is left, and the history.")
    show.add_argument("ledger", type=ledger_place, help=LEDGER)
    show.add_argument(
        "--all", action="store_true", help="print a line for each charge, also where one session makes many"
    )
    show.add_argument(
        "--json",
        action="store_true",
        help="print what may be published, as JSON, which `qrelease verify --ledger` reads",
    )
    more = action(actions, "raise", _raise, "Set a larger total: a decision about the people in the data.")
    more.add_argument("ledger", type=ledger_place, help=LEDGER)
    more.add_argument("--epsilon", type=float, required=True, help="the new total")
    more.add_argument(
        "--delta",
        type=float,
        help="the new total (default: as it is; then the larger epsilon holds at that one delta)",
    )


def _show(arguments: argparse.Namespace) -> None:
    from qrelease.privacy.conversions import zcdp_epsilon
    from qrelease.privacy.resuming import public_part, releases

    with opened(arguments.ledger) as ledger:
        if arguments.json:
            print(json.dumps(public_part(ledger), indent=1))
            return
        unit = "" if ledger.person is None else f" of persons by {ledger.person}"
        print(f"dataset {ledger.dataset}, neighbours {ledger.neighbours.value}{unit}")
        balance = ledger.balance
        for name, text in balance.items():
            print(f"{name:7} {text}")
        if ledger.promised != ledger.total:
            print(f"        {_OLD_RAISE.format(told(ledger.promised))}")
        rho = ledger.remaining_rho
        delta = ledger.total.to_json().get("delta")
        if rho is not None and delta and balance["left"] != "nothing":
            alone = zcdp_epsilon(rho.rho, delta)
            print(f"        or {_at_most(rho)}: a release of epsilon={alone:.3g} at delta={delta:.6g} by itself")
        history = ledger.history()
        last = next((entry for entry in reversed(history) if entry.kind == "charge"), None)
        if last is not None:
            print(f"        {_like_last(last, ledger.times_left(last.cost))}")
        if ledger.note:
            print(f"        ({ledger.note})")
        made = releases(ledger)
        for run in [[entry] for entry in history] if arguments.all else _runs(history):
            print(_line(run, delta), _release(run, made), sep="")


def _like_last(last: Entry, times: int) -> str:
    """How many more charges like the last one what is left pays for: ε alone tells few people how far it goes."""
    how_many = "not one more" if times == 0 else f"{times:,} more"
    return f"pays for {how_many} like the last charge, {told(last.cost)} for {last.label}"


def _at_most(left: Cost | None) -> str:
    """What may be asked for next, to six digits as `told`, but rounded down: so what is read here fits."""
    return "nothing" if left is None else left.rounded(up=False)


def _runs(history: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries in order; charges of a session that follow each other and are alike are together.

    They are those with the name of a session's mechanism in their label: `online: answers` after `online: a session`.
    """
    sessions = {entry.label.partition(":")[0] for entry in history if entry.kind == "session"}

    def alike(entry: Entry) -> object:
        bought = entry.kind == "charge" and entry.label.partition(":")[0] in sessions
        return (entry.label, type(entry.cost), entry.rows) if bought else entry.id

    for _, run in groupby(history, alike):
        yield list(run)


def _line(run: Sequence[Entry], delta: float | None) -> str:
    """A line for an entry; or for some alike, with the time of the first, their sum and their number.

    delta  of the ledger's total, at which a cost in rho is told as an epsilon too
    """
    first = run[0]
    if len(run) == 1:
        cost = f"{told(first.cost)}{_alone(first.cost.to_json(), delta)}"
        return f"{first.time}  {first.kind:7} {cost}  {first.label}{_rows(first)}{_left_open(first)}"
    sums = {name: fsum(entry.cost.to_json()[name] for entry in run) for name in first.cost.to_json()}
    cost = ", ".join(f"{name}={value:.6g}" for name, value in sums.items()) + _alone(sums, delta)
    return f"{first.time}  {first.kind:7} {cost}  {first.label} ({len(run):,} charges){_rows(first)}"


def _release(run: Sequence[Entry], made: Mapping[int, Mapping[str, Any]]) -> str:
    """The beginning of the id of the release that a charge paid for, as its manifest, its card and `verify` say it."""
    found = made.get(run[0].id) if len(run) == 1 else None
    return f"  release {found['release'][:8]}" if found else ""


def _alone(cost: Mapping[str, float], delta: float | None) -> str:
    """What a cost in rho is in epsilon, by itself."""
    from qrelease.privacy.conversions import zcdp_epsilon

    if "rho" not in cost or not delta:
        return ""
    return f" (epsilon={zcdp_epsilon(cost['rho'], delta):.3g} at delta={delta:.6g} by itself)"


def _left_open(entry: Entry) -> str:
    from qrelease.privacy.resuming import unfinished

    return "  not finished: the same command goes on for free" if unfinished(entry) else ""


def _rows(entry: Entry) -> str:
    """Which records an entry was for, by a letter: the same letter for the same records under the same schema."""
    if entry.rows is None:
        return ""
    return f"  rows {entry.rows}" + (f": changed since {entry.changed}" if entry.changed else "")


def _raise(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        delta = ledger.total.to_json().get("delta") if arguments.delta is None else arguments.delta
        ledger.raise_total(cost_of(arguments.epsilon, delta))
        print(f"total now {told(ledger.total)}, spent {told(ledger.spent)}")
