"""What a draft asks about values that may not be what they look like: marks of missing numbers, spellings.
It asks in comments, for a person to answer: the draft itself takes the values as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

_LEAST_RECORDS: Final = 5  # with a mark: a single one is more likely a mistake
_BELOW: Final = frozenset(float(-mark) for mark in (*range(1, 10), 66, 77, 88, 97, 98, 99, 888, 999, 8888, 9999, 99999))
_ABOVE: Final = frozenset(float("9" * length + end) for length in range(1, 10) for end in "6789") | frozenset(
    float(digit * length) for digit in "78" for length in range(2, 5)
)
_MOST_MARKS: Final = 3  # as for "refused", "don't know" and "not asked"
_APART: Final = 3  # times as many records as the largest other number: more than the end of a range has
_INFINITE: Final = frozenset({"inf", "infinity"})


def infinite(text: str) -> bool:
    """Whether a text says that a number is infinite, which no number of a schema is.

    Examples
    --------
    >>> [infinite(text) for text in ("inf", "-Infinity", "info")]
    [True, True, False]
    """
    return text.lstrip("+-").lower() in _INFINITE


def missing_marks(places: Mapping[float, int]) -> list[float]:
    """Numbers that may mean "missing", as -9 does among amounts and 999 among ages, by how they lie.

    Those below zero are often used for it, and nothing else is below zero. Those above, such as 98, 99 and 9999, are
    the largest numbers, and far from the others or with many more records than the largest of these.

    Parameters
    ----------
    places
        How many records each number has.

    Examples
    --------
    >>> missing_marks({-9.0: 20, 0.0: 50, 1250.0: 3, 1800.0: 4})
    [-9.0]
    >>> missing_marks({18.0: 9, 64.0: 12, 95.0: 2, 99.0: 40, 999.0: 7})
    [99.0, 999.0]
    >>> missing_marks({-2.0: 20, -1.0: 20, 0.0: 5, 1.0: 20, 2.0: 9})
    []
    """
    ordered = sorted(places)
    below = [number for number in ordered if number < 0]
    if len(below) > _MOST_MARKS or len(below) == len(ordered) or not all(_is_mark(n, _BELOW, places) for n in below):
        below = []
    if below and -below[0] == ordered[-1]:  # symmetric, as answers from -2 to 2 are
        below = []
    above: list[float] = []
    for count in range(1, min(_MOST_MARKS, len(ordered) - 1) + 1):
        *_, other = ordered[:-count]
        marks = ordered[-count:]
        apart = other <= marks[0] / 2 or min(places[mark] for mark in marks) >= _APART * places[other]
        if apart and all(_is_mark(mark, _ABOVE, places) for mark in marks):
            above = marks
    return [*below, *above]


def _is_mark(number: float, usual: frozenset[float], places: Mapping[float, int]) -> bool:
    return number in usual and places[number] >= _LEAST_RECORDS


def spelled_alike(categories: Collection[str]) -> list[tuple[str, ...]]:
    """Categories that differ in capitals and spaces alone, as *NRW* and *nrw* do."""
    alike = defaultdict(list)
    for text in sorted(categories):
        alike[" ".join(text.casefold().split())].append(text)
    return [tuple(texts) for texts in alike.values() if len(texts) > 1]
