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
is a second budget: keep backups, never spend from two copies. What was charged is in the file when the charge
returns, whatever becomes of the `-wal` next to it; but the last second of a server's charges may be in that alone, and
what is charged while another connection reads an earlier state.

A ledger that is charged for a table keeps keyed digests of it (`Ledger.rows_of`): what is charged later for other
records under the same name is said to the data holder. They stay in the file.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from hashlib import blake2b
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Literal, NoReturn, Self, cast

from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.privacy import fingerprint_store as fingerprints
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, check_cost
from qrelease.privacy.filters import (
    Tally,
    after,
    check_raise,
    note_of,
    promised,
    remaining,
    remaining_rho,
    room_of,
    spent,
    times_left,
)
from qrelease.privacy.journals import Journal, SharedJournal
from qrelease.privacy.ledger_entries import UNKNOWN, Charge, Entry, TableDigests, with_rows
from qrelease.privacy.ledger_file import LedgerFile, system_errors
from qrelease.privacy.ledger_server import LedgerServer
from qrelease.privacy.ledger_store import Database, Head, Row, Store
from qrelease.privacy.ledger_texts import checked_text, cost_from_text, cost_text, sums_of, tally_text
from qrelease.privacy.ledger_url import LedgerUrl

_OF_PERSONS = " of persons by "  # between a relation and the column that says who somebody is


class Ledger:
    """A durable budget for one dataset under one neighbouring relation; safe for threads, processes and hosts.

    Made by `Ledger.open`; closed by `close` or at the end of a `with` block. A charge that does not fit raises
    `BudgetExceeded`; any problem with the file or the server raises `LedgerError`.

    Parameters
    ----------
    store : Store
        Where the rows are kept: `Ledger.open` makes it.

    Examples
    --------
    >>> from qrelease.privacy import PureDP
    >>> with Ledger.open(None, PureDP(1.0)) as ledger:
    ...     charge = ledger.charge(PureDP(0.25), "marginals of 2024", key="marginals-2024")
    ...     again = ledger.charge(PureDP(0.25), "marginals of 2024", key="marginals-2024")
    ...     print(charge.fresh, again.fresh, ledger.remaining)
    True False epsilon=0.75
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        try:
            with store.reading():
                head = store.head()
        except LedgerError:
            store.close()
            raise
        self._dataset = head.dataset
        relation, _, person = head.neighbours.partition(_OF_PERSONS)
        self._neighbours, self._person = Neighbours.parse(relation), person or None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | LedgerUrl | None,
        total: Cost | None = None,
        *,
        dataset: str | None = None,
        neighbours: Neighbours | str | None = None,
        person: str | None = None,
    ) -> Self:
        """Open the ledger in a file or on a server, or create it with a total.

        What is given must agree with an existing ledger, the total too (a raised one as it is now).

        Parameters
        ----------
        path
            A file on a local disk, where file locks work; None or ":memory:" for a ledger in memory; or, for many
            hosts, the address of a PostgreSQL server, as "postgresql://user@host/database?schema=people".
        total
            What all charges together may cost; needed for a new ledger.
        dataset
            Whose budget this is; a new ledger takes the file's name without its suffix by default, or the schema's.
        neighbours
            The relation that its costs hold under; a new ledger takes add-remove by default.
        person
            The column that says whose records they are, of a new ledger whose unit is a person; by default its unit
            is one record. Which unit an existing ledger has, its file says.

        Returns
        -------
        Ledger
            To be closed, by `close` or on leaving a `with`.

        Raises
        ------
        LedgerError
            For a missing file without a total, for what does not agree with the file, and for a file that is foreign or
            damaged, which is left as it is; the same for a server, and for one that may forget what it committed.
        InvalidInput
            For a total or a relation that is none.
        """
        if total is not None:
            check_cost(total)
        relation = None if neighbours is None else Neighbours.parse(neighbours)
        what = dataset, relation, person
        database: Database
        if path is None or path == ":memory:":
            first = _beginning("an in-memory ledger", total, dataset or "memory", relation, person)
            return cls(Store(LedgerFile.in_memory(*first)))
        url = LedgerUrl.of(path)
        if url is not None:
            database, made = _on_server(url, total, *what), False
        else:
            database, made = _in_file(Path(cast("str | os.PathLike[str]", path)), total, *what)
        ledger = cls(Store(database))
        if made:
            return ledger
        try:
            ledger._must_match(total, dataset, relation, person)
        except LedgerError:
            ledger.close()
            raise
        return ledger

    @staticmethod
    def exists(path: str | os.PathLike[str] | LedgerUrl) -> bool:
        """Whether there is a ledger, or anything else, at a place.

        Parameters
        ----------
        path : path or LedgerUrl
            A file, or `postgresql://user@host/database?schema=…`.

        Returns
        -------
        bool
            True also for a file that is no ledger: `open` would refuse it.

        Raises
        ------
        LedgerError
            Where the server cannot be reached.
        """
        url = LedgerUrl.of(path)
        if url is None:
            return Path(cast("str | os.PathLike[str]", path)).exists()
        server = LedgerServer.connect(url)
        try:
            return server.exists()
        finally:
            server.close()

    def _must_match(
        self, total: Cost | None, dataset: str | None, neighbours: Neighbours | None, person: str | None
    ) -> None:
        where = f"ledger {self._store.place}"
        if dataset is not None:
            self.check_dataset(dataset)
        if neighbours is not None and neighbours is not self._neighbours:
            raise LedgerError(f"{where} counts under {self._neighbours.value}, not under {neighbours.value}")
        if person is not None:
            self.check_unit(person)
        if total is not None and total != self.total:
            raise LedgerError(f"{where} has a total of {self.total}, not {total}; leave it out, or use raise_total")

    @property
    def dataset(self) -> str:
        """The name of the dataset whose budget this is."""
        return self._dataset

    @property
    def neighbours(self) -> Neighbours:
        """The relation that all its costs hold under."""
        return self._neighbours

    @property
    def person(self) -> str | None:
        """The column that says whose records they are, where the unit is a person; None where it is a record."""
        return self._person

    def check_dataset(self, dataset: str) -> None:
        """Raise where the ledger is the budget of another dataset than is to be charged.

        Parameters
        ----------
        dataset : str
            Whose records are to be charged.

        Raises
        ------
        LedgerError
            Where it belongs to another one.
        """
        if dataset != self._dataset:
            place = self._store.place or "in memory"
            raise LedgerError(
                f"ledger {place} belongs to dataset {self._dataset!r}, not to {dataset!r}: if these are its records,"
                f" name it: dataset={self._dataset!r} in Python and in a file of datasets or jobs, else --dataset; if"
                " not, take another ledger"
            )

    def check_unit(self, person: str | None) -> None:
        """Raise where the ledger protects another unit (records or persons) than a charge would.

        Parameters
        ----------
        person : str or None
            The column that says whose records they are; None where the unit is one record.

        Raises
        ------
        LedgerError
            Where the ledger counts what persons by another column, or single records, are charged.
        """
        if person == self._person:
            return
        told = ("one record" if p is None else f"a person by {p!r}" for p in (self._person, person))
        made = "without `person`" if person is None else f"by Ledger.open(..., person={person!r})"
        unused = ""
        if self.spent is None and self._store.place is not None and not LedgerUrl.of(self._store.place):
            unused = "; nothing was charged to this one, so its file may be deleted"
        raise LedgerError(
            "ledger {} counts what {} is charged, and this would be {}: a budget of one says nothing of the other; take"
            " another ledger, a new one by --ledger FILE on the command line, made {} in Python{}".format(
                self._store.place or "in memory", *told, made, unused
            )
        )

    def key_for(self, name: str) -> bytes:
        """A secret key for one purpose: the same for the same name, and unrelated to that of another.

        It is made of the ledger's own key, which does not leave the file, so it outlives this process as the ledger
        does.

        Parameters
        ----------
        name : str
            The purpose.

        Returns
        -------
        bytes, length 32
            Not to be shown.
        """
        with self._store.writing():
            own = fingerprints.key(self._store)
        return blake2b(name.encode(), key=own, digest_size=32).digest()

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
        """The largest cost of the total's kind that can still be charged; None if none can: see `note`."""
        return remaining(*self._state())

    @property
    def balance(self) -> dict[str, str]:
        """The texts of `total`, `spent` and `left`, to six digits: what is left is rounded down, so that it fits."""
        total, tally = self._state()
        gone, left = spent(total, tally), remaining(total, tally)
        return {
            "total": f"{total:.6g}",
            "spent": "nothing" if gone is None else f"{gone:.6g}",
            "left": room_of(total, left) or "nothing",
        }

    def times_left(self, cost: Cost) -> int:
        """How often the same cost can still be charged, one after another.

        Parameters
        ----------
        cost : Cost
            What each charge is to be of.

        Returns
        -------
        int
            At most 10^9; 0 where this total never holds such a cost.
        """
        return times_left(*self._state(), cost)

    @property
    def note(self) -> str:
        """Why `spent` and `remaining` come to less than the total; empty where they do not."""
        total, tally = self._state()
        found = note_of(total, spent(total, tally), remaining(total, tally))
        return f"{found}, see docs/how-to/budget.md" if found else ""

    @property
    def remaining_rho(self) -> ZCDP | None:
        """The largest cost in ρ that can still be charged; None if none can, or the total holds none."""
        return remaining_rho(*self._state())

    @property
    def promised(self) -> Cost:
        """What the people in the data are promised: the total.

        An earlier version chose the order of the account anew on a raise. Where more was spent under that rule than
        the order of the opening allows, it is the larger ε that holds at the same δ, and charges are refused until
        the total is raised beyond it.
        """
        return promised(*self._state())

    def check(self, cost: Cost) -> None:
        """Raise `BudgetExceeded` where a cost does not fit, `InvalidInput` where this total cannot hold its kind."""
        with self._store.reading():
            after(*sums_of(self._store), cost)

    @property
    def store(self) -> Store:
        """Its rows, for what else is kept in the same file and changed in the same transactions."""
        return self._store

    def transaction(self) -> AbstractContextManager[None]:
        """Join charges, answers and journal entries: all are durable when it ends; after an exception, none is.

        For one thread. Nothing is drawn inside: releases, estimates and sessions refuse it.
        """
        return self._store.writing()

    def _state(self) -> tuple[Cost, Tally]:
        with self._store.reading():
            return sums_of(self._store)

    @property
    def names_tables(self) -> bool:
        """Whether it may say for which table a charge was made: else there is nothing to compare one with."""
        with self._store.reading():
            return fingerprints.known_key(self._store) is not None

    def rows_of(self, fingerprint: Callable[[bytes], tuple[str, str]]) -> TableDigests:
        """The keyed digests of a table, by which `charge` and `session` know it again.

        A ledger of an older format goes over to the present one.

        Parameters
        ----------
        fingerprint : callable
            From a key of the ledger to two digests, of the schema and of the records, as `Table.fingerprint`.

        Returns
        -------
        TableDigests
            Not to be shown.
        """
        with self._store.reading():
            key = fingerprints.known_key(self._store)
        if key is None:
            with self._store.writing():
                key = fingerprints.key(self._store)
        return TableDigests(*fingerprint(key))

    def notice(self, rows: TableDigests) -> str | None:
        """What the holder of the data should know before a charge for a table: that its records have changed.

        Parameters
        ----------
        rows : TableDigests
            The table, as `rows_of` gives it.

        Returns
        -------
        str or None
            None where they are the records of the last charge under the same schema, or the first under it.
        """
        with self._store.reading():
            named = [r for r in fingerprints.stored_fingerprints(self._store) if r.rows != UNKNOWN]
        alike = [r for r in named if r.schema == rows.schema]
        if alike and alike[-1].rows != rows:
            return (
                f"the records are not those of the charge of {alike[-1].time} for dataset {self._dataset!r}, under the"
                " same schema: rightly, if they were brought up to date"
            )
        if named and not alike:
            return (
                f"the earlier charges for dataset {self._dataset!r} were for other columns or under another schema, as"
                " other steps of a job file may be, so the ledger cannot tell whether these are the same records: if"
                " they are, all is in order; records of other people need a dataset and a ledger of their own"
            )
        return None

    def has_charged(self, fingerprint: Callable[[bytes], tuple[str, str]]) -> bool:
        """Whether a charge was made for a table, by the digests that are kept of tables; nothing is written.

        Parameters
        ----------
        fingerprint : callable
            Of the table, as `rows_of` takes it.

        Returns
        -------
        bool
            Only of the very records under the same schema is that known: False also where none are named.
        """
        with self._store.reading():
            key = fingerprints.known_key(self._store)
            named = [record.rows for record in fingerprints.stored_fingerprints(self._store)]
        return key is not None and bool(named) and TableDigests(*fingerprint(key)) in named

    def knows(self, key: str | None) -> bool:
        """Whether a charge was made, or a session opened, under a key.

        Parameters
        ----------
        key : str or None
            The key; None is known to no ledger.

        Returns
        -------
        bool
            True also where the charge's answer is not stored yet.
        """
        with self._store.reading():
            return key is not None and self._store.with_key(checked_text("key", key)) is not None

    def holds(self, charge: Charge) -> bool:
        """Whether a charge is an entry of this ledger.

        Other than a key, which two ledgers may know of charges on the same terms, its number and its time are compared.

        Parameters
        ----------
        charge : Charge
            As this ledger, or another, returned it.

        Returns
        -------
        bool
            True also where the charge's answer is not stored yet.
        """
        with self._store.reading():
            known = self._store.with_key(checked_text("key", charge.key))
        return known is not None and (known.id, known.time) == (charge.id, charge.time)

    def _note(self, known: Row | None, row: Row, rows: TableDigests | None, *, keyed: bool, changed_rows: bool) -> None:
        """Write down for which table a charge or session is; `LedgerError` if a known one was for another.

        known  the entry that is resumed, if it was there; else `row` is new
        """
        if known is None:
            fingerprints.note(self._store, row.id, row.id if keyed and rows else 0, row.time, rows)
            return
        if rows is None or not self._other_rows(known, rows, changed_rows=changed_rows):
            return
        head = self._store.head()
        fingerprints.note(self._store, head.entries + 1, known.id, _now(), rows)

    def check_session(self, key: str | None, rows: TableDigests, *, changed_rows: bool = False) -> None:
        """Raise where a session was opened for another table, so that it is said before any other work is done.

        Parameters
        ----------
        key, rows, changed_rows
            As `session` takes them.

        Raises
        ------
        LedgerError
            Where the session of that key was opened for another table, and `changed_rows` is not given.
        """
        if key is None:
            return
        with self._store.reading():
            known = self._store.with_key(checked_text("key", key))
            if known is not None:
                self._other_rows(known, rows, changed_rows=changed_rows)

    def _other_rows(self, known: Row, rows: TableDigests, *, changed_rows: bool) -> bool:
        """Whether a session is for a table that is not written down for it; `LedgerError` if it may not be another."""
        mine = [r for r in fingerprints.stored_fingerprints(self._store) if r.session == known.id]
        if mine and (mine[-1].rows == rows or mine[-1].schema != rows.schema):
            return False  # a session refuses another schema by itself, and says what differs
        if mine and not changed_rows:
            raise LedgerError(
                f"the session with key {known.key!r} was opened on other records than these:"
                " go on with those, take another key, or say that they may have changed (changed_rows=True,"
                " --changed-rows)"
            )
        return True

    def charge(
        self,
        cost: Cost,
        label: str,
        key: str | None = None,
        *,
        rows: TableDigests | None = None,
        changed_rows: bool = False,
    ) -> Charge:
        """Charge a cost, durably, before the first bit of noise is drawn for it.

        Parameters
        ----------
        cost
            What is charged.
        label
            What it is for, one line for the history; public.
        key
            Names the work: charging again under the same key costs nothing and returns the first charge with its
            answer; cost and label must be the same. Without a key the charge is always new.
        rows
            The table that it is for, from `rows_of`.
        changed_rows
            Whether known work may be resumed for another table.

        Returns
        -------
        Charge
            The new charge, or the known one with its answer.

        Raises
        ------
        BudgetExceeded
            If the cost does not fit in what is left; then nothing is charged.
        InvalidInput
            If a total of this kind cannot hold the cost; then nothing is charged.
        LedgerError
            For a key that was charged with another cost or label, or for another table; and for trouble with the file.
        """
        check_cost(cost)
        label, named = checked_text("label", label), key is not None
        key = checked_text("key", os.urandom(16).hex() if key is None else key)
        with self._store.writing():
            known = self._store.with_key(key) if named else None
            if known:
                again = self._again(known, cost, label)
                self._note(known, known, rows, keyed=True, changed_rows=changed_rows)
                return again
            head = self._store.head()
            new = after(*sums_of(self._store), cost)
            row = _row(head, "charge", cost, label, key)
            self._store.set_head(self._store.add(head, row)._replace(tally=tally_text(new)))
            self._note(None, row, rows, keyed=named, changed_rows=changed_rows)
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
        """Store the answer of a charge durably; show nobody anything but what is returned.

        The first answer stored is the answer: if another process was faster with the same key, its bytes
        come back.

        Parameters
        ----------
        charge : Charge
            What paid for the answer.
        answer : bytes
            The answer.

        Returns
        -------
        bytes
            What is stored.

        Raises
        ------
        InvalidInput
            For an answer that is not bytes.
        LedgerError
            For a charge that this ledger does not have.
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

    def journal(self, charge: Charge) -> Journal:
        """The journal of a charge: the entries that were written under it, to be read and continued.

        Parameters
        ----------
        charge : Charge
            A charge of this ledger.

        Returns
        -------
        Journal
            Its entries so far, and the way to append to them.
        """
        with self._store.reading():
            found = self._store.journal(charge.id)
        return Journal(self._store, charge, tuple(found))

    def session(
        self,
        cap: Cost,
        label: str,
        key: str | None = None,
        *,
        rows: TableDigests | None = None,
        changed_rows: bool = False,
    ) -> "SharedJournal":
        """Open a session that is charged as it goes, up to a cap, or resume one; opening costs nothing.

        Parameters
        ----------
        cap : Cost
            What its purchases together may cost.
        label : str
            What it is for, one line for the history; public.
        key : str, optional
            Names it: with the key of one that was opened before, which must have had the same cap and label, the caller
            goes on with it, while others may too. Without a key it is a new one.
        rows : TableDigests, optional
            The table that it is about, as `charge` takes it.
        changed_rows : bool
            That a session may go on although it was opened for another table.

        Returns
        -------
        SharedJournal
            What the session has bought so far, and the way to buy more.

        Raises
        ------
        InvalidInput
            For a cap that the total could never hold.
        LedgerError
            For a key of a charge, or of a session with another cap, label or table.
        """
        check_cost(cap)
        label, key = checked_text("label", label), checked_text("key", os.urandom(16).hex() if key is None else key)
        with self._store.writing():
            row = self._store.with_key(key)
            if row is None:
                head = self._store.head()
                with suppress(BudgetExceeded):  # a cap may be above what is left: each purchase is refused by itself
                    after(*sums_of(self._store), cap)
                row = _row(head, "session", cap, label, key)
                self._store.set_head(self._store.add(head, row))
                self._note(None, row, rows, keyed=True, changed_rows=changed_rows)
            elif (row.kind, row.cost, row.label) != ("session", cost_text(cap), label):
                raise LedgerError(
                    f"key {key!r} is that of {row.label!r} with {cost_from_text(row.cost)}, not of {label!r} with"
                    f" {cap}; go on with what it was opened with, or use another key: open another session by key=NAME"
                    " in Python, or serve --session NAME, which may spend what the ledger has left, also after its"
                    " total was raised"
                )
            else:
                self._note(row, row, rows, keyed=True, changed_rows=changed_rows)
        return SharedJournal(self, row.id, key, cap, rows)

    def raise_total(self, total: Cost) -> None:
        """Set a larger total, of the same kind or (ε, δ) in place of ε; the history keeps both.

        From then on the promise to the people in the data is that of the new total: a decision for whoever
        made the first one, not a way around a refusal. It may be taken in view of the answers so far, but of nothing
        else about the data:

        - A larger ε holds at the same δ as if it had been the total from the start. Where rho was spent, the order
          of the account stays that of its opening and the room grows by the increase of ε alone, so less fits than
          under a new total of that size: at δ = 1e-9, a rho of .0437 after 1 → 2, against .0561.
        - A larger δ is one more possible failure: all together they have at most the δ of the largest total that
          could come of it. What was added is for (ε, δ) costs; an open account keeps the δ it was opened with.
        - ε to (ε, δ): what was spent holds without δ, what comes adds the δ.
        - A zCDP total is raised only while nothing is spent.

        The proof is in `qrelease.privacy.filters`.

        Parameters
        ----------
        total : PureDP, ApproxDP or ZCDP
            The new total.

        Raises
        ------
        InvalidInput
            Where it is not larger, or is a zCDP total after the first spend.
        """
        check_cost(total)
        with self._store.writing():
            head = self._store.head()
            old, tally = sums_of(self._store)
            check_raise(old, tally, total)
            row = _row(head, "total", total, "raised", None)
            head = self._store.add(head, row)
            self._store.set_head(head._replace(total=row.cost, tally=tally_text(tally)))

    def history(self) -> tuple[Entry, ...]:
        """All totals and charges in order, each checked for damage."""
        with self._store.reading():
            rows, answered = self._store.rows(), self._store.answered()
            tables = fingerprints.stored_fingerprints(self._store)
        entries = [_entry(row, row.id in answered) for row in rows]
        return tuple(with_rows(entries, tables))

    def close(self) -> None:
        """Close the file; any further use is a `LedgerError`."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger cannot be pickled: open its file in each process that uses it")

    def __repr__(self) -> str:
        """What it is, and what is left; without sums where it is closed or on a server, which is not asked for them."""
        known = self._known_balance()
        sums = "".join(f", {name} {text}" for name, text in known.items())
        sums += f" ({self.note})" if known and self.note else ""
        return f"Ledger({str(self._store.place or ':memory:')!r}, {self._described}{sums})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in self._known_balance().items()
        )
        named = escape(f"ledger {self._store.place or 'in memory'}: {self._described}")
        note = f"<p>{escape(self.note)}</p>" if rows and self.note else ""
        return f"<p>{named}</p><table>{rows}</table>{note}" if rows else f"<p>{named}</p>"

    @property
    def _described(self) -> str:
        unit = "" if self._person is None else f"{_OF_PERSONS}{self._person}"
        return f"dataset {self._dataset!r}, {self._neighbours.value}{unit}"

    def _known_balance(self) -> dict[str, str]:
        """The balance of a ledger at hand; empty for one that cannot be read, or that a connection would be made to."""
        if LedgerUrl.of(self._store.place or "") is not None:
            return {}
        try:
            return self.balance
        except LedgerError:
            return {}


def _in_file(
    file: Path, total: Cost | None, dataset: str | None, relation: Neighbours | None, person: str | None
) -> tuple[LedgerFile, bool]:
    """The database in a file, and whether it was made here."""
    with system_errors(file):
        if not file.parent.is_dir():
            raise LedgerError(f"ledger {file}: there is no folder {file.parent}")
        if not file.exists():
            first = _beginning(f"ledger {file} is new and", total, dataset or file.stem, relation, person)
            # Who loses a race for creating it opens it, and must agree with it like anybody.
            with suppress(FileExistsError):
                return LedgerFile.create(file, *first), True
        if not file.is_file():
            raise LedgerError(f"ledger {file} is not a file")
    return LedgerFile.open(file), False


def _on_server(
    url: LedgerUrl, total: Cost | None, dataset: str | None, relation: Neighbours | None, person: str | None
) -> LedgerServer:
    """The database on a server."""
    server = LedgerServer.connect(url)
    try:
        if not server.exists():
            server.create(*_beginning(f"ledger {url} is new and", total, dataset or url.dataset, relation, person))
    except BaseException:
        server.close()
        raise
    return server


def _beginning(
    what: str, total: Cost | None, dataset: str, relation: Neighbours | None, person: str | None
) -> tuple[Head, Row]:
    """The head and the first entry of a new ledger."""
    if total is None:
        raise LedgerError(f"{what} needs a total, such as ApproxDP(1.0, 1e-9)")
    # An earlier version, which knows no persons, refuses a relation that it does not know: it would charge too little.
    unit = "" if person is None else f"{_OF_PERSONS}{checked_text('person', person)}"
    named = (checked_text("dataset", dataset), (relation or Neighbours.ADD_REMOVE).value + unit)
    head = Head(*named, cost_text(total), tally_text(Tally()))
    return head, _row(head, "total", total, "created", None)


def _row(head: Head, kind: str, cost: Cost, label: str, key: str | None) -> Row:
    return Row(head.entries + 1, _now(), kind, cost_text(cost), label, key)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _entry(row: Row, answered: bool) -> Entry:
    kind = cast(Literal["total", "charge", "session"], row.kind)
    return Entry(row.id, row.time, kind, cost_from_text(row.cost), row.label, row.key, answered)
