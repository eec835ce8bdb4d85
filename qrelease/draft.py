"""A first schema.toml proposed from a data file, for a person to review entry by entry.

What it proposes was read from private data: a category that only one person has, or the exact end of a range,
would leave with the schema. So every entry says `reviewed = false`, and `schema.load` refuses such a file.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, final

import tomlkit
from tomlkit.items import Table

from qrelease.domain import Attribute, iso_date
from qrelease.errors import InvalidInput
from qrelease.rows import PARQUET, CsvReader, ParquetReader

MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", ".", "-", "9999-12-31")
"""Spellings taken for a missing value when a column holds them."""

_MANY = 100  # more categories than this: a name, a number of a document, free text
_FEW = 12  # whole numbers with at most so many values become ordered categories
_BINS = 10  # about so many bins for a column of numbers
_DIGITS = 1e-9  # bins are at least this part of the largest number, so that edges are short decimals

_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,14})")
_LABEL = re.compile(r"[+-]?(0\d.*|\d+)")  # 007, or more digits than a float holds
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")
_AS_NUMBER = Attribute("number", "number", edges=(0, 1))
_AS_DATE = Attribute("date", "date", edges=(0, 1))

_HEAD = """\
Drafted from {path}: not a schema yet.

Everything below was read from private data. Before any release a person must go through every entry:
- replace what the data show by what is publicly known (code lists, legal limits, the questionnaire);
- remove categories that few people have, or whose existence is itself a secret;
- choose bins and limits without regard to the extremes that occur;
- delete numbers of people and of documents, which look like any others here;
then set its reviewed to true. Delete the entries of columns that are not to be released."""


def draft(path: str | os.PathLike[str]) -> str:
    """The text of a schema.toml with one unreviewed entry for each usable column of a CSV or Parquet file.

    Columns that look like names or free text (too many categories) are left out and listed at the top. Raises
    `InvalidInput` as `CsvReader` and `ParquetReader` do, and when no column is usable.
    """
    reader = ParquetReader(path) if Path(path).suffix.lower() in PARQUET else CsvReader(path)
    columns = [_Column(name) for name in reader.header]
    for chunk in reader.texts():
        for column, texts in zip(columns, chunk, strict=True):
            column.see(texts)
    document = tomlkit.document()
    entries = tomlkit.aot()
    omitted = []
    for column in columns:
        reason = column.unusable()
        if reason:
            omitted.append(f"- {column.name!r}: {reason}")
        else:
            entries.append(_entry(column))
    if not len(entries):
        raise InvalidInput(f"{reader.path} has no column to draft a schema from: {'; '.join(omitted)}")
    head = _HEAD.format(path=reader.path.name).splitlines()
    for line in [*head, *(["", "Left out:", *omitted] if omitted else [])]:
        document.add(tomlkit.comment(line) if line else tomlkit.comment(""))
    document.add(tomlkit.nl())
    document.append("attribute", entries)
    return tomlkit.dumps(document)


@final
@dataclass(slots=True)
class _Column:
    """What is known of a column: the kinds of its values, their limits, and the values while they are few."""

    name: str
    missing: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    low: float = math.inf
    high: float = -math.inf

    def see(self, texts: Iterable[str]) -> None:
        """Take in some raw values."""
        for text in {text.strip() for text in texts} - self.values:
            if text in MISSING:
                self.missing.add(text)
                continue
            kind, place = _classified(text)
            self.kinds.add(kind)
            if place is not None:
                self.low, self.high = min(self.low, place), max(self.high, place)
            if len(self.values) <= _MANY:
                self.values.add(text)

    @property
    def kind(self) -> str:
        """`whole`, `number`, `date`, or `text` for anything mixed."""
        if len(self.kinds) == 1:
            return next(iter(self.kinds))
        return "number" if self.kinds == {"whole", "number"} else "text"

    def unusable(self) -> str | None:
        """Why the column cannot be an attribute, None if it can."""
        if not self.name:
            return "it has no name"
        if not self.values:
            return "it holds no value"
        if self.kind == "text" and len(self.values) > _MANY:
            return f"more than {_MANY} different texts"
        return None


def _classified(text: str) -> tuple[str, float | None]:
    """The kind of a value and its place on the line, if it has one."""
    if _WHOLE.fullmatch(text):
        return "whole", float(text)
    if _DATE.fullmatch(text):
        day = _AS_DATE.parse(text)
        return ("text", None) if day is None or text.startswith("9999") else ("date", day)
    number = None if _LABEL.fullmatch(text) else _AS_NUMBER.parse(text)
    return ("text", None) if number is None or abs(number) > 1e300 else ("number", number)


def _entry(column: _Column) -> Table:
    """The proposed entry, with the reasons as comments."""
    entry = tomlkit.table()
    entry.add("name", column.name)
    if column.kind == "text" or (column.kind == "whole" and len(column.values) <= _FEW):
        _propose_categories(entry, column)
    else:
        _propose_bins(entry, column)
    if column.missing:
        entry.add(tomlkit.comment("taken for missing, because they occur; the first one is written out"))
        entry.add("missing", [token for token in MISSING if token in column.missing])
    entry.add("reviewed", value=False)
    return entry


def _propose_categories(entry: Table, column: _Column) -> None:
    ordered = column.kind == "whole"
    labels = sorted(column.values, key=float) if ordered else sorted(column.values)
    entry.add("kind", "category")
    entry.add(tomlkit.comment("exactly the values that occur: replace them by the public list of categories"))
    entry.add("categories", tomlkit.array().multiline(multiline=len(labels) > _FEW))
    for label in labels:
        entry["categories"].append(label)
    if ordered:
        entry.add(tomlkit.comment("few whole numbers: each is a category, and their order counts"))
        entry.add("ordered", value=True)


def _propose_bins(entry: Table, column: _Column) -> None:
    entry.add("kind", "date" if column.kind == "date" else "number")
    entry.add(tomlkit.comment("limits rounded outwards from the extremes that occur: replace by public limits"))
    bins = tomlkit.inline_table()
    bins.update(_date_steps(column) if column.kind == "date" else _number_steps(column))
    entry.add("bins", bins)
    if column.kind == "whole":
        entry.add("integer", value=True)
    entry.add(tomlkit.comment("values beyond the limits count as the nearest bin; error refuses them instead"))
    entry.add("outside", "clip")


def _number_steps(column: _Column) -> dict[str, Any]:
    """{start, stop, width} with about `_BINS` bins of a round width: 1, 2 or 5 times a power of ten."""
    top = max(abs(column.low), abs(column.high))
    rough = max((column.high - column.low) / _BINS, top * _DIGITS, 1e-200) if top else 1.0
    power = Fraction(10) ** math.floor(math.log10(rough))
    width = next(m * power for m in (1, 2, 5, 10) if m * power >= Fraction(rough))
    if column.kind == "whole":
        width = max(width, Fraction(1))
    start = math.floor(Fraction(column.low) / width) * width
    stop = (math.floor(Fraction(column.high) / width) + 1) * width
    return {"start": _toml_number(start), "stop": _toml_number(stop), "width": _toml_number(width)}


def _toml_number(number: Fraction) -> int | float:
    short = number.denominator == 1 and abs(number) < 2**53
    return int(number) if short else float(number)


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
