"""Analysts of a ledger: who may ask through a server, how much each may spend, and what each was answered.

A token is 256 random bits; the ledger holds its SHA-256 alone, which is enough for a secret that nobody can guess. An
analyst's budget is a share of what the ledger's total allows, not a promise of its own: analysts may talk to each
other, and what one of them paid for improves the answers of all. The promise to the people in the data is the total's.

`AnalystAccount.spend` takes a cost from an analyst's budget and `AnalystAccount.record` writes a request down with the
very bytes of its answer, both in the transaction in which the answer was paid for and drawn (`Ledger.transaction`). So
no answer is without its charge, no charge is taken twice, and whoever asks again under the same key gets the same
bytes. What is written down for one analyst is bounded (`MAX_STORED_BYTES`), since requests that cost nothing have no
other bound.
"""

import hmac
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from qrelease.errors import BudgetExceeded, InvalidInput, QReleaseError
from qrelease.privacy import analyst_store as rows
from qrelease.privacy.analyst_store import AnalystRow, RequestRow
from qrelease.privacy.costs import ApproxDP, Cost, PureDP, check_cost
from qrelease.privacy.filters import Tally, after, increase, larger, out_of_reach, remaining, spent, times_left
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_store import Store, plain_text
from qrelease.privacy.ledger_texts import cost_from_text, cost_text, tally_from_text, tally_text

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

MAX_STORED_BYTES: Final = 1 << 26
"""Bytes of requests and answers that are kept for one analyst; the last may go beyond."""

_NO_TOKEN: Final = "0" * 64  # no SHA-256 that anybody knows a text of


class Revoked(QReleaseError):  # noqa: N818  it reads as the message does
    """The token of an analyst is not good any more."""


@dataclass(frozen=True, slots=True)
class Analyst:
    """One analyst, as of now.

    budget    what all that they ask may cost
    spent     rounded up; None for nothing
    left      the largest cost of the budget's kind that can still be bought, rounded down; None for nothing
    active    whether the token is still good
    requests  how many were answered
    """

    name: str
    budget: Cost
    spent: Cost | None
    left: Cost | None
    active: bool
    requests: int


@dataclass(frozen=True, slots=True)
class Request:
    """One request that was answered.

    number    counts an analyst's requests from 1
    key       the analyst's own name for it
    time      UTC, ISO 8601
    request   what was asked, as it was given to `record`
    response  the very bytes of the answer
    """

    number: int
    key: str
    time: str
    request: str
    response: bytes


class Analysts:
    """The analysts of an open ledger: who may ask, and how much each may spend of the ledger's total.

    Parameters
    ----------
    ledger
        An open ledger; the analysts are kept in its file.

    Raises
    ------
    LedgerError
        By every method, for trouble with the file.

    Examples
    --------
    >>> from qrelease.privacy import PureDP
    >>> with Ledger.open(None, PureDP(1.0)) as ledger:
    ...     analysts = Analysts(ledger)
    ...     token = analysts.add("ada", PureDP(0.5))
    ...     print(analysts.holder(token).budget, analysts.holder("a guess"))
    epsilon=0.5 None
    """

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store
        self._total = ledger.total

    def add(self, name: str, budget: Cost) -> str:
        """Add an analyst.

        Parameters
        ----------
        name
            1 to 64 letters, digits and `. _ @ -`.
        budget
            What all that they ask may cost, a cost of the kind of the ledger's total.

        Returns
        -------
        str
            The token by which they ask. It is stored nowhere: only its SHA-256 is.

        Raises
        ------
        InvalidInput
            For a name that is taken or malformed, or a budget that no total of the ledger's kind holds.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInput(f"an analyst's name has 1 to 64 letters, digits and . _ @ -, got {name!r}")
        check_cost(budget)
        if type(budget) is not type(self._total):
            kind = "has a delta too" if isinstance(self._total, ApproxDP) else "is an epsilon alone"
            raise InvalidInput(f"an analyst's budget {kind}, as the total has, {self._total}; got {budget}")
        token = secrets.token_urlsafe(32)
        name = plain_text(name)
        with self._store.writing():
            if rows.by_name(self._store, name):
                raise InvalidInput(f"there is an analyst {name!r} already")
            rows.add(self._store, name, _hashed(token), cost_text(budget), tally_text(Tally()))
        return token

    def revoke(self, name: str) -> None:
        """The token of that analyst is good no longer; what was spent stays spent."""
        with self._store.writing():
            found = self._row(name)
            rows.replace(self._store, found, found._replace(active=0))

    def reissue(self, name: str, *, restore: bool = False) -> str:
        """A new token for that analyst; the old one is good no longer.

        Parameters
        ----------
        name
            The analyst's name.
        restore
            Whether an analyst who was revoked is let in again.

        Returns
        -------
        str
            The token, which is stored nowhere.

        Raises
        ------
        InvalidInput
            If there is no such analyst, or one who was revoked and shall not be restored.
        """
        token = secrets.token_urlsafe(32)
        with self._store.writing():
            found = self._row(name)
            if not (found.active or restore):
                raise InvalidInput(
                    f"the analyst {name!r} was revoked: a new token would let them in again; where that is meant, say"
                    f" so, by `qrelease analyst reissue {name} --restore` or reissue(..., restore=True)"
                )
            rows.replace(self._store, found, found._replace(token=_hashed(token), active=1))
        return token

    def raise_budget(self, name: str, budget: Cost) -> None:
        """Let that analyst spend more in all; `InvalidInput` unless it is more than now, and of its kind."""
        with self._store.writing():
            found = self._row(name)
            _check_larger(cost_from_text(found.budget), budget)
            rows.replace(self._store, found, found._replace(budget=cost_text(budget)))

    def check_raise(self, name: str, budget: Cost) -> None:
        """Raise what `raise_budget` would raise; nothing is changed."""
        _check_larger(self.named(name).budget, budget)

    def list(self) -> tuple[Analyst, ...]:
        """All of them, in the order in which they were added."""
        with self._store.reading():
            return tuple(map(_analyst, rows.analysts(self._store)))

    def holder(self, token: str) -> Analyst | None:
        """Whose token this is; None for a wrong or revoked one.

        The look-up is by a hash, of which nobody chooses the bits, and the comparison takes constant time.
        """
        hashed = _hashed(token)
        with self._store.reading():
            row = rows.by_token(self._store, hashed)
        same = hmac.compare_digest(hashed, row.token if row else _NO_TOKEN)
        return _analyst(row) if row and same and row.active else None

    def named(self, name: str) -> Analyst:
        """The analyst of that name; `InvalidInput` if there is none."""
        with self._store.reading():
            return _analyst(self._row(name))

    def times_left(self, name: str, cost: Cost, budget: Cost | None = None) -> int:
        """How often the analyst of that name can still pay the same cost; `InvalidInput` if there is none.

        budget  once it is raised to this; None for the one that there is
        """
        now, tally = self._spent_of(name)
        return times_left(budget or now, tally, cost)

    def out_of_reach(self, name: str, budget: Cost | None = None) -> float:
        """About how much ε of the budget of the analyst of that name will not be used: see `filters.out_of_reach`.

        budget  as in `times_left`
        """
        now, tally = self._spent_of(name)
        return out_of_reach(budget or now, tally)

    def _spent_of(self, name: str) -> tuple[Cost, Tally]:
        """An analyst's budget, and what was spent of it."""
        with self._store.reading():
            row = self._row(name)
        budget = cost_from_text(row.budget)
        return budget, tally_from_text(row.tally, budget)

    @contextmanager
    def account(self, name: str) -> "Iterator[AnalystAccount]":
        """The account of the analyst of that name, in one transaction.

        Raises `InvalidInput` if there is none, `Revoked` if there is no more.
        """
        with self._store.writing():
            row = self._row(name)
            if not row.active:
                raise Revoked(f"the token of {name!r} was revoked")
            account = AnalystAccount(self._store, row)
            try:
                yield account
            finally:  # of a refusal too, before which some was spent
                account.close()

    def requests(self, name: str, first: int, count: int) -> tuple[Request, ...]:
        """Up to so many of the analyst's requests, in order, from the `first`-th."""
        with self._store.reading():
            return tuple(map(_request, rows.requests(self._store, self._row(name), first, count)))

    def _row(self, name: str) -> AnalystRow:
        row = rows.by_name(self._store, name)
        if row is None:
            raise InvalidInput(f"there is no analyst {name!r}")
        return row


class AnalystAccount:
    """What one analyst has spent and was answered, in a transaction. Made by `Analysts.account`, which closes it."""

    def __init__(self, store: Store, row: AnalystRow) -> None:
        self._store, self._row, self._found = store, row, row
        self._budget = cost_from_text(row.budget)
        self._tally = tally_from_text(row.tally, self._budget)

    @property
    def full(self) -> bool:
        """Whether no more is written down."""
        return self._row.stored >= MAX_STORED_BYTES

    def request(self, key: str) -> Request | None:
        """What the analyst asked under that key, if anything."""
        found = rows.request(self._store, self._row, key)
        return found and _request(found)

    def admits(self, cost: Cost) -> None:
        """Raise `BudgetExceeded` if the cost does not fit in what the analyst has left."""
        self._after(cost)

    def takes(self, cost: Cost) -> dict[str, float] | None:
        """By how much a cost would raise what the analyst has spent, in the budget's terms: see `increase`."""
        return increase(self._budget, self._tally, cost)

    def spend(self, cost: Cost) -> None:
        """Take a cost from what the analyst has left; `BudgetExceeded` if it does not fit."""
        self._tally = self._after(cost)
        self._row = self._row._replace(tally=tally_text(self._tally))

    def _after(self, cost: Cost) -> Tally:
        try:
            return after(self._budget, self._tally, cost)
        except BudgetExceeded as error:  # that of all analysts together has its own end
            raise BudgetExceeded(
                f"{self._row.name}'s {error.facts} (ask for less; the data holder can raise your budget)"
            ) from None

    def record(self, key: str, request: str, response: bytes) -> None:
        """Write a request down, under a key that the analyst has not used."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        made = RequestRow(self._row.requests + 1, plain_text(key), now, plain_text(request), response)
        self._row = rows.add_request(self._store, self._row, made)

    def close(self) -> None:
        """Write down what has changed, once for all of it."""
        if self._row != self._found and not rows.replace(self._store, self._found, self._row):
            raise AssertionError("the account was changed by another that was open beside it")


def _check_larger(now: Cost, budget: Cost) -> None:
    """`InvalidInput` unless a budget is larger than the one of now, and of its kind."""
    check_cost(budget)
    old, new = now.to_json(), budget.to_json()
    if old.keys() != new.keys() or old == new or any(new[part] < value for part, value in old.items()):
        how = "a larger epsilon, without a delta" if isinstance(now, PureDP) else larger(now)
        raise InvalidInput(f"a raised budget must be larger than {now}, whose place it takes: {how}; got {budget}")


def _hashed(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _analyst(row: AnalystRow) -> Analyst:
    budget = cost_from_text(row.budget)
    tally = tally_from_text(row.tally, budget)
    return Analyst(row.name, budget, spent(budget, tally), remaining(budget, tally), bool(row.active), row.requests)


def _request(row: RequestRow) -> Request:
    return Request(*row)
