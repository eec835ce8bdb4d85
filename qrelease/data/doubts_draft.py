"""What a draft asks about values that may not be what they look like: marks of missing numbers, spellings.
It asks in comments, for a person to answer: the draft itself takes the values as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from datetime import date
from itertools import pairwise
from typing import Final

_USUAL: Final = frozenset(
    {
        *(7.0, 8.0, 9.0),
        *(float("9" * length + end) for length in range(1, 10) for end in "6789"),
        *(float(digit * length) for digit in "78" for length in range(2, 5)),
    }
)
_USUAL_BELOW: Final = _USUAL | {66.0, *map(float, range(1, 7))}
"""Numbers that questionnaires often have for missing values, and what these are with a minus sign."""

USUAL_MARKS: Final = _USUAL | {-number for number in _USUAL_BELOW}
"""Numbers that are often used for missing values."""

_MOST_MARKS: Final = 3  # beside each other, as for "refused", "don't know" and "not asked"
_LEAST_RECORDS: Final = 5  # with a mark: a single one is more likely a mistake
_GAP: Final = 1.5  # times the widest one among the other numbers: from that on marks are far from them
_HEAP: Final = 3  # times as many records as any of the nearest numbers have: more than the end of a range has
_NEAREST: Final = 5
_MOST: Final = 0.5  # of all records: a mark that so many have together with the others of its side may be a value
_FEWEST_DAYS: Final = 20  # different numbers, of which some would be no days by chance
_FIRST_DAY: Final = 18_000_101
_AFTER_DAYS: Final = 22_000_000
_INFINITE: Final = frozenset({"inf", "infinity"})


def infinite(text: str) -> bool:
    """Whether a text says that a number is infinite, which no number of a schema is.

    Examples
    --------
    >>> [infinite(text) for text in ("inf", "-Infinity", "info")]
    [True, True, False]
    """
    return text.lstrip("+-").lower() in _INFINITE


def is_usual_mark(number: float) -> bool:
    """Whether a number is one of those that are often used for missing values."""
    return number in USUAL_MARKS


def missing_marks(places: Mapping[float, int]) -> list[float]:
    """Numbers that may mean "missing", as -9 does among amounts, 9 among ratings and 999 among ages, by how they lie.

    They are numbers that are often used for it, several records have them, and they are the largest or the least of
    all and stand out: they alone are above or below zero, they are far from all others, or, of two digits or more, many
    more records have them than the numbers beside them.

    Parameters
    ----------
    places
        How many records each number has.

    Returns
    -------
    list of float
        In ascending order.

    Examples
    --------
    >>> missing_marks({-9.0: 20, 0.0: 50, 1250.0: 3, 1800.0: 4})
    [-9.0]
    >>> missing_marks({1.0: 20, 2.0: 50, 3.0: 30, 9.0: 7})
    [9.0]
    >>> missing_marks({97.0: 9, 98.0: 12, 99.0: 40, 999.0: 7})
    [99.0, 999.0]
    >>> missing_marks({-2.0: 20, -1.0: 20, 0.0: 5, 1.0: 20, 2.0: 9})
    []
    """
    others, found = sorted(places), []
    while marks := _largest(others, _USUAL, places) or _least(others, places):
        found += marks
        others = [number for number in others if number not in marks]
    return sorted(found)


def sure_marks(marks: Collection[float], places: Mapping[float, int]) -> list[float]:
    """Those of `missing_marks` that are taken for missing; whether the others are is asked.

    They alone are on their side of zero, and neither go on from the other numbers in steps of 1, as -2 and -1 do
    from 0, nor do half of all records have them.

    Parameters
    ----------
    marks
        What `missing_marks` finds.
    places
        How many records each number has.

    Returns
    -------
    list of float
        In the order of the marks.

    Examples
    --------
    >>> sure_marks([-9.0, -1.0], {-9.0: 20, -1.0: 7, 0.0: 50, 1.0: 3})
    [-9.0]
    """
    others = set(places).difference(marks)
    low, high = min(others), max(others)
    apart = [mark for mark in marks if mark < 0 <= low or (low < 0 and high <= 0 < mark)]
    if all(number.is_integer() for number in others):  # among fractions a step of 1 is a gap
        for mark in sorted(apart, key=abs):
            if low - 1 <= mark <= high + 1:
                low, high = min(low, mark), max(high, mark)
    apart = [mark for mark in apart if not low <= mark <= high]
    return apart if sum(places[mark] for mark in apart) < _MOST * sum(places.values()) else []


def _least(ordered: Sequence[float], places: Mapping[float, int]) -> list[float]:
    """Marks among the least numbers, which are the largest after a change of sign."""
    turned = [-number for number in reversed(ordered)]
    return [-mark for mark in _largest(turned, _USUAL_BELOW, {-number: count for number, count in places.items()})]


def _largest(ordered: Sequence[float], usual: Set[float], places: Mapping[float, int]) -> list[float]:
    """Marks among the largest numbers, as many as stand out together."""
    for count in range(min(_MOST_MARKS, len(ordered) - 1), 0, -1):
        others, marks = ordered[:-count], ordered[-count:]
        known = all(mark in usual and places[mark] >= _LEAST_RECORDS for mark in marks)
        symmetric = marks[-1] == -others[0]  # as answers from -2 to 2 are
        if known and not symmetric and _stand_out(marks, others, places):
            return [*marks]
    return []


def _stand_out(marks: Sequence[float], others: Sequence[float], places: Mapping[float, int]) -> bool:
    """Whether marks differ from the numbers below them by their sign, a gap or their records."""
    widest = max((high - low for low, high in pairwise(others)), default=abs(others[-1]))
    alone, far = others[-1] <= 0 < marks[0], marks[0] - others[-1] >= _GAP * widest
    most = max(places[number] for number in others[-_NEAREST:])
    return alone or far or (marks[0] > 9 and min(places[mark] for mark in marks) >= _HEAP * most)


def are_days(places: Collection[float]) -> bool:
    """Whether whole numbers, of which there are at least 20, are all days written without marks, as 19750103.

    Examples
    --------
    >>> are_days([19750100 + day for day in range(1, 32)]), are_days([19750100 + day for day in range(32)])
    (True, False)
    """
    return len(places) >= _FEWEST_DAYS and all(_is_day(place) for place in places)


def _is_day(place: float) -> bool:
    if not _FIRST_DAY <= place < _AFTER_DAYS:
        return False
    try:
        date(int(place) // 10_000, int(place) // 100 % 100, int(place) % 100)
    except ValueError:
        return False
    return True


def spelled_alike(categories: Collection[str]) -> list[tuple[str, ...]]:
    """Categories that differ in capitals and spaces alone, as *NRW* and *nrw* do."""
    alike = defaultdict(list)
    for text in sorted(categories):
        alike[" ".join(text.casefold().split())].append(text)
    return [tuple(texts) for texts in alike.values() if len(texts) > 1]
