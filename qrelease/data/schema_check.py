"""What a schema makes of a table: the values that it refuses or moves, all of them at once.

A release names the first value that the schema has no place for, and says nothing of those that `outside` moves. Here
a person sees both, column by column, before anything is charged. All numbers are exact counts of private records: what
is returned is for the data holder alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util.texts import quoted
from qrelease._util.typing import Axes, Codes, Mask
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.points import binned, has_points
from qrelease.data.schema import doubts_of, load
from qrelease.data.sources.batches import frame_reader
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.encoder import Encoder
from qrelease.data.sources.encoding import (
    SOURCES,
    Piece,
    Reader,
    Schema,
    domain_of_records,
    found_columns,
    person_column,
)
from qrelease.data.sources.files import open_reader
from qrelease.data.spelling import Absent, Unreadable
from qrelease.data.structural_zeros import masks, narrowed
from qrelease.errors import InvalidInput

CAUTION = "NOT PRIVATE: exact counts of the records; do not publish"
"""What stands above whatever is told of a check."""

_SHOWN = 8  # values of a column that a line names
_NO_CODE = -1


@final
@dataclass(slots=True, repr=False)
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
        return _listed({quoted(text): (n, self.first[text]) for text, n in values.most_common()}, "values")


@final
@dataclass(slots=True, repr=False)
class RuleCheck:
    """The records that a schema says no record can be, by rules about the same columns. Private.

    Of records that have a place in each of these columns; of others reading says what is wrong before.

    columns  that the rules are about
    refused  how many records have each combination of labels that stops a release
    first    the first record, from 1, that has it
    """

    columns: tuple[str, ...]
    refused: Counter[tuple[str, ...]] = field(default_factory=Counter)
    first: dict[tuple[str, ...], int] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """What a person reads; nothing where no record is impossible."""
        if self.refused:
            found = {
                " and ".join(map(quoted, labels)): (n, self.first[labels]) for labels, n in self.refused.most_common()
            }
            told = _listed(found, "combinations")
            yield f"{', '.join(self.columns)}: REFUSED in {told}; impossible by the schema ({SOURCES})"


@final
@dataclass(frozen=True, repr=False)
class SchemaCheck:
    """What a schema makes of a table, from `check`: for the data holder alone. `print` shows it, its repr does not.

    Attributes
    ----------
    records : int
        How many there are.
    columns : tuple of ColumnCheck
        Those of the schema, in its order: of each the counts of texts that are `refused` and `moved`, the `first`
        record of each, from 1, and how many are `missing`.
    rules : tuple of RuleCheck
        What the schema says is impossible: rules about the same columns are one.
    persons : str
        A sentence about whose the records are; empty where the unit is a record.
    keyless : int
        How many records have no key of a person, and no mark of nobody.
    doubts : tuple of str
        What the schema says and perhaps does not mean, whatever the records are.

    Examples
    --------
    >>> import pandas as pd
    >>> import qrelease as qr
    >>> sex = qr.Attribute("sex", "category", categories=("F", "M"))
    >>> found = qr.check(pd.DataFrame({"sex": ["F", "M", "Q"]}), qr.Domain((sex,)))
    >>> found
    SchemaCheck(sex; the counts are private: print shows them)
    >>> found.holds, dict(found.columns[0].refused)
    (False, {'Q': 1})
    """

    records: int
    columns: tuple[ColumnCheck, ...]
    rules: tuple[RuleCheck, ...] = ()
    persons: str = ""
    keyless: int = 0
    doubts: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether no value stops a release, and no record."""
        return not self.keyless and not any(part.refused for part in self._parts)

    @property
    def _parts(self) -> tuple[ColumnCheck | RuleCheck, ...]:
        return self.columns + self.rules

    def __str__(self) -> str:
        return f"{CAUTION}\n{self.told}"

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        return f"SchemaCheck({names}; the counts are private: print shows them)"

    @property
    def told(self) -> str:
        """What a person reads, below `CAUTION`."""
        found = [line for part in self._parts for line in part.lines()]
        end = "no value stops a release" if self.holds else "a release stops at the first REFUSED value"
        persons = [self.persons] if self.persons else []
        return "\n".join([f"{self.records:,} {_of_records(self.records)}", *found, *self.doubts, *persons, end])


def check(
    source: str | os.PathLike[str] | Any,
    schema: Schema,
    *,
    dialect: Dialect | None = None,
    query: str | None = None,
    columns: Sequence[str] | None = None,
) -> SchemaCheck:
    """Say which values of a table a schema refuses, all at once, and how many its `outside` moves in each column.

    It is what `qrelease schema check` prints, and is not private: exact counts, for the data holder alone, not to be
    published. Nothing is charged for it and nothing protects it. A schema that is changed by what it shows tells of the
    records: correct the data, or give values a place that is public knowledge.

    Parameters
    ----------
    source : data frame, path or address
        The records: of pandas, polars or pyarrow, or as `Table.read` takes them.
    schema : Domain, path or str
        A domain, a schema file, or the text of one.
    dialect, query
        As in `Table.read`, for files.
    columns : sequence of str, optional
        Those of the schema that are checked, with the rules about these alone; by default all.

    Returns
    -------
    SchemaCheck
        `print` shows it; `holds` says whether no value stops a release.

    Raises
    ------
    InvalidInput
        For a schema or a source that cannot be read, and for a column that the source does not have.

    Examples
    --------
    >>> import pandas as pd
    >>> import qrelease as qr
    >>> pay = qr.Attribute("pay", "number", edges=(0, 1000, 2000), outside="clip")
    >>> sex = qr.Attribute("sex", "category", categories=("F", "M"))
    >>> people = pd.DataFrame({"sex": ["F", "M", "Q", "m"], "pay": [100, 5000, 900, 1200]})
    >>> print(qr.check(people, qr.Domain((sex, pay))))
    NOT PRIVATE: exact counts of the records; do not publish
    4 records
    sex: REFUSED in 2 records: 'Q' (1, first in record 3), 'm' (1, first in record 4)
    pay: counted in the nearest bin in 1 record: '5000' (1, first in record 2)
    a release stops at the first REFUSED value
    """
    domain = schema if isinstance(schema, Domain) else load(schema, undecided=True)
    domain = domain if columns is None else narrowed(domain, columns)
    if domain.person is not None and domain.person.derive:
        domain = domain_of_records(domain)
    if dialect is not None:
        for attribute in domain:
            dialect.check_alone(attribute)
    reader = _reader(source, query, dialect)
    reader.check_header(domain.names)
    person = domain.person
    try:
        names = found_columns(reader, domain)
        key = None if person is None else person_column(reader, person.column)
    except InvalidInput as error:
        raise InvalidInput(f"{error}{_advice(reader, domain)}") from None
    checks = [_Column(attribute) for attribute in domain]
    rules = [_Rule(domain, axes, mask) for axes, mask in masks(domain, domain.impossible).items()]
    keys: Counter[str] = Counter()
    records, left = 0, set(range(len(checks)))
    if key is None and not reader.keyed:
        records, left = _read_as_codes(reader, names, checks, rules)
        for axis in left:  # which begin anew
            checks[axis] = _Column(domain.attributes[axis])
        rules = [_Rule(domain, rule.axes, rule.mask) if left & {*rule.axes} else rule for rule in rules]
    if left:
        among = [rule for rule in rules if left & {*rule.axes}]
        records = 0
        header = list(reader.header)
        for chunk in reader.texts():
            given = [list(texts) for texts in chunk]
            size = max(map(len, given), default=0)
            # A record of JSON lines may lack a column that the first ones have not either.
            texts_of = [given[header.index(name)] if name in header else [""] * size for name in names]
            for axis in left:
                checks[axis].see(texts_of[axis], records)
            kept = np.ones(size, bool)
            if key is not None and person is not None:
                mine = [text.strip() for text in (given[header.index(key)] if key in header else [""] * size)]
                keys.update(mine)
                nobody = {mark.strip() for mark in person.missing}
                kept = np.fromiter((text not in nobody for text in mine), bool, size)  # the others are not read
            for rule in among:
                rule.see([checks[axis].codes(texts_of[axis]) for axis in rule.axes], kept, records)
            records += size
    found = tuple(column.found for column in checks), tuple(rule.found for rule in rules)
    persons, keyless = ("", 0) if person is None else _of_persons(person, keys)
    return SchemaCheck(records, *found, persons, keyless, () if isinstance(schema, Domain) else doubts_of(schema))


def _advice(reader: Reader, domain: Domain) -> str:
    """How to check a table that has not all that a schema names, as a synthetic one; empty where it has."""
    header = {name.strip() for name in reader.header}
    if not header or header.issuperset(name.strip() for name in domain.names):
        return (
            "; a synthetic table has none: check it by a schema without [person]" if domain.person is not None else ""
        )
    return "; --columns (in Python: columns=) names those that are checked, such as those of a synthetic table"


def _read_as_codes(
    reader: Reader, names: Sequence[str], columns: Sequence[_Column], rules: Sequence[_Rule]
) -> tuple[int, set[int]]:
    """Let columns and rules see the records as a release reads them, which is many times sooner than as texts.

    Gives how many records there are, and the columns that have yet to be read as texts, to tell of their values: those
    with values that the schema does not list, and the others of rules about these. The number holds unless all are.
    """
    records = 0
    for piece in reader.pieces(names):
        codes = [column.known_codes(piece, name) for column, name in zip(columns, names, strict=True)]
        size = next((len(found) for found in codes if found is not None), None)
        if size is None:
            break
        for rule in rules:
            known = [found.astype(np.int64) for axis in rule.axes if (found := codes[axis]) is not None]
            if len(known) == len(rule.axes):
                rule.see(known, np.ones(size, bool), records)
        records += size
    left = {axis for axis, column in enumerate(columns) if not column.known}
    return records, left.union(*(rule.axes for rule in rules if left & {*rule.axes}))


def _reader(source: Any, query: str | None, dialect: Dialect | None) -> Reader:
    if isinstance(source, str | os.PathLike):
        return open_reader(source, query, dialect)
    if query is not None or dialect is not None:
        raise InvalidInput("query and dialect are for files, and the records are those of a data frame")
    return frame_reader(source)


@final
class _Column:
    """The texts of a column, each looked up once."""

    def __init__(self, attribute: Attribute) -> None:
        self.found = ColumnCheck(attribute.name, attribute.outside)
        self._open = attribute.kind == "category" and bool(attribute.learn)
        self._placed, self._strict = attribute.fine, replace(attribute.fine, outside="error")
        self._kinds: dict[str, str] = {}
        self._told: set[str] = set()  # texts that are counted
        self._codes: dict[str, int] = {}
        self._encoder = Encoder(self._strict)
        self.known = not attribute.undecided
        """Whether all values that `known_codes` saw have a place of their own, or are missing by a mark."""

    def known_codes(self, piece: Piece, name: str) -> Codes | None:
        """The codes of a column of some records, or None from the first value on that the schema does not list."""
        if not self.known:
            return None
        try:
            codes = piece.codes(self._encoder, name)
        except InvalidInput:
            self.known = False
            return None
        if self._strict.missing:
            self.found.missing += int(np.count_nonzero(codes == self._strict.values))
        return codes

    def see(self, texts: Sequence[str], before: int) -> None:
        """Take in some values; `before` is how many records came earlier."""
        texts = self._read(texts)
        new = set(texts).difference(self._kinds)
        for text in new:
            kind = self._kinds[text] = "" if self._open else self._kind(text)
            if kind:
                self._told.add(text)
        if not self._told:
            return
        odd = {text for text in new if self._kinds[text] in ("refused", "moved")}
        if odd:
            for place, text in enumerate(texts, before + 1):
                if text in odd:
                    self.found.first.setdefault(text, place)
        for text, count in Counter(filter(self._told.__contains__, texts)).items():
            match self._kinds[text]:
                case "refused":
                    self.found.refused[text] += count
                case "moved":
                    self.found.moved[text] += count
                case "missing":
                    self.found.missing += count

    def codes(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """The codes of `Attribute.fine` of values that were seen; `_NO_CODE` where the schema has no place for one."""
        texts = self._read(texts)
        for text in set(texts) - self._codes.keys():
            self._codes[text] = _NO_CODE if self._kinds[text] == "refused" else int(self._placed.encode(text))
        return np.fromiter(map(self._codes.__getitem__, texts), np.int64, len(texts))

    def _read(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts, where a missing value is the text that stands for one in this column."""
        blank = self._placed.blank
        if not blank or "" not in texts:
            return texts
        return [blank if isinstance(text, Absent) else text for text in texts]

    def _kind(self, text: str) -> str:
        if isinstance(text, Unreadable):
            return "refused"
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


@final
class _Rule:
    """What a schema says that no record is, of some columns, as `encoding.PossibleRecords` has it."""

    def __init__(self, domain: Domain, axes: Axes, mask: Mask) -> None:
        self.axes, self.mask = axes, mask
        self._of = [domain.attributes[axis] for axis in axes]
        self.found = RuleCheck(tuple(a.name for a in self._of))

    def see(self, codes: Sequence[npt.NDArray[np.int64]], kept: npt.NDArray[np.bool_], before: int) -> None:
        """Take in some records, of which those count that are kept; `before` is how many came earlier."""
        placed = np.flatnonzero(np.logical_and.reduce([kept, *(column != _NO_CODE for column in codes)]))
        if not len(placed):
            return
        cells = [
            (binned(a, column[placed].astype(np.uint64)) if has_points(a) else column[placed]).astype(np.int64)
            for a, column in zip(self._of, codes, strict=True)
        ]
        shape = [a.size for a in self._of]
        flat = np.ravel_multi_index(cells, shape)
        met = np.flatnonzero(self.mask[flat])
        for cell, first, count in zip(*np.unique(flat[met], return_index=True, return_counts=True), strict=True):
            labels = tuple(a.label(int(c)) for a, c in zip(self._of, np.unravel_index(cell, shape), strict=True))
            self.found.refused[labels] += int(count)
            self.found.first.setdefault(labels, before + 1 + int(placed[met[first]]))


def _listed(found: Mapping[str, tuple[int, int]], what: str) -> str:
    """How many records there are in all, and how many of each kind, with the first: the most frequent alone."""
    records = sum(count for count, _ in found.values())
    some = [f"{text} ({n:,}, first in record {first:,})" for text, (n, first) in islice(found.items(), _SHOWN)]
    more = f", and {len(found) - _SHOWN:,} other {what}" if len(found) > _SHOWN else ""
    return f"{records:,} {_of_records(records)}: {', '.join(some)}{more}"


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
