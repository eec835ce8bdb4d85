"""Keyed digests of a table, by which a ledger tells whether rows changed. Neither key nor digest leaves the ledger.

The order of the records does not count: an export from a database has another one each time. So every record is hashed
by itself, a keyed sum over its codes (a multilinear hash modulo 2^64; Carter and Wegman, 1981) that is mixed, and the
hashes are added up, twice with independent keys. It is to notice what happened, not to withstand a holder who looks for
two tables that are taken for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from hashlib import blake2b, shake_256
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.mixing import mixed

_BLOCK_RECORDS: Final = 1 << 15  # that are hashed at once, so that they stay in the cache
_BYTES_MAPPED: Final = 1 << 27  # after which what was read of mapped files is let go of


def fingerprint(
    domain: Domain,
    columns: Sequence[npt.NDArray[Any]],
    key: bytes,
    persons: npt.NDArray[np.uint64] | None = None,
) -> tuple[str, str]:
    """Digests in hex of how records are encoded, and of the encoded records in any order.

    columns  the codes of each column, (n,)
    persons  digests of the persons whose records they are, (n, 2), where these are told apart
    """
    sums = record_sums(hashed_columns(columns, persons), key)
    return digests(domain, key, len(columns[0]), sums, of_persons=persons is not None)


def hashed_columns(
    columns: Sequence[npt.NDArray[Any]], persons: npt.NDArray[np.uint64] | None
) -> list[npt.NDArray[Any]]:
    """What is hashed of each record: its codes, and the digest of its person where these are told apart."""
    return [*columns, *([] if persons is None else persons.T)]


def digests(domain: Domain, key: bytes, records: int, sums: tuple[int, int], *, of_persons: bool) -> tuple[str, str]:
    """The same digests, by the number of records and the sums of their hashes (`record_sums`)."""
    person = domain.person if of_persons else None
    more = [] if person is None else [[("person", person.column)]]
    return schema_digest(domain, key, *more), digest_of(key, records, *sums)


def schema_digest(domain: Domain, key: bytes, *more: object) -> str:
    """A digest in hex of how records are encoded, and of what else is said of them."""
    return digest_of(key, *map(_spelled, domain), *more)


def record_sums(columns: Sequence[npt.NDArray[Any]], key: bytes) -> tuple[int, int]:
    """Two sums of hashes of the records modulo 2^64: those of parts of the records add up."""
    lanes = np.frombuffer(shake_256(key + b"records").digest(16 * (len(columns) + 1)), np.uint64) | np.uint64(1)
    one, two = lanes.reshape(2, -1)
    return _sum(columns, one), _sum(columns, two)


def hashed_texts(texts: Sequence[str], codes: npt.NDArray[Any], key: bytes) -> npt.NDArray[np.uint64]:
    """A number for the text of each record (n,): that of a text does not depend on when it came."""
    found: npt.NDArray[np.uint64] = text_hashes(texts, key)[np.minimum(codes, len(texts))]
    return found


def text_hashes(texts: Sequence[str], key: bytes) -> npt.NDArray[np.uint64]:
    """A number for each text, and 0 for a missing one: (texts + 1,)."""
    hashes = [int.from_bytes(blake2b(t.encode(), key=key, digest_size=8).digest(), "little") for t in texts]
    return np.array([*hashes, 0], np.uint64)


def _sum(columns: Sequence[npt.NDArray[Any]], lane: npt.NDArray[np.uint64]) -> int:
    """The sum modulo 2^64 of the hashes of all records.

    lane  a multiplier for each column, odd, and a constant, (d + 1,)
    """
    total, of_block = 0, _BLOCK_RECORDS * sum(column.itemsize for column in columns)
    blocks_mapped = max(_BYTES_MAPPED // of_block, 1)
    for number, first in enumerate(range(0, len(columns[0]), _BLOCK_RECORDS)):
        if number % blocks_mapped == 0:
            memory.forget(columns)
        pieces = [column[first : first + _BLOCK_RECORDS] for column in columns]
        hashed = np.full(len(pieces[0]), lane[-1])
        for codes, multiplier in zip(pieces, lane, strict=False):
            hashed += np.multiply(codes, multiplier, dtype=np.uint64, casting="unsafe")
        total += int(mixed(hashed).sum(dtype=np.uint64))
    return total % 2**64


def _spelled(attribute: Attribute) -> list[tuple[str, object]]:
    """What it is, without what it leaves as it is by default: a field that is added later changes no digest."""
    return [(f.name, v) for f in fields(attribute) if (v := getattr(attribute, f.name)) != f.default]


def digest_of(key: bytes, *values: object) -> str:
    """A keyed digest in hex of plain values."""
    return blake2b(ascii(values).encode(), key=key, digest_size=16).hexdigest()
