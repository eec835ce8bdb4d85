"""How costs and exact running sums are written in a ledger, and read again, those of earlier versions too."""

import json
import re
from fractions import Fraction
from functools import lru_cache

from qrelease.errors import InvalidInput, LedgerError
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, cost_from_json
from qrelease.privacy.filters import RhoAccount, Tally
from qrelease.privacy.ledger_store import Store, plain_text

_SURROGATE = re.compile("[\ud800-\udfff]")


def sums_of(store: Store) -> tuple[Cost, Tally]:
    """The total and the exact sums of a ledger."""
    head = store.head()
    total = cost_from_text(head.total)
    opening = _total_of_opening(store) if _orderless(head.tally) else total
    return total, tally_from_text(head.tally, opening)


def tally_text(tally: Tally) -> str:
    """Exact sums as one line; `tally_from_text` reads it."""
    account = tally.account and [str(part) for part in (tally.account.before, tally.account.delta, tally.account.order)]
    return json.dumps([str(tally.epsilon), str(tally.delta), str(tally.rho), account])


@lru_cache(16)  # several looks at one row, while it is paid from
def tally_from_text(text: str, opening: Cost) -> Tally:
    """The sums that `tally_text` wrote.

    opening  the total under which the account was opened, for the text of a version that did not write its order
    """
    epsilon, delta, rho, account = json.loads(text)
    return Tally(_fraction(epsilon), _fraction(delta), _fraction(rho), account and _account(account, opening))


def _account(parts: list[str], opening: Cost) -> RhoAccount:
    before, delta, *order = map(_fraction, parts)
    if order:
        return RhoAccount(before, delta, order[0])
    if not isinstance(opening, ApproxDP):
        raise LedgerError(f"a total of {opening} has no account in rho")
    return RhoAccount.opened(opening, before, delta)


@lru_cache(16)
def _orderless(text: str) -> bool:
    """Whether sums are of a version that took the order of an account from the total of the day, and have one."""
    account = json.loads(text)[3]
    return account is not None and len(account) == 2


def _total_of_opening(store: Store) -> Cost:
    """The total that was in force at the first charge in rho: it fixes the order of the account.

    It is a function of the costs until then, as the proof in `filters` needs it, whatever was raised since.
    """
    total = None
    for row in store.rows():
        cost = cost_from_text(row.cost)
        if row.kind == "total":
            total = cost
        elif row.kind == "charge" and isinstance(total, ApproxDP) and isinstance(cost, ZCDP):
            return total
    raise LedgerError("the ledger has an account in rho, and no charge that opened it")


def _fraction(text: str) -> Fraction:
    """What `str` made of one, by less than half the work of `Fraction`, which takes decimals too."""
    return Fraction(*map(int, text.split("/")))


@lru_cache(256)
def cost_text(cost: Cost) -> str:
    """A cost as one line; `cost_from_text` reads it."""
    return json.dumps(cost.to_json())


@lru_cache(256)
def cost_from_text(text: str) -> Cost:
    """The cost that `cost_text` wrote."""
    return cost_from_json(json.loads(text))


def checked_text(name: str, value: object) -> str:
    """A text that is not empty and that UTF-8 can hold, else `InvalidInput`."""
    if not isinstance(value, str) or not value or _SURROGATE.search(value):
        raise InvalidInput(f"{name} must be a text that is not empty, got {value!r}")
    return plain_text(value)
