"""`qrelease analyst add`, `revoke`, `reissue`, `raise` and `list`."""

import argparse
import sys
from collections.abc import Mapping
from typing import Final

from qrelease.apps.cli.shared import LEDGER, action, ledger_place, opened, told
from qrelease.errors import InvalidInput
from qrelease.privacy.analysts import Analyst, Analysts
from qrelease.privacy.costs import ApproxDP, Cost, PureDP, cost_of, six_digits
from qrelease.privacy.filters import Tally, increase, times_left
from qrelease.privacy.ledger import Ledger

MEASURED_ANSWERS: Final = "online: answers"
"""The label of what a session charges for a new answer."""

MOST_UNUSED: Final = 0.25
"""Of what a raise adds, so much may be out of reach before the raise is refused."""

_FIXED: Final = (
    "charges in rho are added up at a Rényi order that was fixed by the first of them, for the budget as it was"
)


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
    reissue.add_argument("--restore", action="store_true", help="let an analyst in again who was revoked")
    more = action(actions, "raise", _raise, "Let an analyst spend more in all.")
    more.add_argument("name", help="the analyst's name")
    more.add_argument("--epsilon", type=float, required=True, help="what this analyst may spend in all")
    more.add_argument("--delta", type=float, help="the delta that goes with it (default: as it is)")
    how = more.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="say how many answers it would buy, and change nothing")
    how.add_argument(
        "--anyway", action="store_true", help="raise it even if more than a quarter of what is added cannot be used"
    )
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
        budget = cost_of(arguments.epsilon, arguments.delta)
        print(Analysts(ledger).add(arguments.name, budget), flush=True)
        _warn(ledger, arguments.name, budget)
        _tell_answers(ledger, arguments.name)


def _warn(ledger: Ledger, name: str, budget: Cost) -> None:
    """On standard error: of a budget that is more than the total, or less than the last new answer would take."""
    given, total = budget.to_json(), ledger.total.to_json()
    if any(given[part] > total[part] for part in given):
        print(
            f"warning: {name} may spend {told(budget)}, more than the total of this ledger, {told(ledger.total)}: it"
            " ends there, whoever asks",
            file=sys.stderr,
        )
    price = _last_price(ledger)
    if price is None:
        return
    takes = increase(budget, Tally(), price)
    if takes is None or any(takes[part] > given[part] for part in given):
        print(
            f"warning: {name} cannot ask anything new: the last new answer here cost {told(price)}, which"
            f" takes {_listed(takes)} of a budget of {told(budget)}; raise it by `qrelease analyst raise {name}`",
            file=sys.stderr,
        )


def _last_price(ledger: Ledger) -> Cost | None:
    """What the last new answer of a session cost; None before there was any."""
    charges = [e.cost for e in ledger.history() if e.kind == "charge" and e.label == MEASURED_ANSWERS]
    return charges[-1] if charges else None


def _tell_answers(ledger: Ledger, name: str) -> None:
    """On standard error: about how many answers a budget buys, and how much of it cannot be used, where that is so.

    It is not the budget divided by the price: of an (ε, δ), the first answers take more than later ones.
    """
    analysts, price = Analysts(ledger), _last_price(ledger)
    if price is None:
        said = (
            "how many answers the budget buys depends on the server's alpha and on how many records there are:"
            " `qrelease serve` prints what one costs, and `answers` in /v1/budget is the number for each analyst"
        )
    else:
        count = analysts.times_left(name, price)
        said = (
            f"the budget still buys about {_new_answers(count)}, at the price of the last one here, {told(price)};"
            " `answers` in /v1/budget is the present number"
        )
    unused = analysts.out_of_reach(name)
    if unused:
        said += f"; about epsilon={unused:.2g} of it cannot be used: {_FIXED}"
    print(f"{name}: {said}", file=sys.stderr)


def _new_answers(count: int) -> str:
    return f"{count:,} new answer{'' if count == 1 else 's'}"


def _listed(takes: Mapping[str, float] | None) -> str:
    return "more than all" if takes is None else ", ".join(f"{k}={six_digits(v)}" for k, v in takes.items())


def _revoke(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        analysts = Analysts(ledger)
        was = analysts.named(arguments.name)
        analysts.revoke(arguments.name)
        spent = told(was.spent) if was.spent else "nothing"
        before = "" if was.active else " before"
        print(f"{was.name}  revoked{before}: the token is good no longer; spent {spent}")


def _reissue(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        print(Analysts(ledger).reissue(arguments.name, restore=arguments.restore))


def _raise(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        analysts = Analysts(ledger)
        was = analysts.named(arguments.name)
        known = was.budget.to_json().get("delta")
        raised = cost_of(arguments.epsilon, known if arguments.delta is None else arguments.delta)
        analysts.check_raise(was.name, raised)
        unused = analysts.out_of_reach(was.name, raised)
        if arguments.dry_run:
            print(f"{was.name}  {_would_buy(ledger, was, raised)}{_unused(unused)}; nothing was changed")
            return
        lost = unused - analysts.out_of_reach(was.name)
        added = raised.to_json()["epsilon"] - was.budget.to_json()["epsilon"]
        if lost > MOST_UNUSED * added and not arguments.anyway and _buys_less(ledger, was, raised, added):
            raise InvalidInput(
                f"nothing was changed: of the epsilon={added:.3g} that this adds to the budget of {was.name}, about"
                f" {lost:.2g} could not be used, as {_FIXED}; {_would_buy(ledger, was, raised)};"
                f" {_under_a_new_name(arguments, ledger, raised, added)}, and --anyway raises this budget all the same"
            )
        analysts.raise_budget(was.name, raised)
        found = analysts.named(was.name)
        _warn(ledger, found.name, found.budget)
        if not found.active:
            print(
                f"warning: {found.name} was revoked, and can ask nothing before `qrelease analyst reissue {found.name}"
                " --restore`",
                file=sys.stderr,
            )
        _tell_answers(ledger, found.name)
        print(f"{found.name}  budget {told(found.budget)}, spent {told(found.spent)}")


def _would_buy(ledger: Ledger, was: Analyst, raised: Cost) -> str:
    """How many new answers a raised budget would buy, and how many the present one does."""
    price = _last_price(ledger)
    if price is None:
        return f"how many answers {told(raised)} would buy is not known before the first new one"
    now, then = _answers_left(ledger, was, raised, price)
    priced = f"at the price of the last one here, {told(price)}"
    return f"{told(raised)} in all would buy about {_new_answers(then)}, where now {now:,} are left, {priced}"


def _buys_less(ledger: Ledger, was: Analyst, raised: Cost, added: float) -> bool:
    """Whether a raised budget buys fewer answers than the present one and one of what is added, where that is known."""
    price = _last_price(ledger)
    if price is None:
        return True
    now, then = _answers_left(ledger, was, raised, price)
    return then < now + times_left(cost_of(added, raised.to_json().get("delta")), Tally(), price)


def _answers_left(ledger: Ledger, was: Analyst, raised: Cost, price: Cost) -> tuple[int, int]:
    """How many new answers the present budget buys, and how many a raised one does, at a price."""
    now, then = (Analysts(ledger).times_left(was.name, price, budget) for budget in (was.budget, raised))
    return now, then


def _unused(unused: float) -> str:
    return f"; about epsilon={unused:.2g} of it could not be used: {_FIXED}" if unused else ""


def _under_a_new_name(arguments: argparse.Namespace, ledger: Ledger, raised: Cost, added: float) -> str:
    """What to type for an analyst who has what a raise would have added, and how many answers that buys."""
    delta = raised.to_json().get("delta")
    given = f"--epsilon {added:.6g}" + ("" if delta is None else f" --delta {delta:g}")
    price = _last_price(ledger)
    bought = "" if price is None else f" buys about {_new_answers(times_left(cost_of(added, delta), Tally(), price))}"
    typed = f"`qrelease analyst add NEW-NAME --ledger {arguments.ledger} {given}`"
    both = ", beside what is left under this one: the two budgets add up" + (", and their deltas too" if delta else "")
    return (f"the same under a new name, by {typed},{bought}" if bought else f"use a new name, by {typed}") + both


def _list(arguments: argparse.Namespace) -> None:
    with opened(arguments.ledger) as ledger:
        analysts, price = Analysts(ledger), _last_price(ledger)
        for analyst in analysts.list():
            state = "" if analyst.active else ", revoked"
            asked = f"{analyst.requests:,} request{'' if analyst.requests == 1 else 's'}"
            spent = told(analyst.spent) if analyst.spent else "nothing"
            left = "" if price is None else f", about {_new_answers(analysts.times_left(analyst.name, price))} left"
            print(f"{analyst.name}  budget {told(analyst.budget)}, spent {spent}{left}, {asked}{state}")
