"""How much each category is named by persons, each of whom has one vote to divide: private sums behind a selection.

A person with d categories in a column, be it in however many records, names each of them once, for 1/√d; one with more
than `MAX_NAMED` names so many of them. So her part of all sums together, as a vector, has length 1 at most:
d · (1/√d)² = 1. That is the weighting of Gopi, Gulhane, Kulkarni, Shen, Shokouhi & Yekhanin 2020 (*Differentially
private set union*, Algorithm 4). It needs no public number of categories that a person has: where she has one, it
counts 1, and where she has nine, each counts a third.

Weights are whole: w(d) = ⌊WEIGHT/√d⌋ units, so d · w(d)² <= WEIGHT² holds exactly.

Which ones she names, where she has too many, is decided by a keyed hash of her, the column and the text, and of nothing
that other persons have: neither by the order of records nor by the numbers of texts, which others' records may change.
So tables that differ by one person differ by her votes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import isqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Ints
from qrelease.data.fingerprint import text_hashes
from qrelease.data.mixing import mixed
from qrelease.data.persons import Persons

MAX_NAMED: Final = 64
"""k, the most categories of a column that one person names.

More would raise the threshold for all, since each of them could be named by her alone, but slowly: at δ = 1e-10 it is
10 % higher than for k = 1, and from 64 to 1024 another 5 %. Each person's votes lose nothing by a k that is large.
"""

WEIGHT: Final = 1 << 12
"""The units in which votes are counted: what one category of a person counts who has no other."""

_FLAGS: Final = 8
"""Bytes of flags for each record, at most, by which the different pairs are found: as many as a pair has."""


def weight(named: int) -> int:
    """What each category counts of a person who names so many, in units of 1/`WEIGHT`, rounded down.

    Examples
    --------
    >>> [weight(d) for d in (1, 2, 4, 9)]
    [4096, 2896, 2048, 1365]
    """
    return isqrt(WEIGHT * WEIGHT // named)


def votes(
    persons: Persons, codes: npt.NDArray[Any], texts: Sequence[str], key: bytes, name: str, most: int = MAX_NAMED
) -> Ints:
    """The sum of the votes for each text of a column, (texts,), in units of 1/`WEIGHT`. Private.

    Parameters
    ----------
    persons
        Of the records.
    codes
        Which text each record has, (n,); one past all texts is no category.
    texts
        By code.
    key
        Secret, drawn for one charge; at most 64 bytes.
    name
        The column.
    most
        k, how many categories a person names at most.
    """
    hashes = text_hashes(texts, _subkey(key, name))
    weights = np.array([0, *map(weight, range(1, most + 1))], np.int64)
    found = np.zeros(len(texts), np.int64)
    for part in persons.parts():  # each has all records of its persons
        named, had = _named(part.persons, part.of(codes), hashes, most)
        np.add.at(found, named, weights[had])
    return found


def _named(persons: Persons, codes: npt.NDArray[Any], hashes: npt.NDArray[np.uint64], most: int) -> tuple[Ints, Ints]:
    """The categories that persons name, one after another's, and how many the person of each names."""
    texts, digests = len(hashes) - 1, persons.digests
    known = codes < texts
    pairs = persons.codes[known].astype(np.int64) * max(texts, 1) + codes[known].astype(np.int64)
    if len(digests) * texts <= _FLAGS * len(pairs):
        flags = np.zeros(len(digests) * texts, np.bool_)
        flags[pairs] = True
        pairs = np.flatnonzero(flags)
    else:
        pairs = np.unique(pairs)
    whose, named = np.divmod(pairs, max(texts, 1))
    places = np.lexsort((mixed(mixed(hashes[named] ^ digests[whose, 0]) ^ digests[whose, 1]), whose))
    whose, named = whose[places], named[places]  # of each person in the order of the hashes
    chosen = np.arange(len(whose)) - np.searchsorted(whose, whose) < most
    whose, named = whose[chosen], named[chosen]
    return named, np.bincount(whose, minlength=1)[whose]


def _subkey(key: bytes, name: str) -> bytes:
    return blake2b(f"categories of {name}".encode(), key=key[:64], digest_size=32).digest()
