"""A first schema.toml proposed from a data file, for a person to review entry by entry.

What it proposes was read from private data: a category that only one person has, or the exact end of a range,
would leave with the schema. So every entry says `reviewed = false`, and `schema.load` refuses such a file.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import groupby, islice
from typing import Any, final

import tomlkit
from tomlkit.items import Table

from qrelease._util.elapsed import elapsed
from qrelease._util.validate import whole
from qrelease.data.attribute import MAX_POINT_CELLS, Attribute
from qrelease.data.bins_draft import (
    CLOCK_EDGES,
    CLOCK_SHAPE,
    even,
    fewer,
    heaps,
    is_clock,
    limit_of_shares,
    number_bins,
    public_limits,
    share_bins,
    toml_number,
)
from qrelease.data.codes_draft import codes_named, digits_of_codes
from qrelease.data.dates import iso_date, moment
from qrelease.data.dependencies import Dependencies
from qrelease.data.doubts_draft import (
    USUAL_MARKS,
    are_days,
    infinite,
    is_usual_mark,
    missing_marks,
    spelled_alike,
    sure_marks,
)
from qrelease.data.grids import MAX_POINTS, exact_number
from qrelease.data.header_draft import CAUTION, FirstLine
from qrelease.data.person import Person
from qrelease.data.persons_draft import LEAST_RECORDS, SharedValues, persons_named
from qrelease.data.scales_draft import scale_of, unanswered
from qrelease.data.schema import MAX_LEARNED_CATEGORIES, edges_of
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.encoding import UNREAD_INDEX, Reader, told_of_index
from qrelease.data.sources.files import has_first_line, open_reader
from qrelease.data.sources.frames import FrameReader
from qrelease.data.spelling import Unreadable
from qrelease.data.writing import WRITTEN_AS, Writing
from qrelease.data.writing_draft import still_read, ways_to_read
from qrelease.errors import InvalidInput

MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", ".", "-", "9999-12-31")
"""Spellings taken for a missing value when a column holds them."""

_MAX_TEXT_CATEGORIES = 100  # more categories than this: a name, a number of a document, free text
_TOO_MANY = "more than {:,} different texts"
_FEW_ALIKE = "nearly every code is different, by its name a column of codes"
_MAX_WHOLE_CATEGORIES = 12  # whole numbers with at most so many values, or steps between these, get a cell each
_MIN_RECORDS_OF_NAMES = (
    20  # records from which on a column where nearly all values differ is taken for one of names or numbers
)
_MAX_SINGLE_NUMBERS = 32  # as hours, days of a month and numbers of departments: cells each, of many records
_COUNTED_ON = 4  # numbers without a gap with which a count begins
_MIN_RECORDS_OF_SINGLE = 50  # for each such cell
_MAX_LABEL = 60  # characters of a category
_MANY_DATES = 40  # bins of dates from which on coarser ones are proposed
_LEARNED_BINS = 32
_TENTH = Fraction(1, 10)
_DECIMALS = 4
_MAX_STEPS = 2**40  # of a grid to its farthest point, by the decimals that occur
_WHOSE = "it says whose the records are: see [person]"
_NAMED = (
    "its name says that it tells people apart: if so, draft with --person {0} --at-most M (in Python:"
    " person=qr.Person({0!r}, M)), which keeps M records of each, and if not, add an entry for it"
)
_MAX_COUNTED_NUMBERS = 1 << 14  # numbers whose counts are kept
_MAX_WAITING = 1 << 12  # different texts of a column that are looked at together
_MAX_DISTINCT = 1 << 14  # values that are told apart
_MAX_CELLS = 1 << 28
"""Cells of the largest universe that a table of counts is kept of: see the README's limits."""

_FEWEST_NUMBERED = 20  # records from which on whole numbers that count them are taken for their numbers
_UNNAMED = re.compile(r"Unnamed: \d+")
"""What pandas calls a column without a name, as files have it that R writes: the first one numbers the records."""
_NUMBERS_RECORDS = "it numbers the records"

_IDENTIFIER_NAME = re.compile(
    r"(^|[_\W])(id|nr|no|num|number|code|ssn|bsn|phone|tel|mobile|zip|postcode|account|iban|passport)($|[_\W])", re.I
)

_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,14})")
_NUMERAL = re.compile(r"[+-]?(0|[1-9][0-9]{0,14})(\.[0-9]{1,20})?")
"""A whole number, or one with decimals, that can be nothing else: no date, label or mark of a missing value."""
_MAX_DIGITS = 15  # of a whole number
_LEAST_TOGETHER = 16  # such numbers one after another, from which on looking at them together is quicker
_LABEL = re.compile(r"[+-]?(0\d.*|\d+)")  # 007, or more digits than a float holds
_CODE = re.compile(r"[A-Za-z]{0,3}[-. ]?\d[\w./ -]{0,9}")  # what codes look like, and words do not
_GROUPED = re.compile(r"[+-]?\d{1,3}\.\d{3}")  # a number with three decimals, or thousands
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")
_OTHERWISE: Mapping[str, tuple[re.Pattern[str], str]] = {
    "date": (
        WRITTEN_AS["date"],
        'they look like dates: give kind = "date" and how all are written, as format = "%d.%m.%Y"',
    ),
    "number": (
        WRITTEN_AS["number"],
        'they look like numbers: give kind = "number" and how all are written, by decimal, thousands and unit',
    ),
}
"""How dates and numbers are often written that are read as texts, and what a reviewer is told of them."""

_OFFSET = re.compile(r"\d{4}-\d{2}-\d{2}[T ].*(Z|[+-]\d{2}(:?\d{2})?)")
_ZONED = (
    "its moments have an offset from UTC, and on which day they are depends on the time zone: write local dates, or"
    ' give kind = "date", within, bins and step = "minute", as --learn (in Python: learn=True) does: then they are'
    " taken in UTC"
)

_MOSTLY = 0.95  # of its values, for what a column looks like

_PLAIN = Writing()
_AS_NUMBER = Attribute("number", "number", edges=(0, 1))
_AS_DATE = Attribute("date", "date", edges=(0, 1))

_HEAD = """\
Drafted from {path}: not a schema yet.

Everything below was read from private data. Before any release a person must go through every entry:
- replace what the data show by what is publicly known (code lists, legal limits, the questionnaire);
- remove categories that few people have, or whose existence is itself a secret;
- choose bins and limits without regard to the extremes that occur;
- delete numbers of people and of documents: those that were not recognised look like any others here;
then set its reviewed to true. Delete the entries of columns that are not to be released."""

_MANY_RECORDS = """\
Where a person may have several records, say whose they are, or somebody with g records has g times the epsilon:
    [person]
    column = "the column that tells persons apart, which gets no entry of its own"
    at_most = 5""".splitlines()

_MAY_BE_PERSONS = "By the records such a column may be: {}."
_SAME_IN_ALL = "{} ({} nearly the same in all records of a value)"
_DIFFERING = (
    "no two records of a value of {} have the same {}, as read off the data: one of each is kept, for less noise, by"
)

_ROUNDED = "limits rounded outwards from {} that occur: replace by public limits"
_SHARES = "limits 0 to {} are a guess, because its values or its name look like {}: give your own if they are not"

_WITH_A_LIST = """\
A column of texts with a public list of codes, such as municipalities, can be added, with the file of that list:
    [[attribute]]
    name = "municipality"
    categories = {file = "municipalities.csv", column = "code"}
    kind = "category"
    reviewed = true
and where the list says in a column what each code belongs to, of another attribute of this schema, also
    parent = {attribute = "province", column = "province_code"}
Without such a list, draft with --learn (in Python: learn=True): the texts that many people have are then learned, for a
cost.""".splitlines()


_FOLLOWED = """\
Read off the data, so private unless it is public knowledge: in every record these columns follow from others. Where a
code list or the questionnaire says so too, leave out what follows, which can be made from the other; or say with
[[impossible]] rules, or a parent, which pairs cannot be: then synthetic records have none. Else delete this.
""".splitlines()


@final
@dataclass(frozen=True)
class SchemaDraft:
    """A draft and what is not in it.

    text      as `draft` gives it
    header    the names of all columns
    left_out  why a column has no entry, by its name
    doubts    numbers of a column that are taken for values and may mean missing, as they are written, by its name
    doubted   what of the names may be values of a first record, without them; empty where nothing is
    """

    text: str
    header: tuple[str, ...]
    left_out: Mapping[str, str]
    doubts: Mapping[str, tuple[str, ...]]
    doubted: str = ""


def draft(
    source: str | os.PathLike[str] | Any,
    rows: int | None = None,
    *,
    learn: bool = False,
    person: Person | None = None,
    dialect: Dialect | None = None,
    query: str | None = None,
    named: bool = False,
) -> str:
    """The text of a schema.toml with one unreviewed entry for each usable column of a table.

    Columns that look like names, free text, or numbers of people and documents are left out and listed at the top, with
    the size of the universe and what to coarsen.

    Parameters
    ----------
    source
        A file or the address of a server, as `Table.read` takes; or a pandas or polars data frame or a pyarrow table.
    rows
        Look at so many records only, the first ones.
    learn
        Leave bins, and lists of more than a few categories, to be learned at a cost in privacy, instead of reading them
        off the data. Limits and steps of numbers are read off them still.
    person
        Whose records they are, where a person may have several. Marks of "nobody" are added as they occur.
    dialect
        Of a CSV file: separator, quote, decimal mark and encoding, where it is not UTF-8 with commas, and its header,
        where it has none.
    query
        Which records, as `Table.read` takes it.
    named
        That the first line of a CSV file has the names of the columns, also where these look like values.

    Returns
    -------
    str
        A schema in TOML, every entry of which says `reviewed = false`.

    Raises
    ------
    InvalidInput
        As `CsvReader`, `ParquetReader` and `Table.from_frame` do, when no column is usable, and for a CSV file whose
        first line looks like a record: of two names or more, or half of them, each is also a value of its column, or a
        number or date in a column of these. Where fewer look so, the draft asks at its top.

    Examples
    --------
    >>> import pandas as pd
    >>> import qrelease as qr
    >>> text = qr.draft(pd.DataFrame({"sex": ["F", "M"] * 50, "age": range(20, 120)}))
    >>> [line for line in text.splitlines() if line.startswith("name")]
    ['name = "sex"', 'name = "age"']
    """
    return drafted(source, rows, learn=learn, person=person, dialect=dialect, query=query, named=named).text


def drafted(
    source: str | os.PathLike[str] | Any,
    rows: int | None = None,
    *,
    learn: bool = False,
    person: Person | None = None,
    dialect: Dialect | None = None,
    query: str | None = None,
    named: bool = False,
) -> SchemaDraft:
    """A schema as `draft` makes it, and the columns that have no entry in it."""
    if rows is not None:
        whole("rows", rows, least=1)
    if isinstance(person, str):
        raise InvalidInput(f"person takes qr.Person({person!r}, M), which keeps M records of each, got {person!r}")
    reader = _reader(source, dialect, query)
    if person is not None and person.column not in reader.header:
        told = f"{reader.path.name} has no column {person.column!r}, which is to say whose the records are"
        raise InvalidInput(told + told_of_index(reader, person.column))
    doubtful = not named and not (dialect and dialect.header) and _has_first_line(source, reader)
    first = FirstLine(reader.header if doubtful else ())
    columns = [_Column(name, learn) for name in reader.header]
    categories = reader.named_categories() if isinstance(reader, FrameReader) else {}
    dependencies = None if learn else Dependencies(len(columns))
    shared = SharedValues(len(columns), MISSING)
    for given in _given(reader, rows):
        for column, texts in zip(columns, given, strict=True):
            column.see(texts)
        shared.see(given)
        first.see(given)
        if dependencies is not None:
            dependencies.see(given)
    if first.is_record:
        raise InvalidInput(
            f"{reader.path.name}: its first line looks like a record: {first.doubt}; name all columns by --header (in"
            " Python: dialect=Dialect(header=…)), or, where it has the names of the columns, say --named (named=True)"
        )
    with elapsed("drafting"):
        for column in columns:
            column.finish()
        columns = _read_as_written(columns, reader, rows)
        for column in columns:
            column.name_categories(*categories.get(column.name, ((), False)))
        several = [] if person is not None else ["", *_MANY_RECORDS, *_may_be_persons(columns, shared)]
        cautions = ["", *CAUTION.format(first.doubt).splitlines()] if first.doubt else []
        differing = [] if person is None else _differing(columns, shared, person)
        unread = [UNREAD_INDEX.format(name) for name in reader.index] if isinstance(reader, FrameReader) else []
        found = _document(
            reader.path.name, columns, rows, person, [*cautions, *several], differing, dependencies, unread
        )
    return replace(found, doubted=first.doubt)


def _has_first_line(source: Any, reader: Reader) -> bool:
    """Whether the names of the columns are what a file begins with."""
    return isinstance(source, str | os.PathLike) and has_first_line(source, reader.path.name)


def _given(reader: Reader, rows: int | None) -> Iterator[list[list[str]]]:
    """The texts of all columns of some records at a time, of the first ones."""
    left = math.inf if rows is None else rows
    for chunk in reader.texts():
        given = [list(islice(texts, int(min(left, sys.maxsize)))) for texts in chunk]
        yield given
        left -= len(given[0]) if given else 0
        if left <= 0:
            return


def _read_as_written(columns: list[_Column], reader: Reader, rows: int | None) -> list[_Column]:
    """The columns, where all texts are numbers or dates in one way, as these: what is read twice."""
    tried = {
        place: [_Column(column.name, column.learn, way) for way in column.ways or ()]
        for place, column in enumerate(columns)
        if column.kind == "text" and column.ways and not codes_named(column.name)
    }
    for given in _given(reader, rows) if tried else ():
        for place, others in tried.items():
            for column in others:
                column.see(given[place])
    fitting = {place: _alike(others) for place, others in tried.items()}
    marks = {found for others in fitting.values() if (found := _marks(others)) is not None}
    return [_most_simply(fitting.get(place), marks) or column for place, column in enumerate(columns)]


def _alike(tried: Sequence[_Column]) -> list[_Column]:
    """The column in each way in which all its texts are numbers or dates, the simplest first: none where these ways do
    not make the same of all texts."""
    for column in tried:
        column.finish()
    fitting = [column for column in tried if column.values and column.kind != "text"]
    return [] if any(column.places != fitting[0].places for column in fitting) else fitting


def _marks(fitting: Sequence[_Column]) -> tuple[str, str] | None:
    """The marks of decimals and of thousands, where the texts of a column show both."""
    decimals = {column.writing.decimal for column in fitting}
    if len(decimals) != 1 or not fitting[0].writing.thousands:
        return None
    return fitting[0].writing.decimal, fitting[0].writing.thousands


def _most_simply(fitting: Sequence[_Column] | None, marks: Set[tuple[str, str]]) -> _Column | None:
    """The column as it is read in the simplest way; but with the mark of thousands that other columns have.

    That where its texts show the mark of decimals and it is that of all others: then the mark of thousands can mean
    nothing else, and an amount above 1,000, of which there is none among these records, is read instead of refused.
    Columns that are read as they are keep to that: of a data frame they may hold numbers, which have no marks.

    marks  what `_marks` says of any column
    """
    if not fitting:
        return None
    first, decimals = fitting[0], {column.writing.decimal for column in fitting}
    if len(marks) == len(decimals) == 1 and first.writing.of_numbers and not first.writing.thousands:
        ((decimal, thousands),) = marks
        for column in fitting:
            if (column.writing.decimal, column.writing.thousands) == (decimal, thousands):
                column.supposed = True
                return column
    return first


def _reader(source: Any, dialect: Dialect | None, query: str | None) -> Reader:
    path = isinstance(source, str | os.PathLike)
    reader: Reader = open_reader(source, query, dialect) if path else FrameReader(source)
    reader.check_header()
    return reader


def _document(
    name: str,
    columns: Sequence[_Column],
    rows: int | None,
    person: Person | None,
    several: Sequence[str],
    differing: Sequence[str],
    dependencies: Dependencies | None,
    unread: Sequence[str],
) -> SchemaDraft:
    document, entries, cells = tomlkit.document(), tomlkit.aot(), {}
    left_out: dict[str, str] = {}
    for column in columns:
        reason = _WHOSE if person is not None and column.name == person.column else column.unusable()
        if reason:
            left_out[column.name] = reason
        else:
            entry, cells[column.name] = _entry(column, rows)
            entries.append(entry)
    omitted = [f"- {line}" for line in (*unread, *(f"{name!r}: {reason}" for name, reason in left_out.items()))]
    if not any(column.records or column.missing for column in columns):
        raise InvalidInput(f"{name} has no records to draft a schema from")
    if not len(entries):
        raise InvalidInput(f"{name} has no column to draft a schema from: {'; '.join(omitted)}")
    head = _HEAD.format(path=name if rows is None else f"the first {rows:,} records of {name}").splitlines()
    codes = any(c.name not in left_out and c.coded and len(c.values) > _MAX_WHOLE_CATEGORIES for c in columns)
    too_many = any(" different texts" in reason or reason == _FEW_ALIKE for reason in left_out.values())
    listed = _WITH_A_LIST if too_many or (codes and not columns[0].learn) else []
    out = ["", "Left out:", *omitted] if omitted else []
    followed = [] if dependencies is None else _followed([column.name for column in columns], cells, dependencies)
    for line in [*head, *several, "", *_universe(cells), *out, *listed, *followed]:
        document.add(tomlkit.comment(line) if line else tomlkit.comment(""))
    document.add(tomlkit.nl())
    if person is not None:
        marks = next(column.missing for column in columns if column.name == person.column)
        entry = tomlkit.item(replace(person, missing=tuple(m for m in MISSING if m in marks)).to_json())
        for line in differing:
            entry.add(tomlkit.comment(line))
        document.add("person", entry)
    document.append("attribute", entries)
    doubts = {column.name: column.doubtful for column in columns if column.doubtful and column.name in cells}
    return SchemaDraft(tomlkit.dumps(document), tuple(column.name for column in columns), left_out, doubts)


def _followed(names: Sequence[str], cells: Mapping[str, int], dependencies: Dependencies) -> list[str]:
    """Which columns with an entry follow from others in every record, as a reviewer is told of them."""
    said = []
    for axis, others in dependencies.found():
        following = [repr(names[other]) for other in others if names[other] in cells]
        if names[axis] in cells and following:
            said.append(f"- from {names[axis]!r}: {', '.join(following)}")
    return ["", *_FOLLOWED, *said] if said else []


def _may_be_persons(columns: Sequence[_Column], shared: SharedValues) -> list[str]:
    """Which columns may tell persons apart by what their records have in common, as a reviewer is told of them."""
    found = [
        (axis, others)
        for axis, others in shared.found()
        if columns[axis].name and columns[axis].kind in ("whole", "text")
    ]
    said = [
        _SAME_IN_ALL.format(repr(columns[axis].name), _are([columns[other].name for other in others]))
        for axis, others in found
    ]
    proposed = [line for axis, _ in found for line in _differing(columns, shared, Person(columns[axis].name, 2))]
    return [_MAY_BE_PERSONS.format("; ".join(said)), *proposed] if said else []


def _differing(columns: Sequence[_Column], shared: SharedValues, person: Person) -> list[str]:
    """The column that a person's records differ in, as a reviewer is told of it, with the line for its entry."""
    if person.distinct or person.derive or person.counts_once or person.at_most == 1:
        return []
    names = [column.name for column in columns]
    axis = shared.differing(names.index(person.column))
    if axis is None or columns[axis].unusable():
        return []
    line = tomlkit.dumps({"distinct": [names[axis]]}).strip()
    return [_DIFFERING.format(repr(person.column), repr(names[axis])), line]


def _are(names: Sequence[str]) -> str:
    """Some columns as the subject of a sentence, of which three are named."""
    named = [repr(name) for name in names[:3]] + ([f"{len(names) - 3} more"] if len(names) > 3 else [])
    return f"{named[0]} is" if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]} are"


def _universe(cells: Mapping[str, int]) -> list[str]:
    """How many cells the universe has, and, where that is too many for a histogram, which columns to coarsen."""
    size = math.prod(cells.values())
    told = f"{size:,}" if size < 10**12 else f"about 10^{math.log10(size):.0f}"
    said = [f"The universe of these {len(cells)} columns has {told} cells, as drafted."]
    if size > _MAX_CELLS:
        most = sorted(cells, key=lambda name: -cells[name])[:5]
        said += [
            f"A histogram holds {_MAX_CELLS:,}: take the mechanism records or auto, fewer columns, or coarsen first",
            f"what has the most cells: {', '.join(f'{name} ({cells[name]:,})' for name in most)}.",
        ]
    return said


@final
@dataclass(slots=True)
class _Column:
    """What is known of a column: the kinds of its values, their limits, and the values while they are few."""

    name: str
    learn: bool = False
    writing: Writing = _PLAIN
    missing: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    low: float = math.inf
    high: float = -math.inf
    records: int = 0
    places: dict[float, int] = field(default_factory=dict)
    different: set[int] = field(default_factory=set)
    told_apart: int = 0
    zoned: bool = False
    fractions: bool = False
    grouped: bool = True
    otherwise: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    most: int = field(init=False)  # texts that a draft lists
    ways: list[Writing] | None = None
    unanswered: Counter[str] = field(default_factory=Counter)  # texts as "don't know", and infinite numbers
    unreadable: str = ""  # why a value is refused where the table is read
    supposed: bool = False  # the mark of thousands, as other columns have it
    usual_marks: defaultdict[float, set[str]] = field(default_factory=partial(defaultdict, set))  # how each is written
    marks: tuple[str, ...] = ()  # numbers of another sign than all others, which are taken for missing
    doubtful: tuple[str, ...] = ()  # others that may mean missing, and are taken for values
    named: tuple[str, ...] = ()  # what it may hold by the type of a frame's column
    compared: bool = False  # by whose order values are compared
    counted: int | None = -1  # the last value, while these count the records from 0 or 1 on; then None

    def __post_init__(self) -> None:
        self.most = max(codes_named(self.name), _MAX_TEXT_CATEGORIES)

    def see(self, texts: Iterable[str]) -> None:
        """Take in some raw values, in the order of the records: those that are the same are looked at together."""
        texts = list(texts)
        self._count(texts)
        self.waiting.update(texts)
        if len(self.waiting) > _MAX_WAITING:
            self.settle()

    def _count(self, texts: Sequence[str]) -> None:
        """See whether values count the records on."""
        if self.counted is None or not texts:
            return
        first = int(texts[0] == "1") if self.counted < 0 else self.counted + 1
        numbered = all(text == str(number) for number, text in enumerate(texts, first))
        self.counted = first + len(texts) - 1 if numbered else None

    def settle(self) -> None:
        """Look at the values that wait."""
        given, self.waiting = self.waiting, Counter()
        is_plain = self.writing.is_plain
        if is_plain and "" in given:
            del given[""]
            self.missing.add("")
        if is_plain and len(given) >= _LEAST_TOGETHER and _are_digits([*given]):
            self._settle_numerals([*given], [*given.values()])
        else:
            for numerals, run in groupby(given.items(), lambda item: is_plain and bool(_NUMERAL.fullmatch(item[0]))):
                pairs = list(run)
                if numerals and len(pairs) >= _LEAST_TOGETHER:
                    self._settle_numerals([text for text, _ in pairs], [count for _, count in pairs])
                else:
                    self._settle_each(pairs)
        if len(self.places) > _MAX_COUNTED_NUMBERS:
            self.places = fewer(self.places)

    def _settle_numerals(self, texts: Sequence[str], counts: Sequence[int]) -> None:
        """Look at different texts of `_NUMERAL`, of so many records each, together: as `_settle_each` does, sooner."""
        reached = self.records
        for text, count in zip(texts, counts, strict=True):
            if len(self.different) >= _MAX_DISTINCT:
                break
            reached += count
            self.different.add(hash(text))
            self.told_apart = reached
        self.records += sum(counts)
        for text in texts:
            if self.most > _MAX_TEXT_CATEGORIES and _CODE.fullmatch(text) is None:
                self.most = _MAX_TEXT_CATEGORIES
            if len(self.values) <= self.most:
                self.values.add(text)
            elif self.most == _MAX_TEXT_CATEGORIES:
                break
        pointed = [text for text in texts if "." in text]
        places = [*map(float, texts)]
        if pointed:
            self.kinds.add("number")
            self.grouped = self.grouped and all(map(_GROUPED.fullmatch, pointed))
            self.fractions = self.fractions or not all(map(float.is_integer, places))
        if len(pointed) < len(texts):
            self.kinds.add("whole")
        self.low, self.high = min(self.low, min(places)), max(self.high, max(places))
        known, new = self.places, dict(zip(places, counts, strict=True))
        if len(new) == len(places):
            for place in known.keys() & new.keys():
                new[place] += known[place]
            known.update(new)
        else:  # some are one number, as 1.5 and 1.50
            for place, count in zip(places, counts, strict=True):
                known[place] = known.get(place, 0) + count
        if not USUAL_MARKS.isdisjoint(places):
            for text, place in zip(texts, places, strict=True):
                if is_usual_mark(place):
                    self.usual_marks[place].add(text)

    def _settle_each(self, given: Iterable[tuple[str, int]]) -> None:
        """Look at different texts, of so many records each, one by one."""
        for raw, count in given:
            if isinstance(raw, Unreadable):
                self.unreadable = raw
                continue
            text = raw.strip()
            plain = self.writing.plain(text)
            if text in MISSING or plain in MISSING:
                self.missing.add(text)
                continue
            if unanswered(text) or infinite(text):
                self.unanswered[text] += count
                continue
            self.records += count
            if len(self.different) < _MAX_DISTINCT:
                self.different.add(hash(text))
                self.told_apart = self.records
            kind, place = ("text", None) if plain is None else _classified(plain)
            self.kinds.add(kind)
            if self.most > _MAX_TEXT_CATEGORIES and _CODE.fullmatch(text) is None:
                self.most = _MAX_TEXT_CATEGORIES
            if kind == "number":
                self.grouped = self.grouped and _GROUPED.fullmatch(text) is not None
            if kind == "date":
                self.zoned = self.zoned or _OFFSET.fullmatch(text) is not None
            if kind == "text":
                self.ways = ways_to_read(text) if self.ways is None else still_read(self.ways, text)
                self.otherwise.update({name: count for name, (like, _) in _OTHERWISE.items() if like.fullmatch(text)})
            if place is not None:
                self.low, self.high = min(self.low, place), max(self.high, place)
                self.places[place] = self.places.get(place, 0) + count
                if is_usual_mark(place):
                    self.usual_marks[place].add(text)
                self.fractions = self.fractions or (kind == "number" and not place.is_integer())
            if len(self.values) <= self.most:
                self.values.add(plain or text)

    def finish(self) -> None:
        """After the last record: among numbers or dates a text as *don't know*, or *inf*, is a missing value, else a
        category."""
        self.settle()
        if self.kinds and "text" not in self.kinds:
            self.missing.update(self.unanswered)
        elif self.unanswered:
            self.kinds.add("text")
            self.records += self.unanswered.total()
            self.told_apart += self.unanswered.total()
            self.different.update(map(hash, self.unanswered))
            self.values.update(self.unanswered)
        if self.kind in ("whole", "number") and not self.coded and (marks := missing_marks(self.places)):
            sure = sure_marks(marks, self.places)
            self.marks, self.doubtful = (
                tuple(text for mark in found for text in sorted(self.usual_marks[mark]))
                for found in (sure, [mark for mark in marks if mark not in sure])
            )
            self.missing.update(self.marks)
            self.values = {text for text in self.values if float(text) not in sure}
            self.places = {place: count for place, count in self.places.items() if place not in sure}
            self.low, self.high = min(self.places), max(self.places)

    def name_categories(self, named: Sequence[str], compared: bool) -> None:
        """Take what the type of a frame's column says that it may hold, where a draft can list that."""
        listed = tuple(text for text in named if text not in MISSING)
        if len({*listed}) == len(listed) <= self.most and self.values <= {*listed} and self.writing.is_plain:
            self.named, self.compared = listed, compared

    @property
    def nearly_unique(self) -> bool:
        """Whether nearly every record has a value of its own."""
        return self.records >= _MIN_RECORDS_OF_NAMES and len(self.different) > 0.9 * self.told_apart

    @property
    def kind(self) -> str:
        """`whole`, `number`, `date`, or `text` for anything mixed."""
        if len(self.kinds) == 1:
            return next(iter(self.kinds))
        return "number" if self.kinds == {"whole", "number"} else "text"

    @property
    def most_share(self) -> int:
        """100 or 1, where it looks like one of shares or percentages; else 0."""
        name = f"{self.name} {self.writing.unit}"
        return limit_of_shares(self.low, self.high, name, fractions=self.fractions) if self.places else 0

    @property
    def coded(self) -> bool:
        """Whether its name says that its numbers are codes: categories, whose order and distance mean nothing."""
        return self.kind in ("whole", "number") and codes_named(self.name) > 0

    @property
    def hint(self) -> str:
        """What texts that look like dates or numbers should be written like; empty for others."""
        alike = (said for name, (_, said) in _OTHERWISE.items() if self.otherwise[name] >= _MOSTLY * self.records)
        said = next(alike, "") if self.kind == "text" else ""
        formats = [f'"{way.format}"' for way in self.ways or () if way.format]
        if said == _OTHERWISE["date"][1] and len(formats) > 1:  # days up to the 12th say nothing of the order
            said = f'they look like dates: give kind = "date", and as format the right one of {" and ".join(formats)}'
        return said

    def unusable(self) -> str | None:
        """Why the column cannot be an attribute, None if it can."""
        if not self.name:
            return "it has no name"
        if self.unreadable:
            return self.unreadable
        if not self.values:
            return "it holds no value"
        reason = self._unusable()
        if not reason and self._numbers_records():
            return _NUMBERS_RECORDS
        return f"{reason}; {self.hint}" if reason and self.hint else reason

    def _unusable(self) -> str | None:
        if self.learn and (self.kind == "text" or self.coded):
            return _NAMED.format(self.name) if self._names_people() else self._no_category()
        if self.kind == "date" and self.zoned and not self.learn:
            return _ZONED
        if self._names_people() and not self.nearly_unique:
            return _NAMED.format(self.name)
        if codes_named(self.name) and self.kind != "date" and not self.few:
            return self._uncommon_codes()
        if self.kind == "text" and len(self.values) > self.most:
            return _TOO_MANY.format(self.most)
        if self.kind == "text" and self.records >= _MIN_RECORDS_OF_NAMES and 2 * len(self.values) > self.records:
            return "nearly every text is different: names, addresses or free text"
        if self.kind == "whole" and self.nearly_unique and self._numbers_people():
            return "nearly every number is different: it looks like one of people or documents"
        return _NAMED.format(self.name) if self._names_people() else None

    @property
    def few(self) -> bool:
        return len(self.values) <= _MAX_WHOLE_CATEGORIES

    def _uncommon_codes(self) -> str | None:
        """Why codes cannot be listed."""
        if len(self.values) > self.most:
            return f"{_TOO_MANY.format(self.most)}; the column's name says that they are codes"
        if self.records >= _MIN_RECORDS_OF_NAMES and 2 * len(self.values) > self.records:
            return _FEW_ALIKE
        return None

    def _names_people(self) -> bool:
        """Whether its name says that it tells people apart, and it has too many values for a question's answers."""
        return (
            self.kind in ("whole", "text")
            and len(self.values) > _MAX_WHOLE_CATEGORIES
            and persons_named(self.name, repeated=self.told_apart >= LEAST_RECORDS * len(self.different))
        )

    def _no_category(self) -> str | None:
        """Why a column of texts can have no categories, also where they are learned."""
        if self.records >= _MIN_RECORDS_OF_NAMES and 2 * len(self.different) > self.told_apart:
            return "nearly every text is different: names, addresses, numbers of people or free text"
        if max(map(len, self.values)) > _MAX_LABEL:
            return f"texts of more than {_MAX_LABEL} characters: free text"
        return None

    def _numbers_records(self) -> bool:
        """Whether its whole numbers count the records, or all differ in a column that has no name in its file."""
        unnamed = _UNNAMED.fullmatch(self.name) is not None
        if self.counted is not None and (unnamed or self.records >= _FEWEST_NUMBERED):
            return True
        return unnamed and self.kind == "whole" and len(self.different) == self.told_apart

    def _numbers_people(self) -> bool:
        """Whether whole numbers that nearly all differ count up without many gaps, or are named as numbers are."""
        counted = self.high - self.low < 2 * self.records and self.records > _MAX_TEXT_CATEGORIES
        return counted or bool(_IDENTIFIER_NAME.search(self.name))


def _are_digits(texts: Sequence[str]) -> bool:
    """Whether different texts are all of `_NUMERAL`, without a sign or decimals: told of all of them together."""
    joined = "".join(texts)
    if not (joined.isascii() and joined.isdecimal()):
        return False
    zeros = f"\n{chr(10).join(texts)}".count("\n0")  # a label such as 007, or 0 itself
    return zeros == ("0" in texts) and min(map(len, texts)) >= 1 and max(map(len, texts)) <= _MAX_DIGITS


def _classified(text: str) -> tuple[str, float | None]:
    """The kind of a value and its place on the line, if it has one."""
    if _WHOLE.fullmatch(text):
        return "whole", float(text)
    if _DATE.fullmatch(text):
        day = _AS_DATE.parse(text)
        return ("text", None) if day is None or text.startswith("9999") else ("date", float(day))
    number = None if _LABEL.fullmatch(text) else _AS_NUMBER.parse(text)
    return ("number", float(number)) if number is not None and -1e300 <= number <= 1e300 else ("text", None)


def _entry(column: _Column, rows: int | None) -> tuple[Table, int]:
    """The proposed entry, with the reasons as comments, and how many cells it has."""
    entry = tomlkit.table()
    entry.add("name", column.name)
    if column.learn and (column.kind == "text" or column.coded) and len(column.values) > _MAX_WHOLE_CATEGORIES:
        entry.add("kind", "category")
        _say_if_coded(entry, column)
        entry.add(tomlkit.comment("not listed here: learned, for a cost; the rest will be one category, other"))
        entry.add("categories", _inline({"learn": True, "at_most": MAX_LEARNED_CATEGORIES}))
        cells = len(column.values)
    elif column.named:
        cells = _propose_named_categories(entry, column)
    elif column.coded:
        cells = _propose_categories(entry, column, rows)
    elif column.kind == "whole" and (step := _step_of_few(column)):
        cells = _propose_single_numbers(entry, column, step)
    elif column.kind == "text" or (column.kind == "whole" and column.few and column.writing.is_plain):
        cells = _propose_categories(entry, column, rows)
    elif column.kind == "whole" and is_clock(column.name, column.places):
        cells = _propose_clock(entry)
    elif column.learn and column.kind != "date":
        cells = _propose_grid(entry, column)
    elif column.learn and any(len(text) > len("2024-01-31") for text in column.values):
        cells = _propose_moments(entry, column)
    else:
        digits = digits_of_codes(column.low, column.high) if column.kind == "whole" else 0
        if digits and not column.nearly_unique:
            entry.add(
                tomlkit.comment(f"all have {digits} digits: if these are codes and no amounts, write instead of bins")
            )
            entry.add(
                tomlkit.comment('kind = "category" and categories = {file = "codes.csv", column = "code"}, a list')
            )
        if column.kind == "whole" and column.nearly_unique:
            entry.add(tomlkit.comment("nearly every value occurs once: delete this if it numbers people or documents"))
        cells = _propose_bins(entry, column)
    if column.kind == "whole" and column.writing.is_plain and not column.coded and are_days(column.places):
        told = (
            "all are days as in 19750103, for 1975-01-03: if they are dates, write them so in the data and draft anew"
        )
        entry.add(tomlkit.comment(told))
    if column.kind == "number" and column.grouped and column.writing.is_plain and not column.coded:
        told = 'if points mark thousands here, as in 1.234 for 1234, write decimal = "," and thousands = "."'
        entry.add(tomlkit.comment(told))
    if column.doubtful:
        it, means = (
            ("it", "a value, or does it mean") if len(column.doubtful) == 1 else ("them", "values, or do they mean")
        )
        places = " and ".join(key for key in ("categories", "within", "bins") if key in entry)
        told = f"{means} missing? If so, list {it} under missing, and take {it} out of {places}"
        entry.add(tomlkit.comment(f"{' and '.join(column.doubtful)}: {told}"))
    if not column.writing.is_plain:
        entry.add(tomlkit.comment("how all values that occur are written"))
        if column.supposed:
            entry.add(tomlkit.comment("but none has a mark of thousands: it is that of other columns"))
        for key, mark in asdict(column.writing).items():
            if mark != getattr(_PLAIN, key):
                entry.add(key, mark)
    if column.missing:
        entry.add(
            tomlkit.comment(
                "these occur and are read as missing; synthetic records have the first of them where a value is missing"
            )
        )
        listed = [token for token in MISSING if token in column.missing]
        if any(map(infinite, column.missing)):
            entry.add(tomlkit.comment("infinite numbers are read as missing as well, as no limits or bins hold them"))
            listed = listed or [""]  # which synthetic records have, in place of an infinite number
        if column.marks:
            it, it_is = ("it", "it is a value") if len(column.marks) == 1 else ("them", "they are values")
            told = f"{' and '.join(column.marks)}: taken for missing, as no other value is on that side of zero"
            entry.add(tomlkit.comment(f"{told}; if {it_is}, take {it} out of this list and widen the limits"))
        entry.add("missing", listed + sorted(column.missing.difference(listed)))
    entry.add("reviewed", value=False)
    return entry, cells + bool(column.missing)


def _propose_categories(entry: Table, column: _Column, rows: int | None) -> int:
    ordered = column.kind == "whole" and not column.coded
    labels = sorted(column.values, key=float) if ordered or column.coded else sorted(column.values)
    scale = None if ordered or column.coded else scale_of(labels)
    if scale is not None:
        labels = [*scale.ordered, *scale.apart]
    entry.add("kind", "category")
    _say_if_coded(entry, column)
    told = "exactly the values that occur: replace them by the public list of categories"
    if rows is not None:
        told = (
            f"of the first {rows:,} records: others may occur in the rest; a public list of categories is given here,"
            " or by categories = { file = ... }"
        )
    entry.add(tomlkit.comment(told))
    if column.hint:
        entry.add(tomlkit.comment(column.hint))
    entry.add("categories", tomlkit.array().multiline(multiline=len(labels) > _MAX_WHOLE_CATEGORIES))
    for label in labels:
        entry["categories"].append(label)
    for alike in spelled_alike(labels):
        told = f"one category in several spellings? {', '.join(map(repr, alike))}: then make them one in the data"
        entry.add(tomlkit.comment(told))
    if ordered:
        entry.add(tomlkit.comment("few whole numbers: each is a category, and their order counts"))
        entry.add("ordered", value=True)
    elif scale is not None and scale.apart:
        beside = ", ".join(" ".join(text.split()) for text in scale.apart)  # a comment is one line
        told = f"a scale, but for {beside}: with that under missing, in place of here, write ordered = true"
        entry.add(tomlkit.comment(told))
    elif scale is not None:
        entry.add(tomlkit.comment("by their words in the order of a scale, which <, >= and ranges then follow"))
        entry.add("ordered", value=True)
    return len(labels)


def _propose_named_categories(entry: Table, column: _Column) -> int:
    entry.add("kind", "category")
    entry.add(tomlkit.comment("those of the data frame's type, which need not all occur: take a public list"))
    entry.add("categories", tomlkit.array().multiline(multiline=len(column.named) > _MAX_WHOLE_CATEGORIES))
    for label in column.named:
        entry["categories"].append(label)
    if column.compared:
        entry.add(tomlkit.comment("in the order of that type, which <, >= and ranges then follow"))
        entry.add("ordered", value=True)
    return len(column.named)


def _say_if_coded(entry: Table, column: _Column) -> None:
    if column.coded:
        told = 'codes, by the name: if these are amounts, write kind = "number" and within, step and bins instead'
        entry.add(tomlkit.comment(told))


def _shares(column: _Column) -> str:
    told = _SHARES.format(column.most_share, "percentages" if column.most_share == 100 else "shares")
    known = public_limits(column.name, column.high)
    return f"{told}; {known}, which may be the public limits by the name" if known else told


def _rounded(column: _Column) -> str:
    known = public_limits(column.name, column.high)
    return _ROUNDED.format("the extremes") + (f", as by the name: {known}" if known else "")


def _step_of_few(column: _Column) -> int:
    """The largest step by which few whole numbers lie on a grid of few points; 0 where there is none."""
    if len(column.values) > _MAX_SINGLE_NUMBERS:
        return 0
    first, *others = sorted(int(text) for text in column.values)
    step = math.gcd(*(other - first for other in others)) or 1
    points = (max([first, *others]) - first) // step + 1
    if column.few and (points <= _MAX_WHOLE_CATEGORIES or _is_count_with_gaps([first, *others])):
        return step
    if column.few:
        return 0
    enough = points <= _MAX_SINGLE_NUMBERS and points * _MIN_RECORDS_OF_SINGLE <= column.records
    return step if enough and not (column.learn or column.most_share) else 0


def _is_count_with_gaps(numbers: Sequence[int]) -> bool:
    """Whether numbers, in ascending order, are those of a count, whose largest few records have: 0, 1, 2, 3, 5, 9."""
    begun = numbers[:_COUNTED_ON] in ([*range(_COUNTED_ON)], [*range(1, _COUNTED_ON + 1)])
    return begun and numbers[-1] < _MAX_SINGLE_NUMBERS


def _propose_single_numbers(entry: Table, column: _Column, step: int) -> int:
    """A cell for each number, so that synthetic records have numbers, and means are exact."""
    first, last = int(column.low), int(column.high)
    entry.add("kind", "number")
    known = public_limits(column.name, column.high)
    told = "few whole numbers, from the first to the last that occur: replace by public limits"
    entry.add(tomlkit.comment(told + (f", as by the name: {known}" if known else "")))
    if step == 1:
        entry.add("bins", _inline({"start": first, "stop": last + 1, "width": 1}))
        entry.add("integer", value=True)
    else:
        entry.add("within", [first, last])
        entry.add("step", step)
    points = (last - first) // step + 1
    if points > _MAX_WHOLE_CATEGORIES:
        _say_clipped(entry)
    else:  # these may be codes, for which a nearest number means nothing
        told = (
            "a release stops at any other number, as at a larger one next month: widen the limits to all that is"
            " possible, or add"
        )
        entry.add(tomlkit.comment(told))
        entry.add(tomlkit.comment('outside = "clip", which counts it as the nearest'))
    return points


def _propose_bins(entry: Table, column: _Column) -> int:
    entry.add("kind", "date" if column.kind == "date" else "number")
    bins: dict[str, Any] | list[Any] | int
    if column.kind == "date":
        entry.add(tomlkit.comment(_ROUNDED.format("the extremes")))
        bins = _date_steps(column)
        _say_of_dates(entry, column, bins)
    elif (step := _step(column)) and column.most_share:
        entry.add(tomlkit.comment(_shares(column)))
        bins = share_bins(column.most_share, column.places, step)
        _add_grid(entry, column, *_limits(column, step), step)
    else:
        entry.add(tomlkit.comment(_rounded(column)))
        bins = number_bins(column.low, column.high, column.places, step)
        low, high = _limits(column, step)
        if step and high - low > step:
            _add_grid(entry, column, low, high, step)
    if isinstance(bins, list):
        heaped = [value for value in (*heaps(column.places), column.most_share or math.nan) if value in bins]
        told = " and ".join(f"{toml_number(Fraction(value)):,}" for value in dict.fromkeys(heaped))
        why = f"many records have {told}" if heaped else "even bins would hold nearly all values in one"
        entry.add(tomlkit.comment(f"uneven: {why}"))
    entry.add("bins", _inline(bins) if isinstance(bins, dict) else bins)
    if column.kind == "whole":
        entry.add("integer", value=True)
    _say_clipped(entry)
    return bins if isinstance(bins, int) else len(edges_of(bins, entry["kind"])) - 1


def _say_of_dates(entry: Table, column: _Column, bins: Mapping[str, Any]) -> None:
    """What bins of days make of times of day, and coarser bins where there are many."""
    places = [place for place in map(moment, column.values) if place is not None]
    last = bins["stop"] - timedelta(days=1)
    if any(place.denominator != 1 for place in places):
        step = "hour" if all((place * 24).denominator == 1 for place in places) else "minute"
        entry.add(tomlkit.comment("the time of day is cut off: to have it in synthetic records, add"))
        entry.add(tomlkit.comment(f'within = [{bins["start"]}, {last}] and step = "{step}"'))
    cells = len(edges_of(dict(bins), "date")) - 1
    if cells > _MANY_DATES:
        told = f"{cells} cells are many: for fewer, each with more records and the same noise, write for example"
        entry.add(tomlkit.comment(told))
        entry.add(tomlkit.comment(tomlkit.dumps({"bins": _inline(_coarser(bins))}).strip()))


def _coarser(bins: Mapping[str, Any]) -> dict[str, Any]:
    """Whole decades instead of years, or weeks of seven days instead of days, that hold them."""
    start, stop = bins["start"], bins["stop"]
    if "years" in bins:
        return {"start": date(start.year // 10 * 10, 1, 1), "stop": date(-(-stop.year // 10) * 10, 1, 1), "years": 10}
    return {"start": start, "stop": start + timedelta(days=-(-(stop - start).days // 7) * 7), "days": 7}


def _say_clipped(entry: Table) -> None:
    entry.add(tomlkit.comment("values beyond the limits count as the nearest bin; error refuses them instead"))
    entry.add("outside", "clip")


def _propose_clock(entry: Table) -> int:
    """A bin for each hour, of which only minutes up to 59 have records: both are public."""
    entry.add("kind", "number")
    entry.add(tomlkit.comment("times of day, as 515 for 5:15, by the name and as no minute is above 59: if they are"))
    entry.add(tomlkit.comment("amounts, delete shape and choose limits and bins. Means of such numbers are no times"))
    entry.add("within", [CLOCK_EDGES[0], CLOCK_EDGES[-1] - 1])
    entry.add("step", 1)
    entry.add("bins", [*CLOCK_EDGES])
    entry.add(tomlkit.comment("synthetic records have minutes from 00 to 59, and none from 60 to 99"))
    entry.add("shape", [[*pair] for pair in CLOCK_SHAPE])
    entry.add(tomlkit.comment("2400 counts as 2359, as the nearest; error refuses it instead"))
    entry.add("outside", "clip")
    return len(CLOCK_EDGES) - 1


def _limits(column: _Column, step: Fraction) -> tuple[Fraction, Fraction]:
    """Where the bins of numbers begin and end, whether bins are proposed or are to be learned between them."""
    if column.most_share and step:
        return Fraction(0), column.most_share + step * (step.denominator == 1)
    bins = number_bins(column.low, column.high, column.places, step)
    low, high = (bins["start"], bins["stop"]) if isinstance(bins, dict) else (bins[0], bins[-1])
    return exact_number(low), exact_number(high)


def _add_grid(entry: Table, column: _Column, low: Fraction, high: Fraction, step: Fraction) -> None:
    """The grid of bins from `low` to `high`: of whole numbers the last one ends before `high`."""
    last = high - step if step.denominator == 1 else high
    entry.add("within", [toml_number(low), toml_number(last)])
    if column.kind != "whole":
        entry.add(tomlkit.comment("as many decimals as occur, or enough: a public step is better"))
    entry.add("step", toml_number(step))


def _step(column: _Column) -> Fraction:
    """1, or 1 or 5 times a power of ten, whose multiples the numbers are: as many decimals as occur, if these are few.

    0 where no grid has room for them.
    """
    farthest = Fraction(max(abs(column.low), abs(column.high)))
    if column.kind == "whole":
        step = Fraction(1)
    else:
        low, high, width = even(column.low, column.high, Fraction(0))
        unit = Fraction(10) ** -max(_places_after_point(column), 0)
        if unit < Fraction(10) ** -_DECIMALS or farthest > _MAX_STEPS * unit:
            step = min(width, _decimals(column, high - low))
        else:
            halves = unit < 1 and all(exact_number(place) % (5 * unit) == 0 for place in column.places)
            step = 5 * unit if halves else unit
    fits = 4 * farthest + 1 <= MAX_POINTS * min(step, Fraction(1))  # limits are rounded outwards
    return step if fits and not (column.fractions and step.denominator == 1) else Fraction(0)


def _places_after_point(column: _Column) -> int:
    return max(-int(Decimal(repr(place)).normalize().as_tuple().exponent) for place in column.places)


def _propose_grid(entry: Table, column: _Column) -> int:
    """Limits and a step, and bins that are to be learned where the grid has many points."""
    low, high, width = even(column.low, column.high, Fraction(column.kind == "whole"))
    step = _step(column)
    if step:
        low, high = _limits(column, step)
    else:  # so far from 0 that a grid of all decimals has no room
        step = Fraction(1) if column.kind == "whole" else min(width, _decimals(column, high - low))
        high += step * (step.denominator == 1)
    entry.add("kind", "number")
    entry.add(tomlkit.comment(_shares(column) if column.most_share else _rounded(column)))
    _add_grid(entry, column, low, high, step)
    points = int((high - low) / step) + (step.denominator != 1)
    if points > MAX_POINT_CELLS:
        entry.add("bins", _inline({"learn": _LEARNED_BINS}))
    _say_clipped(entry)
    return min(points, _LEARNED_BINS if points > MAX_POINT_CELLS else points)


def _propose_moments(entry: Table, column: _Column) -> int:
    """Whole months around the moments that occur, by the minute, or by the hour where that seems to be enough."""
    steps = _date_steps(column)
    last = steps["stop"] - timedelta(days=1)
    entry.add("kind", "date")
    entry.add(tomlkit.comment(_ROUNDED.format("the moments")))
    entry.add("within", [steps["start"], last])
    places = filter(None, map(moment, column.values))
    entry.add("step", "hour" if all((place * 24).denominator == 1 for place in places) else "minute")
    entry.add("bins", _inline({"learn": _LEARNED_BINS}))
    entry.add(tomlkit.comment("moments beyond the limits count as the nearest; error refuses them instead"))
    entry.add("outside", "clip")
    return _LEARNED_BINS


def _decimals(column: _Column, span: Fraction) -> Fraction:
    """The unit of the last decimal that occurs, but no finer than a part in 10 000 to 100 000 of the span.

    A grid of whole numbers takes no fraction: where one occurs the unit is a tenth at most, if a grid can be so fine.
    """
    found = _places_after_point(column)
    unit = max(Fraction(10) ** -max(found, 0), Fraction(10) ** (math.floor(math.log10(span)) - _DECIMALS))
    farthest = 2 * Fraction(max(abs(column.low), abs(column.high)) + 1)  # limits are rounded outwards from these
    return min(unit, _TENTH) if found > 0 and 2 * farthest <= MAX_POINTS * _TENTH else unit


def _inline(content: Mapping[str, Any]) -> Any:
    table = tomlkit.inline_table()
    table.update(content)
    return table


def _date_steps(column: _Column) -> dict[str, Any]:
    """{start, stop, years | months | days} in whole calendar units around the dates that occur."""
    first, last = (date.fromisoformat(iso_date(day)) for day in (column.low, column.high))
    span = column.high - column.low
    if span > 3 * 366:
        return {"start": date(first.year, 1, 1), "stop": date(last.year + 1, 1, 1), "years": 1}
    if span > 62:
        stop = date(last.year + last.month // 12, last.month % 12 + 1, 1)
        return {"start": first.replace(day=1), "stop": stop, "months": 1}
    return {"start": first, "stop": last + timedelta(days=1), "days": 1}
