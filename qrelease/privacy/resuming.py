"""What was drawn under a charge, kept in the ledger until the release that it is for was made.

A release that is cut off after its charge goes on from here for free: a draw that is kept is not drawn again, and what
is computed from it is post-processing. Each draw is durable before anything is computed from it, and they are kept in
their order without gaps. So a process that dies between a draw and its record has shown nobody that draw, nor anything
that came of it, and to draw again is safe. A kept draw answers the question that was asked when it was drawn and no
other: a run that asks something else is refused.

The rules are those of `ledger_store`: rows are chained by digests. They are deleted when the release is finished, but
for a schema that was learned first: whatever else is released over it says what that cost.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, Literal

from qrelease.errors import LedgerError
from qrelease.privacy.costs import Cost, amount_to_json, six_digits
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_entries import Charge, Entry
from qrelease.privacy.ledger_store import row_digest
from qrelease.privacy.ledger_texts import cost_from_text

_LEARNED: Final = "schema: "
_TOGETHER: Final = re.compile(r"[^:]*: a release, after (.*) were learned", re.DOTALL)

MAX_BYTES = 1 << 29
"""Bytes of one draw that are kept; a release with a larger one cannot be resumed, and is paid for anew."""

_RECORD = b'{"release": '  # how the answer begins of a charge whose release was made
_COMPLETE = "the release is complete"  # what the last row says instead of a question, before the folder has its name
_LOST = b"more was drawn than is kept"  # and of one that cannot be resumed
_READ = "SELECT asked, drawn, digest FROM draws WHERE charge = ? AND number = ?"
_ADD = "INSERT INTO draws VALUES (?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM draws WHERE charge = ? AND number > ?"
_OF_WORK = "SELECT id, key FROM entries WHERE key >= ? AND key < ? ORDER BY id DESC"
_BEGUN = "SELECT id, cost, label FROM entries JOIN draws ON charge = id AND number = 1 ORDER BY id"
_LAST_DRAW = "SELECT asked, drawn FROM draws WHERE charge = ? ORDER BY number DESC LIMIT 1"
_REPLACE = "UPDATE answers SET answer = ?, digest = ? WHERE id = ?"
_RECORDS = "SELECT id FROM answers WHERE substr(answer, 1, ?) = ?"


_KEY: Final = re.compile(r"(release|schema) [0-9a-f]{64} [1-9][0-9]*")
"""Keys of releases and of schemas that were learned, which are resumed where they were cut off: what tells the
work, and the number of a charge."""


def is_of_release(key: str) -> bool:
    """Whether a key is one that releases and learned schemas have, and nobody else."""
    return bool(_KEY.fullmatch(key))


def finished(
    release: str, date: str | None, files: Mapping[str, str] | None = None, at_most: int | None = None
) -> bytes:
    """What a ledger says of a release that was made: its id, its day, and the SHA-256 of its files by name.

    Where the unit is a person, also how many records of each were kept at most. Earlier versions stored a text there
    that says no more than that it was made.
    """
    kept = {} if at_most is None else {"at_most": at_most}
    written = {} if files is None else {"files": dict(files)}
    return json.dumps({"release": release, "date": date, **kept, **written}).encode()


def releases(ledger: Ledger) -> dict[int, dict[str, Any]]:
    """What `finished` said of the releases in a ledger, by the number of the entry that paid for each."""
    store, found = ledger.store, {}
    with store.reading():
        for (entry,) in store.execute(_RECORDS, (len(_RECORD), _RECORD)).fetchall():
            with suppress(ValueError):  # an answer that somebody else stored
                found[entry] = json.loads(store.answer(entry) or b"")
    return {entry: record for entry, record in found.items() if isinstance(record.get("release"), str)}


def learned_label(columns: Iterable[str], mechanism: str | None = None) -> str:
    """The label of a charge for the bins and categories of some columns; also for a release that follows, where named.

    mechanism  the name of the one that the release is made by
    """
    names = ", ".join(columns)
    return f"{_LEARNED}{names}" if mechanism is None else f"{mechanism}: a release, after {names} were learned"


def learned_names(label: str) -> str | None:
    """The names of the columns that a charge of that label was for, as a text; None where none was learned."""
    together = _TOGETHER.fullmatch(label)
    return label.removeprefix(_LEARNED) if label.startswith(_LEARNED) else together[1] if together else None


def learned_schemas(ledger: Ledger) -> list[tuple[int, Cost, str, bytes]]:
    """The schemas that were learned, where they are kept: public, as they were drawn.

    Each is the number of its entry, its cost, which paid for a release too where one was charged with it, the names of
    the columns that were learned, and what was drawn.
    """
    store, found = ledger.store, []
    with store.reading():
        if not store.has("draws"):
            return []
        for entry, cost, label in store.execute(_BEGUN, ()).fetchall():
            names = learned_names(label)
            kept = None if names is None else store.execute(_READ, (entry, 1)).fetchone()
            if names is None or kept is None:
                continue
            asked, drawn, digest = kept
            if not isinstance(drawn, bytes) or digest != row_digest("", entry, 1, asked, sha256(drawn).hexdigest()):
                raise store.damaged()
            found.append((entry, cost_from_text(cost), names, drawn))
    return found


def public_part(ledger: Ledger) -> dict[str, Any]:
    """What of a ledger may be given away, as JSON has it: totals, charges, and the releases that they paid for.

    `unit` says whether the costs are of a record or of a person, and `neighbours` whether tables are compared that
    differ by one of it more or by another one; how many records of a person were kept, each release says.

    Not the keys of sessions, which let others go on with them, nor whether the records changed meanwhile. Of times the
    day: between two charges of one run is a release, which takes longer the more records there are.
    """
    made = releases(ledger)
    entries = [
        {
            "number": entry.id,
            "time": entry.time[: len("2026-01-31")],
            "kind": entry.kind,
            "cost": entry.cost.to_json(),
            "label": entry.label,
            "release": made.get(entry.id),
        }
        for entry in ledger.history()
    ]
    promised = {} if ledger.promised == ledger.total else {"promised": ledger.promised.to_json()}
    return {
        "dataset": ledger.dataset,
        "neighbours": ledger.neighbours.value,
        "unit": {"of": "record"} if ledger.person is None else {"of": "person", "column": ledger.person},
        "total": ledger.total.to_json(),
        "spent": _short(ledger.spent, ledger.total, up=True),
        "remaining": _short(ledger.remaining, ledger.total, up=False),
        **promised,  # of an earlier version, which let more be spent
        "entries": entries,
    }


def _short(cost: Cost | None, total: Cost, *, up: bool) -> dict[str, float]:
    """A sum of costs, or what is left of the total, without what floating point adds to it: see `six_digits`."""
    return {name: float(six_digits(value, up=up)) for name, value in amount_to_json(cost, total).items()}


def unfinished(entry: Entry) -> bool:
    """Whether an entry of a history is a release that was charged and not finished, which goes on for free."""
    key = entry.key or ""
    return entry.kind == "charge" and key.startswith("release ") and is_of_release(key) and not entry.answered


def check_room(ledger: Ledger, cost: Cost, *, resumes: bool = True, in_parts: bool = False) -> None:
    """Raise `BudgetExceeded` where a ledger has neither room for a cost nor a charge that a run goes on with for free.

    For before the private data are read, which may take long: the charge itself is checked again, under the lock.

    resumes   whether an earlier charge may do
    in_parts  whether that may be of a part of the cost: of one of two tables, or for a schema that is learned first
    """
    charges = [entry for entry in ledger.history() if entry.kind == "charge"] if resumes else []
    if in_parts and any(entry.key is not None and is_of_release(entry.key) for entry in charges):
        return
    if not any(unfinished(entry) and entry.cost == cost for entry in charges):
        ledger.check(cost)


def key_of(ledger: Ledger, work: str, *, again: bool = False, kind: Literal["release", "schema"] = "release") -> str:
    """The key of the latest charge for this work if it is not finished; else of a new one.

    work   64 hexadecimal digits, the same for the same work
    again  a new one in any case
    kind   what the work is; a schema is never finished, so the same one is free at any time
    """
    store, stem = ledger.store, f"{kind} {work}"
    with store.reading():
        found = store.execute(_OF_WORK, (f"{stem} ", f"{stem}!"))
        latest = next(((entry, key) for entry, key in found if is_of_release(key)), None)
        if latest is None:
            return f"{stem} 1"
        entry, key = latest
        if not again and store.answer(entry) is None:
            return str(key)
    return f"{stem} {int(key.rpartition(' ')[2]) + 1}"


def finish_complete(ledger: Ledger, key: str, is_at: Callable[[str, str], bool]) -> bool:
    """Finish a charge whose release was moved to its place before the ledger heard of it; whether it is finished now.

    A run may be cut off between the two. The same work would then go on from old draws for the release that follows.

    key    of the charge
    is_at  whether the release of an id is at a place
    """
    store = ledger.store
    with store.reading():
        charge = store.with_key(key)
        if charge is None or store.answer(charge.id) is not None or not store.has("draws"):
            return False
        asked, drawn = store.execute(_LAST_DRAW, (charge.id,)).fetchone() or ("", b"")
    if not asked.endswith(f": {_COMPLETE}"):
        return False
    told = json.loads(drawn)
    record = told["record"].encode()
    if not is_at(told["place"], json.loads(record)["release"]):
        return False
    with store.writing():
        if store.answer(charge.id) is None:  # nobody else finished it meanwhile
            store.execute(_DELETE, (charge.id, told["staying"]))
            store.set_head(store.add_answer(store.head(), charge.id, record))
    return True


class Draws:
    """The draws of one charge, in order: those that were kept, then new ones.

    charge   what pays for them
    program  what draws, with its version: another may read the same draws otherwise, and is refused
    """

    def __init__(self, ledger: Ledger, charge: Charge, program: str) -> None:
        self.charge, self._program = charge, program
        self._ledger, self._store = ledger, ledger.store
        self._taken, self._last, self._keeping = 0, "", True
        self._staying = 0  # so many of the first draws stay when the release is finished

    def take(self, asked: str, draw: Callable[[], bytes], *, stays: bool = False) -> bytes:
        """The next draw: the kept one, or what `draw` gives, which is durable before this returns.

        asked  what it is an answer to, public; `LedgerError` if another question was asked at this place before
        stays  whether it stays in the ledger when the release is finished, as those before it do
        """
        asked = f"{self._program}: {asked}"
        with self._store.reading():
            self._store.head()  # refuses a ledger that has forgotten the charge meanwhile, before anything is drawn
            kept = self._kept(asked)
        if kept is None:
            new = draw()
            if self._keeping and len(new) > MAX_BYTES:
                self._give_up()
            if not self._keeping:  # what is drawn after it may depend on it, and is not kept without it
                return new
            with self._store.writing():
                kept = self._kept(asked) or self._keep(asked, new)
        self._taken += 1
        if stays:
            self._staying = self._taken
        drawn, self._last = kept
        return drawn

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open on the ledger."""
        return self._store.in_writing

    def _give_up(self) -> None:
        """Keep nothing from here on: this charge can then not be resumed, as other draws would come of it."""
        with self._store.writing():
            if self._store.answer(self.charge.id) is not None:
                raise LedgerError(f"the release of the charge of {self.charge.time} was begun by another process")
            if self._store.has("draws"):
                self._store.execute(_DELETE, (self.charge.id, self._staying))
            self._ledger.store_answer(self.charge, _LOST)
        self._keeping = False

    def _kept(self, asked: str) -> tuple[bytes, str] | None:
        """The draw at this place and its digest, inside a transaction."""
        if not self._keeping or not self._store.has("draws"):
            return None
        number = self._taken + 1
        found = self._store.execute(_READ, (self.charge.id, number)).fetchone()
        if found is None:
            return None
        before, drawn, digest = found
        if not isinstance(drawn, bytes) or digest != self._digest(before, drawn):
            raise self._store.damaged()
        if before != asked:
            raise LedgerError(
                f"what was drawn for the charge of {self.charge.time} answers other questions than this run asks (draw"
                f" {number}): go on with the version and the settings that it was begun with, or pay for a new release"
                " (again=True, --again)"
            )
        return drawn, digest

    def _keep(self, asked: str, drawn: bytes) -> tuple[bytes, str]:
        if self._store.answer(self.charge.id) is not None:
            raise LedgerError(f"the release of the charge of {self.charge.time} was finished by another process")
        self._store.add_tables("draws")
        digest = self._digest(asked, drawn)
        self._store.change(_ADD, (self.charge.id, self._taken + 1, asked, drawn, digest))
        return drawn, digest

    def _digest(self, asked: str, drawn: bytes) -> str:
        return row_digest(self._last, self.charge.id, self._taken + 1, asked, sha256(drawn).hexdigest())

    def complete(self, place: str, record: bytes) -> None:
        """The release is written, and only to be moved to its place: who finds it there may finish it.

        record  as for `finish`
        """
        if self._keeping:
            told = {"place": place, "record": record.decode(), "staying": self._staying}
            self.take(_COMPLETE, lambda: json.dumps(told).encode())

    def finish(self, record: bytes) -> None:
        """The release was made: the same work is a new charge from now on, and draws that are not to stay are deleted.

        record  what the ledger says of it, see `finished`
        """
        with self._store.writing():
            if self._store.has("draws"):
                self._store.execute(_DELETE, (self.charge.id, self._staying))
            if self._keeping:
                self._ledger.store_answer(self.charge, record)
            else:  # in the place of `_LOST`
                self._store.execute(_REPLACE, (record, sha256(record).hexdigest(), self.charge.id))
