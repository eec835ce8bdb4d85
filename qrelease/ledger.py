"""A privacy budget that survives crashes: charges durable before any noise is drawn, answers kept with them.

The order that keeps every promise is *charge, draw, store, show*:

    charge = ledger.charge(cost, "marginals of 2024", key="marginals-2024")
    answer = charge.answer                                  # what an earlier run with this key stored
    if answer is None:
        answer = ledger.store_answer(charge, draw())        # what is stored: the first to store wins
    show(answer)

A crash in `charge` costs at most that charge, and a retry with the same key pays no more. A crash between
charge and store leaves a charge without an answer (`fresh=False, answer=None`). Drawing again under it is
safe, because nothing was shown: `store_answer` is durable before it returns, so whatever anybody saw is
stored, and the retry would have found it. Two processes racing with one key may both draw, but only the first
answer is stored, both get those bytes, and nobody sees the other draw.

A session gives many answers under one charge. It writes each down in the charge's `Journal` before it shows it. One
that pays as it goes has a `SharedJournal`, which several processes may go on with at once.

The file is one SQLite database in WAL mode with full synchronous commits. One row of it holds the exact
running sums, so a charge costs the same at the first as at the millionth. Digests bind that row and chain the
entries, so that damage is noticed; they do not stop a person who means to forge a ledger. A copy of the file
is a second budget: keep backups, never spend from two copies. While it is open, its last commits are in the
`-wal` file next to it: move or copy a ledger only when it is closed everywhere.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, cast

from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.ledger_store import Head, Row, Store, plain, system_errors
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, check_cost, cost_from_json
from qrelease.privacy.filters import Account, Tally, after, remaining, spent

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Charge:
    """One durable charge.

    key     the idempotency key, the caller's or a random one.
    time    when it was first charged: UTC, ISO 8601.
    answer  the bytes stored with it, None while there are none; not part of the text.
    fresh   whether this very call charged it; False on a retry, which costs nothing.
    """

    id: int
    cost: Cost
    label: str
    key: str
    time: str
    answer: bytes | None = field(repr=False)
    fresh: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history: a total that was set (`key` is None), a charge, or a session that pays as it goes.

    time      UTC, ISO 8601.
    cost      of a session its cap, of which nothing is spent by that.
    answered  whether an answer is stored with the charge, or anything written down in the session.
    """

    id: int
    time: str
    kind: Literal["total", "charge", "session"]
    cost: Cost
    label: str
    key: str | None
    answered: bool


class Ledger:
    """A durable budget for one dataset under one neighbouring relation; safe for threads and processes.

    Made by `Ledger.open`; closed by `close` or on leaving a `with`. What is refused for want of budget is
    `BudgetExceeded`; every trouble with the file is a `LedgerError`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        try:
            with store.reading():
                head = store.head()
        except LedgerError:
            store.close()
            raise
        self._dataset, self._neighbours = head.dataset, Neighbours.parse(head.neighbours)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None,
        total: Cost | None = None,
        *,
        dataset: str | None = None,
        neighbours: Neighbours | str | None = None,
    ) -> Self:
        """Open the ledger in a file, or create it with a total; in memory if the path is None or ":memory:".

        path        on a local disk, where file locks work.
        total       what all charges together may cost; needed for a new ledger.
        dataset     whose budget this is; a new ledger takes the file's name without its suffix by default.
        neighbours  the relation that its costs hold under; a new ledger takes add-remove by default.

        What is given must agree with an existing file, the total too (a raised one as it is now), else it is
        a `LedgerError`. So is a missing file without a total, and a file that is foreign or damaged; such a
        file is left as it is.
        """
        if total is not None:
            check_cost(total)
        relation = None if neighbours is None else Neighbours.parse(neighbours)
        if path is None or path == ":memory:":
            first = _beginning("an in-memory ledger", total, dataset or "memory", relation)
            return cls(Store.in_memory(*first))
        file = Path(path)
        with system_errors(file):
            if not file.parent.is_dir():
                raise LedgerError(f"ledger {file}: there is no folder {file.parent}")
            if not file.exists():
                first = _beginning(f"ledger {file} is new and", total, dataset or file.stem, relation)
                # Who loses a race for creating it opens it, and must agree with it like anybody.
                with suppress(FileExistsError):
                    return cls(Store.create(file, *first))
            if not file.is_file():
                raise LedgerError(f"ledger {file} is not a file")
        ledger = cls(Store.open(file))
        try:
            ledger._must_match(total, dataset, relation)
        except LedgerError:
            ledger.close()
            raise
        return ledger

    def _must_match(self, total: Cost | None, dataset: str | None, neighbours: Neighbours | None) -> None:
        where = f"ledger {self._store.path}"
        if dataset is not None and dataset != self._dataset:
            raise LedgerError(f"{where} belongs to dataset {self._dataset!r}, not to {dataset!r}")
        if neighbours is not None and neighbours is not self._neighbours:
            raise LedgerError(f"{where} counts under {self._neighbours.value}, not under {neighbours.value}")
        if total is not None and total != self.total:
            raise LedgerError(f"{where} has a total of {self.total}, not {total}; leave it out, or use raise_total")

    @property
    def dataset(self) -> str:
        """Whose budget this is."""
        return self._dataset

    @property
    def neighbours(self) -> Neighbours:
        """The relation that all its costs hold under."""
        return self._neighbours

    @property
    def total(self) -> Cost:
        """The total as it is now."""
        return self._state()[0]

    @property
    def spent(self) -> Cost | None:
        """What was spent, in the total's kind and rounded up; None if nothing was."""
        return spent(*self._state())

    @property
    def remaining(self) -> Cost | None:
        """The largest cost of the total's kind that can still be charged; None if none can."""
        return remaining(*self._state())

    @property
    def store(self) -> Store:
        """Its rows, for what else is kept in the same file and changed in the same transactions."""
        return self._store

    def transaction(self) -> AbstractContextManager[None]:
        """Charges, answers and entries of shared journals as one: all durable when it ends, or, on an exception, none.

        For one thread. Nothing that was drawn inside may be shown before it ends.
        """
        return self._store.writing()

    def _state(self) -> tuple[Cost, Tally]:
        with self._store.reading():
            return _read(self._store.head())

    def charge(self, cost: Cost, label: str, key: str | None = None) -> Charge:
        """Charge a cost, durably, before the first bit of noise is drawn for it.

        label   what it is for, one line for the history; public.
        key     names the work: charging again under the same key costs nothing and returns the first charge
                with its answer; cost and label must be the same, else `LedgerError`. Without a key the
                charge is always new.

        `BudgetExceeded` if the cost does not fit in what is left, `InvalidInput` if a total of this kind
        cannot hold it; then nothing is charged.
        """
        check_cost(cost)
        label, named = _text("label", label), key is not None
        key = _text("key", os.urandom(16).hex() if key is None else key)
        with self._store.writing():
            known = self._store.with_key(key) if named else None
            if known:
                return self._again(known, cost, label)
            head = self._store.head()
            total, tally = _read(head)
            new = after(total, tally, cost)
            row = _row(head, "charge", cost, label, key)
            self._store.set_head(self._store.add(head, row)._replace(tally=tally_text(new)))
        return Charge(row.id, cost, label, key, row.time, None, fresh=True)

    def _again(self, known: Row, cost: Cost, label: str) -> Charge:
        if (known.kind, known.cost, known.label) != ("charge", cost_text(cost), label):
            raise LedgerError(
                f"key {known.key!r} was charged as {known.label!r} with {cost_from_text(known.cost)},"
                f" not as {label!r} with {cost}; use another key"
            )
        answer = self._store.answer(known.id)
        if answer is None:
            self._store.answered()  # an answer lost to damage must not be drawn again
        return Charge(known.id, cost, label, str(known.key), known.time, answer, fresh=False)

    def store_answer(self, charge: Charge, answer: bytes) -> bytes:
        """Store the answer of a charge durably and return what is stored; show nobody anything but that.

        The first answer stored is the answer: if another process was faster with the same key, its bytes
        come back.
        """
        if not isinstance(answer, bytes):
            raise InvalidInput(f"an answer must be bytes, got {type(answer).__name__}")
        with self._store.writing():
            known = self._store.with_key(charge.key)
            if known is None or known.id != charge.id:
                raise LedgerError(f"charge {charge.id} with key {charge.key!r} is not in this ledger")
            stored = self._store.answer(charge.id)
            if stored is None:
                self._store.set_head(self._store.add_answer(self._store.head(), charge.id, answer))
        return answer if stored is None else stored

    def journal(self, charge: Charge) -> "Journal":
        """What was written down under a charge, to be read and continued."""
        with self._store.reading():
            found = self._store.journal(charge.id)
        return Journal(self._store, charge, tuple(found))

    def session(self, cap: Cost, label: str, key: str | None = None) -> "SharedJournal":
        """Open a session that pays as it goes, up to a cap, or go on with one: an entry in the history, no charge.

        cap    what its purchases together may cost
        label  what it is for, one line for the history; public
        key    names it: with the key of one that was opened before, which must have had the same cap and label, the
               caller goes on with it, while others may too. Without a key it is a new one.

        `InvalidInput` for a cap that the total could never hold.
        """
        check_cost(cap)
        label, key = _text("label", label), _text("key", os.urandom(16).hex() if key is None else key)
        with self._store.writing():
            row = self._store.with_key(key)
            if row is None:
                head = self._store.head()
                with suppress(BudgetExceeded):  # a cap may be above what is left: each purchase is refused by itself
                    after(*_read(head), cap)
                row = _row(head, "session", cap, label, key)
                self._store.set_head(self._store.add(head, row))
            elif (row.kind, row.cost, row.label) != ("session", cost_text(cap), label):
                raise LedgerError(
                    f"key {key!r} is that of {row.label!r} with {cost_from_text(row.cost)}, not of {label!r} with"
                    f" {cap}; go on with what it was opened with, or use another key"
                )
        return SharedJournal(self, row.id, key, cap)

    def raise_total(self, total: Cost) -> None:
        """Set a larger total, of the same kind or (ε, δ) in place of ε; the history keeps both.

        From then on the promise to the people in the data is that of the new total: a decision for whoever
        made the first one, not a way around a refusal. And if it was taken in view of the answers so far, δ is
        more than the new total's: the theorems hold for a total that was fixed before, so each total of the
        history may fail by itself, and their δ add up (a union bound). Pure totals have none to add.

        `InvalidInput` if the new total is not larger.
        """
        check_cost(total)
        with self._store.writing():
            head = self._store.head()
            old = _read(head)[0]
            if not _larger(total, old):
                raise InvalidInput(f"a raised total must be larger than {old} and of its kind, got {total}")
            row = _row(head, "total", total, "raised", None)
            self._store.set_head(self._store.add(head, row)._replace(total=row.cost))

    def history(self) -> tuple[Entry, ...]:
        """All totals and charges in order, each checked for damage."""
        with self._store.reading():
            rows, answered = self._store.rows(), self._store.answered()
        return tuple(_entry(row, row.id in answered) for row in rows)

    def close(self) -> None:
        """Close the file; any further use is a `LedgerError`."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = str(self._store.path or ":memory:")
        return f"Ledger({where!r}, dataset {self._dataset!r}, {self._neighbours.value})"


class Journal:
    """What a session wrote down under one charge, entry by entry: how it survives a crash. Made by `Ledger.journal`.

    What is appended is durable before `append` returns, so what is shown afterwards is never forgotten. A journal
    has one writer: of two that read the same entries, the first to append goes on, and the other cannot.

    charge   what pays for the session
    entries  those that were there when it was read, in order
    """

    def __init__(self, store: Store, charge: Charge, entries: tuple[bytes, ...]) -> None:
        self.charge, self.entries = charge, entries
        self._store, self._length = store, len(entries)

    def append(self, entry: bytes) -> None:
        """Write an entry down; `LedgerError`, with nothing written, if somebody else did since this was read.

        So it is inside a `Ledger.transaction`, where the entry would not be durable before that ends.
        """
        if self._store.in_writing:
            raise LedgerError(f"the session with key {self.charge.key!r} cannot go on inside a transaction")
        with self._store.writing():
            if not self._store.add_to_journal(self.charge.id, self._length + 1, entry):
                raise LedgerError(f"the session with key {self.charge.key!r} was taken over by another process")
        self._length += 1


class SharedJournal:
    """What the processes of a session that pays as it goes wrote down, and its purse. Made by `Ledger.session`.

    Unlike a `Journal` it has any number of writers: each reads, in the transaction in which it writes, what the others
    wrote before. Inside a `Ledger.transaction` a purchase, what is drawn for it and its entry become durable together,
    when that ends, and nothing of it may be shown before: a crash undoes all of it. For one thread at a time.

    key  of the session
    cap  what its purchases together may cost: to be held by those who buy, who see all purchases in the journal
    """

    def __init__(self, ledger: Ledger, session: int, key: str, cap: Cost) -> None:
        self.key, self.cap = key, cap
        self._ledger, self._session = ledger, session
        self._length, self._last = 0, ""
        self._undone: int | None = None  # how many transactions were, when it grew inside one that is not over

    @property
    def length(self) -> int:
        """How many entries were read or appended."""
        return self._length

    def check_kept(self) -> None:
        """`LedgerError` if a transaction was undone in which it grew: what came then is not in the ledger."""
        if self._undone not in (None, self._ledger.store.undone):
            raise LedgerError(f"what the session with key {self.key!r} drew was undone; open it again")

    def read(self) -> list[bytes]:
        """What others wrote down since the last look, in order; at first everything."""
        inside = self._ledger.store.in_writing
        with self._ledger.store.reading():
            return self._news(inside)

    @contextmanager
    def writing(self) -> Iterator[list[bytes]]:
        """One durable transaction, for what is bought and appended in it; gives what others wrote since the last look.

        On an exception nothing is bought or appended; or, if a transaction around it goes on all the same, what was
        appended comes with the next look.
        """
        store, looked = self._ledger.store, (self._length, self._last)
        inside = store.in_writing
        try:
            with store.writing():
                news = self._news(inside)
                looked = self._length, self._last
                yield news
        except BaseException:
            self._length, self._last = looked
            raise
        if inside and self._length > looked[0]:
            self._undone = store.undone

    def _news(self, inside: bool) -> list[bytes]:
        """inside  whether in a transaction that is not over with this look"""
        self.check_kept()
        if not inside:
            self._undone = None  # whatever there was is on disk
        news = self._ledger.store.journal_after(self._session, self._length, self._last)
        if news:
            self._length, self._last = self._length + len(news), news[-1][1]
            if inside:
                self._undone = self._ledger.store.undone
        return [entry for entry, _ in news]

    def check(self, cost: Cost) -> None:
        """`BudgetExceeded` if the ledger does not cover a cost."""
        with self._ledger.store.reading():
            after(*_read(self._ledger.store.head()), cost)

    def buy(self, cost: Cost, label: str) -> None:
        """Charge the ledger, inside `writing`; `BudgetExceeded` if it does not cover the cost."""
        self._ledger.charge(cost, label)

    def append(self, entry: bytes) -> None:
        """Write an entry down, inside `writing`. It is no news to whoever wrote it."""
        store = self._ledger.store
        if not store.add_to_journal(self._session, self._length + 1, entry):
            raise LedgerError(f"the session with key {self.key!r} was written to since it was read")
        self._length, self._last = store.journal_head(self._session)


def _beginning(what: str, total: Cost | None, dataset: str, relation: Neighbours | None) -> tuple[Head, Row]:
    """The head and the first entry of a new ledger."""
    if total is None:
        raise LedgerError(f"{what} needs a total, such as ApproxDP(1.0, 1e-9)")
    named = (_text("dataset", dataset), (relation or Neighbours.ADD_REMOVE).value)
    head = Head(*named, cost_text(total), tally_text(Tally()))
    return head, _row(head, "total", total, "created", None)


def _row(head: Head, kind: str, cost: Cost, label: str, key: str | None) -> Row:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Row(head.entries + 1, now, kind, cost_text(cost), label, key)


def _entry(row: Row, answered: bool) -> Entry:
    kind = cast(Literal["total", "charge", "session"], row.kind)
    return Entry(row.id, row.time, kind, cost_from_text(row.cost), row.label, row.key, answered)


def _read(head: Head) -> tuple[Cost, Tally]:
    """The total and the exact sums of a head."""
    return cost_from_text(head.total), tally_from_text(head.tally)


def tally_text(tally: Tally) -> str:
    """Exact sums as one line; `tally_from_text` reads it."""
    account = tally.account and [str(tally.account.before), str(tally.account.delta)]
    return json.dumps([str(tally.epsilon), str(tally.delta), str(tally.rho), account])


@lru_cache(16)  # several looks at one row, while it is paid from
def tally_from_text(text: str) -> Tally:
    """The sums that `tally_text` wrote."""
    epsilon, delta, rho, account = json.loads(text)
    opened = Account(*map(_fraction, account)) if account else None
    return Tally(_fraction(epsilon), _fraction(delta), _fraction(rho), opened)


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


def _larger(new: Cost, old: Cost) -> bool:
    if isinstance(new, ZCDP) != isinstance(old, ZCDP):
        return False
    now, then = new.to_json(), old.to_json()
    return now != then and all(now.get(name, -1.0) >= value for name, value in then.items())


def _text(name: str, value: object) -> str:
    """A text that is not empty and that UTF-8 can hold, else `InvalidInput`."""
    if not isinstance(value, str) or not value or _SURROGATE.search(value):
        raise InvalidInput(f"{name} must be a text that is not empty, got {value!r}")
    return plain(value)
