"""What a schema makes of a table: the values that it refuses or moves, all of them at once.

A release names the first value that the schema has no place for, and says nothing of those that `outside` moves. Here
a person sees both, column by column, before anything is charged. All numbers are exact counts of private records: what
is returned is for the data holder alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from qrelease._util.texts import quoted
from qrelease.data.attribute import Attribute
from qrelease.data.person import Person
from qrelease.data.schema import load
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.encoding import Reader, domain_of_records, found_columns, person_column
from qrelease.data.sources.files import open_reader
from qrelease.errors import InvalidInput

_SHOWN = 8  # values of a column that a line names


@final
@dataclass(slots=True)
class ColumnCheck:
    """The values of one column that a schema refuses or moves. Private.

    name     of the column
    outside  where values go that the schema does not list
    refused  how many records have each text that stops a release
    moved    how many have each text that the schema does not list and `outside` has a place for
    first    the first record, from 1, that has such a text
    missing  how many records have a mark of a missing value
    """

    name: str
    outside: str
    refused: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    missing: int = 0

    def lines(self) -> Iterator[str]:
        """What a person reads; nothing where all values have a place of their own."""
        if self.missing:
            yield f"{self.name}: {self.missing:,} {_of_records(self.missing)} missing, by a mark of the schema"
        if self.refused:
            yield f"{self.name}: REFUSED in {self._told(self.refused)}"
        if self.moved:
            where = {"missing": "counted as missing", "clip": "counted in the nearest bin"}
            yield f"{self.name}: {where.get(self.outside, f'counted as {self.outside!r}')} in {self._told(self.moved)}"

    def _told(self, values: Counter[str]) -> str:
        records = values.total()
        some = [
            f"{quoted(text)} ({n:,}, first in record {self.first[text]:,})" for text, n in values.most_common(_SHOWN)
        ]
        more = f", and {len(values) - _SHOWN:,} other values" if len(values) > _SHOWN else ""
        return f"{records:,} {_of_records(records)}: {', '.join(some)}{more}"


@final
@dataclass(frozen=True)
class SchemaCheck:
    """What a schema makes of a table. Private.

    records  how many there are
    columns  of the schema, in its order
    persons  a sentence about whose the records are; empty where the unit is a record
    keyless  how many records have no key of a person, and no mark of nobody
    """

    records: int
    columns: tuple[ColumnCheck, ...]
    persons: str = ""
    keyless: int = 0

    @property
    def holds(self) -> bool:
        """Whether no value stops a release."""
        return not self.keyless and not any(column.refused for column in self.columns)

    def __str__(self) -> str:
        found = [line for column in self.columns for line in column.lines()]
        end = "no value stops a release" if self.holds else "a release stops at the first REFUSED value"
        persons = [self.persons] if self.persons else []
        return "\n".join([f"{self.records:,} {_of_records(self.records)}", *found, *persons, end])


def check(
    source: str | os.PathLike[str],
    schema: str | os.PathLike[str],
    *,
    dialect: Dialect | None = None,
    query: str | None = None,
) -> SchemaCheck:
    """Read all records of a source and say which values a schema refuses or moves.

    Raises `InvalidInput` for a schema or a source that cannot be read, and for a column that the source has not.
    """
    domain = load(schema, undecided=True)
    if domain.person is not None and domain.person.derive:
        domain = domain_of_records(domain)
    reader: Reader = open_reader(source, query, dialect)
    reader.check_header(domain.names)
    names = found_columns(reader, domain)
    person = domain.person
    key = None if person is None else person_column(reader, person.column)
    header = list(reader.header)
    columns = [_Column(attribute) for attribute in domain]
    keys: Counter[str] = Counter()
    records = 0
    for chunk in reader.texts():
        given = [list(texts) for texts in chunk]
        size = max(map(len, given), default=0)
        for column, name in zip(columns, names, strict=True):
            # A record of JSON lines may lack a column that the first ones have not either.
            column.see(given[header.index(name)] if name in header else [""] * size, records)
        if key is not None:
            keys.update(map(str.strip, given[header.index(key)] if key in header else [""] * size))
        records += size
    found = tuple(column.found for column in columns)
    return SchemaCheck(records, found) if person is None else SchemaCheck(records, found, *_of_persons(person, keys))


@final
class _Column:
    """The texts of a column, each looked up once."""

    def __init__(self, attribute: Attribute) -> None:
        self.found = ColumnCheck(attribute.name, attribute.outside)
        self._open = attribute.kind == "category" and bool(attribute.learn)
        self._placed, self._strict = attribute.fine, replace(attribute.fine, outside="error")
        self._kinds: dict[str, str] = {}

    def see(self, texts: Sequence[str], before: int) -> None:
        """Take in some values; `before` is how many records came earlier."""
        counts = Counter(texts)
        new = {text for text in counts if text not in self._kinds}
        for text in new:
            self._kinds[text] = "" if self._open else self._kind(text)
        odd = {text for text in new if self._kinds[text] in ("refused", "moved")}
        if odd:
            for place, text in enumerate(texts, before + 1):
                if text in odd:
                    self.found.first.setdefault(text, place)
        for text, count in counts.items():
            match self._kinds[text]:
                case "refused":
                    self.found.refused[text] += count
                case "moved":
                    self.found.moved[text] += count
                case "missing":
                    self.found.missing += count

    def _kind(self, text: str) -> str:
        try:
            code = self._strict.encode(text)
            return "missing" if self._strict.missing and code == self._strict.values else ""
        except InvalidInput:
            pass
        try:
            self._placed.encode(text)
        except InvalidInput:
            return "refused"
        return "moved"


def _of_persons(person: Person, keys: Counter[str]) -> tuple[str, int]:
    """How many persons there are and how many of their records are kept, in words; and how many records have no key."""
    nobody = sum(keys.pop(mark, 0) for mark in {mark.strip() for mark in person.missing})
    empty = keys.pop("", 0)
    total = keys.total()
    said = f"{person.column}: {len(keys):,} persons, of at most {max(keys.values(), default=0):,} records each"
    if not person.derive and person.at_most is not None:
        left = total - sum(min(count, person.at_most) for count in keys.values())
        said += f"; at_most = {person.at_most} leaves out {left:,} of {total:,} records"
    if nobody:
        said += f"; {nobody:,} {_of_records(nobody)} of nobody, left out"
    return said + (f"; REFUSED: {empty:,} {_of_records(empty)} without a key" if empty else ""), empty


def _of_records(count: int) -> str:
    return "record" if count == 1 else "records"
