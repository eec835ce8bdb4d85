"""The text of a value of any type, and the meaning of a text: the one rule by which all sources are read.

A record's code must depend on that record alone: if one odd record changed how the others are read, a release would be
too little noisy. Data frames make that easy to get wrong, because a column has one type for all of its records, and one
record can change it (whole numbers turn into floats beside a missing value, and anything turns into text or objects
beside a word). So a value has a text that does not depend on the type of its column, and texts that a library may turn
into each other have one meaning.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from numbers import Complex
from typing import Any, final

from qrelease.errors import InvalidInput

NAN = ("nan", "NaN")
"""How data frames spell a missing number when they turn it into text."""

_TRUTHS = {"true": True, "false": False}

_CLOCK = re.compile(r"\d\d:\d\d(:\d\d([.,]0+)?)?")
"""A time of day without a fraction of a second."""

_NAMED_ZONE = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?) ([A-Za-z]{1,6}|[+-]\d\d(?::?\d\d)?)")
"""A moment as polars writes it beside a word, and its zone: a name, or an offset where the zone has no name."""

_UTC_NAMES = ("UTC", "GMT", "Z")

_MAX_KNOWN = 1 << 16  # values of a column whose texts are kept

Meaning = float | bool | datetime | time | str


def meaning(text: str) -> Meaning:
    """What a text without surrounding spaces stands for: a number, a truth value, a moment, a time, or only itself.

    Texts of one meaning are one value to a schema: `1`, `1.0` and `1e0`; `True`, `true` and `TRUE`; `2024-01-31` and
    `2024-01-31 00:00:00`. A moment with an offset is given in UTC, for a frame shows all of its moments in one zone.
    Times are of one meaning however their zeros are spelled, `06:30`, `06:30:00` and `06:30:00.000000`; with a fraction
    of a second they stand for themselves. Not a number are the texts of `NAN` and digits with separators.

    Raises `InvalidInput` for a moment with the short name of a zone, as in `2020-01-31 06:30:00 CET`: polars writes
    moments so beside a word, and the name does not say which offset it is. `UTC` and `GMT` do.
    """
    if text[:1].isalpha():
        truth = _TRUTHS.get(text.lower())
        if truth is not None:
            return truth
    number = _number(text)
    return _moment(text) if number is None else number


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) or "_" in text else number


def _moment(text: str) -> datetime | time | str:
    if text[2:3] == ":" and _CLOCK.fullmatch(text):
        try:
            return time.fromisoformat(text)
        except ValueError:
            return text
    if not text[:4].isdigit():
        return text
    zoned = _NAMED_ZONE.fullmatch(text)
    if zoned is not None:
        clock, zone = zoned.groups()
        if zone[0].isalpha() and zone not in _UTC_NAMES:
            raise InvalidInput(f"{text!r} has the short name of a time zone, which several share; give its offset")
        text = f"{clock}Z" if zone[0].isalpha() else clock + zone
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return text


def text_of(value: object) -> str | None:
    """The text of a value of a data frame, None for one that is missing (null, NaN, NaT).

    Values that compare equal have one text, whatever their types are, except that truth values are not numbers here.
    Raises `InvalidInput`, to which the caller adds row and column, for a value of a type that has no text.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):  # Arrow turns texts into bytes where one record is bytes
        return _decoded(value)
    if type(value) in (int, float):  # as below, sooner: most values are these
        return _numeral(_float(value))
    if type(value).__module__.startswith("numpy"):
        value = _plain(value)
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return None
    match value:
        case bool():
            return str(value).lower()
        case Complex() | Decimal():
            return _numeral(_float(value))
        case datetime():
            return _spelled(value)
        case time(microsecond=fraction) if fraction:  # polars may cut it off where it turns times into text
            raise InvalidInput("times with a fraction of a second cannot be categories: convert them to texts")
        case date() | time():
            return value.isoformat()
    raise _without_text(value)


def _plain(value: Any) -> object:
    """A numpy scalar as Python's value, a moment to the microsecond; None for one that is not a time."""
    kind = value.dtype.kind if hasattr(value, "dtype") else ""
    moment = value.astype("datetime64[us]").item() if kind == "M" else None
    if kind == "m" or isinstance(moment, int):  # a span of time; a moment before the year 1 or past the year 9999
        raise _without_text(value)
    return moment if kind == "M" or not hasattr(value, "item") else value.item()


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"bytes {value[:20]!r} are not UTF-8 text") from None


def _float(value: Any) -> float:
    """A number as a column of floats holds it; infinite past the largest."""
    if not isinstance(value, Decimal) and value.imag:
        raise _without_text(value)
    if isinstance(value, Decimal) and value.is_nan():  # float() refuses those that signal
        return math.nan
    real = value if isinstance(value, Decimal) else value.real
    try:
        return float(real)
    except OverflowError:
        return math.inf if real > 0 else -math.inf


@lru_cache(1 << 10)
def _numeral(number: float) -> str | None:
    """The digits of a whole number, or else the shortest decimals that are this float."""
    if math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def _spelled(moment: datetime) -> str:
    """An ISO date, with the time where it is not midnight; with an offset the moment in UTC."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    try:  # built anew, for pandas' own kind has nanoseconds, which others cut off, and years past 9999
        day = date(moment.year, moment.month, moment.day).isoformat()
    except ValueError:
        raise _without_text(moment) from None
    clock = time(moment.hour, moment.minute, moment.second, moment.microsecond, moment.tzinfo and UTC)
    return day if clock == time.min else f"{day}T{clock.isoformat()}"


def _without_text(value: object) -> InvalidInput:
    kind = type(value).__name__
    span = "delta" in kind.lower()  # timedelta of Python, Timedelta of pandas, timedelta64 of numpy
    wanted = (
        "numbers, of seconds say (in pandas and polars: .dt.total_seconds())"
        if span
        else "texts (in pandas: .astype(str))"
    )
    return InvalidInput(f"values of type {kind} cannot be categories: convert them to {wanted}")


@final
class Unreadable(str):
    """What a draft sees of a value that has no text: why reading refuses it."""

    __slots__ = ()


@final
class Absent(str):
    """The empty text that stands for a missing value, null or NaN, to tell it from an empty text in the data."""

    __slots__ = ()


_ABSENT = Absent()


def shown(value: object) -> str:
    """The text of a value, `Absent` for one that is missing, for a draft; `Unreadable` for one that has none."""
    try:
        text = text_of(value)
        return _ABSENT if text is None else text
    except InvalidInput as error:
        return Unreadable(error)


@final
class ShownTexts(dict[Any, str]):
    """What `shown` gives for each value of a column of one type, made once for those that are the same.

    Not for truth values among numbers, which are equal to some.
    """

    def __missing__(self, value: Any) -> str:
        text = shown(value)
        # A NaN is no key, since it is not itself, and neither is pandas' NA, which cannot say.
        if (text or value is None) and len(self) < _MAX_KNOWN:
            self[value] = text
        return text
