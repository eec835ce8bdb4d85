"""Which records of each person are kept: at most m, by a keyed hash.

The hash is of the key, the person, what the record says, and its rank among equal records of that person; of each
person the m records with the smallest hashes are kept. So which ones does not depend on their order, on other persons,
on the source that they are read from, on cores or on pieces, and for a random key no record is favoured. What is
promised to a person holds for every key (`privacy.unit`); the key is random so that the choice is fair, and
fresh for each charge so that what one release left out another may keep.

The hash is multilinear over codes modulo 2^64 (Carter and Wegman, 1981), mixed as SplitMix64 does. Two different
records of a person have the same hash with a probability of about 2^-64; then their order decides between them.

As persons are chosen from each by herself, records are looked at some persons after others (`Persons.parts`): what is
in memory besides the table is one such part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.parallel import ahead
from qrelease._util.typing import Codes, Mask
from qrelease.data.mixing import mixed
from qrelease.data.persons import Part, Persons
from qrelease.data.sources.kernels import add_products, drawn_places, first_drawn, pack, read_only
from qrelease.data.spill import MAX_BYTES_BY_PERSON, Spill, held

_SUMMED: Final = 1 << 15
"""Records that are hashed at a time, so that they stay in a cache."""

_FORGOTTEN: Final = 1 << 21
"""Records of files after which what was read of them is let go of."""

BOUNDING_BYTES: Final = 64
"""Of a record, while it is decided which ones of each person are kept."""


@final
@dataclass(frozen=True)
class Choice:
    """How many records of each person are kept, and of what they are hashed.

    at_most   m
    key       secret, drawn for one charge
    hashed    by the name of an attribute, which of a table's columns is hashed, and by code what it is hashed as, if
              not as the code
    distinct  columns: of records of a person that are equal in all of them one is kept
    bits      whether each record counts in parts of 2^-bits, or as one
    """

    at_most: int
    key: bytes
    hashed: Sequence[tuple[str, int, npt.NDArray[np.uint64] | None]]
    distinct: Sequence[int] = ()
    bits: int | None = None

    def sums(self, columns: Sequence[Codes]) -> npt.NDArray[np.uint64]:
        """What the columns of records add to their hashes, (n,)."""
        found = np.zeros(len(columns[0]), np.uint64)
        terms = [
            (columns[place], table, _word(self.key, f"column {name}") | np.uint64(1))
            for name, place, table in self.hashed
        ]
        for first in range(0, len(found), _SUMMED):
            block = slice(first, first + _SUMMED)
            for column, table, factor in terms:
                codes = column[block] if table is None else table[np.minimum(column[block], len(table) - 1)]
                add_products(read_only(codes, codes.dtype), factor, found[block])
        return found

    def of(
        self, persons: Persons, sums: npt.NDArray[np.uint64], distinct: Sequence[Codes]
    ) -> tuple[Mask, npt.NDArray[np.int64] | None]:
        """Which of some persons' records are kept, (n,), and in what parts each kept one counts.

        distinct  the codes of these columns, of the records
        """
        hashes = Hashes.of(persons, sums, self.key)
        if self.bits is not None:
            return parts(hashes, self.at_most, self.bits)
        return kept(hashes, self.at_most, distinct), None


def kept_columns(
    persons: Persons, columns: Sequence[Codes], choice: Choice
) -> tuple[list[Codes], npt.NDArray[np.int64] | None]:
    """The columns of the records that are kept, and in what parts each of them counts.

    Records in memory stay in their order; of those in files what is kept goes to files again where it is much.
    """
    return (_kept_of_files if persons.in_runs else _kept_of_memory)(persons, columns, choice)


def _kept_of_memory(
    persons: Persons, columns: Sequence[Codes], choice: Choice
) -> tuple[list[Codes], npt.NDArray[np.int64] | None]:
    chosen, sums = np.zeros(len(persons), np.bool_), choice.sums(columns)
    counted = np.zeros(0 if choice.bits is None else len(persons), np.int64)
    for part in persons.parts():
        mask, of_part = choice.of(part.persons, part.of(sums), [part.of(columns[axis]) for axis in choice.distinct])
        rows = np.flatnonzero(mask) if isinstance(part.rows, tuple) else part.rows[mask]
        chosen[rows] = True
        if of_part is not None:
            counted[rows] = of_part
    del sums
    found = [_packed(column, chosen) for column in columns]
    return found, None if choice.bits is None else counted[chosen]


def _kept_of_files(
    persons: Persons, columns: Sequence[Codes], choice: Choice
) -> tuple[list[Codes], npt.NDArray[np.int64] | None]:
    types = [*(column.dtype for column in columns), *([] if choice.bits is None else [np.dtype(np.int64)])]
    files, seen = Spill(types, held(MAX_BYTES_BY_PERSON)), 0
    for part, some, sums in ahead(_read_parts(persons, columns, choice)):
        mask, of_part = choice.of(part.persons, sums, [some[axis] for axis in choice.distinct])
        files.add([*(_packed(column, mask) for column in some), *([] if of_part is None else [of_part])])
        seen += len(mask)
        if seen > _FORGOTTEN:
            memory.forget([*columns, persons.words])
            seen = 0
    memory.forget([*columns, persons.words])
    found, _ = files.whole()
    return (found, None) if choice.bits is None else (found[:-1], found[-1])


def _read_parts(
    persons: Persons, columns: Sequence[Codes], choice: Choice
) -> Iterator[tuple[Part, list[Codes], npt.NDArray[np.uint64]]]:
    """Parts of the records, their columns, and what these add to the hashes."""
    for part in persons.parts():
        some = part.of_all(columns)
        yield part, some, choice.sums(some)


def _packed(column: Codes, chosen: Mask) -> Codes:
    """The chosen entries of a column."""
    found = np.empty(np.count_nonzero(chosen) + 1, column.dtype)
    pack(read_only(column, column.dtype), chosen, found)
    return found[:-1]


@final
@dataclass(frozen=True)
class Hashes:
    """Of some persons' records: all that they have. Private.

    whose     number of each record's person, (n,)
    persons   what a person adds to the hash of each record, by that number
    records   what the record adds, (n,)
    rank_word by which ranks are multiplied
    """

    whose: npt.NDArray[np.int64]
    persons: npt.NDArray[np.uint64]
    records: npt.NDArray[np.uint64]
    rank_word: np.uint64

    @classmethod
    def of(cls, persons: Persons, records: npt.NDArray[np.uint64], key: bytes) -> Hashes:
        """By a key, and what `Choice.sums` says of the records."""
        digests = persons.digests
        of_persons = mixed(mixed(digests[:, 0] ^ _word(key, "person")) ^ digests[:, 1])
        return cls(persons.codes, of_persons, records, _word(key, "rank") | np.uint64(1))

    @property
    def _begins(self) -> npt.NDArray[np.int64]:
        """Where each person's records begin, one person's after another's."""
        counts = np.bincount(self.whose, minlength=1)
        return np.cumsum(counts) - counts

    def first(self, at_most: int) -> Mask:
        """Which records are among so many of their person with the smallest hashes, (n,)."""
        found = np.ones(len(self.whose), np.bool_)
        first_drawn(self.records, self.whose, self.persons, self._begins, self.rank_word, at_most, found)
        return found

    def places(self) -> npt.NDArray[np.int64]:
        """The place of each record in the order of their hashes, (n,), from 0: among those of the same person."""
        found = np.empty(len(self.whose), np.int64)
        hashed = mixed(self.records + self.persons[self.whose])
        drawn_places(hashed, self.whose.astype(np.int64), self._begins, self.rank_word, found)
        return found


def kept(hashes: Hashes, at_most: int, distinct: Sequence[Codes] = ()) -> Mask:
    """Which records are kept, (n,).

    at_most  m
    distinct codes (n,) of columns: of records of a person that are equal in all of them the one that is first by its
             hash is kept, before the others are chosen
    """
    if not len(distinct):
        return hashes.first(at_most)
    codes = hashes.whose
    left = np.zeros(len(codes), np.bool_)
    places = hashes.places()
    order = np.lexsort((places, *distinct, codes))
    first = order[_places(codes[order], *(column[order] for column in distinct)) == 0]
    # Of these the first by their hashes again, as in a table that never had the others.
    first = first[np.lexsort((places[first], codes[first]))]
    left[first[_places(codes[first]) < at_most]] = True
    return left


def parts(hashes: Hashes, at_most: int, bits: int) -> tuple[Mask, npt.NDArray[np.int64]]:
    """Which records are kept, (n,), and in what part of their person each kept one counts, in multiples of 2^-bits.

    The k that are kept of a person count 1/k each, rounded: what is left goes to those with the smallest hashes, one
    multiple each, so that they sum to 1 exactly, and each record counts 1/k on average over the keys.

    bits  2^bits is at least k
    """
    places = hashes.places()
    chosen: Mask = places < at_most
    codes = hashes.whose[chosen]
    left = np.bincount(codes, minlength=1)[codes]
    counted: npt.NDArray[np.int64] = (1 << bits) // left + (places[chosen] < (1 << bits) % left)
    return chosen, counted


def _places(*ordered: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The place of each among those equal to it in all arrays, from 0, where equal ones stand together."""
    differ = np.any([each[1:] != each[:-1] for each in ordered], axis=0)
    first = np.flatnonzero(np.append(True, differ))
    lengths = np.diff(np.append(first, len(ordered[0])))
    return np.arange(len(ordered[0])) - np.repeat(first, lengths)


def _word(key: bytes, what: str) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(what.encode(), key=key[:64], digest_size=8).digest(), "little"))
