"""Whose records they are, and which records of each person are kept: at most m, by a keyed hash.

The hash is of the key, the person, what the record says, and its rank among equal records of that person; of each
person the m records with the smallest hashes are kept. So which ones does not depend on their order, on other persons,
on the source that they are read from, on cores or on pieces, and for a random key no record is favoured. What is
promised to a person holds for every key (`privacy.unit`); the key is random so that the choice is fair, and
fresh for each charge so that what one release left out another may keep.

The hash is multilinear over codes modulo 2^64 (Carter and Wegman, 1981), mixed as SplitMix64 does. Two different
records of a person have the same hash with a probability of about 2^-64; then their order decides between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from numbers import Complex
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes, Mask
from qrelease.data.key_table import KeyTable
from qrelease.data.mixing import mixed
from qrelease.data.person import Person
from qrelease.data.sources.kernels import drawn_places
from qrelease.data.spelling import NAN, meaning, text_of
from qrelease.errors import InvalidInput

_BLANK: Final = frozenset({"", "na", "n/a", "null", "none", "nat", "<na>", *(text.lower() for text in NAN)})
"""Texts, in small letters, that are the key of nobody, unless they are listed as missing."""

NOBODY: Final = -1
"""The code of a record without a person, which is left out."""

_MAX_EXACT: Final = 2.0**53
"""Whole numbers of a data frame are exact as floats below it."""

_FRACTION: Final = re.compile(r"[.,]\d{6}(\d+)")
"""Of a second, in a text that is a moment; Python's own reader cuts it after six digits."""

_TO_SECONDS: Final = len("2020-01-31T23:59:59")

_SHOWN: Final = 40
"""Characters of a key in a message."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Persons:
    """Whose record each one is. Private.

    codes    a number of the person of each record, (n,), from 0
    digests  by that number, 128 bits that depend on what the person's key stands for alone, (persons, 2): nobody finds
             two keys that have the same ones, so tables of different files are joined by them
    """

    codes: npt.NDArray[np.int64]
    digests: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, person: Person, keys: Iterable[object]) -> tuple[Persons, Mask]:
        """The persons that the keys of all records name, in order, and which records have a key.

        Raises `InvalidInput`, naming the row from 0, for a missing key and for two that are spelled differently.
        """
        reader = PersonReader(person)
        codes = reader.codes(keys, lambda row: f"row {row} (from 0)")
        kept = codes != NOBODY
        return cls(codes[kept], reader.digests()), kept

    @property
    def unit(self) -> npt.NDArray[np.uint64]:
        """The digest of the person of each record, (n, 2)."""
        return self.digests[self.codes]

    def rows_of(self, parents: Persons) -> npt.NDArray[np.int64]:
        """For each record the row of a table that has one for each person, (n,); -1 for a person without one."""
        known = {digest: row for row, digest in enumerate(_as_bytes(parents.unit))}
        rows = np.array([known.get(digest, -1) for digest in _as_bytes(self.digests)], np.int64)
        return rows[self.codes]

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return "Persons(private)"


def kept(
    persons: Persons,
    named: Sequence[tuple[str, Codes]],
    at_most: int,
    key: bytes,
    distinct: Sequence[Codes] = (),
) -> Mask:
    """Which records are kept, (n,).

    named    name and codes (n,) of each column
    at_most  m
    key      secret, drawn for one charge
    distinct codes (n,) of columns: of records of a person that are equal in all of them the one that is first by its
             hash is kept, before the others are chosen
    """
    codes = persons.codes
    if len(distinct):
        left = np.zeros(len(codes), np.bool_)
        places = _drawn_places(persons, named, key, np.arange(len(codes)))
        order = np.lexsort((places, *distinct, codes))
        first = order[_places(codes[order], *(column[order] for column in distinct)) == 0]
        # Of these the first by their hashes again, as in a table that never had the others.
        first = first[np.lexsort((places[first], codes[first]))]
        left[first[_places(codes[first]) < at_most]] = True
        return left
    records = np.bincount(codes, minlength=1)
    chosen: Mask = records[codes] <= at_most if len(codes) else np.zeros(0, np.bool_)
    rows = np.flatnonzero(~chosen)  # of persons with more
    if len(rows):
        chosen[rows] = _drawn_places(persons, named, key, rows) < at_most
    return chosen


def parts(
    persons: Persons, named: Sequence[tuple[str, Codes]], at_most: int, key: bytes, bits: int
) -> tuple[Mask, npt.NDArray[np.int64]]:
    """Which records are kept, (n,), and in what part of their person each kept one counts, in multiples of 2^-bits.

    The k that are kept of a person count 1/k each, rounded: what is left goes to those with the smallest hashes, one
    multiple each, so that they sum to 1 exactly, and each record counts 1/k on average over the keys.

    bits  2^bits is at least k
    """
    places = _drawn_places(persons, named, key, np.arange(len(persons)))
    chosen: Mask = places < at_most
    codes = persons.codes[chosen]
    left = np.bincount(codes, minlength=1)[codes]
    counted: npt.NDArray[np.int64] = (1 << bits) // left + (places[chosen] < (1 << bits) % left)
    return chosen, counted


def _drawn_places(
    persons: Persons, named: Sequence[tuple[str, Codes]], key: bytes, rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The place of some records in the order of their hashes, (k,), from 0: among those of the same person.

    rows  all records of some persons, in order
    """
    whose = persons.codes[rows] if len(rows) < len(persons) else persons.codes
    hashed = mixed(mixed(persons.digests[:, 0] ^ _word(key, "person")) ^ persons.digests[:, 1])[whose]
    for name, column in named:
        some = column[rows] if len(rows) < len(persons) else column
        hashed += np.multiply(some, _word(key, f"column {name}") | np.uint64(1), dtype=np.uint64)
    records, places = np.bincount(whose, minlength=1), np.empty(len(rows), np.int64)
    drawn_places(
        mixed(hashed), whose.astype(np.int64), np.cumsum(records) - records, _word(key, "rank") | np.uint64(1), places
    )
    return places


def _places(*ordered: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The place of each among those equal to it in all arrays, from 0, where equal ones stand together."""
    differ = np.any([each[1:] != each[:-1] for each in ordered], axis=0)
    first = np.flatnonzero(np.append(True, differ))
    lengths = np.diff(np.append(first, len(ordered[0])))
    return np.arange(len(ordered[0])) - np.repeat(first, lengths)


def _as_bytes(digests: npt.NDArray[np.uint64]) -> list[bytes]:
    """The digests (n, 2), each as 16 bytes."""
    found: list[bytes] = digests.view("V16").reshape(-1).tolist()
    return found


def _word(key: bytes, what: str) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(what.encode(), key=key[:64], digest_size=8).digest(), "little"))


@final
class PersonReader(dict[str, int]):
    """Texts of keys to numbers of persons, in the order in which they first come."""

    def __init__(self, person: Person) -> None:
        super().__init__()
        self._person = person
        # A mark is matched by what it stands for: how a key is spelled may depend on the records beside it.
        self._marks = {stands_for(text) for text in person.missing for stands_for in (person_identity, rounded_key)}
        self._texts: dict[tuple[str, str], str] = {}
        self._rounded: dict[tuple[str, str], str] = {}  # of keys finer than a library may keep them
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
            raise InvalidInput(
                f"person column {column!r}: {_short(before)} and {_short(text)} may be two spellings of one key:"
                " spell a person's key in one way"
            )
        self._texts[stands_for] = text
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
        if keys.dtype.kind not in "iu" or np.any((keys >= _MAX_EXACT) | (keys <= -_MAX_EXACT)):
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
            if not _exact(key):
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
        words = [blake2b(repr(stands_for).encode(), digest_size=16).digest() for stands_for in self._texts]
        for piece in self._unwritten:
            words += [blake2b(_whole_identity(key), digest_size=16).digest() for key in piece.tolist()]
        return np.frombuffer(b"".join(words), "<u8").astype(np.uint64).reshape(-1, 2)


def _exact(key: object) -> bool:
    """Whether no other key of its type has its text: a rounded one would make two persons one."""
    if isinstance(key, bool | np.bool_):
        return True
    if isinstance(key, Complex | Decimal):  # all numbers, fractions and long doubles among them
        text = text_of(key)
        if text is None:
            return True
        number = float(text)
        same = Decimal(text) == key if isinstance(key, Decimal) and key.is_finite() else number == key
        return abs(number) < _MAX_EXACT and bool(same)
    if isinstance(key, np.datetime64) or getattr(getattr(key, "dtype", None), "kind", "") == "M":
        cut = key.astype("M8[us]")  # type: ignore[attr-defined]
        return bool(np.isnat(key) or (cut == key and cut.astype(key.dtype) == key))  # type: ignore[attr-defined, call-overload]
    return not getattr(key, "nanosecond", 0) > 0  # NaN is that of a missing moment


def person_identity(text: str) -> tuple[str, str]:
    """What a key stands for, whatever its spelling; keys of one identity are one person, in all files.

    Numbers are compared exactly, however long or fine they are, and moments to the last digit. A truth value is 1 or 0:
    a column of truth values turns into one of numbers where one record is a number.

    Examples
    --------
    >>> same = [("7", " 7.0"), ("true", "1"), ("9007199254740993.0", "9007199254740993"), ("1e2", "100"), ("A7", "a7")]
    >>> [person_identity(one) == person_identity(other) for one, other in same]
    [True, True, True, True, False]
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
    return "text", means if isinstance(means, str) else means.isoformat()


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


def _whole_identity(key: int) -> bytes:
    """The `repr` of what a whole number stands for, sooner."""
    if key % 10:
        return b"('number', '%de0')" % key
    return repr(person_identity(str(key))).encode()


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


def _short(key: str) -> str:
    """A key in a message, which is one line."""
    return repr(key if len(key) <= _SHOWN else f"{key[:_SHOWN]}…")


def blank(text: str) -> bool:
    """Whether a text looks like no key at all."""
    return text.strip().lower() in _BLANK
