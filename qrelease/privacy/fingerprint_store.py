"""The rows of a ledger's file that say for which table each charge was made, as keyed digests, and the key.

The same rules as in `ledger_store`: records are chained, and counted in a row that a digest binds. A record is written
where the table is another than that of the charge before, so there are few. Every function runs inside a transaction of
the `Store`. Files of format 4 have no such rows: they get them, and the next format, with `key`.
"""

import os
from hashlib import sha256

from qrelease.privacy.ledger_entries import UNKNOWN, Record, TableDigests
from qrelease.privacy.ledger_store import Store, row_digest

_KEY = "SELECT key, records, last, digest FROM tables_key"
_SET_KEY = """INSERT INTO tables_key VALUES (1, ?, ?, ?, ?) ON CONFLICT (one) DO UPDATE
    SET key = excluded.key, records = excluded.records, last = excluded.last, digest = excluded.digest"""
_RECORD = "SELECT number, entry, session, time, schema, records, digest FROM tables"
_ALL, _LAST = f"{_RECORD} ORDER BY number", f"{_RECORD} WHERE number = ?"
_ADD = "INSERT INTO tables VALUES (?, ?, ?, ?, ?, ?, ?)"


def known_key(store: Store) -> bytes | None:
    """The key of the digests, if there is one."""
    return _counted(store)[0] if store.has("tables_key") else None


def key(store: Store) -> bytes:
    """The key of the digests, random; a file that has none yet gets one."""
    known = known_key(store)
    if known is not None:
        return known
    store.add_tables("fingerprints")
    new = os.urandom(32)
    _set_key(store, new, 0, "")
    return new


def stored_fingerprints(store: Store) -> list[Record]:
    """All of them, in order, checked."""
    if not store.has("tables_key"):
        return []
    found, last = [], ""
    for *values, digest in store.execute(_ALL):
        found.append(Record(*values))
        last = row_digest(last, *values)
        if digest != last or found[-1].number != len(found):
            raise store.damaged()
    if _counted(store)[1:] != (len(found), last):
        raise store.damaged()
    return found


def note(store: Store, entry: int, session: int, time: str, rows: TableDigests | None) -> None:
    """Write down for which table an entry is, if it is another than before or that of a session."""
    if not store.has("tables_key"):
        return
    named = UNKNOWN if rows is None else rows
    secret, count, last = _counted(store)
    before = store.execute(_LAST, (count,)).fetchone() if count else None
    if count and (not before or before[-1] != last):
        raise store.damaged()
    if not session and (Record(*before[:-1]).rows if before else UNKNOWN) == named:
        return
    record = Record(count + 1, entry, session, time, *named)
    chained = row_digest(last, *record)
    store.change(_ADD, (*record, chained))
    _set_key(store, secret, record.number, chained)


def _counted(store: Store) -> tuple[bytes, int, str]:
    """The key, how many records there are, and the digest of the last."""
    found = store.execute(_KEY).fetchone()
    if not found or not isinstance(found[0], bytes) or found[-1] != _bound(*found[:-1]):
        raise store.damaged()
    secret, count, last, _ = found
    return secret, count, last


def _set_key(store: Store, secret: bytes, count: int, last: str) -> None:
    store.change(_SET_KEY, (secret, count, last, _bound(secret, count, last)))


def _bound(secret: bytes, count: int, last: str) -> str:
    return row_digest(sha256(secret).hexdigest(), count, last)
