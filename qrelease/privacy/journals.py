"""Journals: the entries that a session writes to its ledger, from which it is restored after a crash."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from qrelease.errors import LedgerError
from qrelease.privacy.costs import Cost
from qrelease.privacy.ledger_entries import Charge, TableDigests
from qrelease.privacy.ledger_store import Store


class Budget(Protocol):
    """The ledger, as far as a `SharedJournal` needs it; `Ledger` says what each of these does."""

    @property
    def store(self) -> Store:
        """The rows of the ledger."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """All that is written in it becomes durable when it ends."""
        ...

    @property
    def balance(self) -> dict[str, str]:
        """What is left of it, among other texts."""
        ...

    def check(self, cost: Cost) -> None:
        """Raise `BudgetExceeded` if a cost is not covered."""
        ...

    def charge(self, cost: Cost, label: str, *, rows: TableDigests | None = None) -> Charge:
        """Make a charge durable."""
        ...


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

    def __init__(self, ledger: Budget, session: int, key: str, cap: Cost, rows: TableDigests | None = None) -> None:
        self.key, self.cap = key, cap
        self._ledger, self._session, self._rows = ledger, session, rows
        self._length, self._last = 0, ""
        self._undone: int | None = None  # how many transactions were, when it grew inside one that is not over

    @property
    def length(self) -> int:
        """How many entries were read or appended."""
        return self._length

    @property
    def inside(self) -> bool:
        """Whether this thread is inside a transaction of the ledger, which could undo what is written."""
        return self._ledger.store.in_writing

    def transaction(self) -> AbstractContextManager[None]:
        """A transaction of the ledger."""
        return self._ledger.transaction()

    def check_kept(self) -> None:
        """Raise `LedgerError` if a transaction was undone in which it grew: what came then is not in the ledger."""
        if self._undone not in (None, self._ledger.store.undone):
            raise LedgerError(f"what the session with key {self.key!r} drew was undone; open it again")

    def read(self) -> list[bytes]:
        """What others wrote down since the last look, in order; at first everything."""
        inside, looked = self.inside, (self._length, self._last)
        try:
            with self._ledger.store.reading():
                return self._news(inside)
        except BaseException:
            self._length, self._last = looked  # what was seen may not be durable
            raise

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
        """Raise `BudgetExceeded` if the ledger does not cover a cost."""
        self._ledger.check(cost)

    @property
    def left_in_ledger(self) -> str:
        """What the ledger has left, whatever the cap; `nothing` where that is so."""
        return self._ledger.balance["left"]

    def buy(self, cost: Cost, label: str) -> None:
        """Charge the ledger, inside `writing`; `BudgetExceeded` if it does not cover the cost."""
        self._ledger.charge(cost, label, rows=self._rows)

    def append(self, entry: bytes) -> None:
        """Write an entry down, inside `writing`. It is no news to whoever wrote it."""
        store = self._ledger.store
        if not store.add_to_journal(self._session, self._length + 1, entry):
            raise LedgerError(f"the session with key {self.key!r} was written to since it was read")
        self._length, self._last = store.journal_head(self._session)
