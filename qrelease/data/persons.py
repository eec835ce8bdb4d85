"""Whose records they are: keys of persons, read as numbers, and digests by which persons are known in all files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property
from hashlib import blake2b
from numbers import Complex
from typing import Any, Final, Protocol, final
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Mask
from qrelease.data.key_table import KeyTable
from qrelease.data.person import Person
from qrelease.data.person_digests import MAX_EXACT, Identity, digests_of, whole_digests, word_digests
from qrelease.data.sources.kernels import BUCKETS, gather, read_only
from qrelease.data.spelling import NAN, meaning, text_of
from qrelease.data.spill import entries_of_runs, held, ordered_by_bucket
from qrelease.errors import InvalidInput

_BLANK: Final = frozenset({"", "na", "n/a", "null", "none", "nat", "<na>", *(text.lower() for text in NAN)})
"""Texts, in small letters, that are the key of nobody, unless they are listed as missing."""

NOBODY: Final = -1
"""The code of a record without a person, which is left out."""

_FRACTION: Final = re.compile(r"[.,]\d{6}(\d+)")
"""Of a second, in a text that is a moment; Python's own reader cuts it after six digits."""

_TO_SECONDS: Final = len("2020-01-31T23:59:59")

_SHOWN: Final = 40
"""Characters of a key in a message."""

_PART_BYTES: Final = 1 << 27
"""Bytes that it takes at most to choose from a part of the records, where persons have few each."""

_EACH_BYTES: Final = 1 << 10
"""Bytes that a record of a part takes at most."""

_EXPECTED: Final = 6
"""Records of a person, for the room of a table of persons: with more the room is larger than it need be."""

_NUMBERED: Final = 1 << 14
"""Records whose persons are numbered at a time: the table has room for as many more."""

_NO_CUTS: Final = np.empty((0, BUCKETS + 1), np.int64)


Rows = npt.NDArray[np.int32] | tuple[slice, ...]
"""Records of a table: their positions, or where runs of them are."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """Some of the records of a table: all of their persons. Private.

    rows     which ones, each person's in their order
    persons  whose each of them is
    """

    rows: Rows
    persons: Persons

    def of(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A column's entries for these records."""
        return _taken([column], self.rows)[0]

    def of_all(self, columns: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """The same of some columns, sooner."""
        return _taken(columns, self.rows)


@final
class Persons:
    """Whose record each one is. Private.

    Persons have numbers from 0, by `codes`, or words by which they are numbered once that is asked for (`of_words`).

    codes    a number of the person of each record, (n,)
    digests  by that number, 128 bits that depend on what the person's key stands for alone, (persons, 2): nobody finds
             two keys that have the same ones, so tables of different files are joined by them
    """

    def __init__(self, codes: npt.NDArray[np.int64], digests: npt.NDArray[np.uint64]) -> None:
        self._words, self._known, self._cuts = codes, digests, _NO_CUTS
        self._numbered = True

    @classmethod
    def of(cls, person: Person, keys: Iterable[object]) -> tuple[Persons, Mask]:
        """The persons that the keys of all records name, in order, and which records have a key.

        Raises `InvalidInput`, naming the row from 0, for a missing key and for two that are spelled differently.
        """
        reader = PersonReader(person)
        codes = reader.codes(keys, lambda row: f"row {row} (from 0)")
        kept = codes != NOBODY
        return cls(codes[kept], reader.digests()), kept

    @classmethod
    def of_words(
        cls, words: npt.NDArray[np.int64], named: npt.NDArray[np.uint64], cuts: npt.NDArray[np.int64] | None = None
    ) -> Persons:
        """Persons by words, as `PersonWords` gives them.

        words  of each record, (n,)
        named  digests of the persons whose words are not their keys, (m, 2)
        cuts   where the records stand in runs, each ordered by buckets: where each bucket of each run begins,
               and the run's end, (runs, BUCKETS + 1)
        """
        persons = cls(words, named)
        persons._numbered = False
        persons._cuts = _NO_CUTS if cuts is None else cuts
        return persons

    @property
    def words(self) -> npt.NDArray[np.int64]:
        """What tells persons apart, (n,): their words, or numbers."""
        return self._words

    @property
    def in_runs(self) -> bool:
        """Whether the records are in files, in an order of their persons: there are too many for memory."""
        return len(self._cuts) > 0

    @property
    def codes(self) -> npt.NDArray[np.int64]:
        """A number of the person of each record, (n,), from 0."""
        return self._words if self._numbered else self._by_number[0]

    @property
    def digests(self) -> npt.NDArray[np.uint64]:
        """By the number of a person, the digest of the key, (persons, 2)."""
        return self._known if self._numbered else self._by_number[1]

    @cached_property
    def _by_number(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        return self._numbers(self._words)

    def _numbers(self, words: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """Codes and digests of persons in the order in which they first come."""
        table, new = KeyTable(len(words) // _EXPECTED), _New()
        found = [np.empty(0, np.int64)]
        found += [table.codes(np.asarray(words[i : i + _NUMBERED]), new) for i in range(0, len(words), _NUMBERED)]
        distinct = np.concatenate([np.empty(0, np.int64), *new.pieces])
        digests = self._known[distinct] if self._numbered else word_digests(distinct, self._known)
        return np.concatenate(found), digests

    @property
    def unit(self) -> npt.NDArray[np.uint64]:
        """The digest of the person of each record, (n, 2)."""
        return self.digests[self.codes]

    def parts(self) -> Iterator[Part]:
        """All records, those of some persons after those of others: parts that fit in a processor's cache."""
        at_most = held(_PART_BYTES) // _EACH_BYTES
        if self.in_runs:
            runs = self._cuts.tolist()
            for first, last in _grouped(np.diff(self._cuts).sum(axis=0), at_most):
                yield self._part(tuple(slice(run[first], run[last]) for run in runs))
        elif len(self) <= at_most:
            yield Part((slice(0, len(self)),), self)
        else:
            order, cuts = ordered_by_bucket(self._words)
            for first, last in _grouped(np.diff(cuts), at_most):
                yield self._part(order[cuts[first] : cuts[last]])

    def _part(self, rows: Rows) -> Part:
        return Part(rows, Persons(*self._numbers(_taken([self._words], rows)[0])))

    @property
    def largest_part(self) -> int:
        """The records of the largest part, or more."""
        return int(np.diff(self._cuts).sum(axis=0).max()) if self.in_runs else len(self)

    def rows_of(self, parents: Persons) -> npt.NDArray[np.int64]:
        """For each record the row of a table that has one for each person, (n,); -1 for a person without one."""
        known = {digest: row for row, digest in enumerate(_as_bytes(parents.unit))}
        rows = np.array([known.get(digest, -1) for digest in _as_bytes(self.digests)], np.int64)
        return rows[self.codes]

    def __len__(self) -> int:
        return len(self._words)

    def __repr__(self) -> str:
        return "Persons(private)"


@final
class _New:
    """Numbers new words of a `KeyTable` in order, and keeps them."""

    def __init__(self) -> None:
        self.pieces: list[npt.NDArray[np.int64]] = []
        self._count = 0

    def __call__(self, _: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        self.pieces.append(new)
        self._count += len(new)
        return np.arange(self._count - len(new), self._count)


def _taken(columns: Sequence[npt.NDArray[Any]], rows: Rows) -> list[npt.NDArray[Any]]:
    if isinstance(rows, tuple):
        return entries_of_runs(columns, rows)
    found = [np.empty(len(rows), column.dtype) for column in columns]
    for column, entries in zip(columns, found, strict=True):
        gather(read_only(column, column.dtype), rows, entries)
    return found


def _grouped(records: npt.NDArray[np.int64], at_most: int) -> Iterator[tuple[int, int]]:
    """From which bucket to which one parts go that have so many records at most, unless one bucket has more.

    records  of each bucket
    """
    first, together = 0, 0
    for place, count in enumerate(records.tolist()):
        if together and together + count > at_most:
            yield first, place
            first, together = place, 0
        together += count
    yield first, len(records)


def _as_bytes(digests: npt.NDArray[np.uint64]) -> list[bytes]:
    """The digests (n, 2), each as 16 bytes."""
    found: list[bytes] = digests.view("V16").reshape(-1).tolist()
    return found


class KeyReader(Protocol):
    """What numbers persons by their keys: `PersonWords` in a table, or `PersonReader`.

    where  says of a key's position where it stands, for errors
    """

    def codes(self, keys: Iterable[object], where: Callable[[int], str]) -> npt.NDArray[np.int64]:
        """Of values of any type."""

    def text_codes(self, texts: Iterable[str], where: Callable[[int], str]) -> npt.NDArray[np.int64]:
        """Of texts."""

    def whole_codes(self, keys: npt.NDArray[Any], where: Callable[[int], str]) -> npt.NDArray[np.int64]:
        """Of whole numbers."""


@final
class PersonReader(dict[str, int]):
    """Texts of keys to numbers of persons, in the order in which they first come.

    new  takes of each new person how the key is spelled, what it stands for, and that as `rounded_key` has it
    """

    def __init__(self, person: Person, new: list[tuple[str, Identity, Identity]] | None = None) -> None:
        super().__init__()
        self._person = person
        # A mark is matched by what it stands for: how a key is spelled may depend on the records beside it.
        self._marks = {stands_for(text) for text in person.missing for stands_for in (person_identity, rounded_key)}
        self._texts: dict[tuple[str, str], str] = {}
        self._rounded: dict[tuple[str, str], str] = {}  # of keys finer than a library may keep them
        self._new = new
        self._whole = KeyTable()
        # Whole numbers are written down as texts only where there are others beside them, which may be the same.
        self._unwritten: list[npt.NDArray[np.int64]] = []

    def __missing__(self, text: str) -> int:
        if self._unwritten:
            self._write_down()
            return self[text]
        column = self._person.column
        try:
            stands_for = person_identity(text)
        except InvalidInput as error:
            raise InvalidInput(f"person column {column!r}: {error}") from None
        near = rounded_key(text) if stands_for[0] in ("number", "moment") and not text.isdigit() else stands_for
        if stands_for in self._marks or near in self._marks:
            self[text] = NOBODY
            return NOBODY
        if blank(text):
            raise InvalidInput(
                f"person column {column!r}: {text!r} looks like a missing key; list it in missing = [{text!r}] of"
                " [person], and records with it are left out"
            )
        before = self._texts.get(stands_for) or self._texts.get(near) or self._rounded.get(near)
        if before is not None:
            raise two_spellings(column, before, text)
        self._texts[stands_for] = text
        if self._new is not None:
            self._new.append((text, stands_for, near))
        if near != stands_for:
            self._rounded[near] = text
        self[text] = code = len(self._texts) - 1
        return code

    def codes(self, keys: Iterable[object], where: Callable[[int], str]) -> npt.NDArray[np.int64]:
        """The number of each key's person, (n,); `NOBODY` where it is missing.

        where  says of a key's position where it stands, for errors
        """
        return self._read(self._code, keys, where)

    def text_codes(self, texts: Iterable[str], where: Callable[[int], str]) -> npt.NDArray[np.int64]:
        """The same of texts, sooner."""
        return self._read(self.__getitem__, texts, where)

    def whole_codes(self, keys: npt.NDArray[Any], where: Callable[[int], str]) -> npt.NDArray[np.int64]:
        """The same of whole numbers, sooner still: each is looked up once."""
        if keys.dtype.kind not in "iu" or np.any((keys >= MAX_EXACT) | (keys <= -MAX_EXACT)):
            return self.codes(keys.tolist(), where)

        def new_codes(positions: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            if self._texts or any(kind == "number" for kind, _ in self._marks):
                return self.codes(map(str, new.tolist()), lambda place: where(int(positions[place])))
            self._unwritten.append(new)
            return np.arange(self._count - len(new), self._count)

        return self._whole.codes(keys.astype(np.int64), new_codes)

    @property
    def _count(self) -> int:
        return len(self._texts) + sum(map(len, self._unwritten))

    def _write_down(self) -> None:
        pieces, self._unwritten = self._unwritten, []
        for piece in pieces:
            for key in piece.tolist():
                self.__missing__(str(key))

    def _read(
        self, code: Callable[[Any], int], keys: Iterable[Any], where: Callable[[int], str]
    ) -> npt.NDArray[np.int64]:
        found: list[int] = []
        try:
            found.extend(map(code, keys))
        except InvalidInput as error:
            raise InvalidInput(f"{where(len(found))}: {error}") from None
        return np.array(found, np.int64)

    def _code(self, key: object) -> int:
        if type(key) is str:
            return self[key]
        try:
            if not exact(key):
                raise InvalidInput("give keys past 2^53, or finer than a float or a microsecond, as text")
            text = text_of(key)
        except InvalidInput as error:
            raise InvalidInput(f"person column {self._person.column!r}: {error}") from None
        return self["" if text is None else text]

    def texts(self) -> list[str]:
        """By the number of a person, how the key is spelled."""
        self._write_down()
        return [*self._texts.values()]

    def digests(self) -> npt.NDArray[np.uint64]:
        """By the number of a person, 128 bits that depend on what the key stands for alone, (persons, 2)."""
        return np.concatenate([digests_of(self._texts), *map(whole_digests, self._unwritten)])


def exact(key: object) -> bool:
    """Whether no other key of its type has its text: a rounded one would make two persons one."""
    if isinstance(key, bool | np.bool_):
        return True
    if isinstance(key, Complex | Decimal):  # all numbers, fractions and long doubles among them
        text = text_of(key)
        if text is None:
            return True
        number = float(text)
        same = Decimal(text) == key if isinstance(key, Decimal) and key.is_finite() else number == key
        return abs(number) < MAX_EXACT and bool(same)
    if isinstance(key, np.datetime64) or getattr(getattr(key, "dtype", None), "kind", "") == "M":
        cut = key.astype("M8[us]")  # type: ignore[attr-defined]
        return bool(np.isnat(key) or (cut == key and cut.astype(key.dtype) == key))  # type: ignore[attr-defined, call-overload]
    return not getattr(key, "nanosecond", 0) > 0  # NaN is that of a missing moment


def person_identity(text: str) -> tuple[str, str]:
    """What a key stands for, whatever its spelling; keys of one identity are one person, in all files.

    Numbers are compared exactly, however long or fine they are, and moments to the last digit. A truth value is 1 or 0:
    a column of truth values turns into one of numbers where one record is a number. Texts are compared as Unicode does:
    a letter with an accent is one character, or the letter and a combining accent.

    Examples
    --------
    >>> same = [("7", " 7.0"), ("true", "1"), ("9007199254740993.0", "9007199254740993"), ("1e2", "100"), ("A7", "a7")]
    >>> [person_identity(one) == person_identity(other) for one, other in same]
    [True, True, True, True, False]
    >>> person_identity("Zoe\\u0308") == person_identity("Zo\\u00eb")
    True
    """
    stripped = text.strip()
    digits = stripped[1:] if stripped[:1] in ("+", "-") else stripped
    if digits.isascii() and digits.isdigit():
        return _number(stripped[:1] == "-", digits, 0)
    means = meaning(stripped)
    if isinstance(means, bool):
        return _number(False, str(int(means)), 0)
    if isinstance(means, float):
        try:
            sign, parts, exponent = Decimal(stripped).as_tuple()
        except InvalidOperation:  # an exponent of twenty digits
            return "number", stripped
        return _number(bool(sign), "".join(map(str, parts)), exponent)
    if isinstance(means, datetime):
        return "moment", means.isoformat() + _finer(stripped)
    return "text", normalize("NFC", means) if isinstance(means, str) else means.isoformat()


def bucket(text: str, buckets: int) -> int:
    """Which of some buckets a key is in: one for all keys that are one person, or that a reader could take for one.

    These are numbers of one float and moments of one second.
    """
    kind, stands_for = person_identity(text)
    if kind == "number":
        stands_for = repr(float(stands_for) + 0.0)  # -0.0 is 0.0
    elif kind == "moment":
        stands_for = stands_for[:_TO_SECONDS]
    word = blake2b(repr((kind, stands_for)).encode(), digest_size=8).digest()
    return int.from_bytes(word, "little") % buckets


def rounded_key(text: str) -> tuple[str, str]:
    """What a key stands for where fractions are floats, and moments have microseconds, as in a data frame."""
    stripped = text.strip()
    if stripped.lstrip("+-").isdigit():
        return person_identity(stripped)
    means = meaning(stripped)
    if isinstance(means, datetime):
        return "moment", means.isoformat()
    return person_identity(repr(means) if isinstance(means, float) else stripped)


def _number(negative: bool, digits: str, exponent: int | str) -> tuple[str, str]:
    """One text for each number, without zeros at either end; infinity has a word for an exponent."""
    digits = digits.lstrip("0")
    bare = digits.rstrip("0")
    if isinstance(exponent, str):
        return "number", f"{'-' * negative}infinity"
    return "number", f"{'-' * negative}{bare}e{exponent + len(digits) - len(bare)}" if bare else "0"


def _finer(moment: str) -> str:
    """The digits of a second's fraction that are past its microseconds."""
    fraction = _FRACTION.search(moment)
    return fraction[1].rstrip("0") if fraction else ""


def two_spellings(column: str, before: str, text: str) -> InvalidInput:
    """The error of two texts that may be one key."""
    alike = normalize("NFC", before) == normalize("NFC", text)  # then nobody would see which is which
    first, second = (_short(key, ascii if alike else repr) for key in (before, text))
    return InvalidInput(
        f"person column {column!r}: {first} and {second} may be two spellings of one key:"
        " spell a person's key in one way"
    )


def _short(key: str, spelled: Callable[[str], str]) -> str:
    """A key in a message, which is one line."""
    return spelled(key if len(key) <= _SHOWN else f"{key[:_SHOWN]}…")


def blank(text: str) -> bool:
    """Whether a text looks like no key at all."""
    return text.strip().lower() in _BLANK
