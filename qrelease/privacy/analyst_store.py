"""The rows of the analysts in a ledger's file: who may ask, how much each may spend, and what each was answered.

The same rules as in `ledger_store`: a digest binds each row, an analyst's requests are chained, and rows that are
counted cannot be lost unnoticed. Every function runs inside a transaction of the `Store`.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from qrelease.privacy.ledger_store import Store, row_digest

_REGISTRY = "SELECT analysts, digest FROM registry"
_SET_REGISTRY = """INSERT INTO registry VALUES (1, ?, ?)
    ON CONFLICT (one) DO UPDATE SET analysts = excluded.analysts, digest = excluded.digest"""
_ANALYST = "SELECT id, name, token, budget, tally, active, requests, stored, last, digest FROM analysts"
_ALL, _BY_NAME, _BY_TOKEN = f"{_ANALYST} ORDER BY id", f"{_ANALYST} WHERE name = ?", f"{_ANALYST} WHERE token = ?"
_ADD = "INSERT INTO analysts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SET = """UPDATE analysts
    SET token = ?, budget = ?, tally = ?, active = ?, requests = ?, stored = ?, last = ?, digest = ?
    WHERE id = ? AND digest = ?"""
_REQUEST = "SELECT number, key, time, request, response, digest FROM requests WHERE analyst = ?"
_BY_KEY, _FROM = f"{_REQUEST} AND key = ?", f"{_REQUEST} AND number >= ? ORDER BY number LIMIT ?"
_DIGEST = "SELECT digest FROM requests WHERE analyst = ? AND number = ?"
_ADD_REQUEST = "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?)"


class AnalystRow(NamedTuple):
    """One analyst, as text.

    token     the SHA-256 of the token, in hex
    tally     the exact sums of what was spent
    active    0 once revoked
    requests  how many there are, `stored` the bytes of what was asked and answered, `last` the digest of the last
    """

    id: int
    name: str
    token: str
    budget: str
    tally: str
    active: int = 1
    requests: int = 0
    stored: int = 0
    last: str = ""


class RequestRow(NamedTuple):
    """One request that was answered, numbered from 1 for each analyst, and the very bytes of the answer."""

    number: int
    key: str
    time: str
    request: str
    response: bytes


def analysts(store: Store) -> list[AnalystRow]:
    """All of them, in the order in which they were added, checked."""
    if not store.has("registry"):
        return []
    found = store.execute(_REGISTRY).fetchone()
    rows = [_checked(store, row) for row in store.execute(_ALL)]
    if not found or found[1] != row_digest(found[0]) or [row.id for row in rows] != [*range(1, found[0] + 1)]:
        raise store.damaged()
    return rows


def by_name(store: Store, name: str) -> AnalystRow | None:
    """The analyst of that name, if any."""
    return _one(store, _BY_NAME, name)


def by_token(store: Store, token: str) -> AnalystRow | None:
    """The analyst whose token has that SHA-256, if any."""
    return _one(store, _BY_TOKEN, token)


def add(store: Store, name: str, token: str, budget: str, tally: str) -> None:
    """Add an analyst of a new name."""
    if not store.has("registry"):
        store.add_tables("analysts")
    count = len(analysts(store)) + 1 if store.execute(_REGISTRY).fetchone() else 1
    row = AnalystRow(count, name, token, budget, tally)
    store.change(_ADD, (*row, row_digest(*row)))
    store.change(_SET_REGISTRY, (count, row_digest(count)))


def replace(store: Store, found: AnalystRow, row: AnalystRow) -> bool:
    """Put all but an analyst's name in place; False, with nothing done, if the row is not as it was found."""
    values = (row.token, row.budget, row.tally, row.active, row.requests, row.stored, row.last, row_digest(*row))
    return store.execute(_SET, (*values, found.id, row_digest(*found))).rowcount == 1


def request(store: Store, analyst: AnalystRow, key: str) -> RequestRow | None:
    """What the analyst asked under that key, if anything."""
    found = store.execute(_BY_KEY, (analyst.id, key)).fetchone()
    return None if found is None else next(_chained(store, analyst, [found]))


def requests(store: Store, analyst: AnalystRow, first: int, count: int) -> list[RequestRow]:
    """Up to so many requests, in order, from the `first`-th."""
    found = store.execute(_FROM, (analyst.id, first, count)).fetchall()
    if len(found) != max(min(count, analyst.requests - first + 1), 0):
        raise store.damaged()
    return list(_chained(store, analyst, found))


def add_request(store: Store, analyst: AnalystRow, row: RequestRow) -> AnalystRow:
    """Append a request; returns the row of the analyst that counts it, not put yet."""
    last = _link(analyst.last, analyst.id, row)
    store.change(_ADD_REQUEST, (analyst.id, *row, last))
    stored = analyst.stored + len(row.key) + len(row.request.encode()) + len(row.response)
    return analyst._replace(requests=row.number, stored=stored, last=last)


def _one(store: Store, statement: str, value: str) -> AnalystRow | None:
    if not store.has("registry"):
        return None
    found = store.execute(statement, (value,)).fetchone()
    return None if found is None else _checked(store, found)


def _checked(store: Store, found: tuple[object, ...]) -> AnalystRow:
    if found[-1] != row_digest(*found[:-1]):
        raise store.damaged()
    return AnalystRow(*found[:-1])  # type: ignore[arg-type]


def _chained(store: Store, analyst: AnalystRow, found: list[tuple[object, ...]]) -> Iterator[RequestRow]:
    """Rows that follow each other, checked against the digest before the first and, at the end, the analyst's."""
    last = ""
    for *values, digest in found:
        row = RequestRow(*values)  # type: ignore[arg-type]
        if not last and row.number > 1:
            before = store.execute(_DIGEST, (analyst.id, row.number - 1)).fetchone()
            last = before[0] if before else "lost"
        last = _link(last, analyst.id, row)
        if digest != last or row.number > analyst.requests:
            raise store.damaged()
        if row.number == analyst.requests and last != analyst.last:
            raise store.damaged()
        yield row


def _link(last: str, analyst: int, row: RequestRow) -> str:
    response: object = row.response
    content = sha256(response).hexdigest() if isinstance(response, bytes) else repr(response)
    return row_digest(last, analyst, *row[:-1], content)
