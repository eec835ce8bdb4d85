"""Ways in which the texts of a column may be numbers or dates, for a draft: a person confirms them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from qrelease.data.writing import Writing

_UNIT: Final = re.compile(
    r"[+\-−]?(?P<before>[$€£¥]|[A-Z]{3}(?=\s))?\s*[+\-−]?[\d.,'’\s]*\d\s*(?P<after>[$€£¥%‰]|(?<=\s)[^\W\d_]{1,4})?"
)
"""A sign or the letters of a currency before a number, or a sign behind it, or letters with a space between."""

_MARKS: Final = tuple(
    (decimal, thousands) for thousands in ("", ".", ",", " ", "'") for decimal in (".", ",") if decimal != thousands
)
_DAYS: Final = (
    *(f"%d{mark}%m{mark}%Y" for mark in "./-"),
    *(f"%m{mark}%d{mark}%Y" for mark in "./-"),
    *(f"%Y{mark}%m{mark}%d" for mark in "./"),
)
_TIMES: Final = ("", " %H:%M", " %H:%M:%S")


def ways_to_read(text: str) -> list[Writing]:
    """All ways in which a text without surrounding spaces is a number or a date, the simplest first.

    Examples
    --------
    >>> [(w.decimal, w.thousands, w.unit) for w in ways_to_read("1.234,50 €")]
    [(',', '.', '€')]
    >>> [w.format for w in ways_to_read("31.12.2024")]
    ['%d.%m.%Y', '%m.%d.%Y']
    """
    ways = [Writing(format=day + time) for time in _TIMES for day in _DAYS]
    found = _UNIT.fullmatch(text)
    if found is not None:
        unit = found["before"] or found["after"] or ""
        ways += [Writing(decimal, thousands, unit) for decimal, thousands in _MARKS]
    return still_read(ways, text)


def still_read(ways: Sequence[Writing], text: str) -> list[Writing]:
    """Those ways in which another text is one, too."""
    return [way for way in ways if not way.is_plain and way.plain(text) is not None]
