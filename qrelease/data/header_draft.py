"""Whether the first line of a CSV file, which a draft takes for the names of the columns, is a record already.

No name and no value is quoted: of such a file they are one person's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, final

from qrelease._util.texts import MISSING_MARKS

CAUTION: Final = """\
Is the first line of the file a record already? In it {}.
Then the names are a person's: draft again with --header and the names of all columns. If it is none, say --named."""
"""What is said at the top of a draft of what `FirstLine.doubt` says, and beside it."""

_NUMBER: Final = re.compile(r"[+\-]?(\d{1,3}([.,' ]\d{3})+|\d+)?([.,]?\d+|(?<=\d)[.,]?)([eE][+\-]?\d+)?")
_DATE: Final = re.compile(
    r"(\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{1,2}/\d{1,2}/\d{2})([T ].*)?"
)
_YEARS: Final = range(1500, 2101)
_EXAMINED: Final = 1000  # records whose values are compared in kind with a name: more say nothing more
_MOSTLY: Final = 0.9
_LONGEST: Final = 40  # characters of a number: of longer texts the pattern would take long
_TOLD: Final = 3  # columns in a message
_LEAST_SERIES: Final = 3  # numbers at one distance, as 10, 20, 30: two always are
_LEAST_MONOTONE: Final = 5  # numbers that only rise or fall: fewer of a record often do, by chance


@final
class FirstLine:
    """The names that a file's first line gives, compared with the values of their columns.

    A name looks like a value where it is one of its column's, or a number in a column of numbers, or a date in one of
    dates. Wide tables have numbers for names: a year looks like a value only among years; and not those of columns side
    by side that count up from 0 or 1, or are at one distance from each other; nor those that only rise or fall, if
    most of them are beyond all numbers of their columns.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._compared = {
            place: {name, f" {name}"} for place, name in enumerate(names) if name.lower() not in MISSING_MARKS
        }
        self._own: set[int] = set()
        self._kinds = {place: kind for place in self._compared if (kind := _kind(names[place]))}
        self._values: Mapping[int, list[str]] = {place: [] for place in self._kinds}

    def see(self, given: Sequence[Sequence[str]]) -> None:
        """Take in the values of all columns of some records."""
        for place, spelled in self._compared.items():
            if place not in self._own and not spelled.isdisjoint(given[place]):
                self._own.add(place)
        for place, values in self._values.items():
            values.extend(given[place][: max(_EXAMINED - len(values), 0)])

    @property
    def is_record(self) -> bool:
        """Whether so many names look like values that it is hardly chance: half of them, or two and a tenth."""
        doubted, columns = len(self.found()), len(self._names)
        return 0 < columns <= 2 * doubted or (doubted > 1 and columns <= 10 * doubted)

    @property
    def doubt(self) -> str:
        """What a name looks like, of each of the first columns whose name looks like a value; empty where none does."""
        found = [f"the name of column {place} is {what}" for place, what in self.found().items()]
        more = [f"and so for {len(found) - _TOLD} more"] if len(found) > _TOLD else []
        return ", ".join([*found[:_TOLD], *more])

    def found(self) -> dict[int, str]:
        """What a name looks like, by the number of its column, from 1: only of those that look like values."""
        series = self._series()
        found = {}
        for place in self._compared:
            if place in series:
                continue
            kind = self._kinds.get(place)
            if kind and self._is_alike(place):
                found[place + 1] = "a date, as its values are" if kind == "date" else "a number, as its values are"
            elif place in self._own:
                found[place + 1] = "also one of its values"
        return found

    def _is_alike(self, place: int) -> bool:
        """Whether the values of a column are of the kind of its name."""
        kinds = [_kind(text) for text in map(str.strip, self._values[place]) if text.lower() not in MISSING_MARKS]
        wanted = {self._kinds[place]} | ({"year"} if self._kinds[place] == "number" else set())
        return bool(kinds) and sum(kind in wanted for kind in kinds) >= _MOSTLY * len(kinds)

    def _series(self) -> set[int]:
        """The columns whose names count, or are places on a scale."""
        numbers = {place: _number(self._names[place]) for place, kind in self._kinds.items() if kind != "date"}
        found: set[int] = set()
        run: list[int] = []
        for place in range(len(self._names) + 1):
            if place in numbers:
                run.append(place)
                continue
            if self._are_series(run, numbers):
                found.update(run)
            run = []
        return found

    def _are_series(self, run: Sequence[int], numbers: Mapping[int, float]) -> bool:
        """Whether columns side by side, all named by numbers, have these for names."""
        steps = [numbers[after] - numbers[before] for before, after in pairwise(run)]
        if not steps or not (min(steps) > 0 or max(steps) < 0):
            return False
        if numbers[run[0]] in (0, 1) and {*steps} == {1}:
            return True
        if len(run) >= _LEAST_SERIES and math.isclose(min(steps), max(steps), rel_tol=1e-6):
            return True
        return len(run) >= _LEAST_MONOTONE and 2 * sum(self._is_beyond(at, numbers[at]) for at in run) > len(run)

    def _is_beyond(self, place: int, number: float) -> bool:
        """Whether a number is below or above all those of its column."""
        values = [_number(text) for text in map(str.strip, self._values[place]) if _kind(text) in ("number", "year")]
        return not values or not min(values) <= number <= max(values)


def _kind(text: str) -> str:
    """`year`, another `number`, a `date`, or nothing of these."""
    if _DATE.fullmatch(text):
        return "date"
    if text.isascii() and text.isdigit() and len(text) == len("2000") and int(text) in _YEARS:
        return "year"
    return "number" if 0 < len(text) <= _LONGEST and _NUMBER.fullmatch(text) else ""


def _number(text: str) -> float:
    """What a text that looks like a number is, with whichever marks."""
    plain = re.sub(r"[' ]", "", text)
    if plain.count(",") + plain.count(".") > 1:
        plain = re.sub(r"[.,](?=.*[.,])", "", plain)
    return float(plain.replace(",", "."))
