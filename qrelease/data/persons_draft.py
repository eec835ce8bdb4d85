"""Which columns of a table may tell persons apart who have several records each, by what else these have in common.

A number of a person, a firm or a machine has many values, each in several records, and what a record says of its
person, as a sex or a country of birth, is the same in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, final

import numpy as np

from qrelease._util.typing import Ints
from qrelease.data.codes_draft import codes_named

_MAX_RECORDS: Final = 1 << 17

_MAX_COLUMNS: Final = 256
_FEW: Final = 100  # values of a column that may say something of persons; those of a column of persons are more
LEAST_RECORDS: Final = 2  # of a value, in the mean, of a column of persons
_LEAST_EXPECTED: Final = 20  # records of a value that would differ by chance: of fewer, agreement says nothing
_DIFFERENT: Final = 0.1  # of these, at most so many do: a mistake, or somebody who moved

_NAME: Final = re.compile(
    r"id|pid|uid|hid|hhid|pnr|bsn|ssn|rinpersoon"
    r"|(person|patient|client|customer|user|member|subject|citizen|resident|employee|student|pupil|household|hh)s?"
    r"[_\W]*(id|nr|no|num|number|key)?"
    r"|famil(y|ies)[_\W]*(id|nr|no|num|number|key)",
    re.I,
)
"""What a column is called that tells people apart, or households, also where these have several records each."""


def persons_named(name: str, *, repeated: bool) -> bool:
    """Whether a column's name, or its last part behind a point or an underscore, says that it tells people apart.

    A part that belongs to codes, as in `municipality_id`, says it of no people.

    Parameters
    ----------
    name
        As the data have it.
    repeated
        Whether its values are those of several records each: then `nr` says it, too, which else numbers records.

    Examples
    --------
    >>> [persons_named(name, repeated=False) for name in ("Tuna.hid", "family id", "municipality_id", "families", "nr")]
    [True, True, False, False, False]
    """
    whole = name.strip()
    if _NAME.fullmatch(whole):
        return True
    last = re.split(r"[._]", whole)[-1].strip()
    return not codes_named(whole) and bool(_NAME.fullmatch(last) or (repeated and last.lower() == "nr"))


@final
class SharedValues:
    """The codes of the first records of a table, in which `found` looks for columns of persons.

    columns  how many columns there are; of more than 256 the others are not looked at
    missing  spellings of a missing value, which is nobody's
    most     how many records are looked at, the first ones
    """

    def __init__(self, columns: int, missing: Sequence[str], most: int = _MAX_RECORDS) -> None:
        self._left = most
        marks = dict.fromkeys(map(hash, missing), -1)
        self._numbers: list[dict[int, int]] = [{**marks} for _ in range(min(columns, _MAX_COLUMNS))]
        self._codes: list[list[Ints]] = [[] for _ in self._numbers]

    def see(self, columns: Sequence[Sequence[str]]) -> None:
        """Take in some records: the texts of each column."""
        if not columns:
            return
        for numbers, codes, texts in zip(self._numbers, self._codes, columns, strict=False):
            given = [hash(text.strip()) for text in texts[: self._left]]  # texts may be long
            codes.append(np.fromiter((numbers.setdefault(text, len(numbers)) for text in given), np.int64, len(given)))
        self._left -= min(len(columns[0]), self._left)

    def differing(self, axis: int) -> int | None:
        """The column of few values in which the records of each value of another differ, as the year of a panel does.

        Of several the one with the fewest values; None where there is none, or where it would be so by chance.
        """
        if axis >= len(self._codes) or not self._codes[axis]:
            return None
        codes = np.concatenate(self._codes[axis])
        there = np.flatnonzero(codes >= 0)
        _, whose, records = np.unique(codes[there], return_inverse=True, return_counts=True)
        pairs = float(records @ (records - 1.0)) / 2  # of records of one person
        found = []
        for other in range(len(self._codes)):
            values, placed = np.unique(np.concatenate(self._codes[other])[there], return_inverse=True)
            if other == axis or not 1 < len(values) <= _FEW or values[0] < 0:
                continue
            parts = np.bincount(placed) / len(placed)
            alike = len(placed) - len(np.unique(whose * len(values) + placed))
            if not alike and pairs * (parts @ parts) >= _LEAST_EXPECTED:
                found.append((len(values), other))
        return min(found)[1] if found else None

    def found(self) -> list[tuple[int, tuple[int, ...]]]:
        """Each column of many values, of several records each, with the columns that are the same in nearly all records
        of a value."""
        coded = [np.unique(np.concatenate(codes), return_inverse=True) for codes in self._codes if codes]
        few = [axis for axis, (values, _) in enumerate(coded) if 1 < len(values) <= _FEW]
        found = []
        for axis, (values, codes) in enumerate(coded):
            there = np.flatnonzero(values[codes] >= 0)
            _, first, whose = np.unique(codes[there], return_index=True, return_inverse=True)
            if len(first) <= _FEW or len(there) < LEAST_RECORDS * len(first):
                continue
            others = tuple(other for other in few if _shared(coded[other][1][there], first, whose))
            if others:
                found.append((axis, others))
        return found


def _shared(codes: Ints, first: Ints, whose: Ints) -> bool:
    """Whether a column has one code in nearly all records of a person, which by chance it would not.

    codes  of the records, (n,)
    first  the first record of each person, (k,)
    whose  which person's each record is, (n,)
    """
    parts = np.bincount(codes) / len(codes)
    expected = (len(codes) - len(first)) * (1 - parts @ parts)
    different = np.count_nonzero(codes != codes[first][whose])
    return bool(expected >= _LEAST_EXPECTED and different <= _DIFFERENT * expected)
